"""The graph under construction: a torch-level torch.fx graph whose inputs come from sources."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Container, Sequence
from dataclasses import field
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..errors import UserFrame
from ..fake.dims import known_equal, layout_of, offset_of
from ..fake.tensor import FakeTensor, view_of
from ..records import dataclass
from ..shapes import Expr, Symbol
from ..shapes.symnode import expr_of
from ..torch_compat.graph_modules import LazyGraphModule
from .source import ModuleTableSource, Source, graph_input_name

TALKS = "talks"
"""In ``meta`` of nodes: collectives begin inside of them."""


@dataclass(slots=True)
class GraphInput:
    """One placeholder: where its value comes from at run time and an example (fake tensor or number)."""

    node: torch.fx.Node
    source: Source
    example: Any
    version: int | None = None
    # changed in place before an operation that may raise when the graph runs
    at_risk: bool = False
    # has got another autograd history before an operation that may raise: it cannot be put back
    lost_history: bool = False
    # the same as `at_risk`, but only in ways that autograd's counts do not show; later changes may be counted
    silently_at_risk: bool = False
    # changed in a way that autograd's counts do not show: through ``.data``, by fused optimizers and batch norms
    uncounted: bool = False
    # in memory that an operation may have changed in part when it raises
    half_done: bool = False
    # the same, and too large to be kept: the program must not run again after that
    half_done_for_good: bool = False
    # sizes or strides are changed before an operation that may raise, and perhaps changed back
    changes_layout: bool = False
    # to be put back whatever its size, because the program goes on when the operation raises
    must_restore: bool = False
    # (requires_grad, is_leaf) when the graph begins, of tensors
    autograd: tuple[bool, bool] | None = None
    # sizes, strides and offset when the graph begins, of tensors
    layout: tuple[Any, ...] = ()

    def example_as_given(self) -> Any:
        """The example as it is when the graph begins: layout and autograd's knowledge may change while it runs."""
        example = self.example
        if self.autograd is None:
            return example
        try:
            if self.autograd == (example.requires_grad, example.is_leaf) and self.has_its_layout():
                return example
        except RuntimeError:
            pass  # the graph changes it, and autograd refuses to say what that makes of it
        copy = view_of(example, *self.layout)
        needs_gradient, is_leaf = self.autograd
        copy.requires_grad_(needs_gradient)
        if is_leaf:
            return copy
        with torch_compat.inference_mode_guard(False), torch.enable_grad():
            return copy.view_as(copy)

    def has_its_layout(self) -> bool:
        """Whether the graph leaves sizes and strides as they are, unlike ``t_``."""
        return all(len(now) == len(given) and all(map(known_equal, now, given))
                   for now, given in zip(layout_of(self.example), self.layout[:2], strict=True)) and \
            known_equal(offset_of(self.example), self.layout[2])

    def is_restorable(self) -> bool:
        """Whether a change in place can be undone, that is whether no autograd history changed with it."""
        try:
            return bool(self.example.is_leaf or not self.example.requires_grad)
        except RuntimeError:
            return False  # a view made without gradients, changed by now: autograd refuses to say what that makes of it

    @property
    def mutated(self) -> bool:
        """Whether the graph changes this tensor in place."""
        return self.version is not None and torch_compat.version_of(self.example) != self.version


@dataclass
class CapturedGraph:
    """What capture hands to a backend."""

    module: torch.fx.GraphModule
    inputs: list[GraphInput]
    example_inputs: list[Any]

    def note_all_kept(self) -> None:
        """Whoever called this code may go on with each of its inputs, so that autograd may get to them."""
        for entry in self.inputs:
            entry.node.meta["is_result"] = True


