"""Storages of tensors, and addresses: programs ask whether two tensors share memory, and how large it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ... import shapes
from ...fake import FakeTensor
from ...fake.dims import known_equal, numel_of, offset_of
from ...shapes.symnode import expr_of
from ..signals import GraphBreak
from .base import Value
from .methods import NativeMethod

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer
    from .tensors import TensorValue


class AddressNumber(Value):
    """``tensor.data_ptr()``: nothing but whether it is that of another tensor is known before the program runs."""

    __slots__ = ("tensor", "storage", "offset", "method")
    fixed_type = int
    native_methods = True

    def __init__(self, tensor: TensorValue, offset: Any, method: str) -> None:
        super().__init__(None)
        self.tensor = tensor
        self.storage = tensor.fake.storage_key
        self.offset = offset
        self.method = method

    def describe(self) -> str:
        return "the address of a tensor"

    def same(self, tx: Tracer, other: AddressNumber) -> bool:
        """Whether both are one place."""
        guard_sharing(tx)
        return self.storage == other.storage and known_equal(self.offset, other.offset)

    def truth(self, tx: Tracer) -> bool:
        return True

    def emit(self, code: EntryCode) -> str:
        if self.tensor.fake.storage_key != self.storage:
            raise GraphBreak("the address of a tensor that has other memory by now")
        return f"{code.value(self.tensor)}.{self.method}()"

    def key(self, tx: Tracer) -> Any:
        if not isinstance(self.offset, int):
            raise GraphBreak("the address of a tensor as a key, where sizes decide on it")
        guard_sharing(tx)
        return AddressNumber, self.storage, self.offset


def guard_sharing(tx: Tracer) -> None:
    """Guard which inputs share storage, and where in it they begin: addresses of two of them are compared."""
    first: dict[int, Any] = {}
    for entry in _inputs(tx):
        known = first.setdefault(entry.example.storage_key, entry)
        if known is not entry:
            tx.guard(entry.source, "sharing", "{0}.untyped_storage().data_ptr() == {1}.untyped_storage().data_ptr()",
                     (), (known.source,))
            tx.guard_places("storage_offset", [entry.example], {})
    leaders = list(first.values())
    for position, entry in enumerate(leaders):
        for other in leaders[:position]:
            if not apart(_real(tx, entry), _real(tx, other)):  # arrays of NumPy, for example
                raise GraphBreak("addresses of tensors with storages of their own that share memory")
            tx.guard(entry.source, "sharing", "{k[0]}({0}, {1})", (apart,), (other.source,))


def apart(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the storages of two tensors have no memory in common."""
    first, second = one.untyped_storage(), other.untyped_storage()
    begin, behind = first.data_ptr(), second.data_ptr()
    return begin + first.nbytes() <= behind or behind + second.nbytes() <= begin


def _inputs(tx: Tracer) -> list[Any]:
    return [entry for entry in tx.graph.inputs if isinstance(entry.example, FakeTensor)]


def _real(tx: Tracer, entry: Any) -> torch.Tensor:
    real = getattr(tx.tensor_of_fake.get(id(entry.example)), "real", None)
    if not isinstance(real, torch.Tensor):
        raise GraphBreak("addresses of tensors where one is no input of its own")
    return real


def storage_bytes(tx: Tracer, fake: Any) -> Any:
    """How large the storage of a tensor is, which may be a symbol; that of an input is guarded."""
    tx.guard_places("set_", [fake], {})
    owner = next((entry for entry in _inputs(tx) if entry.example.storage_key == fake.storage_key), None)
    if owner is not None:  # with symbolic sizes, the fake one is as large as its tensor
        return _real(tx, owner).untyped_storage().nbytes()
    return fake.untyped_storage().nbytes()


def address(tx: Tracer, tensor: TensorValue, of_storage: bool = False) -> Value:
    """``tensor.data_ptr()``, or that of its storage."""
    fake = tensor.fake
    if tx.shape_env.decide(shapes.ne(expr_of(numel_of(fake)), 0)) is not True:
        raise GraphBreak("the address of a tensor that may have no elements, and no address then")
    if of_storage:
        return AddressNumber(tensor, 0, "untyped_storage().data_ptr")
    return AddressNumber(tensor, offset_of(fake) * fake.itemsize, "data_ptr")


class StorageValue(Value):
    """``tensor.untyped_storage()``."""

    __slots__ = ("tensor",)
    fixed_type = torch.UntypedStorage
    native_methods = True

    def __init__(self, tensor: TensorValue) -> None:
        super().__init__(None)
        self.tensor = tensor

    def get_attr(self, tx: Tracer, name: str) -> Value:
        return tx.python_object(self.tensor.fake.device) if name == "device" else NativeMethod(self, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "data_ptr":
            return address(tx, self.tensor, of_storage=True)
        if name in ("nbytes", "size", "__len__"):
            return self.length(tx)
        raise GraphBreak(f"{name}() of the storage of a tensor")

    def length(self, tx: Tracer) -> Value:
        return tx.symbols.value_of(storage_bytes(tx, self.tensor.fake))
