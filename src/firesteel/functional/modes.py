"""Modes that a captured graph enters and leaves while it runs: ``torch.inference_mode``, ``torch.device``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .. import torch_compat


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
