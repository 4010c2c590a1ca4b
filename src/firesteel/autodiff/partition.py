"""Parting a joint graph into forward and backward: what is kept between them, and what is computed again.

    mul = mul(x, w); sin = sin(mul); cos = cos(mul); grad = mul(tangent, cos)

    forward: mul, sin; keeps x, w               backward: mul, cos, grad from x, w, tangent

Each value that backward could use is kept at the cost of its bytes, or computed again at the price that `recompute`
says, from others that are kept or computed again. The cheapest choice is a minimum cut: source and sink stand for
forward and backward, a vertex pair for each value with an edge of its bytes between them, and an edge from the source
whose capacity is the price of computing it again.

Inputs that eager keeps as well cost nothing. Others could be changed by the user before backward runs, which eager
would not notice, so they are copied if they are kept. What eager keeps for the gradients of some results only, those of
others are not computed from.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import field, replace
from itertools import compress
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..devices import kind_of
from ..fake import FakeMode, FakeTensor
from ..functional.cleanup import separate_results
from ..functional.graph import FreshTensor, FunctionalGraph, Input, Number, Output, SameAs, needed_for
from ..functional.operators import Kind, operator_of, raises_on_data
from ..functional.size_nodes import collect_symbols
from ..records import dataclass
from ..shapes import Const, Symbol
from ..shapes.expression_nodes import ExpressionNodes
from ..shapes.symnode import computed, expr_of
from . import recompute
from .joint_graph import ALL_RESULTS, JointGraph, tangent_bits
from .min_cut import INFINITE, sink_side
from .passed_gradients import PassedGradient

_ATEN = torch.ops.aten
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_EACH = 64
"""Bytes that keeping one more tensor counts for."""


@dataclass(frozen=True)
class Kept:
    """A tensor kept for backward: an input, or the value of a node, copied where others may change it."""

    node: torch.fx.Node
    copied: bool = False
    narrow: torch.dtype | None = None
    """The dtype that it is kept in, if that is not its own."""

    @property
    def nbytes(self) -> int:
        value = self.node.meta["val"]
        return _bytes(self.node) * (self.narrow or value.dtype).itemsize // value.dtype.itemsize


@dataclass
class Partition:
    """Forward and backward.

    ``forward`` takes the inputs and returns first what `results` lists, then the kept tensors that are not inputs, then
    the kept numbers. ``backward`` takes the kept numbers, the kept tensors and the tangents that are not None, and
    returns the gradients that are neither None nor passed on.
    """

    joint: JointGraph
    forward: FunctionalGraph
    backward: FunctionalGraph
    results: list[torch.fx.Node]
    """Fresh results, then new contents of inputs that gradients flow through, then numbers."""
    kept: list[Kept]
    numbers: list[Symbol]
    tangents_at: list[int]
    """For each differentiable result where it is in `results`."""
    saved_bytes: int
    """For the sizes at hand, inputs included."""
    seconds: float = 0.0
    gradients: list[bool | PassedGradient | SameAs] = field(default_factory=list)
    """For each input whether it gets a gradient from ``backward``, which tangent is passed on to it, or which input
    before it has the same gradient."""
    kept_at: list[int] | None = None
    """Which of the tensors that are kept backward takes; None for all."""

    def __str__(self) -> str:
        return f"forward\n{self.forward}\n\nbackward, {self.saved_bytes} bytes kept\n{self.backward}"


def partition(joint: JointGraph, memory_budget: float = 1.0) -> Partition:
    """Part a joint graph. A ``memory_budget`` below 1 makes memory dearer and computing again cheaper, down to 0."""
    started = time.perf_counter()
    choice = _Choice(joint, memory_budget)
    kept = choice.kept()
    if len(choice.tangents) > 1:
        while choice.forbid_kept_for_others(kept):
            choice.again, choice.formulas = set(), {}
            kept = choice.kept()
    parted = build(joint, kept, choice)
    parted.seconds = time.perf_counter() - started
    return parted


def part_again(joint: JointGraph, first: Partition) -> Partition | None:
    """Part the joint graph of another set of tangents such that forward stays as it is; None when that cannot be.

    So it is where this trace states more of numbers from data than the first: forward has run without asking. Its
    backward takes those of the kept tensors that it needs: `kept_at` says which.
    """
    if not _stated(joint) <= _stated(first.joint):
        return None
    choice = _Choice(joint, 1.0)
    numbers: dict[Any, int] = {}
    same = _identities(joint, numbers)
    known = {same[node]: node for node in choice.nodes if node in choice.needed and node in same}
    before = _identities(first.joint, numbers)
    kept_at = [at for at, item in enumerate(first.kept) if before[item.node] in known]
    kept = [replace(first.kept[at], node=known[before[first.kept[at].node]]) for at in kept_at]
    if not all(_same_strides(item, first.kept[at]) for item, at in zip(kept, kept_at, strict=True)):
        return None
    choice.set_kept(kept)
    try:
        parted = build(joint, kept, choice)
        inputs = parted.backward.inputs[len(parted.numbers):]
        used = [bool(entry.node.users) for entry, _ in zip(inputs, kept, strict=False)]
        if not all(used):  # the others may have been changed by the time backward runs
            kept_at, kept = list(compress(kept_at, used)), list(compress(kept, used))
            parted = build(joint, kept, choice)
    except KeyError:
        return None
    parted.kept_at = kept_at
    # a number read from a tensor has got another symbol this time
    as_first = {before[node]: symbol for symbol, node in first.joint.symbols.items() if node in before}
    parted.numbers = [symbol if symbol in first.numbers else as_first.get(same.get(joint.symbols[symbol], -1), symbol)
                      for symbol in parted.numbers]
    return parted if set(parted.numbers) <= set(first.numbers) else None


def _stated(joint: JointGraph) -> set[Any]:
    """What a graph asserts of numbers from data, in words."""
    return {node.args[1] for node in joint.graph.nodes if node.target is torch_compat.assert_number}


def _same_strides(one: Kept, other: Kept) -> bool:
    """Whether what is kept lies in memory alike."""
    strides = [[expr_of(step) for step in item.node.meta["val"].stride()] for item in (one, other)]
    return strides[0] == strides[1]


def _identities(joint: JointGraph, numbers: dict[Any, int]) -> dict[torch.fx.Node, int]:
    """Numbers that tell nodes that need no tangent apart, the same in all joint graphs of a program.

    Forward is traced the same way each time, so its nodes have the same names; what backward adds to them differs.
    """
    identities: dict[torch.fx.Node, int] = {}

    def key(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return identities[value]
        if isinstance(value, (tuple, list)):
            return tuple([key(item) for item in value])
        return type(value), repr(value)

    for node in joint.graph.nodes:
        if node not in joint.backward_nodes:
            identity: Any = node.name
        elif node.op == "call_function" and all(source in identities for source in node.all_input_nodes):
            identity = (str(node.target), key(node.args), key(tuple(sorted(node.kwargs.items()))))
        else:
            continue
        identities[node] = numbers.setdefault(identity, len(numbers))
    return identities


def changed_and_kept(joint: JointGraph) -> dict[torch.fx.Node, int]:
    """What inputs become that the graph changes and eager keeps for its backward, with their indices.

    Backward reads them where they are: what is written there since without autograd's notice counts in eager too.
    """
    return {change.node: change.index for change in joint.mutated
            if joint.eager_saves.get(joint.inputs[change.index].node, 0)}


class _Choice:
    """Which nodes belong to backward, which can be had in both, and what is kept."""

    def __init__(self, joint: JointGraph, memory_budget: float) -> None:
        self.joint = joint
        self.budget = memory_budget
        self.nodes = [node for node in joint.graph.nodes if node.op != "output"]
        self.tangents = {item.tangent for item in joint.differentiable if item.tangent is not None}
        self.all_tangents = sum(1 << number for number, item in enumerate(joint.differentiable)
                                if item.tangent is not None)
        self.backward = self._backward_nodes()
        tangents = [item.tangent for item in joint.differentiable if item.tangent is not None]
        self.wanted = [output.node for output in joint.gradients
                       if isinstance(output, FreshTensor) and PassedGradient.of(output.node, tangents) is None]
        self.needed = self._needed()
        self.formulas: dict[torch.fx.Node, recompute.Formula] = {}
        self.again: set[torch.fx.Node] = set()
        self.changed = {joint.inputs[change.index].node for change in joint.mutated}
        self.leaving = self._leaving()
        # what must not be computed again, and what must not be used without a copy, see `forbid_kept_for_others`
        self.eager_keeps = changed_and_kept(joint)
        self.only_kept: set[torch.fx.Node] = set(self.eager_keeps)
        self.only_copied: set[torch.fx.Node] = set()

    def _backward_nodes(self) -> set[torch.fx.Node]:
        """What needs a tangent, or was recorded in backward and must not be done elsewhere."""
        backward: set[torch.fx.Node] = set()
        for node in self.nodes:
            if node.op == "placeholder":
                if node in self.tangents:
                    backward.add(node)
            elif any(source in backward for source in node.all_input_nodes) or (
                    node in self.joint.backward_nodes and recompute.price(node) is None):
                backward.add(node)
        return backward

    def _needed(self) -> set[torch.fx.Node]:
        """All that the gradients are computed from, and what may raise: eager calls it without needing its result."""
        return needed_for([*self.wanted,
                           *(node for node in self.backward if _has_effect(node) or raises_on_data(node))])

    def _leaving(self) -> dict[torch.fx.Node, int]:
        """Nodes in memory that the user gets, with the results whose gradients eager keeps that memory for too."""
        leaving: dict[torch.fx.Node, int] = {}
        for output in self.joint.outputs:
            if isinstance(output, FreshTensor):
                leaving[base_of(output.node)] = self.joint.eager_saves.get(output.node, 0)
        return leaving

    def must_copy(self, node: torch.fx.Node) -> bool:
        """Whether the memory of a value can change before backward without eager noticing."""
        base = base_of(node)
        return base in self.only_copied or base in self.changed or not self._safe_for(base)

    def _safe_for(self, base: torch.fx.Node) -> int:
        """The results, as bits, for whose gradients eager notices a change of a value's memory; all if nobody can
        change it."""
        if base.op == "placeholder":
            return self.joint.eager_saves.get(base, 0)
        return self.leaving.get(base, ALL_RESULTS)

    def forbid_kept_for_others(self, kept: list[Kept]) -> bool:
        """Forbid what computes gradients from memory that eager does not keep for these; whether there is any such."""
        behind = tangent_bits(self.joint)
        needed = dict.fromkeys(self.nodes, 0)
        wanted = set(self.wanted)
        for node in self.needed:
            if node in wanted or node in self.backward and (_has_effect(node) or raises_on_data(node)):
                needed[node] = behind[node] or ALL_RESULTS
        directly = dict.fromkeys(self.nodes, 0)
        for node in reversed(self.nodes):
            if needed[node] and (node in self.backward or node in self.again):
                formula = self.formulas.get(node)
                for source in node.all_input_nodes if formula is None else formula.sources:
                    needed[source] |= needed[node] & (behind[source] or ALL_RESULTS)
                    if node in self.backward:
                        directly[source] |= needed[node]
        safe = {item.node: ALL_RESULTS if item.copied or item.narrow is not None
                else self._safe_for(base_of(item.node)) for item in kept}
        unsafe = {base_of(node) for node, results in safe.items()
                  if directly[node] & ~results & self.all_tangents and base_of(node) not in self.only_copied}
        again = set()
        for node in self.nodes:
            if node in self.again:
                formula = self.formulas.get(node)
                results = ALL_RESULTS
                for source in node.all_input_nodes if formula is None else formula.sources:
                    results &= safe.get(source, ALL_RESULTS)
                safe[node] = results
                if needed[node] & ~results & self.all_tangents and "recompute" not in node.meta:
                    again.add(node)
        again -= self.only_kept
        self.only_copied |= unsafe
        self.only_kept |= again
        return bool(unsafe or again)

    def kept(self) -> list[Kept]:
        """What a minimum cut keeps."""
        numbers: dict[torch.fx.Node, int] = {}
        edges: list[tuple[int, int, int]] = []
        source, sink, count = 0, 1, 2
        for node in self.nodes:
            if node not in self.backward and node in self.needed and _is_tensor(node):
                numbers[node] = count
                count += 2
        for node, inward in numbers.items():
            outward = inward + 1
            price = recompute.price(node)
            edges.append((inward, outward, self._keep_cost(node)))
            formula = recompute.formula(node)
            sources: Iterable[torch.fx.Node] = node.all_input_nodes
            if formula is not None and all(item in numbers for item in formula.sources):
                self.formulas[node] = formula
                sources, price = formula.sources, recompute.FORMULA
            if price is None or node in self.only_kept \
                    or ("recompute" in node.meta and not self._stays_in_region(node)):
                edges.append((source, inward, INFINITE))
            else:
                edges += [(numbers[item] + 1, inward, INFINITE) for item in sources if item in numbers]
                cost = int(price * self.budget * _bytes(node))
                if price >= recompute.REDUCTION and self.budget >= 0.5:
                    edges.append((source, inward, INFINITE))
                elif cost:
                    edges.append((source, inward, cost))
            if any(user in self.backward and user in self.needed for user in node.users):
                edges.append((outward, sink, INFINITE))
        for node in self.wanted:
            if node in numbers:
                edges.append((numbers[node] + 1, sink, INFINITE))
        side = sink_side(count, edges, source, sink)
        kept = []
        for node, inward in numbers.items():
            if side[inward]:
                self.again.add(node)
            elif side[inward + 1]:
                narrow = None if node in self.eager_keeps else recompute.narrow(node)
                kept.append(Kept(node, narrow is None and (self.must_copy(node) or _is_view(node)), narrow))
        return kept

    def set_kept(self, kept: list[Kept]) -> None:
        """Everything else that is needed is computed again."""
        given = {item.node for item in kept}
        for node in self.nodes:
            if node not in self.backward and node in self.needed and _is_tensor(node) and node not in given:
                self.again.add(node)
                formula = recompute.formula(node)
                if formula is not None:
                    self.formulas[node] = formula

    def _stays_in_region(self, node: torch.fx.Node) -> bool:
        """Whether a value of a checkpointed region is used there only. A view of an input belongs to no region."""
        region = node.meta["recompute"]
        if _is_view(node) and base_of(node).op == "placeholder":
            return True
        return all(user in self.joint.backward_nodes or user.meta.get("recompute") == region for user in node.users)

    def _keep_cost(self, node: torch.fx.Node) -> int:
        value = node.meta["val"]
        if not isinstance(value, FakeTensor):
            return INFINITE  # several results: kept one by one
        if node.op == "get_attr":
            return INFINITE
        if node.op == "placeholder" and not self.must_copy(node):
            return 0
        if "recompute" in node.meta and recompute.price(node) is not None and self._stays_in_region(node):
            return INFINITE >> 4
        narrow = recompute.narrow(node)
        if narrow is not None:
            return Kept(node, False, narrow).nbytes + int(_bytes(node) * recompute.COPY) + _EACH
        cost = _bytes(node) + _EACH
        if _is_view(node) or self.must_copy(node):
            return 2 * cost
        return cost + cost // 8 if kind_of(value).runs_at_once and self._is_copied_to_be_kept(node) else cost

    def _is_copied_to_be_kept(self, node: torch.fx.Node) -> bool:
        """Whether a value is a copy that forward alone would not make: only kernels read it, which need none."""
        return recompute.price(node) == recompute.COPY and not any(
            user not in self.backward and recompute.price(user) is None for user in node.users)


def build(joint: JointGraph, kept: list[Kept], choice: _Choice) -> Partition:
    """The two graphs, for what was chosen to be kept."""
    backward = _Backward(joint, kept, choice)
    backward.emit_all()
    forward, results = _forward(joint, kept, backward.numbers)
    saved = sum(item.nbytes for item in kept)
    memories = dict.fromkeys(output.memory for output in joint.outputs if isinstance(output, FreshTensor))
    places = {memory: at for at, memory in enumerate(memories)}
    count = len(joint.differentiable) - sum(item.memory is None for item in joint.differentiable)
    tangents_at = [len(places) + at - count if item.memory is None else places[item.memory]
                   for at, item in enumerate(joint.differentiable)]
    return Partition(joint, forward, backward.finish(), results, kept, backward.numbers, tangents_at, saved,
                     gradients=backward.gradients)


def _forward(joint: JointGraph, kept: list[Kept],
             numbers: list[Symbol]) -> tuple[FunctionalGraph, list[torch.fx.Node]]:
    with_history = {item.mutation: item.node for item in joint.differentiable if item.mutation is not None}
    outputs: list[Output] = []
    memories: set[int] = set()
    for output in joint.outputs:
        if isinstance(output, FreshTensor) and output.memory not in memories:
            memories.add(output.memory)
            outputs.append(FreshTensor(output.node, None, output.memory))
    last = max(memories, default=-1)
    outputs += [FreshTensor(node, None, last + 1 + at) for at, node in enumerate(with_history.values())]
    outputs += [Number(output.node) for output in joint.outputs if isinstance(output, Number)]
    results = [output.node for output in outputs if isinstance(output, (FreshTensor, Number))]
    mutated = [change for change in joint.mutated if change.index not in with_history]
    values = [item for item in kept if item.node.op != "placeholder" or item.copied]
    names = [joint.symbols[symbol] for symbol in numbers]
    roots = [*results, *(item.node for item in values), *names, *(change.node for change in mutated)]
    graph, new = _copy(joint, roots)

    def renamed(output: Output) -> Output:
        if isinstance(output, FreshTensor):
            return FreshTensor(new[output.node], None, output.memory)
        assert isinstance(output, Number)
        return Number(new[output.node])

    inputs = [Input(entry.name, new[entry.node], entry.example) for entry in joint.inputs]
    constants = {str(node.target): joint.constants[str(node.target)] for node in graph.nodes if node.op == "get_attr"}
    forward = FunctionalGraph(graph, inputs, [renamed(output) for output in outputs],
                              [replace(change, node=new[change.node]) for change in mutated], constants)
    graph.output(tuple([*(output.node for output in forward.outputs), *(change.node for change in forward.mutated)]))  # type: ignore[union-attr]
    separate_results(forward)
    owners: dict[torch.fx.Node, int] = {}
    for node, output in zip(results, forward.outputs, strict=True):
        if isinstance(output, FreshTensor):
            owners.setdefault(base_of(node), output.memory)
    for item in values:
        node = new[item.node]
        memory = last + 1000 + len(forward.outputs)
        if item.copied or item.narrow is not None:
            with graph.inserting_before(graph.output_node()):
                if item.narrow is None:
                    copy = graph.call_function(_ATEN.clone.default, (node,))
                else:
                    copy = graph.call_function(_ATEN._to_copy.default, (node,), {"dtype": item.narrow})
            copy.meta.update(node.meta)
            copy.meta["val"] = kept_value(item)
            node = copy
        else:
            memory = owners.get(base_of(item.node), memory)  # a change of the result is to be noticed
        forward.outputs.append(FreshTensor(node, None, memory))
    forward.outputs += [Number(new[node]) for node in names]
    graph.output_node().args = (tuple(
        [*(output.node for output in forward.outputs if isinstance(output, (FreshTensor, Number))),
         *(change.node for change in forward.mutated)]),)
    return forward, results


def _copy(joint: JointGraph, roots: list[torch.fx.Node]) -> tuple[torch.fx.Graph, dict[torch.fx.Node, torch.fx.Node]]:
    """A graph of all that the roots need, and of all forward nodes with effects or that may raise."""
    needed = needed_for([
        *(entry.node for entry in joint.inputs), *roots,
        *(node for node in joint.graph.nodes
          if node not in joint.backward_nodes and (_has_effect(node) or raises_on_data(node)))])
    graph = torch.fx.Graph()
    new: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in joint.graph.nodes:
        if node in needed:
            new[node] = graph.node_copy(node, new.__getitem__)
            new[node].meta = dict(node.meta)
    return graph, new


class _Backward:
    """The backward graph under construction: nodes are added when something needs them."""

    def __init__(self, joint: JointGraph, kept: list[Kept], choice: _Choice) -> None:
        self.joint = joint
        self.kept = kept
        self.choice = choice
        self.graph = torch.fx.Graph()
        self.new: dict[torch.fx.Node, Any] = {}
        self.inputs: list[Input] = []
        self.constants: dict[str, torch.Tensor] = {}
        self.mode = FakeMode()
        self.numbers: list[Symbol] = []
        self.computed = _Computed(self)
        self.narrowed: dict[torch.fx.Node, torch.fx.Node] = {}
        """Inputs that are kept in a smaller dtype, by the nodes that are made of them when they are needed."""
        tangents = [item.tangent for item in joint.differentiable if item.tangent is not None]
        self.gradients: list[bool | PassedGradient | SameAs] = []
        places: dict[tuple[int, torch.fx.Node], int] = {}
        for at, output in enumerate(joint.gradients):
            how: bool | PassedGradient | SameAs = False
            if isinstance(output, FreshTensor):
                first = places.setdefault((output.memory, output.node), at)
                how = SameAs(first) if first != at else PassedGradient.of(output.node, tangents) or True
            self.gradients.append(how)

    def emit_all(self) -> None:
        choice, joint = self.choice, self.joint
        symbols: set[Symbol] = set()
        for node in choice.nodes:
            if node in choice.needed:
                collect_symbols(node.meta.get("val"), symbols)
        # A number that data of backward decides, such as how many elements of a tangent a mask takes, is found there.
        # Sizes of inputs are looked up last of all, but forward has them.
        self.numbers = [symbol for symbol, node in joint.symbols.items() if symbol in symbols
                        and not any(source in joint.backward_nodes for source in node.all_input_nodes)]
        for symbol in self.numbers:
            self.add_input(str(symbol), joint.symbols[symbol])
        for item in self.kept:
            placeholder = self.add_input(f"kept_{item.node.name}", item.node, kept_value(item))
            if item.narrow is not None:
                self.narrowed[item.node] = placeholder
                del self.new[item.node]
        for result in joint.differentiable:
            if result.tangent is not None:
                self.add_input(result.tangent.name, result.tangent)
        for node in choice.nodes:
            if node in choice.backward and node in choice.needed:
                self.emit(node)

    def add_input(self, name: str, node: torch.fx.Node, value: Any = None) -> torch.fx.Node:
        placeholder = self.graph.placeholder(name)
        placeholder.meta.update(node.meta)
        if value is not None:
            placeholder.meta["val"] = value
        self.new[node] = placeholder
        self.inputs.append(Input(placeholder.name, placeholder, placeholder.meta["val"]))
        return placeholder

    def emit(self, wanted: torch.fx.Node) -> torch.fx.Node:
        """The node's counterpart, made now with all that it needs."""
        open_nodes = [wanted]
        while open_nodes:
            node = open_nodes[-1]
            if node in self.new:
                open_nodes.pop()
                continue
            number = self.number(node)
            if number is not None:
                self.new[node] = number
                continue
            if node in self.narrowed:
                wide = self.graph.call_function(
                    _ATEN._to_copy.default, (self.narrowed[node],), {"dtype": node.meta["val"].dtype})
                wide.meta["val"] = node.meta["val"]
                self.new[node] = wide
                continue
            formula = self.choice.formulas.get(node) if node in self.choice.again else None
            sources = node.all_input_nodes if formula is None else formula.sources
            missing = [source for source in sources if source not in self.new]
            if missing:
                open_nodes.extend(reversed(missing))
            elif formula is not None:
                self.new[node] = formula.emit(self.call, self.new)
            else:
                self.copy(node)
        copy: torch.fx.Node = self.new[wanted]
        return copy

    def number(self, node: torch.fx.Node) -> Any:
        """For a number that is a symbol: the input that has it. Itself for one that has turned out to be constant."""
        value = node.meta.get("val")
        if isinstance(value, _SYMBOLIC):
            expr = expr_of(value)
            if isinstance(expr, Const):
                return expr.value
            if isinstance(expr, Symbol) and expr in self.joint.symbols:
                symbol_node = self.joint.symbols[expr]
                return self.new.get(symbol_node) if symbol_node is node else self.emit(symbol_node)
            if (node.op == "placeholder" or str(node.target).startswith("aten.sym_")) and \
                    expr.free_symbols <= self.joint.symbols.keys():
                # An argument, or a size of one, that other numbers of the graph are known to give.
                return self.computed.expression(expr)
        return None

    def copy(self, node: torch.fx.Node) -> None:
        if node.op == "placeholder" or (node not in self.choice.backward and _is_tensor(node)
                                        and node not in self.choice.again):
            raise KeyError(node.name)
        if node.op == "get_attr":
            self.constants[str(node.target)] = self.joint.constants[str(node.target)]
        copied = self.new[node] = self.graph.node_copy(node, self.new.__getitem__)
        copied.meta = dict(node.meta)

    def call(self, operator: Any, *args: Any) -> torch.fx.Node:
        """A call of an operator that is not in the joint graph."""
        call_node = self.graph.call_function(operator, args)
        values = torch.fx.map_arg(args, lambda node: node.meta["val"])
        call_node.meta["val"] = self.mode.run(operator, values)
        return call_node

    def finish(self) -> FunctionalGraph:
        outputs: list[Output] = []
        kept = {self.new[item.node] for item in self.kept if item.node in self.new}
        for output, how in zip(self.joint.gradients, self.gradients, strict=True):
            if not isinstance(output, FreshTensor) or isinstance(how, (PassedGradient, SameAs)):
                continue
            node = self.emit(output.node)
            if base_of(node) in kept or base_of(node).op == "get_attr":
                with_meta = dict(node.meta)
                node = self.graph.call_function(_ATEN.clone.default, (node,))
                node.meta = with_meta
            outputs.append(FreshTensor(node, None, len(outputs)))
        self.graph.output(tuple([output.node for output in outputs if isinstance(output, FreshTensor)]))
        return FunctionalGraph(self.graph, self.inputs, outputs, [], self.constants)


