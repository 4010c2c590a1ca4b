"""Joint tracing: forward and backward of a captured graph as one functional graph.

    def f(x, w):                     input x, w
        return (x * w).sin()         tangent tangent_0 of sin
                                     mul = aten.mul.Tensor(x, w)
                                     sin = aten.sin.default(mul)
                                     cos = aten.cos.default(mul)
                                     mul_1 = aten.mul.Tensor(tangent_0, cos)
                                     ...
                                     return sin
                                     gradients mul_3, mul_2

The captured graph is run on fake tensors as for inference; then torch's autograd runs backward on them, from *tangents*
(the gradients of the results, inputs of the joint graph), while the recorder writes down the operators that it calls.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake import FakeTensor
from ..fake.dims import contiguous_strides, known_equal, layout_of, numel_of, storage_size
from ..fake.rules.strides import is_dense
from ..fake.tensor import new_fake
from ..functional.cleanup import clean_up
from ..functional.graph import (
    Constant,
    FreshTensor,
    FunctionalGraph,
    InputAlias,
    Number,
    Output,
    SpentResults,
    Unsupported,
)
from ..functional.recorder import Memory, Recorder
from ..functional.size_nodes import collect_symbols
from ..functional.state import GlobalState
from ..functional.tracing import Tracing, run_tracing
from ..functional.views import View
from ..functional.wrapper_tensors import idle_carriers
from ..shapes import ShapeGuard, Symbol
from ..shapes.symnode import expr_of
from .gradients import leaf_gradients
from .joint_graph import (
    ALL_RESULTS,
    Carrier,
    Differentiable,
    Expected,
    History,
    JointGraph,
    Remade,
    Tangent,
)
from .links import backward_order, edge_of, reached_from

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)

# What stands between a leaf and an input with a history.
_SOURCE = "_InnerTensorBackward"
# What torch puts before gradients that must not be differentiated.
_REFUSING = "Error"


def trace_training(module: torch.fx.GraphModule, example_inputs: Sequence[Any], *,
                   is_core: Callable[[str], bool] | None = None,
                   tangents: Sequence[Expected] | None = None) -> FunctionalGraph | JointGraph:
    """Forward and backward of a captured graph; a `FunctionalGraph` where autograd has nothing to do with its results.

    ``tangents`` tells what gradients the differentiable results get, by default all of them in their own layout.

    >>> import firesteel.pipeline  # tells tracing what kernels can do
    >>> x = torch.ones(3, requires_grad=True)
    >>> print(trace_training(torch.fx.symbolic_trace(lambda x: x.exp()), [x]))
    input x: f32[3]
    tangent tangent_0: f32[3] of exp
    exp: f32[3] = aten.exp.default(x)
    mul: f32[3] = aten.mul.Tensor(tangent_0, exp)
    return exp
    gradients mul
    """
    tracing = _JointTracing(module, example_inputs, Recorder(is_core), tangents)
    saving = _Saving(tracing)
    with torch.autograd.set_detect_anomaly(False), \
            torch_compat.own_packing(saving.pack, saving.unpack):
        functional = run_tracing(tracing)
    if tracing.joint is not None:
        tracing.joint.guards = functional.guards
        return tracing.joint
    if tracing.spent is not None:
        tracing.spent.traced = functional
        raise tracing.spent
    return functional


class _Saving:
    """What eager would save: of that, what its backward looks at is noted. What leads to no result may be gone then."""

    def __init__(self, tracing: _JointTracing) -> None:
        self.tracing = tracing

    def pack(self, tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
        return tensor, torch_compat.version_of(tensor)

    def unpack(self, saved: tuple[torch.Tensor, int]) -> torch.Tensor:
        tensor, version = saved
        if torch_compat.version_of(tensor) != version:
            raise Unsupported("a tensor that is needed for a gradient is changed in place")
        if torch_compat.is_functorch_tensor(tensor):
            return tensor  # of a gradient that is computed inside of the graph
        node = torch_compat.current_autograd_node()
        self.tracing.saved.append((tensor, self.tracing.results_behind.get(node, ALL_RESULTS)))
        return tensor


class _JointTracing(Tracing):
    """One run of `trace_training`."""

    def __init__(self, module: torch.fx.GraphModule, example_inputs: Sequence[Any], recorder: Recorder,
                 expected: Sequence[Expected] | None) -> None:
        super().__init__(module, example_inputs, recorder)
        self.expected = expected
        self.joint: JointGraph | None = None
        self.spent: SpentResults | None = None
        """Where the graph is the one with these results detached."""
        self.saved: list[tuple[torch.Tensor, int]] = []
        """What eager's backward looks at, with the differentiable results, as bits, that it does so for."""
        self.results_behind: dict[Any, int] = {}
        """Autograd's functions, with the differentiable results, as bits, that they lie behind."""
        self.remade: list[Remade] = []
        # the tensors to differentiate, by the number of their memory
        self.carriers: dict[int, FakeTensor] = {}
        self.changed_with_history: list[int] = []

    def attribute(self, name: str) -> Any:
        """Tensors of the graph itself get no gradients."""
        value = super().attribute(name)
        if isinstance(value, torch.Tensor) and value.requires_grad:
            raise Unsupported("a tensor that the graph holds itself needs gradients")
        return value

    def check_gradient(self, value: FakeTensor) -> None:
        """Results may need gradients, if autograd can get at them through what the runtime has."""

    def check_alias(self, value: FakeTensor, source: FakeTensor) -> None:
        """Views may be detached: how they are remade tells."""

    def check_mutation(self, index: int, fake: FakeTensor) -> None:
        """Inputs may get another history."""
        function = fake.grad_fn
        if function is not None and type(function).__name__ != _SOURCE:
            self.changed_with_history.append(index)

    def describe(self, results: list[Any], state: GlobalState) -> list[Output]:
        """How results are made, with what their gradients need."""
        outputs = self.with_roots(results, super().describe(results, state))
        self.results = results
        self.remade = [self.remake(value) for value in results]
        for value, output, remade in zip(results, outputs, self.remade, strict=True):
            if remade.history is not History.NONE and torch_compat.made_in_function(remade.creation) and not (
                    isinstance(output, FreshTensor) and output.view is None and remade.base is None
                    and torch_compat.comes_of_torchs_function(value)):
                raise Unsupported("a result is a view that a torch.autograd.Function made, which must not be changed")
            if isinstance(output, FreshTensor):
                self.find_carrier(value, output)
            elif isinstance(output, InputAlias) and output.view is not None and value.requires_grad:
                base = self.inputs[output.index].example
                _check_view(value, base)
                if not base.requires_grad:
                    raise Unsupported("a view that requires grad of an input that does not")
                if remade.views is None and _shares_elements(base):
                    raise Unsupported("a view of an expanded input that is known by its place in memory only")
        return outputs

    def with_roots(self, results: list[Any], outputs: list[Output]) -> list[Output]:
        """The same, but where several results are all of one memory, the tensor that the others are views of is the one
        that is no view."""
        for at, (value, output) in enumerate(zip(results, outputs, strict=True)):
            if isinstance(output, FreshTensor) and output.view is not None \
                    and self.recorder.tracked(value).memory.root.fake is value:
                whole = replace(output, view=None)
                outputs[outputs.index(whole)] = output
                outputs[at] = whole
        return outputs

    def remake(self, value: Any) -> Remade:
        """What is known of how a result came about."""
        history = History.of(value)
        creation = torch_compat.creation_of(value) if isinstance(value, FakeTensor) else None
        if history is History.NONE:
            return Remade(history, creation=creation)
        tracked = self.recorder.tracked(value)
        views: list[View] = []
        base: int | None = None
        while tracked.parent is not None and base is None:
            if tracked.place_of_a_part and history is History.KNOWN:
                raise Unsupported("a result is a place in the storage of a view, whose elements alone have gradients")
            if tracked.view is not None:
                views.append(tracked.view)
            tracked = tracked.parent
            if tracked.parent is not None and _is_view_in_history(value, tracked.fake):
                base = next((at for at, other in enumerate(self.results) if other is tracked.fake), None)
        if not views:  # the same elements, another object
            views.append(View(torch.ops.aten.alias.default))
        # A place in the storage is another one when the base begins elsewhere.
        arguments = [[view.args, tuple(view.kwargs.values())] for view in views]
        numbers: set[Symbol] = set()
        collect_symbols(arguments, numbers)
        known = all(view.func is not torch.ops.aten.as_strided.default for view in views) \
            and numbers <= self.input_symbols()
        if base is not None and not known:
            raise Unsupported("a result is a view of another that is known by its place in memory only")
        steps = tuple(reversed(views)) if known else None
        splits = type(value.grad_fn).__name__ if history is History.ONE_OF_SEVERAL else ""
        return Remade(history, steps, value.output_nr, splits, _has_symbolic(arguments), creation, base)

    def input_symbols(self) -> set[Symbol]:
        """Symbols that are sizes, strides or numbers among the inputs."""
        symbols: set[Symbol] = set()
        for entry in self.inputs:
            example = entry.example
            numbers = (*example.shape, *example.stride()) if isinstance(example, FakeTensor) else (example,)
            symbols |= {expr for number in numbers if isinstance(number, _SYMBOLIC)
                        and isinstance(expr := expr_of(number), Symbol)}
        return symbols

    def find_carrier(self, value: FakeTensor, output: FreshTensor) -> None:
        """The tensor of an output's memory that autograd starts from."""
        root = self.recorder.tracked(value).memory.root.fake
        known = self.carriers.get(output.memory)
        if output.view is None and known is None:
            self.carriers[output.memory] = value
            return
        if known is not root and known is not None and known.requires_grad:
            # The base of several results is their root, not the one of them that came first.
            _check_view(known, root)
        self.carriers[output.memory] = root
        if value.requires_grad:
            _check_view(value, root)

    def finish(self, graph: FunctionalGraph) -> None:
        """Run backward, if anything needs it."""
        carried: list[tuple[FakeTensor, Differentiable]] = []
        seen: set[int] = set()
        for output in graph.outputs:
            if isinstance(output, FreshTensor) and output.memory not in seen:
                seen.add(output.memory)
                carrier = self.carriers[output.memory]
                if carrier.requires_grad:
                    if carrier.is_leaf:
                        raise Unsupported("a leaf that requires grad is made in the graph")
                    carried.append((carrier, Differentiable(output.node, output.memory, None, None)))
        nodes = {change.index: change.node for change in graph.mutated}
        carried += [(self.inputs[index].example, Differentiable(nodes[index], None, index, None))
                    for index in self.changed_with_history]
        views = any(isinstance(output, InputAlias) and output.view is not None
                    and self.inputs[output.index].example.requires_grad for output in graph.outputs)
        if not carried and not views:
            super().finish(graph)
            return
        before = set(graph.graph.nodes)
        self.known_carriers = [self.carrier_of(fake, item, graph.outputs) for fake, item in carried]
        leaves = [self.sources.get(index, entry.example) for index, entry in enumerate(self.inputs)]
        # in a mode: fake tensors that autograd unpacks outside of one make torch import its distributed tensors (0.4 s)
        self.eager_frees, self.walked, self.results_behind = self.conversion.run(
            walk, ([fake for fake, _ in carried], leaves))
        facts, versions = self.facts(), self.recorder.versions()
        differentiable = self.add_tangents(carried)
        env = self.recorder.shape_env
        known = 0 if env is None else len(env.checks)
        try:
            gradients = self.differentiate([item[0] for item in carried], differentiable)
        except SpentResults as spent:
            if self.facts() != facts or any(memory.version != version for memory, version in versions.items()) \
                    or not self.only_detached(graph, spent, [item[0] for item in carried]):
                raise
            for node in reversed(list(self.recorder.graph.nodes)):
                if node not in before:
                    self.recorder.graph.erase_node(node)
            self.results_behind, self.saved = {}, []  # they would stay alive
            self.tangents.clear()
            self.spent = spent
            super().finish(graph)
            return
        for index in idle_carriers(self.module, gradients) if self.walked else ():
            self.walked[index] = 0
        if env is not None:
            self.assert_in_forward(env.checks[known:], before)
        self.linked = self.expected is None and self.are_linked(graph.outputs)
        symbols = self.symbol_nodes()
        numbers: dict[int, int] = {}
        described = [self.gradient(value, numbers.setdefault(id(value), len(numbers))) for value in gradients]
        self.close(graph, described, differentiable, symbols, before)

    def facts(self) -> tuple[Any, ...]:
        """What differentiating may change that belongs to forward too."""
        env, recorder = self.recorder.shape_env, self.recorder
        known = (0, 0) if env is None else (len(env.guards), len(env.checks))
        return (*known, len(recorder.constants), len(recorder.data_results), len(self.state_changes),
                len(recorder.sizes.by_expr))

    def only_detached(self, graph: FunctionalGraph, spent: SpentResults, carried: list[FakeTensor]) -> bool:
        """Whether the graph with spent results detached is the one without their gradients: nothing else has any, and
        these are tensors of their own."""
        results = [self.results[at] for at in spent.positions]
        memories = [output.memory for output in graph.outputs if isinstance(output, FreshTensor)]
        return {id(result) for result in results} == {id(carrier) for carrier in carried} \
            and not any(torch_compat.has_symbolic_layout(carrier) for carrier in carried) and all(
            isinstance(output := graph.outputs[at], FreshTensor) and output.view is None
            and memories.count(output.memory) == 1 and torch_compat.view_base(self.results[at]) is None
            for at in spent.positions)

    def assert_in_forward(self, checks: Sequence[ShapeGuard], forward: set[torch.fx.Node]) -> None:
        """Assert what backward takes for granted of sizes that data decides on, and add that to the nodes of forward.

        Autograd compares sizes; what it assumes there holds for the kernels of forward as well.
        """
        known = set(self.recorder.graph.nodes)
        self.assert_checks(checks)
        for node in self.recorder.graph.nodes:
            if node not in known:
                if not forward.issuperset(node.all_input_nodes):
                    raise Unsupported("backward compares sizes that forward does not have")
                forward.add(node)

    def are_linked(self, outputs: list[Output]) -> bool:
        """Whether autograd gets from one result to another, and not only because it is a view of it."""
        placeholders = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        changed = [self.inputs[index].example for index in self.changed_with_history
                   if placeholders[index].meta.get("is_result")]
        known: dict[int, FakeTensor] = {id(fake): fake for fake in changed}
        for value, output in zip(self.results, outputs, strict=True):
            if isinstance(output, FreshTensor) or isinstance(output, InputAlias) and (
                    output.view is not None or output.index in self.changed_with_history):
                known[id(value)] = value
        memories = [self.recorder.tracked(fake).memory for fake in known.values()]
        reached = reached_from(list(map(edge_of, known.values())))
        return any(bits >> at & 1 and other is not memory for memory, bits in zip(memories, reached, strict=True)
                   for at, other in enumerate(memories))

    def carrier_of(self, fake: FakeTensor, item: Differentiable, outputs: list[Output]) -> Carrier | None:
        """Where a run of the captured graph has the tensor that autograd starts from."""
        if item.mutation is not None:
            return Carrier(changed=item.mutation)
        for position, (value, output) in enumerate(zip(self.results, outputs, strict=True)):
            if isinstance(output, FreshTensor) and output.memory == item.memory:
                if value is fake:
                    return Carrier(position)
                if torch_compat.view_base(value) is fake:
                    return Carrier(position, base=True)
        return None

    def add_tangents(self, carried: list[tuple[FakeTensor, Differentiable]]) -> list[Differentiable]:
        """Placeholders behind those of the inputs."""
        tangents = []
        graph = self.recorder.graph
        self.tangents: list[FakeTensor] = []
        last = next((node for node in reversed(graph.nodes) if node.op == "placeholder"), None)
        for number, (carrier, result) in enumerate(carried):
            expected: Expected = Tangent.LIKE_RESULT if self.expected is None else self.expected[number]
            if expected is Tangent.NONE:
                tangents.append(result)
                continue
            shape, stride = layout_of(carrier)
            # A layout that overlaps may have gaps too, and so the length of one that has neither.
            dense = expected is Tangent.LIKE_RESULT and known_equal(storage_size(shape, stride), numel_of(carrier)) \
                and is_dense(shape, stride)
            steps = carrier.stride() if dense else (0,) * carrier.dim() if expected is Tangent.EXPANDED else None
            if isinstance(expected, tuple):
                permuted = contiguous_strides([shape[dim] for dim in expected])
                steps = tuple([permuted[expected.index(dim)] for dim in range(len(expected))])
            fake = new_fake(carrier.shape, steps, carrier.dtype, carrier.device)
            with graph.inserting_after(last):  # type: ignore[arg-type]
                last = self.recorder.add_input(f"tangent_{number}", fake, fake, Memory())
            self.tangents.append(fake)
            tangents.append(replace(result, tangent=last))
        return tangents

    def differentiate(self, carriers: list[FakeTensor], differentiable: list[Differentiable]) -> list[Any]:
        """The gradients of all inputs, None where there is none."""
        wanted = [index for index, entry in enumerate(self.inputs)
                  if index in self.sources or (isinstance(entry.example, FakeTensor) and entry.example.requires_grad
                                               and entry.example.is_leaf)]
        leaves = [self.sources.get(index, self.inputs[index].example) for index in wanted]
        starts = [carrier for carrier, result in zip(carriers, differentiable, strict=True)
                  if result.tangent is not None]
        gradients: list[Any] = [None] * len(self.inputs)
        if not leaves or not starts:
            return gradients
        self.recorder.origin = {}
        self.saved = []  # what the program's own gradients have looked at is behind it
        versions = self.recorder.versions()
        torch_compat.push_dispatch_mode(self.recorder)
        self.recorder.accumulates = True
        try:
            with torch.autocast("cpu", enabled=False):
                # Failing, it would have freed a part of the history, and others would seem to be spent too.
                computed = torch.autograd.grad(starts, leaves, self.tangents, allow_unused=True,
                                               retain_graph=_takes_gradients(self.module))
        except RuntimeError as error:
            # Eager will refuse as well, but not before somebody asks for these gradients.
            spent = [start for start, tangent in zip(starts, self.tangents, strict=True)
                     if _says_freed(error) and _is_spent(start, leaves, tangent)]
            positions = [at for at, value in enumerate(self.results) if isinstance(value, FakeTensor)
                         and any(value is start or torch_compat.view_base(value) is start for start in spent)]
            if positions:
                raise SpentResults(self.behind(positions, wanted, leaves), str(error)) from error
            raise Unsupported(f"autograd refuses to differentiate a result: {error}") from error
        finally:
            self.recorder.accumulates = False
            torch_compat.pop_dispatch_mode()
        if any(memory.version != version for memory, version in versions.items()):
            raise Unsupported("a backward changes a tensor of the forward in place")
        for index, gradient in zip(wanted, computed, strict=True):
            gradients[index] = gradient
        return gradients

    def behind(self, positions: list[int], wanted: list[int], leaves: list[Any],
               ) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
        """For some results the inputs out of ``wanted``, which are ``leaves`` here, and those of these results that
        autograd gets to from them."""
        reached = reached_from([*[edge_of(self.results[at]) for at in positions],
                                *[torch.autograd.graph.get_gradient_edge(leaf)[:2] for leaf in leaves]])
        places, inputs = reached[:len(positions)], reached[len(positions):]
        return {at: (tuple(index for index, bits in zip(wanted, inputs, strict=True) if bits >> number & 1),
                     tuple(other for other, bits in zip(positions, places, strict=True) if bits >> number & 1))
                for number, at in enumerate(positions)}

    def gradient(self, value: Any, number: int) -> Output:
        """How a gradient is made; ``number`` is the same for inputs that autograd gives the same tensor to."""
        if value is None:
            return Constant(None)
        if not isinstance(value, FakeTensor) or value.layout is not torch.strided:
            raise Unsupported(f"a gradient of type {type(value).__name__}")
        return FreshTensor(self.recorder.node_of(value), None, number)

    def symbol_nodes(self) -> dict[Symbol, torch.fx.Node]:
        """Nodes of all symbols in sizes and numbers of the graph."""
        symbols: set[Symbol] = set()
        for node in self.recorder.graph.nodes:
            collect_symbols(node.meta.get("val"), symbols)
        sizes = self.recorder.sizes
        nodes = {symbol: sizes.expression(symbol) for symbol in sorted(symbols, key=str) if sizes.knows(symbol)}
        return {symbol: node for symbol, node in nodes.items() if isinstance(node, torch.fx.Node)}

    def close(self, graph: FunctionalGraph, gradients: list[Output], differentiable: list[Differentiable],
              symbols: dict[Symbol, torch.fx.Node], before: set[torch.fx.Node]) -> None:
        """One graph with all results, tidied; then taken apart into what `JointGraph` says."""
        unknown: set[Symbol] = set()
        for output in graph.outputs:
            if isinstance(output, (FreshTensor, InputAlias)) and output.view is not None:
                view = output.view
                collect_symbols([*view.shape, *view.stride, view.offset], unknown)
        if not unknown <= self.input_symbols():
            raise Unsupported("a result with gradients is a view that data decides on")
        storages: dict[int, int] = {}
        for tensor, behind in self.saved:
            address = torch_compat.storage_address(tensor)
            storages[address] = storages.get(address, 0) | behind
        self.results_behind = {}  # they would stay alive
        extra: list[Output] = [*gradients, *(Number(node) for node in symbols.values()),
                               *(FreshTensor(result.node) for result in differentiable)]
        count = len(graph.outputs)
        whole = replace(graph, outputs=[*graph.outputs, *extra])
        roots: dict[torch.fx.Node, FakeTensor] = {}
        for output in graph.outputs:
            if isinstance(output, FreshTensor):
                roots[output.node] = self.carriers[output.memory]
        for entry in self.inputs:
            if isinstance(entry.example, FakeTensor):
                roots[entry.node] = entry.example
        eager_saves = {node: behind for node, fake in roots.items()
                       if (behind := storages.get(torch_compat.storage_address(fake), 0))}
        nodes = [output.node for output in whole.outputs if isinstance(output, (FreshTensor, Number))]
        whole.graph.output(tuple([*nodes, *(change.node for change in whole.mutated)]))
        clean_up(whole)
        tail = whole.outputs[count:]
        closing = tail[:len(gradients)]
        names = [output.node for output in tail[len(gradients):] if isinstance(output, (Number, FreshTensor))]
        results = [replace(result, node=node)
                   for result, node in zip(differentiable, names[len(symbols):], strict=True)]
        self.joint = JointGraph(
            whole.graph, self.inputs, whole.outputs[:count], self.remade, whole.mutated, results, closing,
            set(whole.graph.nodes) - before, eager_saves, whole.constants, dict(zip(symbols, names, strict=False)),
            whole.state_changes, [], whole.returns_tuple, self.known_carriers, self.eager_frees, self.walked,
            self.linked, whole.detached)


