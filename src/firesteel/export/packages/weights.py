"""The weights of a package: one safetensors file for all models, every tensor once.

A file is eight bytes with the length of its head, the head (JSON: name, dtype, shape and place of every tensor), then
the data. Tensors whose size is a multiple of a cache line come first, so that nearly all of them start at one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch

from ...devices import KINDS
from ...kernels.shared_object.interface import WeightsFile
from .errors import PackageError

LINE = 64
DTYPES: dict[torch.dtype, str] = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
    torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64", torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
}  # fmt: skip
NAMES = {name: dtype for dtype, name in DTYPES.items()}


def _identity(tensor: torch.Tensor) -> tuple[object, ...]:
    """The same for tensors that are the same memory seen in the same way."""
    return (tensor.device, tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tuple(tensor.shape),
            tensor.stride(), tensor.dtype)


@dataclass
class Store:
    """Tensors under names, each stored once."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    _known: dict[tuple[object, ...], str] = field(default_factory=dict)

    def add(self, wanted: str, tensor: torch.Tensor) -> str:
        """Add a tensor; the name that it has in the file."""
        if tensor.dtype not in DTYPES or tensor.layout is not torch.strided:
            raise PackageError(f"the weight {wanted} is of {tensor.dtype} and layout {tensor.layout}",
                               "weights of a package are dense tensors of the usual dtypes")
        if tensor.device.type not in KINDS:
            raise PackageError(f"the weight {wanted} is on {tensor.device}", "packages are for the CPU and for CUDA")
        identity = _identity(tensor)
        if identity not in self._known or not tensor.numel():
            name, number = wanted, 1
            while name in self.tensors:
                name, number = f"{wanted}.{number}", number + 1
            self.tensors[name] = tensor
            self._known[identity] = name
            return name
        return self._known[identity]

    def lay_out(self) -> Layout:
        """Where everything is in the file."""
        names = sorted(self.tensors, key=lambda name: _rank(self.tensors[name]))
        head: dict[str, object] = {"__metadata__": {"format": "pt"}}
        offsets, at = {}, 0
        for name in names:
            tensor = self.tensors[name]
            offsets[name] = at
            end = at + tensor.nbytes
            head[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
            at = end
        return Layout(names, offsets, WeightsFile(_head(head), len(_head(head)) + at))

    def write(self, layout: Layout) -> Iterator[bytes | memoryview]:
        """The parts of the file, one after the other."""
        yield layout.file.head
        for name in layout.names:
            yield tensor_bytes(self.tensors[name])


@dataclass(frozen=True)
class Layout:
    """The order of tensors in a file, and how far from the first each begins."""

    names: list[str]
    offsets: Mapping[str, int]
    file: WeightsFile


def _rank(tensor: torch.Tensor) -> tuple[bool, int]:
    return tensor.nbytes % LINE != 0, -tensor.dtype.itemsize


def _head(entries: Mapping[str, object]) -> bytes:
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % LINE)
    return struct.pack("<Q", len(text)) + text


def tensor_bytes(tensor: torch.Tensor) -> bytes | memoryview:
    """The elements of a tensor in order."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if not flat.numel():
        return b""
    return flat.view(torch.uint8).numpy().data


def read_head(data: bytes | memoryview) -> tuple[dict[str, tuple[torch.dtype, tuple[int, ...], int]], int]:
    """Dtype, shape and place of every tensor in a file, and where the data begins. Raises ValueError."""
    if len(data) < 8:
        raise ValueError("the file is too short")
    length = struct.unpack("<Q", bytes(data[:8]))[0]
    if length > len(data) - 8:
        raise ValueError("the file is too short")
    places = {}
    entries = json.loads(bytes(data[8 : 8 + length]))
    for name, entry in entries.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            if not 0 <= first <= last <= len(data) - 8 - length:
                raise ValueError(f"{name} lies outside of the file")
            places[name] = NAMES[entry["dtype"]], tuple(int(size) for size in entry["shape"]), int(first)
    return places, 8 + length
