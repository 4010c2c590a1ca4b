"""Tensors as parts of a file: dense data under names, each memory once, and how it is seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..packages.weights import DTYPES, Store, read_head
from .errors import SavedProgramError
from .schema import SavedTensor
from .values import read_device, read_enum


class TensorWriter:
    """Collects tensors. Those that share memory without being the same are saved as views of all of it."""

    def __init__(self) -> None:
        self.store = Store()
        self._whole: dict[int, torch.Tensor] = {}

    def add_all(self, tensors: dict[str, torch.Tensor]) -> list[SavedTensor]:
        """Add tensors by name."""
        places: dict[int, set[Any]] = {}
        for name, tensor in tensors.items():
            _check(name, tensor)
            place = tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
            places.setdefault(_memory(tensor), set()).add(place)
        return [self._add(name, tensor, len(places[_memory(tensor)]) > 1) for name, tensor in tensors.items()]

    def _add(self, name: str, tensor: torch.Tensor, shared: bool) -> SavedTensor:
        data, offset = tensor.detach(), 0
        if shared and tensor.numel():
            whole = self._whole.get(_memory(tensor))
            if whole is None:
                flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
                whole = self._whole[_memory(tensor)] = flat.cpu()
            data, offset = whole, int(tensor.storage_offset())
        elif data.dtype is torch.complex128:
            data = torch.view_as_real(data.resolve_conj())
        data = data.resolve_conj().resolve_neg().cpu()
        return SavedTensor(
            name, self.store.add(f"{name}.memory" if shared else name, data), str(tensor.dtype)[6:], list(tensor.shape),
            list(tensor.stride()), offset, str(tensor.device), isinstance(tensor, torch.nn.Parameter),
            tensor.requires_grad)  # fmt: skip


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.numel() else -id(tensor)


def _check(name: str, tensor: torch.Tensor) -> None:
    kinds = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    known = tensor.dtype in DTYPES or tensor.dtype is torch.complex128
    if type(tensor) not in kinds or tensor.layout is not torch.strided or not known or tensor.is_meta:
        raise SavedProgramError(
            f"{name} is a {type(tensor).__name__} of {tensor.dtype}, {tensor.layout}, on {tensor.device}",
            "Dense tensors of the usual dtypes can be saved.")


class TensorReader:
    """The tensors of a part of a file. Tensors that were one object, or shared memory, do so again."""

    def __init__(self, data: bytearray, device: torch.device | None) -> None:
        self.data = data
        self.device = device
        try:
            self.entries, self.begin = read_head(memoryview(data))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"the tensors cannot be read: {error}") from error
        self._parts: dict[tuple[str, str], torch.Tensor] = {}
        self._made: dict[tuple[Any, ...], torch.Tensor] = {}

    def read_all(self, saved: Iterable[SavedTensor]) -> dict[str, torch.Tensor]:
        """The tensors by name. Raises ValueError."""
        tensors = {}
        for entry in saved:
            try:
                tensors[entry.name] = self._read(entry)
            except (ValueError, RuntimeError, TypeError, OverflowError) as error:
                raise ValueError(f"tensor {entry.name[:80]}: {error}") from error
        return tensors

    def _read(self, saved: SavedTensor) -> torch.Tensor:
        key = (saved.key, saved.dtype, tuple(saved.shape), tuple(saved.stride), saved.offset, saved.device,
               saved.parameter, saved.requires_grad)  # fmt: skip
        if key in self._made:
            return self._made[key]
        dtype = read_enum("dtype", saved.dtype)
        device = self.device or read_device(saved.device)
        whole = self._part(saved.key, device)
        if list(whole.shape) == saved.shape and whole.dtype is dtype:
            tensor = whole if list(whole.stride()) == saved.stride else _with_strides(whole, saved.stride)
        elif dtype is torch.complex128 and whole.dtype is torch.float64:
            tensor = torch.view_as_complex(whole)
            if list(tensor.shape) != saved.shape:
                raise ValueError("it has another shape")
            tensor = tensor if list(tensor.stride()) == saved.stride else _with_strides(tensor, saved.stride)
        elif whole.dtype is torch.uint8 and whole.dim() == 1:
            tensor = whole[: whole.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
            tensor = tensor.as_strided(saved.shape, saved.stride, saved.offset)
        else:
            raise ValueError("it has another shape or dtype")
        if saved.parameter:
            tensor = torch.nn.Parameter(tensor, requires_grad=saved.requires_grad)
        elif saved.requires_grad:
            tensor = tensor.requires_grad_(True)
        self._made[key] = tensor
        return tensor

    def _part(self, key: str, device: torch.device) -> torch.Tensor:
        known = (key, str(device))
        if known not in self._parts:
            if key not in self.entries:
                raise ValueError("its data is missing")
            dtype, shape, begin = self.entries[key]
            count = 1
            for size in shape:
                if size < 0:
                    raise ValueError("a size is negative")
                count *= size
            first = self.begin + begin
            if first + count * dtype.itemsize > len(self.data):
                raise ValueError("it ends outside of the file")
            if count:
                flat = torch.frombuffer(self.data, dtype=dtype, count=count, offset=first)
            else:
                flat = torch.empty(0, dtype=dtype)
            self._parts[known] = flat.reshape(shape).to(device)
        return self._parts[known]


def _with_strides(tensor: torch.Tensor, strides: list[int]) -> torch.Tensor:
    """A copy with other strides, which must not let elements share memory unless they are one."""
    extent = 1 + sum((size - 1) * abs(stride) for size, stride in zip(tensor.shape, strides, strict=True))
    if tensor.numel() and extent > 64 * tensor.numel() + 1024:
        raise ValueError("its strides are too large")
    if any(stride < 0 for stride in strides):
        raise ValueError("a stride is negative")
    result = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return result.copy_(tensor) if 0 not in strides or not tensor.numel() else tensor.as_strided(tensor.shape, strides)
