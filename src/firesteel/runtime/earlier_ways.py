"""Calls that `torch.utils.checkpoint` runs again in backward go the way that they went in forward.

    loss = checkpoint(step, x)      an assumption of a graph fails: plain Python runs, and saves its tensors
    ...                             the graph is dropped, and the next call is compiled with a break
    loss.backward()                 step(x) runs again: the dropped graph fails again, and plain Python runs

Checkpoint takes the tensors that the second run saves for those of the first, so both must save the same. Where what a
unit runs is decided anew, a function before its entries leads calls of earlier checkpoints to what was there before.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..own_frames import passed_over

if TYPE_CHECKING:
    from ..capture.entries import Entry
    from .units import Unit


def keep_earlier_way(unit: Unit) -> None:
    """What a unit runs is about to be decided anew: go on as before where checkpoints of by now run again."""
    if any(_saves(entry) for entry in unit.entries):
        earlier, unit.earlier_way = unit.earlier_way, _before(unit, unit.functions)
        unit.functions = (unit.earlier_way, *[function for function in unit.functions if function is not earlier])


def _saves(entry: Entry) -> bool:
    """Whether what runs may save tensors for backward."""
    return entry.graph is None or any(isinstance(given.example, torch.Tensor) and given.example.requires_grad
                                      for given in entry.graph.inputs)


def _before(unit: Unit, earlier: tuple[Callable[..., Any], ...]) -> Callable[..., Any]:
    later: weakref.WeakSet[Any] = weakref.WeakSet()
    miss = unit.miss

    @passed_over
    def earlier_way(*args: Any) -> Any:
        checkpoint = torch_compat.current_checkpoint()
        if checkpoint is None:
            return miss
        if not checkpoint.runs_again:
            later.add(checkpoint.frame)
        elif checkpoint.frame not in later:
            for function in earlier:
                result = function(*args)
                if result is not miss:
                    return result
        return miss

    return earlier_way
