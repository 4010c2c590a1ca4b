"""Entries that change what others see run as plain Python under `torch.utils.checkpoint`.

    self.calls += 1
    return self.layer(x).sin()      backward runs it again, and stops it when the last tensor has been saved again

By then plain Python has counted twice. An entry applies its effects when its graph has run, which it is not let to do.
A tensor that a graph writes to is written in both runs, so that has to be before the last tensor is saved in eager too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from .data_facts import function_name
from .source import LocalSource
from .values.functions import CellValue

if TYPE_CHECKING:
    from ..runtime.units import Unit
    from .capture import Capture
    from .entry_code import EntryCode
    from .tracer import Tracer

SAVING = frozenset({"batch_norm", "linear", "conv1d", "conv2d", "conv3d", "matmul", "mm", "bmm", "addmm", "layer_norm"})
"""Some of the functions that save a tensor whenever their result has a gradient."""
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})


def plain_if_run_again(capture: Capture, code: EntryCode) -> list[str]:
    """Lines before the graph of an entry that leave a call to Python if a checkpoint may repeat it and that shows."""
    tx, unit = capture.tx, capture.unit
    shows = any(kind != "built" and not (kind == "contents" and _is_own(unit, what))
                for kind, what in tx.effects.events.values()) or _writes_last(tx)
    if not shows or unit.driven or not any(
            isinstance(entry.example, torch.Tensor) and entry.example.requires_grad for entry in tx.graph.inputs):
        return []
    parameters = "".join(f"{name}, " for name in capture.parameters)
    return [f"if {code.constant(torch_compat.current_checkpoint)}() is not None:",
            f"    return {code.constant(unit.resume_type)}({code.constant(unit.uncompiled())}, [{parameters}])"]


def _is_own(unit: Unit, value: Any) -> bool:
    """Whether a value belongs to one run of the code: what a comprehension puts together and goes through, and cells of
    the code's own variables."""
    return isinstance(value.source, LocalSource) and \
        (isinstance(value, CellValue) or unit.code.co_name in COMPREHENSIONS)


def _writes_last(tx: Tracer) -> bool:
    """Whether a tensor from outside may be written to when eager has saved all that backward needs."""
    if not any(entry.mutated for entry in tx.graph.inputs):
        return False
    with_gradient = {value.node for value in tx.tensor_of_fake.values() if value.fake.requires_grad}
    for node in reversed(tx.graph.graph.nodes):
        name = function_name(node) or ""
        if name in SAVING and node in with_gradient:
            return False
        if name == "setitem" or name.endswith("_"):
            return True
    return True
