"""Operator calls with symbolic sizes: their arguments as rules want them, and results remembered per environment.

Layers of a model repeat, and so do the layouts that operators see. A call is described by the operator and the layouts
of its arguments; its result by layouts alone, which are given new tensors when the same call comes again. Guards that
the first call left hold for all of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from .. import torch_compat
from .dims import Dim, DimTable, dim_of, layout_of, offset_of, storage_size
from .tensor import FakeTensor, view_of

SYMBOLIC_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Call:
    """One call: its arguments with every symbolic size as a `Dim`, and a key that is equal for calls alike."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.table: DimTable | None = None
        keys: list[Any] = [func, torch.get_default_dtype()]
        self.args = [self._take(value, keys) for value in args]
        self.kwargs = {}
        for name, value in kwargs.items():
            keys.append(name)
            self.kwargs[name] = self._take(value, keys)
        self.key = tuple(keys)

    def _take(self, value: Any, keys: list[Any]) -> Any:
        """The argument as rules want it; what describes it goes to ``keys``."""
        kind = type(value)
        if kind is FakeTensor:
            shape, stride = layout_of(value)
            if self.table is None:
                self._find_table(shape)
                self._find_table(stride)
            keys += (shape, stride, offset_of(value), value.dtype, value.device)
            return value
        if kind is int or kind is bool or kind is float:
            # 1, 1.0 and True are equal, and promote differently.
            keys += (kind, value)
            return value
        if kind is list or kind is tuple:
            keys.append(len(value))
            return [self._take(item, keys) for item in value]
        if isinstance(value, SYMBOLIC_NUMBERS):
            if isinstance(value, torch.SymInt):
                value = dim_of(value)
                if type(value) is int:
                    keys += (int, value)
                    return value
                self._find_table((value,))
                keys.append(value)
            else:
                keys.append(value.node.expr)
            return value
        if isinstance(value, torch.Generator):
            keys.append(None)
            return value
        keys.append(value)
        return value

    def _find_table(self, numbers: tuple[Any, ...]) -> None:
        for number in numbers:
            if type(number) is Dim:
                self.table = number.table
                return


class Layout(NamedTuple):
    """Metadata of one result tensor; ``base`` is the position of the argument that it is a view of."""

    shape: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any
    dtype: torch.dtype
    device: torch.device
    base: int | None
    room: Any


def recipe_of(result: Any, args: tuple[Any, ...]) -> Any:
    """What to make when the same call comes again; None where that cannot be told."""
    if isinstance(result, FakeTensor):
        shape, stride = layout_of(result)
        storage = torch_compat.storage_address(result)
        base = None
        for position, value in enumerate(args):
            if value is result:
                return None
            if type(value) is FakeTensor and torch_compat.storage_address(value) == storage:
                base = position
                break
        room = storage_size(shape, stride) * result.dtype.itemsize
        return Layout(shape, stride, offset_of(result), result.dtype, result.device, base, room)
    if isinstance(result, (list, tuple)):
        parts = [recipe_of(item, args) for item in result]
        return None if None in parts else [type(result), *parts]
    return None


def follow(recipe: Any, args: tuple[Any, ...]) -> Any:
    """The result that a recipe describes."""
    if type(recipe) is Layout:
        shape, stride, offset, dtype, device, base, room = recipe
        if base is not None:
            return view_of(args[base], shape, stride, offset, dtype)
        return torch_compat.make_wrapper(FakeTensor, shape, stride, 0, dtype, device, room)
    return recipe[0](follow(part, args) for part in recipe[1:])