def walk(tensors: Sequence[torch.Tensor],
         inputs: Sequence[Any]) -> tuple[frozenset[int], list[int], dict[Any, int]]:
    """`JointGraph.eager_frees` and `JointGraph.walked` for differentiable results and the leaves that are inputs.

    The third are all functions of autograd with the results, as bits, that they lie behind.
    """
    order = backward_order([tensor.grad_fn for tensor in tensors])
    bits = dict.fromkeys(order, 0)
    for number, tensor in enumerate(tensors):
        bits[tensor.grad_fn] |= 1 << number
    indices: set[int] = set()
    walked = {id(leaf): 0 for leaf in inputs}
    own = False
    for function in order:
        behind = bits[function]
        if type(function).__name__ == _REFUSING:
            raise Unsupported("a gradient of a function that is marked once_differentiable is differentiated")
        if hasattr(function, "variable"):
            walked[id(function.variable)] = walked.get(id(function.variable), 0) | behind
        for following, _ in function.next_functions:
            if following is not None:
                bits[following] |= behind
        if behind not in indices and torch_compat.saves_tensors(function):
            indices.add(behind)
        own = own or isinstance(function, torch.autograd.function.BackwardCFunction) \
            and type(function).__name__ != _SOURCE
    reached = [walked[id(leaf)] for leaf in inputs]
    if functools.reduce(operator.or_, reached, 0) + 1 != 1 << len(tensors):
        raise Unsupported("a result needs gradients that depends on a leaf made in the graph and on no input")
    return frozenset(indices), reached if own else [], bits


