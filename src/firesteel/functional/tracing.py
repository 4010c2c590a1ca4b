"""Tracing: a captured graph is run on fake tensors while the recorder writes down the ATen operators below it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import floordiv, getitem, setitem
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake import FakeError, FakeMode, FakeTensor
from ..fake.dims import known_equal, layout_of, numel_of, offset_of, shape_of, storage_size
from ..fake.functions import find_function, is_described, short_name
from ..fake.positions import has_positions, selected
from ..fake.tensor import view_of
from ..interruptions import safe_point
from ..shapes import ContradictionError, Expr, ShapeEnv, ShapeGuard, Symbol, UndecidableError, and_, const, eq, if_else
from ..shapes.symnode import SymNode, computed, expr_of, make_symbolic
from .attention_masks import FUNCTIONS as ATTENTION
from .attention_masks import KnownMasks
from .checked_functions import QUANTILES, one_hot
from .cleanup import clean_up, separate_results
from .graph import (
    Constant,
    DetachedBase,
    FreshTensor,
    FunctionalGraph,
    Input,
    InputAlias,
    Mutation,
    Number,
    Output,
    SameAs,
    StateChange,
    Unsupported,
    ViewLayout,
)
from .handed import Handed
from .overlap import refuse_overlap
from .recorder import Memory, Recorder
from .recurrent import recurrent_call, tensors_in
from .size_nodes import raw_sizes
from .state import EnteredModes, GlobalState, is_profiling, is_state_change
from .views import same_layout, same_numbers

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_CONTROL_FLOW = "firesteel.control_flow.operators"
_TORCHS_OWN = frozenset({"cond", "while_loop", "scan", "map_impl"})
_ORIGIN = ("user_frames", "stack_trace", "recompute", "nn_module_stack")


def trace(module: torch.fx.GraphModule, example_inputs: Sequence[Any], *,
          is_core: Callable[[str], bool] | None = None) -> FunctionalGraph:
    """The functional ATen graph of a captured graph.

    ``example_inputs`` are fake or real tensors and numbers, one for each placeholder. ``is_core`` says which operators
    are not taken apart; normally those that kernels can do. Raises `Unsupported` with a reason where the graph has no
    functional form; it can be run as it is then.

    >>> def f(x):
    ...     x.mul_(2)
    ...     return x.t() + 1
    >>> print(trace(torch.fx.symbolic_trace(f), [torch.ones(2, 3)]))
    input x: f32[2, 3]
    mul: f32[2, 3] = aten.mul.Tensor(x, 2)
    t: f32[3, 2]/[1, 3] = aten.t.default(mul)
    add: f32[3, 2]/[1, 3] = aten.add.Tensor(t, 1)
    x becomes mul
    return add
    """
    return run_tracing(Tracing(module, example_inputs, Recorder(is_core)))


def run_tracing(tracing: Tracing) -> FunctionalGraph:
    """What a tracing finds, with the state of torch put back and errors of fake tensors as reasons."""
    state = GlobalState.current()
    try:
        return tracing.run(state)
    except (FakeError, UndecidableError, ContradictionError) as error:
        raise Unsupported(str(error)) from error
    except RuntimeError as error:
        # C++ above the dispatcher tried to read memory, for instance of an index tensor.
        if "data is not allocated" in str(error):
            raise Unsupported("the values in a tensor are needed") from error
        if "inplace" in str(error):
            raise Unsupported(f"autograd refuses: {error}") from error  # here, and in eager perhaps not
        env = tracing.recorder.shape_env
        if env is not None and env.checks:
            # What later operators assume of data is known here from the start, and one of the first does not fit with
            # it: the graph as it was captured fails at one of its assertions.
            raise Unsupported(f"no data is as all operators need it: {error}") from error
        raise
    finally:
        state.restore()


class Tracing:
    """One run of `trace`."""

    def __init__(self, module: torch.fx.GraphModule, example_inputs: Sequence[Any], recorder: Recorder) -> None:
        self.module = module
        self.examples = list(example_inputs)
        self.recorder = recorder
        self.conversion = FakeMode()
        self.inputs: list[Input] = []
        self.values: dict[torch.fx.Node, Any] = {}
        # numbers that data decides on: their names while capturing, and those that they were given here
        self.renamed: dict[Expr, Expr | int | float] = {}
        self.state_changes: list[StateChange] = []
        self.memories: dict[int, int] = {}
        self.modes = EnteredModes()
        self.masks = KnownMasks(recorder)
        # for inputs in the middle of an autograd graph: the leaf that stands before the input
        self.sources: dict[int, FakeTensor] = {}

    def run(self, state: GlobalState) -> FunctionalGraph:
        recorder = self.recorder
        env = recorder.shape_env = environment_of([*self.examples, *_data_results(self.module)])
        known = set(env.guards)
        self.add_inputs()
        torch_compat.push_dispatch_mode(recorder)
        try:
            results = self.interpret()
            if self.modes.stack:
                raise Unsupported("the graph ends inside of a mode")
        finally:
            # Leaving inference mode puts back which modes were active when it was entered, this one among them.
            self.modes.leave()
            torch_compat.pop_dispatch_mode()
        changed = GlobalState.current() != state
        state.restore()
        single = not isinstance(results, (tuple, list))
        values = [results] if single else list(results)
        outputs = self.describe(values, state)
        mutated = self.find_mutations()
        graph = FunctionalGraph(recorder.graph, self.inputs, outputs, mutated, recorder.constants,
                                self.state_changes if changed else [], [], not single,
                                [torch_compat.creation_of(value) if isinstance(value, FakeTensor) else None
                                 for value in values], self.detached_views(values, outputs))
        self.finish(graph)
        graph.guards = [guard for guard in env.guards if guard not in known]
        return graph

    def finish(self, graph: FunctionalGraph) -> None:
        """Close the graph and tidy it."""
        set_results(graph)
        clean_up(graph)
        separate_results(graph)

    # inputs

    def add_inputs(self) -> None:
        memories: dict[int, Memory] = {}
        placeholders = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        if len(placeholders) != len(self.examples):
            raise Unsupported(f"{len(placeholders)} placeholders and {len(self.examples)} example inputs")
        for index, (node, example) in enumerate(zip(placeholders, self.examples, strict=True)):
            fake = memory = None
            if isinstance(example, torch.Tensor):
                fake = self.fresh_input(index, example)
                memory = memories.setdefault(torch_compat.storage_address(fake), Memory())
                memory.inputs = (*memory.inputs, index)
            elif isinstance(example, (int, float)) and node.users:
                # Only the caller knows whether another value could come, so nothing is built on this one.
                raise Unsupported(f"the number {node.name} is no symbol")
            placeholder = self.recorder.add_input(node.name, example, fake, memory)
            if isinstance(example, FakeTensor) and torch_compat.has_symbolic_layout(example):
                # The names that sizes had before the program stated them to be something else: that is to be checked.
                self.recorder.sizes.read_from(example, placeholder)
                placeholder.meta["size_names"] = {0: raw_sizes(example)}
            self.values[node] = example if fake is None else fake
            self.inputs.append(Input(placeholder.name, placeholder, self.values[node]))

    def fresh_input(self, index: int, example: torch.Tensor) -> FakeTensor:
        """A fake of the example's kind that tracing may change. It shares the storage, so aliases stay aliases."""
        fake = self.conversion.from_real(example)
        copy = view_of(fake, *layout_of(fake), offset_of(fake))
        if not fake.requires_grad:
            return copy
        if fake.is_leaf:
            copy.requires_grad_()
            return copy
        source = view_of(fake, *layout_of(fake), offset_of(fake))
        source.requires_grad_()
        with torch.enable_grad():
            copy = _InnerTensor.apply(source, [copy])  # type: ignore[no-untyped-call]
        self.sources[index] = source
        return copy

    # operations

    def interpret(self) -> Any:
        values, recorder = self.values, self.recorder
        checks = None if recorder.shape_env is None or recorder.asserts_checks else recorder.shape_env.checks
        known = 0 if checks is None else len(checks)
        for node in self.module.graph.nodes:
            op = node.op
            if op == "placeholder":
                continue
            if op == "output":
                return self.value_of(node.args[0])
            safe_point()
            meta = node.meta
            recorder.origin = {key: meta[key] for key in _ORIGIN if key in meta}
            args = self.value_of(node.args)
            if op == "get_attr":
                values[node] = self.attribute(node.target)
                continue
            kwargs = self.value_of(node.kwargs) if node.kwargs else {}
            if op == "call_method":
                rule = self.rule_of(node.target, args, kwargs)
                values[node] = (getattr(args[0], node.target)(*args[1:], **kwargs) if rule is None
                                else rule(*args, **kwargs))
            elif op == "call_function":
                if is_profiling(node.target) and any(user.op == "output" for user in node.users):
                    raise Unsupported("a profiler region that ends outside of the graph")
                if "condition" in meta:
                    self.assert_condition(meta["condition"], args)
                    values[node] = None
                    continue
                values[node] = self.call(node.target, args, kwargs)
            else:
                raise Unsupported(f"a node of kind {op}")
            if recorder.data_results:
                # What an operator writes to has the sizes that it had before, and may get others later.
                written = {id(item) for source in node.all_input_nodes for item in tensors_in(values[source])}
                example = meta.get("example_sizes", meta.get("example_value", meta.get("val")))
                self.unify(example, values[node], written)
            if checks is not None and len(checks) > known:
                self.assert_checks(checks[known:])
                known = len(checks)
        raise Unsupported("a graph without an output")

    def value_of(self, argument: Any) -> Any:
        """An argument of a node, with nodes replaced by their values."""
        if isinstance(argument, torch.fx.Node):
            return self.values[argument]
        if isinstance(argument, (tuple, list)):
            items = [self.value_of(item) for item in argument]
            return tuple(items) if isinstance(argument, tuple) else items
        if isinstance(argument, dict):
            return {key: self.value_of(value) for key, value in argument.items()}
        if isinstance(argument, slice):
            return slice(self.value_of(argument.start), self.value_of(argument.stop), self.value_of(argument.step))
        return argument

    def call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is getitem or target is setitem:
            args = (args[0], _plain_lists(args[1]), *args[2:])
        if target is getitem:
            if isinstance(args[0], torch.Tensor) and has_positions(args[1]):
                view, rest = selected(self.select_at, *args)
                return view[rest] if rest else view
            return args[0][args[1]]
        if target is setitem and has_positions(args[1]):
            view, rest = selected(self.select_at, *args[:2])
            view[rest or ...] = args[2]
            return None
        if target is torch.sym_ite or target is floordiv:
            return computed(target, args)
        if getattr(target, "__module__", None) == _CONTROL_FLOW or \
                isinstance(target, torch_compat.HigherOrderOperator) and target.__name__ in _TORCHS_OWN:
            return Handed.trace_control_flow(self, target, args)
        if target is torch.tensor or target is torch.as_tensor:
            args = (_plain(args[0]), *args[1:])
        if self.modes.concerns(target):
            return self.modes.call(target, args)
        if is_profiling(target):
            return None  # regions mean nothing for the kernels that come out
        if is_state_change(target):
            self.state_changes.append(StateChange(target, args))
        rule = self.rule_of(torch_compat.name_in_torch(target), args, kwargs)
        if rule is None:
            return target(*args, **kwargs)
        if is_described(target.__name__):
            return recurrent_call(self.recorder, short_name(target.__name__), rule, args)
        return rule(*args, **kwargs)

    def rule_of(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
        """What runs in the place of a function that C++ takes apart in ways that need plain sizes, or that can be had
        for less."""
        if name == "one_hot":
            return one_hot
        if name in QUANTILES:
            return QUANTILES[name]
        if name == "new_tensor":
            return lambda x, data, **options: x.new_tensor(_plain(data), **options)
        return self.masks.attention if name in ATTENTION else find_function(name, args, kwargs=kwargs)

    def attribute(self, name: str) -> Any:
        value: Any = self.module
        for part in name.split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            return value
        fake = self.conversion.from_real(value)
        if not any(known is value for known in self.recorder.constants.values()):
            self.recorder.add_constant(f"_constant{len(self.recorder.constants)}", value.detach(), fake)
        return fake

    def assert_condition(self, condition: Expr, args: tuple[Any, ...]) -> None:
        """Write down an assertion about numbers that data decides on, also where it is known to hold from here on."""
        recorder = self.recorder
        condition = condition.substitute(self.renamed)
        if not all(recorder.sizes.knows(symbol) for symbol in condition.free_symbols):
            if not isinstance(args[0], _SYMBOLIC):  # taken for granted by now, and nothing would check it
                raise Unsupported(f"a condition on a size that the graph does not tell: {condition}")
            self.call(torch_compat.assert_number, args, {})
            return
        node = recorder.sizes.expression(condition)
        env = recorder.shape_env
        if env is not None and env.decide(condition) is not True:
            env.assume(condition)
        recorder.new_node(torch_compat.assert_number, (node, args[1]), {}, None).meta["condition"] = condition

    def select_at(self, x: torch.Tensor, dim: int, index: Any) -> torch.Tensor:
        """``x.select(dim, index)``, with an assertion where only data decides that the index is inside."""
        env = self.recorder.shape_env
        if isinstance(index, torch.Tensor):
            index = index.item()
            self.recorder.bind_data_results()
            self.recorder.data_results.clear()
        if env is None or not isinstance(index, torch.SymInt) or env.hint(expr_of(index)) is not None:
            return x.select(dim, index)
        place, size = expr_of(index), expr_of(shape_of(x)[dim])
        # An assumption made later may be why it is known to be positive; where that fails, the index may be negative.
        lowest: Expr = -size
        if env.decide(place >= 0) is not True:
            place, lowest = if_else(place < 0, place + size, place), const(0)
        self.assert_condition(and_(place >= lowest, place < size), (True, "an index is out of range"))
        return x.select(dim, make_symbolic(env, place))

    def assert_checks(self, checks: Sequence[ShapeGuard]) -> None:
        """Assertions for what operators have assumed of numbers that data decides on."""
        for check in checks:
            self.assert_condition(check.expr, (True, f"the graph is for the case that {check.expr}"))

    def unify(self, example: Any, value: Any, known: Container[int]) -> None:
        """Numbers that data decides on get the names that they had while capturing, with all that is known of them.

        ``known`` are tensors, by id, whose sizes are none of these.
        """
        recorder = self.recorder
        env = recorder.shape_env
        assert env is not None
        for old, new in _numbers(example, value, known):
            was, now = old.node.raw_expr, new.node.raw_expr
            if isinstance(was, Symbol) and isinstance(now, Symbol) and was is not now:
                self.renamed[was] = now
            condition = eq(expr_of(new), expr_of(old))
            if env.decide(condition) is not True:
                env.assume(condition)
        recorder.bind_data_results()
        recorder.data_results.clear()

    # results

    def describe(self, results: list[Any], state: GlobalState) -> list[Output]:
        shared: dict[int, list[FakeTensor]] = {}
        for value in results:
            if isinstance(value, FakeTensor):
                memory = self.recorder.tracked(value).memory
                group = shared.setdefault(id(memory), [])
                if not any(value is other for other in group):
                    group.append(value)
        outputs: list[Output] = []
        for position, value in enumerate(results):
            if isinstance(value, FakeTensor):
                earlier = next((i for i in range(position) if results[i] is value), None)
                if earlier is not None:
                    known = outputs[earlier]
                    outputs.append(known if isinstance(known, InputAlias) and known.view is None else SameAs(earlier))
                    continue
                alone = len(shared[id(self.recorder.tracked(value).memory)]) == 1
                output = self.tensor(value, alone, state)
                if isinstance(output, FreshTensor) and output.view is None and output in outputs:
                    # another object with the same layout
                    output = replace(output, view=_layout(value, value))
                outputs.append(output)
            elif isinstance(value, _SYMBOLIC):
                node = self.recorder.sizes.node_of(value)
                outputs.append(Number(node) if isinstance(node, torch.fx.Node) else Constant(node))
            elif value is None or isinstance(value, (bool, int, float, complex, str)):
                outputs.append(Constant(value))
            else:
                raise Unsupported(f"a result of type {type(value).__name__}")
        return outputs

    def tensor(self, value: FakeTensor, alone: bool, state: GlobalState) -> Output:
        """``alone``: no other result shares its memory."""
        recorder = self.recorder
        tracked = recorder.tracked(value)
        memory = tracked.memory
        for index in memory.inputs:
            if self.inputs[index].example is value:
                return InputAlias(index)
        self.check_gradient(value)
        if value.is_inference() and not state.inference or state.inference and not (
                value.is_inference() or memory.inputs):
            raise Unsupported("a result made in inference mode")
        root = memory.root
        if self.leaves_versions and not (alone and not memory.inputs) and not value.is_inference() \
                and not any(torch_compat.shares_version(other, value) for other in self.versions(memory)):
            raise Unsupported("a result with the memory, but not the version, of another tensor: Tensor.data")
        if memory.inputs:
            # Of inputs that share memory it is a view of one: in another call they may not share it.
            top = tracked.top
            index = next(i for i in memory.inputs if self.inputs[i].example is top.fake)
            self.check_alias(value, top.fake)
            return InputAlias(index, _layout(value, top.fake))
        number = self.memories.setdefault(id(memory), len(self.memories))
        # Who looks at the strides of a result sees those of dimensions of size 1, too.
        if tracked is root or (same_layout(value, root.fake) and value.dtype is root.fake.dtype
                               and same_numbers(layout_of(value)[1], layout_of(root.fake)[1])):
            return FreshTensor(recorder.current(root), None, number)
        if alone and known_equal(storage_size(*layout_of(value)), numel_of(value)):
            return FreshTensor(recorder.current(tracked), None, number)
        return FreshTensor(recorder.current(root), _layout(value, root.fake), number)

    def detached_views(self, results: list[Any], outputs: list[Output]) -> dict[int, DetachedBase]:
        """Results, by position, that autograd does not take for views of what they are made from when the graph runs.

        Those that require grad are left out: of these it is known how they are made.
        """
        made_from: dict[int, torch.Tensor] = {}
        for value, output in zip(results, outputs, strict=True):
            if isinstance(output, FreshTensor) and output.view is None:
                made_from.setdefault(output.memory, _view_base(value))
        detached: dict[int, DetachedBase] = {}
        bases: dict[int, tuple[int, torch.dtype]] = {}
        for position, (value, output) in enumerate(zip(results, outputs, strict=True)):
            if not isinstance(output, (FreshTensor, InputAlias)) or output.view is None or value.requires_grad \
                    or (creation := torch_compat.creation_of(value)) is None:
                continue
            base = _view_base(value)
            if isinstance(output, InputAlias):
                source = self.inputs[output.index].example
            else:
                root = self.recorder.tracked(value).memory.root.fake
                source = made_from.setdefault(output.memory, root if root.requires_grad else base)
            if base is source:
                continue
            number, dtype = bases.setdefault(id(base), (len(bases), value.dtype))
            result = next((at for at, other in enumerate(results) if other is base), None)
            if value.dtype is not (dtype if result is None else base.dtype):
                raise Unsupported("views of a detached tensor in several dtypes")
            detached[position] = DetachedBase(number, result, creation)
        return detached

    @functools.cached_property
    def leaves_versions(self) -> bool:
        """Whether the program reads `Tensor.data`, whose changes are not counted as changes of the tensor."""
        return any(node.target is getattr and node.args[1:] == ("data",) for node in self.module.graph.nodes)

    def versions(self, memory: Memory) -> list[FakeTensor]:
        """Tensors in a memory with all the versions that results made from it can have."""
        return [memory.root.fake, *(self.inputs[index].example for index in memory.inputs)]

    def check_gradient(self, value: FakeTensor) -> None:
        """Called for every result that is no input: here none may need gradients."""
        if value.requires_grad:
            raise Unsupported("training")

    def check_alias(self, value: FakeTensor, source: FakeTensor) -> None:
        """Called for every result that is a view of an input: here all are what autograd takes for views of it."""
        if source.requires_grad and not value.requires_grad:
            raise Unsupported("a detached view of an input that requires grad")

    def check_mutation(self, index: int, fake: FakeTensor) -> None:
        """Called for every changed input: here none may have got another history."""
        if fake.grad_fn is not None and index not in self.sources:
            raise Unsupported("training")
        if index in self.sources and type(fake.grad_fn).__name__ != "_InnerTensorBackward":
            raise Unsupported("training")

    def find_mutations(self) -> list[Mutation]:
        mutated = []
        for index, entry in enumerate(self.inputs):
            if not isinstance(entry.example, FakeTensor):
                continue
            given, fake = self.examples[index], entry.example
            if fake.grad_fn is None and (fake.requires_grad, fake.is_leaf) != (given.requires_grad, given.is_leaf):
                raise Unsupported(f"autograd is told something else of the input {entry.name}")
            tracked = self.recorder.tracked(fake)
            # What is written may be what was there: autograd counts that too.
            changed = tracked.node is not entry.node or not fake.is_inference() and torch_compat.version_of(fake)
            if tracked.memory.root is tracked and changed:
                if given.is_inference() and not torch.is_inference_mode_enabled():
                    raise Unsupported("an inference tensor is changed outside of inference mode")
                self.check_mutation(index, fake)
                refuse_overlap("what is written back", fake, ())  # by a copy of all of it, which torch refuses
                assert tracked.node is not None
                # Inputs in one memory may have one count or several: they are taken to be changed once.
                uncertain = len(tracked.memory.inputs) > 1 or fake.is_inference()
                mutated.append(Mutation(index, tracked.node, 1 if uncertain else torch_compat.version_of(fake)))
        return mutated


class _InnerTensor(torch.autograd.Function):
    """Makes a tensor one with a history: not a leaf, and no view of one."""

    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, copy: list[torch.Tensor]) -> torch.Tensor:
        """The copy, behind the source. In a list it is no argument for torch, which would make a view of it."""
        ctx.set_materialize_grads(False)  # where no gradient comes there is none, rather than zeros
        return copy[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradient of the copy is that of the source."""
        return gradients[0], None


def environment_of(examples: Iterable[Any]) -> ShapeEnv:
    """The environment of the first symbol in some values, tensors or numbers; a new one where there is none."""
    for example in examples:
        for number in (*example.shape, *example.stride()) if isinstance(example, FakeTensor) else (example,):
            if isinstance(number, _SYMBOLIC):
                if not isinstance(number.node, SymNode):
                    raise Unsupported("symbols of another system")
                return number.node.shape_env.env
    return ShapeEnv()


def _data_results(module: torch.fx.GraphModule) -> Iterator[Any]:
    """Numbers of a graph, and tensors whose sizes may be such: where only data decides them, no input has symbols."""
    for node in module.graph.nodes:
        value = node.meta.get("example_value", node.meta.get("val"))
        yield from (value if isinstance(value, (tuple, list)) else (value,))


def _view_base(value: FakeTensor) -> torch.Tensor:
    """The tensor that autograd takes a view for a view of; of others they themselves."""
    base = torch_compat.view_base(value)
    return value if base is None else base


def _numbers(example: Any, value: Any, known: Container[int]) -> list[tuple[Any, Any]]:
    """Pairs of numbers at the same places, where one of them is symbolic; without sizes of ``known`` tensors."""
    if isinstance(value, torch.Tensor):
        if id(value) in known:
            return []
        value = tuple(value.shape)
        if isinstance(example, torch.Tensor):
            example = tuple(example.shape)
    if isinstance(example, (tuple, list)) and isinstance(value, (tuple, list)):
        return [pair for one, other in zip(example, value, strict=True) for pair in _numbers(one, other, known)]
    return [(example, value)] if isinstance(example, _SYMBOLIC) and isinstance(value, _SYMBOLIC) else []


def _layout(value: FakeTensor, root: FakeTensor) -> ViewLayout:
    start, size = root.storage_offset(), value.dtype.itemsize
    if size != root.dtype.itemsize:
        start = start * root.dtype.itemsize // size
    return ViewLayout(tuple(value.shape), tuple(value.stride()), value.storage_offset() - start, value.dtype)


def set_results(graph: FunctionalGraph) -> None:
    """The output node: fresh results, then changed inputs."""
    nodes = [output.node for output in graph.outputs if isinstance(output, (FreshTensor, Number))]
    graph.graph.output(tuple([*nodes, *(change.node for change in graph.mutated)]))


def _plain(data: Any) -> Any:
    """What a tensor is made of with plain integers: torch would decide on symbols and keep 32 bits of them."""
    if isinstance(data, (list, tuple)):
        return [_plain(item) for item in data]
    return int(data) if isinstance(data, torch.SymInt) else data


def _plain_lists(index: Any) -> Any:
    """An index with plain integers in its lists, which become tensors."""
    if isinstance(index, tuple):
        return tuple([_plain_lists(part) for part in index])
    return _plain(index) if isinstance(index, list) else index
