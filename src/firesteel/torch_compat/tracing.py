"""What tracing to ATen needs to know of operators: functional forms of those that write, symbolic functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx

from .dispatch import OpOverload


def symbolic_functions() -> dict[str, Callable[..., Any]]:
    """Functions of one symbolic number, by the names of ``math``.

    >>> symbolic_functions()["sqrt"](4.0)
    2.0
    """
    return {name[5:]: getattr(torch, name) for name in dir(torch) if name.startswith("_sym_")}


def overloads_of(namespace: str, name: str) -> Iterator[OpOverload]:
    """All operators of a name.

    >>> [str(op) for op in overloads_of("aten", "gelu")]
    ['aten.gelu.default', 'aten.gelu.out']
    """
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if packet is None or not hasattr(packet, "overloads"):
        return
    for overload in packet.overloads():
        yield getattr(packet, overload)


def decomposition_of(op: OpOverload) -> Callable[..., Any] | None:
    """torch's own way to write an operator with simpler ones, if it has one."""
    from torch._decomp import decomposition_table

    return decomposition_table.get(op)


def run_composition(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the composition of an operator as eager does; torch's Python versions differ in what they copy."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key):
        return op._op_dk(key, *args, **kwargs)
    return op.decompose(*args, **kwargs)


def add_call(
    graph: torch.fx.Graph, name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.fx.Node:
    """``graph.create_node("call_function", ...)`` without its search for symbolic numbers, a third of the cost."""
    names: Any = graph._graph_namespace
    unique = names.create_name(name, None)
    node = torch.fx.Node(graph, unique, "call_function", target, args, kwargs)
    names.associate_name_with_obj(unique, node)
    graph._insert(node)
    graph._find_nodes_lookup_table.insert(node)
    graph._len += 1
    return node


#: Operators that are only called for their effect.
SIDE_EFFECTS: frozenset[str] = frozenset({"_assert_async", "_assert_scalar", "_assert_tensor_metadata"})


def check_when_run(condition: torch.Tensor, message: str) -> None:
    """Raise RuntimeError when a tensor of one bool is false; in a graph that is an operator, which raises when it runs.

    >>> check_when_run(torch.tensor(False), "no such place")
    Traceback (most recent call last):
        ...
    RuntimeError: no such place
    """
    torch._assert_async(condition, message)


def core_decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """How torch writes operators in those that it calls the core."""
    from torch._decomp import _core_aten_decompositions_post_autograd

    return _core_aten_decompositions_post_autograd()  # type: ignore[return-value]


def composite_operators() -> Iterator[OpOverload]:
    """The ATen operators that are compositions of others in eager as well."""
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"):
        space, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        if space == "aten":
            yield getattr(getattr(torch.ops.aten, base), overload or "default")