def _shares_elements(value: FakeTensor) -> bool:
    """Whether several elements may be one in memory: there the gradient of a place in memory is another."""
    shape, stride = layout_of(value)
    return any(type(step) is int and step == 0 and not known_equal(size, 1)
               for size, step in zip(shape, stride, strict=True))


def _check_view(value: FakeTensor, base: FakeTensor) -> None:
    """A result that needs gradients is made again as a view of its base; autograd must know it as one."""
    if value is base:
        return
    step, end = value.grad_fn, base.grad_fn
    while step is not None and step is not end:
        if isinstance(step, torch.autograd.function.BackwardCFunction) and type(step).__name__ != _SOURCE:
            raise Unsupported("a result is a view that a torch.autograd.Function made: its backward is its own")
        if base.is_leaf and getattr(step, "variable", None) is base:
            break
        following = step.next_functions
        step = following[0][0] if len(following) == 1 else None
    if value.is_leaf:
        raise Unsupported("a result is a view that was made in inference mode: it is a leaf")
    if step is None:
        raise Unsupported("a result is a view of a view that was made without grad mode")
    known = torch_compat.view_base(value)
    if known is None or (known is not base and known is not torch_compat.view_base(base)):
        raise Unsupported("a result shares memory with another tensor that autograd does not know to be its base")


