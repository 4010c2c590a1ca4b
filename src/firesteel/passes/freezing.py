"""What is computed from frozen inputs alone is computed once, and again when one of them has changed.

    input x, weight
    cast: bf16[8, 8] = aten._to_copy.default(weight, dtype=torch.bfloat16)
    t: bf16[8, 8]/[1, 8] = aten.t.default(cast)
    mm: bf16[4, 8] = aten.mm.default(x, t)

becomes, with ``weight`` frozen,

    input x, weight, kept_0
    t: bf16[8, 8]/[1, 8] = aten.t.default(kept_0)
    mm: bf16[4, 8] = aten.mm.default(x, t)

and a `Kept` that computes ``kept_0`` from ``weight``. Views and what is much larger than the inputs it is made from
stay in the graph. Kept tensors take memory beside the parameters that they are made from.

A change is noticed by another tensor object, another address or a higher version counter, and that of a short buffer in
host memory by its bytes: batch norm in training changes its statistics and counts nothing. Some changes show in none of
these: in-place operations on ``parameter.data``, optimizers with ``fused=True``, statistics on a GPU, writes through
NumPy arrays or by other processes. Therefore inputs are frozen only on request.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..devices import kind_of
from ..functional.graph import FunctionalGraph, Input, needed_for
from ..functional.operators import Kind, operator_of
from .rewriting import Rewriter, size_hint, substituted
from .settings import Settings

MOST_GROWTH = 4
"""A result may have so many times the elements of the frozen inputs it is made from."""
MOST_BYTES = 1 << 15
"""Buffers up to this size are compared with what they were."""


class Kept:
    """Tensors made from frozen inputs, as long as those are unchanged."""

    def __init__(self, functional: FunctionalGraph, sources: list[torch.fx.Node], steps: list[torch.fx.Node],
                 results: list[torch.fx.Node]) -> None:
        positions = {entry.node: index for index, entry in enumerate(functional.inputs)}
        self.steps = steps
        self.sources = sources
        self.results = results
        self.constants = dict(functional.constants)
        self.positions = [positions[node] for node in sources]
        self.seen: tuple[Any, ...] | None = None
        self.contents: list[tuple[int, int, bytes]] = []
        self.holds: list[torch.Tensor] = []
        self.kept: tuple[Any, ...] = ()
        self.times_computed = 0

    def around(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the graph's own inputs, for one that also takes what is kept."""
        pick = operator.itemgetter(*self.positions, self.positions[0])  # a tuple also when it is only one

        def with_kept(*inputs: Any) -> Any:
            frozen = pick(inputs)
            now = (*map(id, frozen), *map(torch.Tensor.data_ptr, frozen), *map(_version, frozen))
            if now != self.seen or not self.has_same_contents():
                self.compute(frozen[:-1], now)
            return run(*inputs, *self.kept)

        return with_kept

    def has_same_contents(self) -> bool:
        """Whether short buffers still have the bytes that everything was computed from."""
        return all([ctypes.string_at(address, size) == content for address, size, content in self.contents])

    def compute(self, frozen: Sequence[torch.Tensor], now: tuple[Any, ...]) -> None:
        """Compute everything anew."""
        self.seen = None
        self.contents = [(*place, ctypes.string_at(*place)) for place in map(_compared_place, frozen) if place]
        values: dict[torch.fx.Node, Any] = dict(zip(self.sources, frozen, strict=True))
        with torch.no_grad(), torch_compat.autocast_disabled():
            for node in self.steps:
                if node.op == "get_attr":
                    values[node] = self.constants[str(node.target)]
                    continue
                args, kwargs = substituted((node.args, dict(node.kwargs)), values.__getitem__)
                target: Any = node.target
                values[node] = target(*args, **kwargs)
            self.kept = tuple([_laid_out(values[node], node.meta["val"]) for node in self.results])
        # The tensors are held, and their memory with them, so that nothing else can come by the same addresses.
        self.holds = [*frozen, *(tensor.detach() for tensor in frozen)]
        self.seen = now
        self.times_computed += 1


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else torch_compat.version_of(tensor)


