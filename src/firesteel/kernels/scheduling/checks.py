"""Checks of what data decides run between kernels where a call of the library parts these anyway.

    before: outside = k0(target); g = mm(...); k1(g, x, new_x); check_indices(outside, ...); x.copy_(new_x)
    after:  outside = k0(target); check_indices(outside, ...); g = mm(...); k1(g, x)

Lowering puts them behind everything else, so that none stands between two kernels. But whatever could raise keeps
those in front of it from writing to the program's inputs in place: all the parameters and the state of an optimizer
would be copied for the check of one index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch.fx

from ...shapes import Expr, Symbol
from ..ir import ExternCall
from ..lowering.index_checks import check_indices, check_true
from ..plan import Launch
from .fusion import accesses

CHECKS = (check_indices, check_true)


def checks_between_calls(steps: Sequence[Launch | ExternCall], late: Mapping[Symbol, str]) -> list[Launch | ExternCall]:
    """Move checks up to the next call behind what they look at; where there is none they stay.

    They keep their order, and no check comes before a call that the program makes before it: both may raise. ``late``:
    the buffers that say what sizes are, where these are no inputs.
    """
    places: dict[str, int] = {}
    calls: list[tuple[int, ExternCall]] = []
    checks: list[ExternCall] = []
    rest: list[Launch | ExternCall] = []
    for step in steps:
        if isinstance(step, ExternCall) and step.target in CHECKS:
            checks.append(step)
            continue
        if isinstance(step, ExternCall):
            calls.append((len(rest), step))
        places.update(dict.fromkeys(_written(step), len(rest)))
        rest.append(step)
    moved: dict[int, list[ExternCall]] = {}
    earliest = 0
    for check in checks:
        needed = [places.get(name, -1) for name in _needed(check, late)]
        earliest = max(earliest, 1 + max(needed, default=-1))
        earliest = next((at for at, call in calls if at >= earliest and _precedes(check, call)), len(rest))
        moved.setdefault(earliest, []).append(check)
    result: list[Launch | ExternCall] = []
    for at, other in enumerate(rest):
        result += [*moved.get(at, ()), other]
    return [*result, *moved.get(len(rest), ())]


def _written(step: Launch | ExternCall) -> Sequence[str]:
    if isinstance(step, ExternCall):
        return accesses(step)[1]
    parameters = zip(step.kernel.buffers, step.buffers, strict=True)
    return [name for parameter, name in parameters if parameter.name in step.kernel.writes]


def _needed(check: ExternCall, late: Mapping[Symbol, str]) -> list[str]:
    sizes = [late[symbol] for arg in check.args if isinstance(arg, Expr)
             for symbol in arg.free_symbols if symbol in late]
    return [*accesses(check)[0], *sizes]


def _precedes(check: ExternCall, call: ExternCall) -> bool:
    """Whether the program makes a check before a call. That is not known of calls which stand for no node."""
    mine = [node for node in check.origins if isinstance(node, torch.fx.Node)]
    others = [node for node in call.origins if isinstance(node, torch.fx.Node)]
    return bool(mine and others) and mine[0].graph is others[0].graph and max(mine) < min(others)
