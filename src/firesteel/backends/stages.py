"""Graphs with a result that another result is computed from, taken apart behind it.

    def f(x):                               first:  hidden = x.sin()
        hidden = x.sin()                    second: loss = hidden.exp().sum()
        loss = hidden.exp().sum()
        return hidden, loss

In eager, ``torch.autograd.grad(loss, hidden)`` has a value, and hooks on ``hidden`` see the gradient that comes from
``loss``. One function that computed both would have them side by side, with nothing in between. Each part is compiled
as a graph of its own, in the order of the program. The cut comes behind the last change of ``hidden`` in place; where
that is not possible, `trace_training` says so and the graph runs operator by operator.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch.fx

from firesteel import torch_compat
from firesteel.autodiff.gradients import leaf_gradients
from firesteel.autodiff.links import edge_of, reached_from
from firesteel.fake import FakeTensor
from firesteel.functional.graph import needed_for
from firesteel.functional.state import EnteredModes, GlobalState, is_profiling, is_state_change
from firesteel.shapes import Symbol
from firesteel.shapes.symnode import expr_of

from ..records import dataclass

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

    Compile = Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]

MOST = 64
"""A graph that would be taken apart more often is not."""
_TRIES = 8
"""How many operations further on a place is looked for at most, each time."""
_REDEFINING = frozenset({
    "as_strided_", "detach_", "requires_grad_", "resize_", "resize_as_", "set_", "squeeze_", "swapaxes_", "swapdims_",
    "t_", "transpose_", "unsqueeze_"})
"""Methods that change more of a tensor than its elements."""
_NUMBERS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True)
class Stage:
    """One part: its inputs are, by position, inputs of the graph or behind them results of earlier parts."""

    run: Callable[..., Any]
    takes: tuple[int, ...]


class Stages:
    """All parts, called as the graph is."""

    def __init__(self, stages: Sequence[Stage], results: Sequence[Any]) -> None:
        self.stages = stages
        self.results = results

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        values = list(inputs)
        for stage in self.stages:
            values += stage.run(*[values[at] for at in stage.takes])
        return tuple([values[result.at] if type(result) is _At else result for result in self.results])

    def prepare_backward(self) -> None:
        """Compile backward before it runs."""
        for stage in self.stages:
            if hasattr(stage.run, "prepare_backward"):
                stage.run.prepare_backward()


@dataclass(frozen=True)
class _At:
    """A result of the graph, by its position among all values."""

    at: int


def compile_in_stages(gm: GraphModule, example_inputs: Sequence[Any], compile_one: Compile) -> Stages | None:
    """The graph in parts, each compiled by ``compile_one``; None where it is of one piece."""
    nodes = list(gm.graph.nodes)
    returned = nodes[-1].args[0]
    if not isinstance(returned, (tuple, list)) or any(isinstance(item, (tuple, list, dict)) for item in returned):
        return None
    wanted = _wanted(nodes)
    if not wanted:
        return None
    program = _Program(nodes, example_inputs)
    ends = program.cuts(wanted)
    if not ends or len(ends) > MOST:
        return None
    compiled = []
    for first, last in zip([0, *ends], [*ends, len(program.body)], strict=True):
        part = program.part(gm, first, last)
        if part is None:
            return None
        compiled.append(part)
    results = [_At(program.position(item)) if isinstance(item, torch.fx.Node) else item for item in returned]
    return Stages([Stage(compile_one(module, examples), takes) for module, examples, takes in compiled], results)


def _wanted(nodes: list[Node]) -> list[Node]:
    """The results from which a part of the graph is to be cut off: autograd gets to them from others, and not only
    because those are views of them."""
    if any(node.target is leaf_gradients or node.target is torch_compat.assert_number or node.target in _REDEFINING
           for node in nodes):
        # Backward inside of the graph goes on through all of it. A size that was asserted to be another one would be an
        # input's, of which it is taken for granted. What is known of a tensor is what it is in the end.
        return []
    wanted: dict[int, Node] = {}
    for node in _results(nodes):
        value = node.meta.get("example_value")
        if isinstance(value, FakeTensor) and value.requires_grad and \
                (node.op != "placeholder" or not value.is_inference() and torch_compat.version_of(value)):
            wanted.setdefault(id(value), node)
    if len(wanted) < 2:
        return []
    values = [node.meta["example_value"] for node in wanted.values()]
    memories = [value.storage_key for value in values]
    return [node for node, memory, bits in zip(wanted.values(), memories, reached_from(list(map(edge_of, values))),
                                               strict=True)
            if any(bits >> at & 1 and other != memory for at, other in enumerate(memories))]


class _Program:
    """The operations of a graph in their order, and where they may be parted."""

    def __init__(self, nodes: list[Node], example_inputs: Sequence[Any]) -> None:
        self.nodes = nodes
        # Regions of the profiler mean nothing for compiled code, and would have to end where they began.
        self.body = [node for node in nodes if node.op not in ("placeholder", "output")
                     and not (is_profiling(node.target) and all(user.op != "output" for user in node.users))]
        self.at = {node: at for at, node in enumerate(self.body)}
        inputs = [node for node in nodes if node.op == "placeholder"]
        self.examples = dict(zip(inputs, example_inputs, strict=True))
        # A node that gives back what it has changed stands for the same tensor.
        firsts: dict[int, Node] = {}
        self.same = {node: firsts.setdefault(id(value), node) for node in nodes
                     if isinstance(value := node.meta.get("example_value"), torch.Tensor)}
        self.results = {self.same.get(node, node) for node in _results(nodes)}
        self.changes = _changes(self.body)
        self.shared = {memory for memory in self.changes if sum(_memory(node) == memory for node in inputs) > 1}
        self.state_nodes = [node for node in self.body if is_state_change(node.target)]
        self.replays_state = False
        self.positions = {node: at for at, node in enumerate(inputs)}

    def position(self, node: Node) -> int:
        """Where a value is among all inputs and results of parts."""
        return self.positions[self.same.get(node, node)]

    def cuts(self, wanted: Iterable[Node]) -> list[int]:
        """Where to take the graph apart: each is the number of operations before it."""
        due_at = sorted({max([self.at.get(node, -1), *self.changes.get(_memory(node), ())]) + 1 for node in wanted})
        places: list[int] = []
        unsettled = False
        tries = 0
        state, modes = GlobalState.current(), 0
        try:
            for at, node in enumerate(self.body[:-1], 1):
                if is_state_change(node.target):
                    node.target(*node.args)  # type: ignore[operator]
                elif EnteredModes().concerns(node.target):
                    modes += 1 if node.target.__name__.startswith("enter") else -1  # type: ignore[union-attr]
                if not due_at or at < due_at[0] or modes or torch.is_grad_enabled() is not state.grad \
                        or self.is_inseparable(at):
                    continue
                tries += 1
                possible = self.may_part(at)
                if possible:
                    places.append(at)
                    unsettled = unsettled or GlobalState.current() != state
                if possible or tries == _TRIES:
                    due_at = [other for other in due_at if other > at]
                    tries = 0
            if is_state_change(self.body[-1].target):
                self.body[-1].target(*self.body[-1].args)  # type: ignore[operator]
            if unsettled and GlobalState.current() != state:
                return []  # the graph ends in another state than it began in, and so would each part
        finally:
            state.restore()
        self.replays_state = unsettled
        return places

    def is_inseparable(self, at: int) -> bool:
        """Whether the operations before and behind a place are parts of one."""
        before, behind = self.body[at - 1], self.body[at]
        return behind.target is operator.getitem or \
            "recompute" in before.meta and before.meta["recompute"] == behind.meta.get("recompute")

    def may_part(self, at: int) -> bool:
        """Whether what comes behind a place can be a graph of its own."""
        rest = self.body[at:]
        for number in self.made_again(rest):
            if any(change > self.at[number] for tensor in number.all_input_nodes
                   for change in self.changes.get(_memory(tensor), ())):
                return False  # it was read off a tensor before that changed
        return all(map(self.may_cross, self.uses(rest))) and \
            not _parts_gradients(self.body[at - 1], self.nodes)

    def may_cross(self, node: Node) -> bool:
        """Whether a value may be an input of a part. What it is changed to there, autograd is told by the part."""
        value = node.meta.get("example_value")
        if node.op == "placeholder":
            return not isinstance(value, torch.Tensor) or not value.requires_grad or _memory(node) not in self.shared
        return isinstance(value, torch.Tensor) and not value.is_inference()

    def uses(self, piece: list[Node]) -> list[Node]:
        """What a part takes from others."""
        inside = set(piece)
        users: dict[Node, None] = {}
        stack = [used for node in reversed(piece) for used in reversed(node.all_input_nodes)]
        while stack:
            node = stack.pop()
            if node not in inside:
                if _is_made_again(node):
                    inside.add(node)
                    stack += node.all_input_nodes
                else:
                    users[self.same.get(node, node)] = None
        return list(users)

    def made_again(self, piece: list[Node]) -> list[Node]:
        """Numbers that a part makes again because it uses them."""
        inside = set(piece)
        again: dict[Node, None] = {}
        stack = [used for node in piece for used in node.all_input_nodes]
        while stack:
            node = stack.pop()
            if node not in inside and node.op not in ("placeholder", "get_attr") and _is_made_again(node):
                inside.add(node)
                again[node] = None
                stack += node.all_input_nodes
        return list(again)

    def part(self, gm: GraphModule, first: int, last: int) -> tuple[GraphModule, list[Any], tuple[int, ...]] | None:
        """A part as a graph, with examples of its inputs and their positions; None where sizes are not known."""
        piece = self.body[first:last]
        later = set(self.uses(self.body[last:]))
        gives = [node for node in piece
                 if self.same.get(node, node) is node and (node in self.results or node in later)]
        uses = self.uses(piece)
        besides = _sizes_besides(uses, self.nodes)
        if besides is None:
            return None
        uses += besides
        examples = [self.examples[node] if node.op == "placeholder" and
                    not any(change < first for change in self.changes.get(_memory(node), ()))
                    else node.meta["example_value"] for node in uses]
        if self.replays_state:
            piece = [*[node for node in self.state_nodes if self.at[node] < first], *piece,
                     *[node for node in self.state_nodes if self.at[node] >= last]]
        takes = tuple([self.positions[node] for node in uses])
        for node in gives:
            self.positions[node] = len(self.positions)
        return self.module(gm, piece, uses, gives), examples, takes

    def module(self, gm: GraphModule, piece: list[Node], uses: list[Node], gives: list[Node]) -> GraphModule:
        """A graph of some operations."""
        graph = torch.fx.Graph()
        copies: dict[Node, Node] = {}
        for node in uses:
            if node.op == "placeholder":
                copies[node] = graph.node_copy(node)
            else:
                copies[node] = graph.placeholder(node.name)
                copies[node].meta = {"example_value": node.meta["example_value"], "module_state": False}
            copies[node].meta["is_result"] = node in self.results
        inside = set(piece)

        def copy(node: Node) -> Node:
            if node not in inside and not _is_made_again(node):
                node = self.same.get(node, node)
            if node not in copies:
                copies[node] = graph.node_copy(node, copy)
            return copies[node]

        for node in piece:
            copy(node)
        graph.output(tuple([copies[node] for node in gives]))
        return torch.fx.GraphModule(gm, graph, type(gm).__name__)


def _results(nodes: list[Node]) -> list[Node]:
    """What the program has in the end: results of the graph, and inputs that it returns itself."""
    return [*nodes[-1].all_input_nodes, *[node for node in nodes if node.meta.get("is_result")]]


def _changes(body: list[Node]) -> dict[int | None, list[int]]:
    """For each memory the operations that change it in place, by their numbers."""
    changes: dict[int | None, list[int]] = defaultdict(list)
    seen: dict[int, int] = {}
    for at, node in enumerate(body):
        for memory, version in node.meta.get("versions", {}).items():
            if version > seen.get(memory, 0):
                seen[memory] = version
                changes[memory].append(at)
    return changes


def _memory(node: Node) -> int | None:
    value = node.meta.get("example_value")
    return value.storage_key if type(value) is FakeTensor else None


def _parts_gradients(cut: Node, nodes: list[Node]) -> bool:
    """Whether the program itself asks behind a cut for gradients that flow through values made before it."""
    before = set(nodes[:nodes.index(cut) + 1])
    for node in nodes:
        if node not in before and node.target is torch.autograd.grad:
            inputs: Any = node.kwargs.get("inputs", node.args[1:2])
            asked = set(_nodes_in(inputs))
            stack, seen = list(node.all_input_nodes), set(asked)
            while stack:
                used = stack.pop()
                if used in seen:
                    continue
                seen.add(used)
                if used not in before:
                    stack += used.all_input_nodes
                elif used.op != "placeholder" and not asked.isdisjoint(needed_for(used.all_input_nodes)):
                    return True
    return False


def _nodes_in(value: Any) -> list[Node]:
    nodes: list[Node] = []
    torch.fx.map_arg(value, nodes.append)
    return nodes


def _is_made_again(node: Node) -> bool:
    return node.op == "get_attr" or node.op != "placeholder" and isinstance(node.meta.get("example_value"), _NUMBERS)


def _sizes_besides(uses: list[Node], nodes: list[Node]) -> list[Node] | None:
    """More inputs of the graph, for the sizes that those of what a part uses are computed from; None without any."""
    wanted: set[Symbol] = set()
    for node in uses:
        value = node.meta["example_value"]
        if isinstance(value, torch.Tensor) and torch_compat.has_symbolic_layout(value):
            wanted = wanted.union(*[expr_of(number).free_symbols for number in (*value.shape, *value.stride())
                                    if type(number) is not int])
    for node in uses:
        wanted -= _sizes(node)
    sizes: list[Node] = []
    for node in nodes:
        if wanted and node.op == "placeholder" and wanted & _sizes(node):
            sizes.append(node)
            wanted -= _sizes(node)
    return None if wanted else sizes


def _sizes(node: Node) -> set[Symbol]:
    """The symbols that are sizes of an input, or an input itself."""
    value = node.meta["example_value"]
    numbers = value.shape if isinstance(value, torch.Tensor) else (value,)
    return {expr for number in numbers if isinstance(number, torch.SymInt)
            and isinstance(expr := expr_of(number), Symbol)}
