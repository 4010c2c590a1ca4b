"""Where a tensor keeps what guards ask for: found out on real tensors, never assumed.

Shape, strides, dtype and device come from the functions of torch's C interface for compiled models.
Dispatch keys, the storage, the autograd record and its gradient function have no such functions; their places in the
C++ objects are searched for by value on tensors of many kinds, and only a place that is right for all of them is used.
Whatever is not found or does not fit leaves guards on it in Python.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable
from typing import Any

import numpy
import torch

from .. import torch_compat
from ..records import dataclass
from ..torch_compat import c_interface, native_calls
from .objects import word

OBJECT_WORDS = range(16, 64, 8)
IMPLEMENTATION_WORDS = range(8, 320, 8)
STORAGE_WORDS = range(16, 80, 8)
RECORD_WORDS = range(8, 160, 8)
NODE = 16  # offset of the C++ node in the Python object of a gradient function


@dataclass(frozen=True)
class AutogradLayout:
    """Where a plain tensor, not a view, keeps its gradient function."""

    record: int  # offset of the pointer to the autograd record in the implementation
    function: int  # offset of the gradient function in the record
    plain: int  # first word of the records of plain tensors


@dataclass(frozen=True)
class TensorLayout:
    """How to read a tensor from C: offsets that were tried on real tensors, addresses of torch's own C functions."""

    implementation: int  # offset of the pointer to the tensor's implementation in the Python object
    dispatch_keys: int  # offset of the dispatch keys in the implementation
    dim: int
    sizes: int
    strides: int
    dtype: int
    device_type: int
    device_index: int
    requires_grad: int
    is_leaf: tuple[int, int]  # a getter's function and its closure
    autograd: AutogradLayout | None
    storage: int | None  # offset of the pointer to the storage in the implementation
    resizable: int | None  # offset of the byte in a storage that is 1 if torch has allocated its memory, otherwise 0


def tensor_layout() -> TensorLayout | None:
    """How to read tensors in this process; None when that cannot be told for sure."""
    samples = _samples()
    place = _common(OBJECT_WORDS, [(id(t), torch_compat.implementation_address(t)) for t in samples])
    keys = _common(IMPLEMENTATION_WORDS, [
        (torch_compat.implementation_address(t), torch_compat.dispatch_key_bits(t)) for t in samples])
    is_leaf = _getter("is_leaf")
    if place is None or keys is None or is_leaf is None or not _metadata_fits(place, samples):
        return None
    requires_grad = native_calls.requires_grad_function()
    if requires_grad is None:
        return None
    requires_grad.argtypes, requires_grad.restype = [ctypes.c_void_p], ctypes.c_bool
    if any(requires_grad(torch_compat.implementation_address(t)) is not t.requires_grad for t in samples):
        return None
    storage = _common(IMPLEMENTATION_WORDS, [
        (torch_compat.implementation_address(t), torch_compat.storage_address(t)) for t in samples])
    functions = {name: _address(_shim(name)) for name in METADATA}
    return TensorLayout(implementation=place, dispatch_keys=keys, requires_grad=_address(requires_grad),
                        is_leaf=is_leaf, autograd=_autograd_layout(), storage=storage,
                        resizable=_resizable_byte(), **functions)


def _resizable_byte() -> int | None:
    """Where a storage says whether torch has allocated its memory: among the flags behind its size."""
    foreign = [torch.from_numpy(numpy.ones(5)), torch.frombuffer(bytearray(24), dtype=torch.int16),
               torch.from_numpy(numpy.ones((7, 3), dtype=numpy.int8))[2:]]
    tensors = [*_samples(), *foreign]
    storages = [torch_compat.storage_address(t) for t in tensors]
    allocated = [torch_compat.is_allocated(t) for t in tensors]
    size = _common(STORAGE_WORDS, list(zip(storages, [t.untyped_storage().nbytes() for t in tensors], strict=True)))
    if size is None or any(allocated[-len(foreign):]):
        return None
    fitting = [offset for offset in range(size + 8, size + 16)
               if [ctypes.c_uint8.from_address(storage + offset).value for storage in storages] == allocated]
    return fitting[0] if len(fitting) == 1 else None


