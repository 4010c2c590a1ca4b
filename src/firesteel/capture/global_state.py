"""Global state around a capture, of PyTorch and of the interpreter: put back when the capture ends."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from .. import torch_compat
from ..records import dataclass
from ..systems import at_fork
from .guards import Guard, stamp_condition
from .recursion import deepest

if TYPE_CHECKING:
    pass


class InterpreterSettings:
    """Context manager: deep recursion and no garbage collection while capturing.

    Capture makes many small objects that all stay; collecting in between costs more than the capture itself.
    """

    in_progress: ClassVar[list[InterpreterSettings]] = []

    def __init__(self) -> None:
        self.limit = sys.getrecursionlimit()
        self.collecting = gc.isenabled()

    def __enter__(self) -> None:
        self.in_progress.append(self)
        sys.setrecursionlimit(deepest(self.limit))
        gc.disable()

    def __exit__(self, *exc: object) -> None:
        self.in_progress.remove(self)
        self.restore()

    def restore(self) -> None:
        sys.setrecursionlimit(self.limit)
        if self.collecting:
            gc.enable()

    @classmethod
    @contextmanager
    def of_the_program(cls) -> Iterator[None]:
        """The program's own recursion limit around code of the user that a capture calls, as a backend is."""
        if not cls.in_progress:
            yield
            return
        ours = sys.getrecursionlimit()
        sys.setrecursionlimit(cls.in_progress[0].limit)
        try:
            yield
        finally:
            sys.setrecursionlimit(ours)

    @classmethod
    def abandon(cls) -> None:
        """In a forked child: the thread that was capturing does not exist here and will put nothing back."""
        if cls.in_progress:
            cls.in_progress[0].restore()
            cls.in_progress.clear()


at_fork(after_in_child=InterpreterSettings.abandon)


@dataclass(frozen=True)
class GlobalState:
    """PyTorch's global state as far as captured graphs depend on it."""

    grad: bool
    inference: bool
    autocast: tuple[Any, ...]
    autocast_nesting: int
    default_dtype: torch.dtype
    deterministic: bool
    threads: int
    function_modes: tuple[torch.device, ...]
    dispatch_modes: int
    settings: tuple[Any, ...]

    @staticmethod
    def current() -> GlobalState:
        return GlobalState(
            torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
            tuple(torch_compat.autocast_state(device) for device in torch_compat.AUTOCAST_DEVICES),
            torch_compat.autocast_nesting(),
            torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads(),
            torch_compat.function_mode_devices() or (), torch_compat.torch_dispatch_stack_length(),
            torch_compat.current_settings())

    def restore(self) -> None:
        """Put back what the capture that began in this state has changed."""
        self.restore_settings()
        torch_compat.set_autocast_nesting(self.autocast_nesting)

    def restore_settings(self) -> None:
        """Put back all but how deep autocast blocks are nested, which differs between calls that share an entry."""
        torch_compat.set_grad_enabled(self.grad)
        for state in self.autocast:
            torch_compat.set_autocast_state(state)
        torch_compat.restore_settings(self.settings)
        while torch_compat.torch_dispatch_stack_length() > self.dispatch_modes:
            torch_compat.pop_dispatch_mode()  # an interrupt came between entering a mode and the block that leaves it

    def guard(self) -> Guard:
        """Holds while the state is the same."""
        constants: list[Any] = []

        def name(obj: Any) -> str:
            constants.append(obj)
            return f"{{k[{len(constants) - 1}]}}"

        # Function modes first: inside of one, the other questions may run Python.
        checks = [
            f"{name(torch_compat.function_stack_length)}() == {len(self.function_modes)}",
            f"{name(torch.is_grad_enabled)}() is {self.grad}",
            f"{name(torch.is_inference_mode_enabled)}() is {self.inference}",
            f"{name(torch.get_default_dtype)}() is {name(self.default_dtype)}",
            f"{name(torch_compat.deterministic_enabled)}() is {self.deterministic}",
            f"{name(torch.get_num_threads)}() == {self.threads}",
            f"{name(torch_compat.functorch_interpreter)}() is None",
            # a level of forward-mode differentiation: tensors may carry tangents that no graph knows of
            f"{name(torch_compat.forward_ad_variables)}[{torch_compat.FORWARD_AD_LEVEL!r}] is {name(-1)}",
            f"{name(torch_compat.is_tracing)}() is False",
            f"{name(torch_compat.dispatch_stack_length)}() == {self.dispatch_modes}",
            stamp_condition(torch_compat.TENSOR_METHODS, name),
        ]
        if not torch_compat.any_autocast_enabled():
            checks.append(f"{name(torch_compat.any_autocast_enabled)}() is False")
        else:
            for state in self.autocast:
                checks.append(f"{name(torch.is_autocast_enabled)}({state.device_type!r}) is {state.enabled}")
                if state.enabled:
                    checks.append(f"{name(torch.get_autocast_dtype)}({state.device_type!r}) is {name(state.dtype)}")
        if self.function_modes:
            checks.append(f"{name(torch_compat.function_mode_devices)}() == {name(self.function_modes)}")
        return Guard(None, "global state", " and ".join(checks), tuple(constants))