def _has_symbolic(arguments: Any) -> bool:
    """Whether there are symbolic numbers, which may have no symbols left: what a program compares settles some."""
    if isinstance(arguments, (tuple, list)):
        return any(map(_has_symbolic, arguments))
    return isinstance(arguments, _SYMBOLIC)


def _is_view_in_history(value: FakeTensor, parent: FakeTensor) -> bool:
    """Whether autograd gets from a view to its parent; both may have been changed since through what they lie in."""
    edge, step = edge_of(parent), edge_of(value)
    while step is not None and step != edge:
        following = step[0].next_functions
        step = following[0] if len(following) == 1 and following[0][0] is not None else None
    return edge is not None and step is not None


def _takes_gradients(module: torch.fx.GraphModule) -> bool:
    """Whether the program itself asks autograd for gradients, which may use up histories."""
    return any(node.target is leaf_gradients or node.target is torch.autograd.grad
               for part in module.modules() if isinstance(part, torch.fx.GraphModule) for node in part.graph.nodes)


def _is_spent(start: FakeTensor, leaves: list[Any], tangent: FakeTensor) -> bool:
    """Whether the history of a tensor has been freed."""
    try:
        torch.autograd.grad(start, leaves, tangent, retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        return _says_freed(error)
    return False


def _says_freed(error: RuntimeError) -> bool:
    return "backward through the graph a second time" in str(error)
