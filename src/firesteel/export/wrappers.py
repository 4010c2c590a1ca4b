"""Tensors that are made of other tensors (quantised weights, DTensor, torch's fake tensors) in exported programs.

The graph has the operators that the program calls on them, as on any tensor of that shape and dtype, and their own
``__torch_dispatch__`` answers when the program runs. So plain tensors take their place while the program is traced, and
they come back in its state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

import torch

from ..torch_compat.pytrees import tree_flatten
from ..torch_compat.subclasses import default_impl, disabled_impl, has_own_dispatch
from .errors import ExportError
from .nesting import unflatten
from .program import ExportedProgram


def is_wrapper(value: Any) -> bool:
    """Whether operators on a tensor call its class, and nothing above operators does."""
    if not isinstance(value, torch.Tensor) or type(value) in (torch.Tensor, torch.nn.Parameter):
        return False
    function = type(value).__torch_function__
    return has_own_dispatch(type(value)) and (
        function is disabled_impl or getattr(function, "__func__", None) is default_impl)


class StandIns:
    """Plain tensors in the place of wrappers."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._originals: dict[int, torch.Tensor] = {}

    def of(self, value: Any) -> Any:
        """What stands for a value while tracing: itself unless it is a wrapper."""
        if not is_wrapper(value):
            return value
        if id(value) not in self._by_id:
            plain = torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype, device=value.device)
            plain = torch.nn.Parameter(plain, value.requires_grad) if isinstance(value, torch.nn.Parameter) \
                else plain.requires_grad_(value.requires_grad)
            self._by_id[id(value)] = (value, plain)
            self._originals[id(plain)] = value
        return self._by_id[id(value)][1]

    def original(self, value: Any) -> Any:
        """What a value stands for."""
        return self._originals.get(id(value), value)

    @property
    def classes(self) -> set[type]:
        """The classes of the wrappers."""
        return {type(value) for value, _ in self._by_id.values()}

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with plain tensors."""
        leaves, spec = tree_flatten((args, kwargs))
        if not any(map(is_wrapper, leaves)):
            return args, kwargs
        result: tuple[tuple[Any, ...], dict[str, Any]] = unflatten(map(self.of, leaves), spec)
        return result

    @contextmanager
    def in_module(self, module: torch.nn.Module) -> Iterator[None]:
        """Plain tensors as parameters and buffers of a module."""
        changed: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for part in module.modules():
            for name in ("_parameters", "_buffers"):
                table = vars(part)[name]
                if any(map(is_wrapper, table.values())):
                    changed.append((table, dict(table)))
                    table.update({key: self.of(value) for key, value in table.items()})
        for kind in self.classes:
            _refuse_questions(module, kind)
        try:
            yield
        finally:
            for table, before in changed:
                table.clear()
                table.update(before)

    def restore(self, program: ExportedProgram) -> None:
        """Put the wrappers into the state of a program."""
        if not self._by_id:
            return
        program.state_dict = {name: self.original(tensor) for name, tensor in program.state_dict.items()}
        program.constants = {name: self.original(tensor) for name, tensor in program.constants.items()}
        if program.example_inputs is not None:
            leaves, spec = tree_flatten(program.example_inputs)
            program.example_inputs = unflatten(map(self.original, leaves), spec)


def _refuse_questions(module: torch.nn.Module, kind: type) -> None:
    """Raise where a forward names a class: it would ask a plain tensor whether it is one."""
    for part in module.modules():
        function = getattr(type(part).forward, "__wrapped__", type(part).forward)
        if isinstance(function, FunctionType) and any(
                function.__globals__.get(name) is kind for name in _names(function.__code__)):
            raise ExportError(
                f"the forward of {type(part).__qualname__} speaks of the class {kind.__qualname__} of its tensors",
                "Exported programs call operators on such tensors; what is asked about their class is not in them.")


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
