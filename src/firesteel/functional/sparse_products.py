"""Operators on sparse matrices that graphs have the parts of: products with dense ones, and the dense matrix itself.

Graphs know dense tensors only, so a sparse matrix is what it is made of, and the operator puts it together again, which
copies nothing. torch's own kernels do the rest: results are eager's.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

from .. import torch_compat

KINDS = {torch.sparse_coo: "coo", torch.sparse_csr: "csr"}
"""Layouts of matrices, and what their operators are called after."""


@functools.cache
def product(layout: torch.layout) -> Any:
    """The operator ``(places, places, values, dense, rows, columns, coalesced, transposed)`` for a layout; matrices in
    coordinates have both kinds of places in the first tensor, and give it twice."""
    name = f"sparse_{KINDS[layout]}_mm"
    _introduce(layout)
    library = torch.library.Library("firesteel", "FRAGMENT")
    library.define(f"{name}(Tensor first, Tensor second, Tensor values, Tensor dense, SymInt rows, SymInt columns, "
                   "bool coalesced, bool transposed) -> Tensor")

    def run(first: torch.Tensor, second: torch.Tensor, values: torch.Tensor, dense: torch.Tensor, rows: int,
            columns: int, coalesced: bool, transposed: bool) -> torch.Tensor:
        matrix = put_together(layout, first, second, values, (rows, columns), coalesced)
        return torch.mm(matrix.t() if transposed else matrix, dense)

    def meta(first: torch.Tensor, second: torch.Tensor, values: torch.Tensor, dense: torch.Tensor, rows: int,
             columns: int, coalesced: bool, transposed: bool) -> torch.Tensor:
        if dense.size(0) != (rows if transposed else columns):
            raise RuntimeError("sizes of matrices do not fit")
        return dense.new_empty((columns if transposed else rows, dense.size(1)))

    def setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.save_for_backward(*inputs[:3])
        ctx.numbers = inputs[4:]

    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        rows, columns, coalesced, transposed = ctx.numbers
        of_dense = None
        if ctx.needs_input_grad[3]:
            of_dense = overload(*ctx.saved_tensors, gradient, rows, columns, coalesced, not transposed)
        return None, None, None, of_dense, None, None, None, None

    library.impl(name, run, "CompositeExplicitAutograd")
    library.impl(name, meta, "Meta")
    torch.library.register_autograd(f"firesteel::{name}", backward, setup_context=setup, lib=library)
    _libraries.append(library)
    overload = getattr(torch.ops.firesteel, name).default
    return overload


@functools.cache
def densified(layout: torch.layout) -> Any:
    """The operator ``(places, places, values, rows, columns, coalesced)`` for ``to_dense()`` of a matrix."""
    name = f"sparse_{KINDS[layout]}_to_dense"
    _introduce(layout)
    library = torch.library.Library("firesteel", "FRAGMENT")
    library.define(f"{name}(Tensor first, Tensor second, Tensor values, SymInt rows, SymInt columns, bool coalesced) "
                   "-> Tensor")

    def run(first: torch.Tensor, second: torch.Tensor, values: torch.Tensor, rows: int, columns: int,
            coalesced: bool) -> torch.Tensor:
        return put_together(layout, first, second, values, (rows, columns), coalesced).to_dense()

    def meta(first: torch.Tensor, second: torch.Tensor, values: torch.Tensor, rows: int, columns: int,
             coalesced: bool) -> torch.Tensor:
        return values.new_empty((rows, columns))

    library.impl(name, run, "CompositeExplicitAutograd")
    library.impl(name, meta, "Meta")
    _libraries.append(library)
    return getattr(torch.ops.firesteel, name).default


def put_together(layout: torch.layout, first: torch.Tensor, second: torch.Tensor, values: torch.Tensor,
                 size: tuple[int, int], coalesced: bool) -> torch.Tensor:
    """A sparse matrix of its parts, which come from one that was valid."""
    if layout is torch.sparse_csr:
        return torch.sparse_csr_tensor(first, second, values, size, check_invariants=False)
    return torch.sparse_coo_tensor(first, values, size, check_invariants=False, is_coalesced=coalesced)


@functools.cache
def _introduce(layout: torch.layout) -> None:
    """Have torch say that a layout is young, which it does once in a process: whoever made a matrix has heard it. Not
    around each call, since the filters of warnings belong to all threads."""
    with torch_compat.without_modes(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place, value = torch.zeros(1, dtype=torch.int64, device="cpu"), torch.zeros(1, device="cpu")
        first = torch.tensor([0, 1], device="cpu") if layout is torch.sparse_csr else place.expand(2, 1)
        put_together(layout, first, place, value, (1, 1), True)


_libraries: list[torch.library.Library] = []
"""An operator exists as long as its library."""