@dataclass
class GraphBuilder:
    """Collects operations in program order."""

    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    inputs: list[GraphInput] = field(default_factory=list)
    operations: int = 0
    # whether an operation that may raise because of its data stands where the program may handle that
    handled_risk: bool = False
    # graphs of operations that own graphs, by the names of their get_attr nodes
    submodules: dict[str, torch.fx.GraphModule] = field(default_factory=dict)
    # the modules whose code runs, outermost first, for those who want every operation to remember them
    module_stack: Callable[[], tuple[Any, ...]] | None = None
    # the groups of processes that operations talk to, by their names
    groups: dict[str, None] = field(default_factory=dict)
    _last_input: torch.fx.Node | None = None
    _last_on_input: torch.fx.Node | None = None

    def add_input(self, source: Source, example: Any) -> torch.fx.Node:
        first = next(iter(self.graph.nodes), None)
        if self._last_input is not None:
            position: Any = self.graph.inserting_after(self._last_input)
        else:
            position = self.graph.inserting_before(first) if first is not None else contextlib.nullcontext()
        with position:
            node = self.graph.placeholder(graph_input_name(source))
        node.target = node.name  # two sources may be called the same: items[1] and items[-1]
        self._last_input = node
        node.meta["example_value"] = example
        node.meta["source"] = source.name
        node.meta["module_state"] = isinstance(source.base, ModuleTableSource)
        counted = isinstance(example, torch.Tensor) and not example.is_inference()
        entry = GraphInput(node, source, example, torch_compat.version_of(example) if counted else None)
        if isinstance(example, torch.Tensor):
            entry.autograd = example.requires_grad, example.is_leaf
            entry.layout = *layout_of(example), offset_of(example)
        self.inputs.append(entry)
        return node

    def call_on_input(self, source: Source, method: str, *args: Any) -> torch.fx.Node:
        """A method call on an input, right behind the inputs: nothing has been done to it there."""
        entry = next(entry for entry in self.inputs if entry.source == source)
        after = self._last_on_input or self._last_input
        assert after is not None
        with self.graph.inserting_after(after):
            self._last_on_input = self.graph.call_method(method, (entry.node, *args))
        return self._last_on_input

    def note_uncounted(self, written: Container[int]) -> None:
        """At the end: which inputs were changed past autograd's counts; ``written`` are keys of changed storages."""
        for entry in self.inputs:
            if entry.mutated:
                entry.at_risk = entry.at_risk or entry.silently_at_risk
            elif _storage_key(entry.example) in written:
                entry.uncounted = entry.node.meta["put_back"] = True

    def asserts(self) -> bool:
        """Whether the graph raises where data is not as it states or assumes."""
        return any(node.target is torch_compat.assert_number for node in self.graph.nodes)

    def note_risk(self, written: Container[int]) -> bool:
        """The next operation may raise because of its data: note which inputs have been changed by then; ``written``
        are keys of changed storages.

        False when one of them could not be put back, because its autograd history has changed as well.
        """
        restorable = True
        for entry in self.inputs:
            if entry.mutated:
                entry.at_risk = True
                entry.changes_layout = entry.changes_layout or not entry.has_its_layout()
                if not entry.is_restorable():
                    restorable, entry.lost_history = False, True
            elif written and _storage_key(entry.example) in written:
                entry.silently_at_risk = True
        return restorable

    def inputs_in_memory(self, changed: Sequence[FakeTensor], overwritten: Sequence[FakeTensor]) -> list[GraphInput]:
        """The inputs in the memory that an operation writes to which may raise half-way.

        Elements that it has overwritten by then get the same values again when the program runs once more, unless these
        are computed from what was there.
        """
        memories = {fake.storage_key for fake in changed}
        for fake in overwritten:
            key = fake.storage_key
            if any(entry.node.users for entry in self.inputs if _storage_key(entry.example) == key):
                memories.add(key)
        return [entry for entry in self.inputs if _storage_key(entry.example) in memories] if memories else []

    def note_half_done(self, inputs: Sequence[GraphInput], for_good: Sequence[GraphInput]) -> None:
        """The next operation may raise half-way through these inputs; those that are ``for_good`` cannot be kept, so
        that the program must not run again then."""
        for entry in inputs:
            entry.half_done = True
        for entry in for_good:
            entry.half_done_for_good = entry.node.meta["half_done_for_good"] = True

    def note_result(self, example: Any) -> None:
        """The program returns or keeps an input. It is no output of the graph, but may be one for autograd, and what is
        written through a view of it is in its history too."""
        if example.requires_grad:
            memory = _storage_key(example)
            for entry in self.inputs:
                if entry.example is example or memory is not None and _storage_key(entry.example) == memory:
                    entry.node.meta["is_result"] = True

    def changed_with_history(self) -> list[GraphInput]:
        """The inputs that the graph changes in place, and that have a history then."""
        return [entry for entry in self.inputs if entry.mutated and not entry.is_restorable()]

    def call(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frames: tuple[UserFrame, ...]
    ) -> torch.fx.Node:
        """Add an operation; a string target is a tensor method.

        It has been done to the examples. Where their memory has been changed in place by then, the node says how often.
        """
        self.operations += 1
        if "from" in kwargs and len(args) == 1:  # of uniform_ and random_: no name that code can be written with
            args, kwargs = (*args, kwargs["from"]), {name: value for name, value in kwargs.items() if name != "from"}
        op = "call_method" if isinstance(target, str) else "call_function"
        if target is operator.pow and isinstance(args[0], (int, float)) and args[0] < 0:
            # torch.fx writes ``-1 ** x``, which is -(1 ** x)
            if isinstance(args[1], torch.fx.Node) and isinstance(args[1].meta.get("example_value"), torch.Tensor):
                target = torch.pow
            else:
                args = (self.graph.call_function(operator.neg, (-args[0],)), *args[1:])
        node = self.graph.create_node(op, target, args, kwargs)
        if (group := torch_compat.group_called(target, args)) is not None:
            self.groups.setdefault(group)
        for used in node.all_input_nodes:
            example = used.meta.get("example_value")
            if type(example) is FakeTensor and not example.is_inference() and (
                    version := torch_compat.version_of(example)):
                versions = node.meta.setdefault("versions", {})
                versions[example.storage_key] = max(version, versions.get(example.storage_key, 0))
        if self.module_stack is not None:
            node.meta["module_stack"] = self.module_stack()
        if frames:
            node.meta["user_frames"] = frames
            node.meta["stack_trace"] = "".join(
                f'  File "{f.filename}", line {f.lineno}, in {f.function}\n    {f.source}\n' for f in frames[-3:])
        return node

    def item_of(self, node: torch.fx.Node, position: int) -> torch.fx.Node:
        """One of the results of a node."""
        return self.graph.call_function(operator.getitem, (node, position))

    def finish(self, outputs: list[torch.fx.Node], name: str) -> CapturedGraph:
        """Close the graph: only inputs that are used stay, and those whose sizes the used ones' are made of."""
        self.graph.output(tuple(outputs))
        used = [entry for entry in self.inputs if entry.node.users]
        unread = _unread_symbols(used)
        kept = []
        for entry in self.inputs:
            if entry.node.users:
                kept.append(entry)
            elif unread and (given := unread & {expr for expr in _expressions(entry) if isinstance(expr, Symbol)}):
                unread -= given
                kept.append(entry)
            else:
                self.graph.erase_node(entry.node)
        root = torch.nn.Module()
        for attribute, submodule in self.submodules.items():
            root.add_module(attribute, submodule)
        module = LazyGraphModule(root, self.graph, class_name=name)
        return CapturedGraph(module, kept, [entry.example_as_given() for entry in kept])


def _expressions(entry: GraphInput) -> list[Expr]:
    """The symbolic sizes, strides and numbers that an input brings."""
    numbers = [entry.example] if entry.autograd is None else [*entry.layout[0], *entry.layout[1]]
    return [expr_of(number) for number in numbers if isinstance(number, (torch.SymInt, torch.SymFloat))]


def _unread_symbols(inputs: Sequence[GraphInput]) -> set[Symbol]:
    """Symbols that inputs' sizes are made of, and that none of these inputs says the value of.

    Where ``v.shape[0] == y.shape[0] - 1`` is known, the size of ``v`` is an expression of that of ``y``.
    """
    expressions = [expr for entry in inputs for expr in _expressions(entry)]
    if all(isinstance(expr, Symbol) for expr in expressions):
        return set()
    return {symbol for expr in expressions for symbol in expr.free_symbols} - {*expressions}  # type: ignore[arg-type]


def _storage_key(example: Any) -> int | None:
    return example.storage_key if type(example) is FakeTensor else None
