"""``torch.inference_mode`` in captured code: entering and leaving it are operations of the graph.

Inference mode is an object in C++ that remembers what was before it. Capture makes one of its own, so that fake tensors
see the mode, and the graph makes, enters and leaves another. When the graph ends between the two, the object is one of
its outputs and the program leaves the mode in plain Python.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import torch_compat
from .builtin_calls import CLASS_HANDLERS
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue, NativeMethod

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer


class _Entered(threading.local):
    """The modes that graphs of this thread have entered and not left."""

    def __init__(self) -> None:
        self.modes: list[Any] = []


_ENTERED = _Entered()


def enter_inference_mode(enabled: bool) -> Any:
    """Graph operation: enter; the result is what `leave_inference_mode` takes."""
    mode = torch_compat.inference_mode_guard(enabled)
    mode.__enter__()
    _ENTERED.modes.append(mode)
    return mode


def leave_inference_mode(mode: Any) -> None:
    """Graph operation: leave."""
    _ENTERED.modes.remove(mode)
    mode.__exit__(None, None, None)


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
        tx.effects.version += 1
        if name == "__enter__" and self.mode is None:
            self.mode = torch_compat.inference_mode_guard(self.enabled)
            self.mode.__enter__()
            tx.entered_modes.append(self.mode)
            tx.touched_state["inference_mode"] = torch_compat.inference_mode_guard
            self.node = tx.graph.call(enter_inference_mode, (self.enabled,), {}, tx.user_frames())
            return ConstantValue(None)
        if name == "__exit__" and tx.entered_modes and tx.entered_modes[-1] is self.mode:
            tx.entered_modes.pop().__exit__(None, None, None)
            tx.graph.call(leave_inference_mode, (self.node,), {}, tx.user_frames())
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
