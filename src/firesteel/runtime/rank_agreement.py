"""What ranks agree on about one unit: which sizes and numbers vary, and that it is compiled no more.

Before the first compilation of a unit each rank says what it was given; what differs between ranks is a symbol for all
of them. What a rank learns later, and that it has reached its limit, it tells the others, who ask when they have to
compile again themselves. Units are the same where their code is, wherever it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import rank_decisions
from ..capture.learned import NOTHING, Learned, as_json, code_key, from_json
from ..capture.source import ItemSource, LocalSource, Source
from ..errors import format_report, warn
from ..events import note
from ..logs import log

if TYPE_CHECKING:
    from .units import Unit

MOST_ITEMS = 64
"""How many items of a list or dictionary among the arguments are looked at."""
_units: dict[str, int] = {}


def agrees(unit: Unit) -> bool:
    """Whether a unit's compilations are decided on together with other ranks: not where one of them asks what would be
    compiled."""
    return rank_decisions.are_made() and unit.compiler.events is None and not unit.compiler.exports


def subject_of(unit: Unit) -> str:
    """What ranks call a unit."""
    return f"{code_key(unit.code)}/{unit.start.index}"


def differing(unit: Unit, parameters: Sequence[str], args: Sequence[Any]) -> Learned:
    """What varies from rank to rank, and what any of them knows to vary, before the first compilation."""
    if not agrees(unit):
        return NOTHING
    looks = {source.name: look for parameter, value in zip(parameters, args, strict=True)
             for source, look in _looks(LocalSource(parameter), value, 2)}
    mine = json.dumps({"looks": looks, "learned": as_json(unit.learned)})
    text = rank_decisions.gathered(f"sizes/{subject_of(unit)}", mine, _join)
    varying = NOTHING if text is None else from_json(json.loads(text))
    if varying:
        log("cache", "%s: %s vary from rank to rank", unit.name, varying)
    return varying | told(unit)


def _looks(source: Source, value: Any, depth: int) -> Iterator[tuple[Source, Any]]:
    """The layouts of tensors and the numbers in an argument, by where they are."""
    kind = type(value)
    if kind in (int, float):
        yield source, value
    elif isinstance(value, torch.Tensor):
        if value.layout is torch.strided and not value.is_nested:
            yield source, [list(value.shape), list(value.stride())]
    elif depth and kind in (dict, list, tuple) and len(value) <= MOST_ITEMS:
        items = value.items() if kind is dict else enumerate(value)
        for key, item in items:
            if type(key) in (int, str):
                yield from _looks(ItemSource(source, key), item, depth - 1)


def _join(posts: Sequence[str]) -> str:
    """What differs between the posts of ranks, with all that they know to vary."""
    learned = NOTHING
    dims: set[tuple[str, int]] = set()
    strides: set[tuple[str, int]] = set()
    numbers: set[str] = set()
    before: dict[str, Any] = {}
    for post in map(json.loads, posts):
        learned |= from_json(post["learned"])
        for name, look in post["looks"].items():
            one = before.setdefault(name, look)
            if type(one) is not type(look):
                continue
            if not isinstance(look, list):
                numbers |= {name} if one != look else set()
            elif len(one[0]) == len(look[0]):
                for varying, a, b in ((dims, one[0], look[0]), (strides, one[1], look[1])):
                    varying |= {(name, dim) for dim in range(len(a)) if a[dim] != b[dim]}
    return json.dumps(as_json(learned | Learned(frozenset(dims), frozenset(strides), frozenset(numbers))))


def tell(unit: Unit, learned: Learned) -> None:
    """Tell other ranks what was learned about a unit."""
    if agrees(unit):
        rank_decisions.add(f"learned/{subject_of(unit)}", json.dumps(as_json(learned)))


def told(unit: Unit) -> Learned:
    """What ranks have learned about a unit since it was asked for last."""
    learned = NOTHING
    if agrees(unit):
        for text in rank_decisions.added(f"learned/{subject_of(unit)}"):
            learned |= from_json(json.loads(text))
    return learned


# ---------------------------------------------------------------------------------------------------------------------
# limits


def _limit(unit: Unit) -> str:
    """What ranks call the limit of a unit: of the first, second ... that is compiled of some code."""
    subject = subject_of(unit)
    if unit.number is None:
        unit.number = _units[subject] = _units.get(subject, 0) + 1
    return f"limit/{subject}/{unit.number}"


def reached_limit(unit: Unit) -> None:
    """Tell other ranks that a unit is compiled no more."""
    if agrees(unit):
        rank_decisions.first(_limit(unit), str(rank_decisions.rank()))


def gives_up(unit: Unit) -> bool:
    """Compile a unit no more if another rank does not; whether that is so."""
    rank = rank_decisions.said(_limit(unit)) if agrees(unit) and not unit.compiler.fullgraph else None
    if rank is None:
        return False
    unit.given_up, unit.at_limit = f"recompile limit reached on rank {rank}", True
    note("skipped", unit=unit, what=unit.given_up)
    warn(format_report(
        f"firesteel: {unit.name} runs uncompiled from now on.", [unit.user_frame],
        f"rank {rank} has compiled it as often as it may", "see the warning of that rank"))
    return True
