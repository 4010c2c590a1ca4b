"""Storages of tensors, and addresses: programs ask whether two tensors share memory, and how large it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ... import shapes
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

    def same(self, other: AddressNumber) -> bool:
        """Whether both are one place."""
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
        return AddressNumber, self.storage, self.offset


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
        tx.guard_places("set_", [self.tensor.fake], {})
        return tx.symbols.value_of(self.tensor.fake.untyped_storage().nbytes())
