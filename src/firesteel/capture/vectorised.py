"""``torch.vmap`` in captured code: its function is captured on single slices, and vmap of that graph is called.

    torch.vmap(lambda row: row * w)(x)   ->   body_graph_0 = graph(row, w): return (row * w,)
                                              vectorised(body_graph_0, (x, w), (0, None), (0,), "error")

When the captured program is traced into operators, vmap takes it apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..functional.transforms import vectorised
from .markers import control_flow_operator
from .signals import GraphBreak
from .transform_bodies import TransformBody, add_transform, capture_body, refuse_asked
from .trees import LEAF, Structure, flatten, rebuild
from .values.base import Value
from .values.sequences import TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

_PARAMETERS = 5


@control_flow_operator("vmap")
def call_vmap(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``vmap_impl(func, in_dims, out_dims, randomness, chunk_size, *args)``, what a function behind vmap calls."""
    mapped, given = args[0], args[_PARAMETERS:]
    in_dims, out_dims, randomness, chunk_size = (tx.constant_of(arg) for arg in args[1:_PARAMETERS])
    if randomness not in ("error", "different", "same"):
        raise GraphBreak(f"vmap with randomness={randomness!r}")
    if not isinstance(in_dims, (int, tuple)):
        raise GraphBreak(f"vmap with in_dims={in_dims!r}")
    leaves, structure = flatten(tx, TupleValue(list(given)))
    refuse_asked(tx, "vmap", leaves)
    dims = _dims_of(in_dims, structure, f"vmap with in_dims={in_dims!r}")
    dims = [_checked(leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)]
    batched = [(leaf, dim) for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not batched:
        raise GraphBreak("vmap over no tensor")
    size = _batch_size(tx, batched)
    chunks = _chunks(tx, size, chunk_size)
    sliced = [leaf for leaf, _ in batched]
    slices: list[TensorValue] = []

    def arguments() -> list[Value]:
        parts = iter(slices)
        return tx.to_list(rebuild(tx, structure, iter([leaf if dim is None else next(parts)
                                                       for leaf, dim in zip(leaves, dims, strict=True)])))

    slices = [_slice(tx, leaf, dim) for leaf, dim in batched]
    body = capture_body(tx, "vmap", lambda: tx.call(mapped, arguments(), dict(kwargs)), sliced, slices,
                        runs_once=chunks is None)
    if not body.results:
        raise GraphBreak("vmap of a function that returns no tensor")
    in_dims = (*[dim for _, dim in batched], *([None] * (len(body.operands) - len(batched))))
    stacked = tuple(_out_dims(out_dims, body.structure))
    if chunks is None:
        values, _ = add_transform(tx, "vmap", vectorised, body, in_dims, stacked, randomness)
    else:
        values = _by_chunks(tx, body, batched, chunks, in_dims, stacked, randomness)
    return rebuild(tx, body.structure, iter(values))


def _by_chunks(tx: Tracer, body: TransformBody, batched: list[tuple[TensorValue, int]], chunks: list[int],
               in_dims: Sequence[int | None], out_dims: Sequence[int | None], randomness: str) -> list[Value]:
    """The same graph for some slices after the others, with all results joined in the end."""
    if randomness == "same":
        randomness = "error"  # else the generator would have to be put back between chunks
    if None in out_dims:
        raise GraphBreak("vmap with chunk_size of a result that is not stacked")
    parts: list[list[Value]] = []
    operands = list(body.operands)
    for first, last in itertools.pairwise(chunks):
        for at, (leaf, dim) in enumerate(batched):
            chunk = tx.call_torch("narrow", [leaf, *map(tx.constant, (dim, first, last - first))], {})
            assert isinstance(chunk, TensorValue)
            body.operands[at] = chunk.node
        parts.append(add_transform(tx, "vmap", vectorised, body, in_dims, out_dims, randomness)[0])
    body.operands = operands
    return [tx.call_torch(torch.cat, [TupleValue(list(each)), tx.constant(dim)], {})
            for each, dim in zip(zip(*parts, strict=True), out_dims, strict=True)]


def _slice(tx: Tracer, leaf: TensorValue, dim: int) -> TensorValue:
    part = tx.call_torch("select", [leaf, tx.constant(dim), tx.constant(0)], {})
    assert isinstance(part, TensorValue)
    return part


def _checked(leaf: TensorValue, dim: Any) -> int | None:
    """The dimension, counted from the front; breaks for what torch refuses."""
    rank = leaf.fake.dim()
    if dim is None:
        return None
    if not isinstance(dim, int) or not -rank <= dim < rank:
        raise GraphBreak(f"vmap over dimension {dim!r} of a tensor with {rank} dimensions")
    return dim % rank


def _batch_size(tx: Tracer, batched: list[tuple[TensorValue, int]]) -> Value:
    """How many slices there are, the same number of all tensors."""
    sizes: list[Value] = [tx.symbols.value_of(leaf.fake.shape[dim]) for leaf, dim in batched]
    for size in sizes[1:]:
        if not tx.truth(tx.compare("==", size, sizes[0])):
            raise GraphBreak("vmap over tensors with different numbers of slices")
    if not tx.truth(tx.compare(">", sizes[0], tx.constant(0))):
        raise GraphBreak("vmap over tensors with no slices")
    return sizes[0]


def _chunks(tx: Tracer, size: Value, chunk_size: Any) -> list[int] | None:
    """Where the chunks begin and the last one ends; None without chunks. One chunk is joined as several are."""
    if chunk_size is None:
        return None
    if type(chunk_size) is not int or chunk_size < 1:
        raise GraphBreak(f"vmap with chunk_size={chunk_size!r}")
    count = tx.constant_of(size)
    return [*range(0, count, chunk_size), count]


def _dims_of(dims: Any, structure: Structure, title: str) -> list[Any]:
    """One of ``dims``, a prefix of the structure's tree, for each tensor in it."""
    kind = structure[0]
    if kind == "tensor":
        if isinstance(dims, (tuple, list, dict)):
            raise GraphBreak(f"{title}, which has not the structure of the tensors")
        return [dims]
    if kind in ("constant", "number"):
        if dims is not None:
            raise GraphBreak(f"{title}: there is no slice of what is no tensor")
        return []
    parts = structure[2]
    inner: list[Any]
    if not isinstance(dims, (tuple, list, dict)):
        inner = [dims] * len(parts)
    elif kind == "dict" and type(dims) is dict and set(dims) == set(structure[1]):
        inner = [dims[key] for key in structure[1]]
    elif kind in ("tuple", "list") and type(dims) is structure[1] and len(dims) == len(parts):
        inner = list(dims)
    else:
        raise GraphBreak(f"{title}, which has not the structure of the tensors")
    return [dim for part, each in zip(parts, inner, strict=True) for dim in _dims_of(each, part, title)]


def _out_dims(given: Any, structure: Structure) -> list[int | None]:
    """The dimension along which each result is stacked."""
    if structure == LEAF and isinstance(given, tuple) and len(given) == 1:
        given = given[0]
    return _dims_of(given, structure, f"vmap with out_dims={given!r}")
