"""PyTorch's global state around a capture: put back when the capture ends, guarded by every entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from .guards import Guard

if TYPE_CHECKING:
    from .entry_code import EntryCode


@dataclass(frozen=True)
class GlobalState:
    """PyTorch's global state as far as captured graphs depend on it."""

    grad: bool
    inference: bool
    autocast: tuple[Any, ...]
    default_dtype: torch.dtype
    deterministic: bool
    threads: int
    function_modes: tuple[torch.device, ...]
    dispatch_modes: int

    @staticmethod
    def current() -> GlobalState:
        return GlobalState(
            torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
            tuple(torch_compat.autocast_state(device) for device in torch_compat.AUTOCAST_DEVICES),
            torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads(),
            torch_compat.function_mode_devices() or (), torch_compat.torch_dispatch_stack_length())

    def restore(self) -> None:
        torch_compat.set_grad_enabled(self.grad)
        for state in self.autocast:
            torch_compat.set_autocast_state(state)
        while torch_compat.torch_dispatch_stack_length() > self.dispatch_modes:
            torch_compat.pop_dispatch_mode()  # an interrupt came between entering a mode and the block that leaves it

    def guards(self, code: EntryCode) -> list[str]:
        """Conditions that hold while the state is the same."""
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
        return [code.guard_line(Guard(None, "global state", " and ".join(checks), tuple(constants)))]