def _samples() -> list[torch.Tensor]:
    """Tensors that differ in everything that a guard looks at."""
    plain, complex_ = torch.ones(2, 3), torch.ones(3, dtype=torch.complex64)
    with torch.inference_mode():
        inference = torch.ones(2)
    grown = torch.ones(4, requires_grad=True)
    return [
        plain, torch.ones(2, dtype=torch.bool), plain.t(), complex_, complex_.conj(), complex_.conj().imag, inference,
        torch.ones(2, device="meta"), torch.nn.Parameter(torch.ones(2)), torch.ones(()), torch.ones(0, 5), grown,
        grown * 2, grown.view(2, 2), torch.ones(4, 1, 3, dtype=torch.int16).as_strided((2, 1, 3), (3, 7, 1)),
        torch.ones(2, 1, 2, 1, 2, 1, 3, dtype=torch.bfloat16),
    ]


def _common(offsets: range, samples: list[tuple[int, int]]) -> int | None:
    """The only offset at which every object holds its value."""
    fitting = [offset for offset in offsets if all(word(address + offset) == value for address, value in samples)]
    return fitting[0] if len(fitting) == 1 else None


# Shape, strides, dtype and device

METADATA: dict[str, Any] = {
    "dim": ctypes.c_int64, "sizes": ctypes.c_void_p, "strides": ctypes.c_void_p, "dtype": ctypes.c_int32,
    "device_type": ctypes.c_int32, "device_index": ctypes.c_int32,
}


def _shim(name: str) -> Any:
    function = c_interface.c_function(f"get_{name}")
    if function is not None:
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int32
    return function


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def read(place: int, t: torch.Tensor, name: str) -> Any:
    """Ask one of the C functions about a tensor; None when it fails."""
    result = METADATA[name]()
    if _shim(name)(id(t) + place, ctypes.addressof(result)):
        return None
    return result.value


def _metadata_fits(place: int, samples: list[torch.Tensor]) -> bool:
    if any(_shim(name) is None for name in METADATA):
        return False
    for t in samples:
        if read(place, t, "dim") != t.dim():
            return False
        for name, expected in (("sizes", tuple(t.shape)), ("strides", t.stride())):
            address = read(place, t, name)
            if t.dim() and (not address or tuple((ctypes.c_int64 * t.dim()).from_address(address)) != expected):
                return False

    def one_to_one(name: str, key: Callable[[torch.Tensor], Any]) -> bool:
        pairs = {(read(place, t, name), key(t)) for t in samples}
        return len(pairs) == len({code for code, _ in pairs}) == len({value for _, value in pairs})

    return one_to_one("dtype", lambda t: t.dtype) and one_to_one("device_type", lambda t: t.device.type)


# Autograd


def _getter(name: str) -> tuple[int, int] | None:
    """The C function behind an attribute of tensors, and its closure."""
    descriptor = next((vars(base)[name] for base in torch.Tensor.__mro__ if name in vars(base)), None)
    if type(descriptor) is not types.GetSetDescriptorType:
        return None
    # A descriptor is: the object header, the class, two names, and the definition (name, get, set, doc, closure).
    if word(id(descriptor) + 16) != id(descriptor.__objclass__) or word(id(descriptor) + 24) != id(descriptor.__name__):
        return None
    definition = word(id(descriptor) + 40)
    if ctypes.c_char_p.from_address(definition).value != name.encode():
        return None
    return word(definition + 8), word(definition + 32)


def _autograd_layout() -> AutogradLayout | None:
    """Where plain tensors keep their gradient function; views ask their base and are left to torch's own getter."""
    record_of = native_calls.autograd_record_function()
    if record_of is None:
        return None
    record_of.argtypes, record_of.restype = [ctypes.c_void_p], ctypes.c_void_p
    with torch.inference_mode(False), torch.enable_grad():  # whatever mode the first compiled call is made in
        leaves = [torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.ones(3))]
        grown = [leaves[0] * 2, leaves[1].sum(), torch.cat(leaves)]
        viewed = leaves[0].view(2, 1)
        without = torch.ones(2)
    plain = [*leaves, *grown]
    addresses = [torch_compat.implementation_address(t) for t in plain]
    records = [record_of(address) for address in addresses]
    if not all(records) or record_of(torch_compat.implementation_address(without)) is not None:
        return None
    record = _common(IMPLEMENTATION_WORDS, list(zip(addresses, records, strict=True)))
    functions = [t.grad_fn for t in grown]
    nodes = [0] * len(leaves) + [word(id(function) + NODE) for function in functions]
    function = _common(RECORD_WORDS, list(zip(records, nodes, strict=True)))
    # The first word of a C++ object with virtual functions tells its class.
    classes = {word(address) for address in records}
    view = word(record_of(torch_compat.implementation_address(viewed)))
    if record is None or function is None or len(classes) != 1 or view in classes:
        return None
    return AutogradLayout(record, function, classes.pop())
