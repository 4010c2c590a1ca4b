"""``torch.inference_mode`` and ``torch.device`` contexts in captured code: the graph itself enters and leaves them.

Both are stacks in C++. Capture enters a mode of its own, so that fake tensors see it, and the graph makes, enters and
leaves another. When the graph ends between the two, the program leaves the mode in plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..functional.modes import enter_inference_mode, enter_mode, leave_mode
from .call_handlers import handles
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue
from .values.methods import NativeMethod

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer


def _enter(tx: Tracer, mode: Any) -> None:
    mode.__enter__()
    tx.entered_modes.append(mode)
    tx.touched_state["modes"] = mode
    tx.effects.version += 1


def _leave(tx: Tracer, mode: Any) -> None:
    if not tx.entered_modes or tx.entered_modes[-1] is not mode:
        raise GraphBreak("leaving a mode that was entered before this graph")
    tx.entered_modes.pop().__exit__(None, None, None)
    tx.effects.version += 1


@handles(torch.device.__enter__)
def enter_device(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    device = args[0].as_constant()
    _enter(tx, device)
    tx.graph.call(enter_mode, (device,), {}, tx.user_frames())
    return ConstantValue(device)


@handles(torch.device.__exit__)
def leave_device(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    device = args[0].as_constant()
    _leave(tx, device)
    tx.graph.call(leave_mode, (device,), {}, tx.user_frames())
    return ConstantValue(None)


class InferenceModeValue(Value):
    """The C++ object of one ``with torch.inference_mode()``."""

    __slots__ = ("enabled", "mode", "node")
    fixed_type = torch_compat.inference_mode_guard
    native_methods = True

    def __init__(self, enabled: bool) -> None:
        super().__init__(None)
        self.enabled = enabled
        self.mode: Any = None
        self.node: Any = None

    def get_attr(self, tx: Tracer, name: str) -> Value:
        return NativeMethod(self, name) if name in ("__enter__", "__exit__") else super().get_attr(tx, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__enter__" and self.mode is None:
            self.mode = torch_compat.inference_mode_guard(self.enabled)
            _enter(tx, self.mode)
            self.node = tx.graph.call(enter_inference_mode, (self.enabled,), {}, tx.user_frames())
            return ConstantValue(None)
        if name == "__exit__" and self.mode is not None:
            _leave(tx, self.mode)
            tx.graph.call(leave_mode, (self.node,), {}, tx.user_frames())
            return ConstantValue(None)
        self.unsupported(f"method {name!r}")

    def emit(self, code: EntryCode) -> str:
        if self.node is None:
            return code.assign(self, f"{code.constant(torch_compat.inference_mode_guard)}({self.enabled})")
        return code.graph_output(self)  # type: ignore[arg-type]


@handles(torch_compat.inference_mode_guard)
def _make(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) != 1 or kwargs:
        raise GraphBreak("making an inference mode object by hand", "use torch.inference_mode()")
    return InferenceModeValue(bool(tx.constant_of(args[0])))