def _compared_place(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Address and size of the bytes of a short buffer in host memory."""
    size = tensor.numel() * tensor.element_size()
    if isinstance(tensor, torch.nn.Parameter) or not kind_of(tensor).is_host or not 0 < size <= MOST_BYTES \
            or not tensor.is_contiguous():
        return None
    return tensor.data_ptr(), size


def _laid_out(value: Any, fake: torch.Tensor) -> Any:
    """A kept tensor with the strides that the graph was told; packed ones have none."""
    if value.layout is not torch.strided or value.stride() == tuple(fake.stride()):
        return value
    return torch.empty_strided(fake.shape, fake.stride(), dtype=value.dtype, device=value.device).copy_(value)


def freeze(functional: FunctionalGraph, settings: Settings) -> tuple[FunctionalGraph, Kept | None]:
    """Take out what depends on frozen inputs only; None where there is nothing."""
    changed = {functional.inputs[change.index].node for change in functional.mutated}
    frozen = [node for node in settings.frozen if node not in changed and _is_plain(node.meta["val"])]
    steps = _computable(functional, set(frozen))
    results = [node for node in functional.graph.nodes if node in steps and _is_kept(node, steps)]
    if not results:
        return functional, None
    needed = needed_for(results)
    sources = [entry.node for entry in functional.inputs if entry.node in needed]
    kept = Kept(functional, sources, [node for node in functional.graph.nodes if node in needed and node in steps],
                results)
    rewriter = Rewriter(functional)
    last = functional.inputs[-1].node
    for number, node in enumerate(results):
        with functional.graph.inserting_after(last):
            last = functional.graph.placeholder(f"kept_{number}")
        last.meta["val"] = node.meta["val"]
        functional.inputs.append(Input(last.name, last, node.meta["val"]))
        rewriter.replace(node, last)
    # The nodes leave this graph but live on in `kept`, so their arguments must survive them.
    arguments = {node: (node.args, node.kwargs) for node in kept.steps}
    frozen_graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in sources:
        copies[node] = frozen_graph.placeholder(node.name)
    for node in kept.steps:
        copies[node] = frozen_graph.create_node(
            node.op, node.target, *torch.fx.map_arg(arguments[node], copies.__getitem__))
        copies[node].meta = dict(node.meta)
    kept.sources, kept.steps = [copies[node] for node in sources], [copies[node] for node in kept.steps]
    kept.results = [copies[node] for node in results]
    return rewriter.finish(), kept


def _computable(functional: FunctionalGraph, frozen: set[torch.fx.Node]) -> dict[torch.fx.Node, int]:
    """Nodes that need nothing but frozen inputs and constants, with the number of frozen elements behind each."""
    computable: dict[torch.fx.Node, int] = {}
    for node in functional.graph.nodes:
        if node.op == "get_attr":
            computable[node] = 0
        elif node.op == "call_function" and _is_repeatable(node):
            sources = node.all_input_nodes
            if all(source in computable or source in frozen for source in sources):
                computable[node] = sum(computable[source] if source in computable else size_hint(source.meta["val"])
                                       for source in sources)
    return computable


def _is_repeatable(node: torch.fx.Node) -> bool:
    value = node.meta["val"]
    if not isinstance(value, (torch.Tensor, tuple, list)):
        return False
    if isinstance(value, torch.Tensor) and not _is_plain(value):
        return False
    if not isinstance(node.target, torch_compat.OpOverload):
        return node.target is operator.getitem
    known = operator_of(node.target)
    return not (known.random or known.has_effect or known.kind is Kind.WRITES)


def _is_plain(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and all(isinstance(n, int) for n in (*value.shape, *value.stride()))


def _is_kept(node: torch.fx.Node, steps: dict[torch.fx.Node, int]) -> bool:
    """Whether a node's value is worth keeping and wanted outside."""
    value = node.meta["val"]
    if node.op == "get_attr" or not isinstance(value, torch.Tensor) or _is_view(node):
        return False
    if not 0 < value.numel() <= MOST_GROWTH * steps[node]:
        return False
    return any(user not in steps or _leads_outside(user, steps) for user in node.users)


def _is_view(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch_compat.OpOverload) and operator_of(node.target).kind is Kind.VIEW


def _leads_outside(node: torch.fx.Node, steps: dict[torch.fx.Node, int]) -> bool:
    """Whether a view, which is made where it is used, is used outside."""
    return _is_view(node) and any(user not in steps or _leads_outside(user, steps) for user in node.users)
