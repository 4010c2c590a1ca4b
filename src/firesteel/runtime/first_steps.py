"""Training steps whose first call runs uncompiled, because no later call could use what is compiled for it.

An optimizer makes its state in its first step, and parameters have no gradients before it:

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()        # the first call fills optimizer.state, all others find it filled
        return loss

What is captured for such a call serves that call alone. It runs as plain Python, and the second one is compiled. So it
is with `AveragedModel.update_parameters`, which copies the model the first time and averages from then on.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

STEPS = ("step", "update_parameters")


def steps_without_state(code: types.CodeType, globals_: Mapping[str, Any], args: Iterable[Any]) -> bool:
    """Whether code that takes a step sees an optimizer without state, or an average of nothing: among its arguments,
    the variables around it and its globals, or as an attribute or element of one of these."""
    if not any(name in STEPS for name in (code.co_name, *code.co_names)):
        return False
    named = [globals_[name] for name in code.co_names if name in globals_]
    return any(_is_new(value) for seen in (*args, *named) for value in _reachable(seen))


def _is_new(value: Any) -> bool:
    if isinstance(value, Optimizer):
        return not value.state and bool(value.param_groups)
    return isinstance(value, AveragedModel) and not int(value.n_averaged)


def _reachable(seen: Any) -> Iterator[Any]:
    """An object of the program and what it holds directly; of the cells around a function, what they hold."""
    values = [seen]
    if isinstance(seen, tuple) and any(isinstance(item, types.CellType) for item in seen):
        values = [cell.cell_contents for cell in seen if isinstance(cell, types.CellType) and _is_filled(cell)]
    for value in values:
        yield value
        if isinstance(value, types.ModuleType):
            continue
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is dict:
            yield from list(attributes.values())
        if isinstance(value, Mapping):
            yield from list(value.values())
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            yield from list(value)


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
