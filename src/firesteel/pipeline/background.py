"""Compiling while the program runs: the first calls of a graph run it operator by operator, later ones compiled code.

A graph is compiled by a thread of its own, under the lock that all captures take. A graph for which compiling late
could be wrong is compiled at once: with sizes that change, tracing may find conditions that guards have to check; under
a mode of torch, another thread would see other operators.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import torch_compat
from ..events import note
from ..functional.state import GlobalState
from ..interruptions import uninterrupted
from ..logs import log
from .collecting import collection_paused
from .locking import compiling

Function = Callable[..., Any]


def can_be_compiled_later(examples: Sequence[Any]) -> bool:
    """Whether a graph with these inputs may be compiled by another thread, after its guards are made."""
    if torch_compat.torch_function_stack_length():
        return False
    numbers = [number for example in examples for number in (
        (*example.shape, *example.stride()) if isinstance(example, torch.Tensor) else (example,))]
    return not any(isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)) for number in numbers)


class CompiledLater:
    """A graph that runs as it is until ``make`` has made something better of it."""

    def __init__(self, name: str, now: Function, make: Callable[[], Function]) -> None:
        self.run = now
        self.name = name
        self.make: Callable[[], Function] | None = make
        self.error: Exception | None = None
        self.state, self.settings = GlobalState.current(), _settings()
        self.thread = threading.Thread(target=self._work, name=f"firesteel compiles {name}")
        note("background", thread=self.thread)
        self.thread.start()

    def __call__(self, *inputs: Any) -> Any:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return self.run(*inputs)

    def wait(self) -> None:
        """Until compiling is over, one way or the other."""
        self.thread.join()

    def _work(self) -> None:
        make, self.make = self.make, None
        assert make is not None
        with compiling(), torch.inference_mode(self.state.inference):
            if not threading.main_thread().is_alive():
                return  # the program is over
            if _settings() != self.settings:
                log("fallbacks", "%s goes on operator by operator: settings of torch changed meanwhile", self.name)
                return
            self.state.restore()  # of this thread's own: what all threads share is as it was
            try:
                with uninterrupted(), collection_paused():
                    compiled = make()
            except Exception as error:
                self.error = error  # for the next call, which is the program's own
                return
        self.run = compiled
        log("kernels", "%s is compiled and takes over", self.name)


def _settings() -> tuple[Any, ...]:
    """What compilations read and all threads share."""
    return (torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(),
            torch.get_float32_matmul_precision())