class _Computed(ExpressionNodes):
    """Numbers that backward computes of those that it is given."""

    def __init__(self, backward: _Backward) -> None:
        super().__init__()
        self.backward = backward

    def symbol_node(self, symbol: Symbol) -> Any:
        return self.backward.emit(self.backward.joint.symbols[symbol])

    def call_node(self, function: Any, args: list[Any]) -> Any:
        node = self.backward.graph.call_function(function, tuple(args))
        values = [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in args]
        node.meta["val"] = computed(function, values)
        return node


def kept_value(item: Kept) -> FakeTensor:
    """The fake of what is kept."""
    value: FakeTensor = item.node.meta["val"]
    if not item.copied and item.narrow is None:
        return value
    # of expanded inputs, with other strides; called for itself, it would make torch import all of torch.distributed
    copy: FakeTensor = FakeTensor.run_operator(None, _ATEN._to_copy.default, (value,), {"dtype": item.narrow})
    return copy


def base_of(node: torch.fx.Node) -> torch.fx.Node:
    """The node whose memory a value lies in."""
    while _is_view(node):
        source = node.args[0]
        assert isinstance(source, torch.fx.Node)
        node = source
    return node


def _is_view(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and isinstance(node.target, torch_compat.OpOverload) \
        and operator_of(node.target).kind is Kind.VIEW


def _has_effect(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch_compat.OpOverload):
        return bool(getattr(node.target, "has_effect", False))  # of a control flow operator
    operator = operator_of(node.target)
    return operator.random or operator.has_effect


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta["val"], (torch.Tensor, tuple, list))


def _bytes(node: torch.fx.Node) -> int:
    """The size of a value, for the sizes at hand where they are symbols."""
    value = node.meta["val"]
    if isinstance(value, (tuple, list)):
        return sum(_tensor_bytes(item) for item in value if isinstance(item, torch.Tensor))
    return _tensor_bytes(value)


def _tensor_bytes(value: torch.Tensor) -> int:
    elements = 1
    for size in value.shape:
        if isinstance(size, torch.SymInt):
            hint = size.node.hint
            size = 1024 if hint is None else int(hint)
        elements *= size
    return elements * value.dtype.itemsize


__all__ = ["Kept", "Partition", "base_of", "part_again", "partition"]
