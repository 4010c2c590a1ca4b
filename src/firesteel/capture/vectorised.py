"""``torch.vmap`` in strict exports: its function is captured on single slices, and vmap of that graph is called.

    torch.vmap(lambda row: row * w)(x)   ->   body_graph_0 = graph(row, w): return (row * w,)
                                              vectorised(body_graph_0, (x, w), (0, None), (0,))

When the captured program is traced into operators, vmap takes it apart. Elsewhere, and with random numbers, chunks or
keyword arguments, vmap is an ordinary function of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..fake import FakeUnsupported, wants_plain_sizes
from .calls import inline
from .control_flow import add_call, add_graph
from .markers import control_flow_operator
from .regions import capture_region, make_graph, remove
from .signals import GraphBreak
from .torch_calls import run_fake
from .trees import flatten, rebuild
from .values.base import Value
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

_PARAMETERS = 5


def vectorised(graph: Any, operands: Sequence[torch.Tensor], in_dims: Sequence[int | None],
               out_dims: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """The results of a graph for all slices of its operands at once."""
    results: tuple[torch.Tensor, ...] = torch.vmap(graph, tuple(in_dims), tuple(out_dims))(*operands)
    return results


def _fake_results(graph: Any, operands: Sequence[torch.Tensor], in_dims: Sequence[int | None],
                  out_dims: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """What `vectorised` gives for fake tensors."""
    try:
        return vectorised(graph, operands, in_dims, out_dims)
    except (RuntimeError, FakeUnsupported) as error:
        if not wants_plain_sizes(error):
            raise
    # In some versions of torch vmap takes linear layers and products apart in C++ that reads plain sizes; the same in
    # Python takes symbols.
    with torch_compat.python_dispatcher():
        return vectorised(graph, operands, in_dims, out_dims)


@control_flow_operator("vmap")
def call_vmap(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``vmap_impl(func, in_dims, out_dims, randomness, chunk_size, *args)``, what a function behind vmap calls."""
    given = args[_PARAMETERS:]
    if not tx.compiler.exports or kwargs or not given:
        return inline(tx, function, args, kwargs)  # type: ignore[arg-type]
    in_dims, out_dims, randomness, chunk_size = (tx.constant_of(arg) for arg in args[1:_PARAMETERS])
    dims = list(in_dims) if isinstance(in_dims, (tuple, list)) else [in_dims] * len(given)
    if randomness != "error" or chunk_size is not None or len(dims) != len(given) \
            or not all(dim is None or isinstance(dim, int) for dim in dims):
        return inline(tx, function, args, kwargs)  # type: ignore[arg-type]
    leaves: list[TensorValue] = []
    leaf_dims: list[int | None] = []
    slices: list[Value] = []
    stand_ins: list[TensorValue] = []
    for value, dim in zip(given, dims, strict=True):
        if dim is None:
            slices.append(value)
            continue
        found, structure = flatten(tx, value)
        parts = [_slice(tx, leaf, dim) for leaf in found]
        slices.append(rebuild(tx, structure, iter(parts)))
        leaves, leaf_dims, stand_ins = [*leaves, *found], [*leaf_dims, *([dim] * len(found))], [*stand_ins, *parts]
    if not leaves:
        return inline(tx, function, args, kwargs)  # type: ignore[arg-type]
    region = capture_region(tx, "vmap", lambda: tx.call(args[0], list(slices), {}), slices)
    results, structure = flatten(tx, region.result)
    places = [leaf.node for leaf in stand_ins]
    besides = [node for node in dict.fromkeys([*region.free, *(result.node for result in results)])
               if node not in places and node not in region.nodes]
    graph = make_graph(tx, region, [*places, *besides], [result.node for result in results])
    remove(tx, list(dict.fromkeys(places)))
    operands = [leaf.node for leaf in leaves] + besides
    all_dims = (*leaf_dims, *([None] * len(besides)))
    made_dims = _out_dims(out_dims, structure, len(results))
    fakes = run_fake(tx, _fake_results, "vmap", [
        graph, [node.meta["example_value"] for node in operands], all_dims, made_dims], {})
    node = add_graph(tx, "body_graph", graph)
    values = add_call(tx, vectorised, (node, tuple(operands), all_dims, made_dims), list(fakes))
    return rebuild(tx, structure, iter(values))


def _slice(tx: Tracer, leaf: TensorValue, dim: int) -> TensorValue:
    made = tx.call_torch("select", [leaf, tx.constant(dim), tx.constant(0)], {})
    assert isinstance(made, TensorValue)
    return made


def _out_dims(given: Any, structure: Any, count: int) -> tuple[int, ...]:
    """The dimension along which each result is stacked."""
    if isinstance(given, int):
        return (given,) * count
    plain = structure[0] in ("tuple", "list") and all(part == ("tensor",) for part in structure[2])
    if isinstance(given, (tuple, list)) and len(given) == count and all(isinstance(dim, int) for dim in given) \
            and (plain or count == 1):
        return tuple(given)
    raise GraphBreak(f"vmap with out_dims={given!r}", "give one number, or one for each tensor of a flat tuple")

