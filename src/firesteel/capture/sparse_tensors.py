"""Sparse matrices from outside, in coordinates or compressed rows, in captured code.

The graph gets the tensors that they are made of, and operators that put them together again (`sparse_products`):

    adjacency @ x     ->     first = adjacency._indices(); values = adjacency._values()
                             sparse_coo_mm(first, first, values, x, 4, 4, True, False)

Known are products with dense matrices, ``to_dense()``, the parts themselves, and questions about sizes and kinds. All
else is left to Python, as are matrices that require gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..functional.sparse_products import KINDS, densified, product
from .signals import GraphBreak
from .source import Source, call_source
from .values.base import Value
from .values.constants import ConstantValue
from .values.methods import NativeMethod
from .values.opaque import OpaqueValue
from .values.tensors import METADATA, TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

PRODUCTS = frozenset({"matmul", "__matmul__", "mm", "_sparse_mm", "spmm"})


def places_and_values(matrix: torch.Tensor) -> tuple[Any, ...]:
    """The functions that give a matrix's parts; see `sparse_products` for the order."""
    if matrix.layout is torch.sparse_csr:
        return rows_of, columns_of, values_of
    return indices_of, indices_of, entries_of


def indices_of(matrix: torch.Tensor) -> torch.Tensor:
    return matrix._indices()


def entries_of(matrix: torch.Tensor) -> torch.Tensor:
    return matrix._values()


def rows_of(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.crow_indices()


def columns_of(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.col_indices()


def values_of(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.values()


class SparseValue(OpaqueValue):
    """A sparse matrix from outside that requires no gradients."""

    native_methods = True
    __slots__ = ("coalesced", "entries_are_numbers", "known")

    def __init__(self, real: torch.Tensor, source: Source) -> None:
        super().__init__(real, source, f"a tensor of layout {real.layout}")
        self.known: dict[Any, Value] = {}
        with torch_compat.without_modes():
            self.coalesced = real.layout is not torch.sparse_coo or real.is_coalesced()
            self.entries_are_numbers = not real.dense_dim()

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "shape":
            return tx.python_object(self.real.shape)
        if name in METADATA:
            return tx.python_object(getattr(self.real, name))
        if name in METHODS or name in PRODUCTS or name in PARTS or name == "to_dense":
            return NativeMethod(self, name)
        return super().get_attr(tx, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in METHODS:
            constants = [tx.constant_of(arg) for arg in args]
            named = {key: tx.constant_of(value) for key, value in kwargs.items()}
            with torch_compat.without_modes():
                return tx.fold(getattr(self.real, name), constants, named)
        if name in PARTS and not args and not kwargs:
            return self.part(tx, name)
        return call_sparse(tx, name, [self, *args], kwargs)

    def part(self, tx: Tracer, name: str) -> Value:
        """A tensor that the matrix is made of."""
        layout, read, only_coalesced = PARTS[name]
        if name == "values" and self.real.layout is torch.sparse_csr:
            layout, read = torch.sparse_csr, values_of
        if layout is not self.real.layout or only_coalesced and not self.coalesced:
            raise GraphBreak(f"Tensor.{name}() of {self.reason}")  # which raises
        if read is None:  # it is coalesced already
            return self
        return tx.call_torch("detach", [self.read(tx, read)], {})  # another object every time

    def read(self, tx: Tracer, function: Any) -> Value:
        """The Value of what a function gives of the matrix: a tensor on the same memory."""
        if function not in self.known:
            assert self.source is not None
            with torch_compat.without_modes(), torch.inference_mode(tx.began_in_inference_mode):
                tensor = function(self.real)
            self.known[function] = tx.wrap(tensor, call_source(self.source, function))
        return self.known[function]

    def parts(self, tx: Tracer) -> list[Value]:
        """All tensors that the matrix is made of, as operators take them."""
        return [self.read(tx, read) for read in places_and_values(self.real)]


METHODS = frozenset({"size", "dim", "numel", "is_coalesced", "sparse_dim", "dense_dim", "is_floating_point",
                     "is_complex", "element_size"})
# Methods that give a part: for which layout, with what, and whether only of coalesced matrices.
PARTS: dict[str, tuple[torch.layout, Any, bool]] = {
    "_indices": (torch.sparse_coo, indices_of, False), "_values": (torch.sparse_coo, entries_of, False),
    "indices": (torch.sparse_coo, indices_of, True), "values": (torch.sparse_coo, entries_of, True),
    "coalesce": (torch.sparse_coo, None, True), "crow_indices": (torch.sparse_csr, rows_of, False),
    "col_indices": (torch.sparse_csr, columns_of, False),
}


def wrap_sparse(tx: Tracer, real: torch.Tensor, kind: type, source: Source) -> SparseValue | None:
    """The Value of a sparse matrix; None for tensors of other layouts, and for those that nothing is known of."""
    if real.layout not in KINDS or kind is not torch.Tensor or real.dim() != 2 or real.requires_grad \
            or tx.compiler.exports or real.is_inference():
        return None
    value = SparseValue(real, source)
    if not value.entries_are_numbers:
        return None
    coalesced = f" and {{0}}.is_coalesced() is {value.coalesced}" if real.layout is torch.sparse_coo else ""
    dims = "{0}.dense_dim() == 0"
    tx.guard(source, "sparse tensor", f"{{0}}.shape == {tuple(real.shape)!r} and {{0}}.dtype is {{k[0]}} and "
             f"{{0}}.device == {{k[1]}} and {dims} and {{0}}.requires_grad is False and "
             f"{{0}}.is_inference() is False{coalesced}", (real.dtype, real.device))
    return value


def call_sparse(tx: Tracer, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function of torch's whose first argument is a sparse matrix."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    matrix = args[0].realize()
    assert isinstance(matrix, SparseValue)
    rows, columns = matrix.real.shape
    layout = matrix.real.layout
    size = [ConstantValue(rows), ConstantValue(columns), ConstantValue(matrix.coalesced)]
    if name == "to_dense" and len(args) == 1 and not kwargs:
        return tx.call_torch(densified(layout), [*matrix.parts(tx), *size], {})
    dense = args[1].realize() if name in PRODUCTS and len(args) == 2 and not kwargs else None
    if not isinstance(dense, TensorValue) or dense.fake.dim() != 2 or dense.fake.dtype is not matrix.real.dtype \
            or dense.fake.device != matrix.real.device or torch_compat.any_autocast_enabled() \
            or tx.effects.changes is not None:
        raise GraphBreak(f"{name} of {matrix.reason}")
    return tx.call_torch(product(layout), [*matrix.parts(tx), dense, *size, ConstantValue(False)], {})
