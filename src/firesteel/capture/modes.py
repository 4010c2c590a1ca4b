"""``torch.inference_mode`` and ``torch.device`` contexts in captured code: the graph itself enters and leaves them.

Both are stacks in C++. Capture enters a mode of its own, so that fake tensors see it, and the graph makes, enters and
leaves another. When the graph ends between the two, the program leaves the mode in plain Python.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from .builtin_types import CLASS_HANDLERS
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue, NativeMethod

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer

# ---------------------------------------------------------------------------------------------------------------------
# while the graph runs


class _Entered(threading.local):
    """The modes that graphs of this thread have entered and not left."""

    def __init__(self) -> None:
        self.modes: list[Any] = []


_ENTERED = _Entered()


def enter_mode(mode: Any) -> None:
    """Graph operation."""
    mode.__enter__()
    _ENTERED.modes.append(mode)


def leave_mode(mode: Any) -> None:
    """Graph operation: leave the mode entered last."""
    _ENTERED.modes.pop()
    mode.__exit__(None, None, None)


def enter_inference_mode(enabled: bool) -> Any:
    """Graph operation; the result is what `leave_mode` takes."""
    mode = torch_compat.inference_mode_guard(enabled)
    enter_mode(mode)
    return mode


def leaving_on_failure(graph: Callable[..., Any]) -> Callable[..., Any]:
    """The graph, made to leave the modes it has entered when it raises."""
    def call(*args: Any) -> Any:
        modes = _ENTERED.modes
        depth = len(modes)
        try:
            return graph(*args)
        except BaseException:
            while len(modes) > depth:
                modes.pop().__exit__(None, None, None)
            raise
        finally:
            del modes[depth:]  # modes that are still entered belong to the program from here on

    return call


# ---------------------------------------------------------------------------------------------------------------------
# while capturing


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


def call_device_method(tx: Tracer, device: torch.device, name: str) -> Value:
    """``__enter__`` or ``__exit__`` of a ``torch.device``."""
    if name == "__enter__":
        _enter(tx, device)
        tx.graph.call(enter_mode, (device,), {}, tx.user_frames())
        return ConstantValue(device)
    _leave(tx, device)
    tx.graph.call(leave_mode, (device,), {}, tx.user_frames())
    return ConstantValue(None)


class InferenceModeValue(Value):
    """The C++ object of one ``with torch.inference_mode()``."""

    __slots__ = ("enabled", "mode", "node")

    def __init__(self, enabled: bool) -> None:
        super().__init__(None)
        self.enabled = enabled
        self.mode: Any = None
        self.node: Any = None

    def python_type(self) -> type:
        return torch_compat.inference_mode_guard

    def get_attr(self, tx: Tracer, name: str) -> Value:
        return NativeMethod(self, name) if name in ("__enter__", "__exit__") else super().get_attr(tx, name)

    def native_methods(self) -> bool:
        return True

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


def _make(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) != 1 or kwargs:
        raise GraphBreak("making an inference mode object by hand", "use torch.inference_mode()")
    return InferenceModeValue(bool(tx.constant_of(args[0])))


CLASS_HANDLERS[torch_compat.inference_mode_guard] = _make
