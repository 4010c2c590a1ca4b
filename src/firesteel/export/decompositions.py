"""`run_decompositions`: a program in functional ATen operators, with some of them written in simpler ones.

Before, with a buffer that is changed in place, and after, with its new contents as an output:

    add_ = aten.add_.Tensor(b_count, 1)           add = aten.add.Tensor(b_count, 1)
    relu = aten.relu.default(x)                   relu = aten.relu.default(x)
    return (relu,)                                return (add, relu)

Compositions that are functional by themselves (``linear``, ``conv2d``) stay unless the table names them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..control_flow import operators
from ..fake import FakeError, FakeTensor
from ..fake.dims import layout_of
from ..fake.functions import find_composition, find_function, is_described, is_symbolic
from ..fake.mode import dispatch, wants_plain_sizes
from ..fake.products import matmul_by_parts
from ..fake.resampling import any_factor
from ..fake.rules import find_rule
from ..fake.tensor import new_fake
from ..functional.graph import Input, Unsupported
from ..functional.operators import Kind, Operator, operator_of
from ..functional.recorder import Recorder
from ..functional.state import GlobalState
from ..functional.tracing import Tracing, environment_of
from ..functional.views import View, same_layout
from ..shapes import ContradictionError, ShapeEnv, UndecidableError
from ..torch_compat.below_autograd import below_autograd, set_grad_mode
from ..torch_compat.tracing import composite_operators, core_decompositions
from .errors import ExportError
from .functional_calls import copied, fresh_results, written_copies
from .lifting import argument_of
from .pre_dispatch import is_opaque
from .program import ExportedProgram
from .recurrent_steps import by_steps
from .signature import (
    ConstantArgument,
    CustomObjArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from .source_functions import following, note_origin
from .subgraphs import results_of

_ATEN = torch.ops.aten
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_MUTATION = {
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
}

Table = dict[Any, Callable[..., Any]]


def default_decompositions() -> Table:
    """The table to the core operators: torch's decompositions, and all compositions of eager.

    >>> import torch, firesteel as fs
    >>> table = fs.export.default_decompositions()
    >>> del table[torch.ops.aten.linear.default]
    >>> program = fs.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),)).run_decompositions(table)
    >>> [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    ['aten.linear.default']
    """
    return dict(_default_table())


@functools.cache
def _default_table() -> Mapping[Any, Callable[..., Any]]:
    table: Table = {}
    for op in composite_operators():
        if _is_functional(op) and op not in _SPECIAL:
            table[op] = _composition(op)
    table[_ATEN.matmul.default] = _matmul
    table.update(core_decompositions())
    return table


def _composition(op: Any) -> Callable[..., Any]:
    def composition(*args: Any, **kwargs: Any) -> Any:
        rule = find_composition(op, args, kwargs)
        if rule is not None:
            return rule(*args, **kwargs)
        if is_network:
            result = by_steps(op.__name__, args)
            if result is not NotImplemented or _is_of_any_length(op, args):
                return result
        return torch_compat.run_composition(op, args, kwargs)

    is_network = is_described(op.__name__)
    composition.__name__ = f"composition_of_{op}"
    return composition


def _matmul(left: Any, right: Any) -> Any:
    """As torch takes it apart; by parts in releases where C++ needs plain sizes for that."""
    try:
        return torch_compat.run_composition(_ATEN.matmul.default, (left, right), {})
    except Exception as error:
        if not wants_plain_sizes(error) or max(left.dim(), right.dim()) < 3 or not min(left.dim(), right.dim()):
            raise
    return matmul_by_parts(left, right)


@functools.cache
def _is_functional(op: Any) -> bool:
    """Whether an operator neither writes to its arguments nor returns parts of them."""
    schema = torch_compat.schema_of(op)
    return not torch_compat.mutates_arguments(op) and not any(
        part.alias_info is not None for part in (*schema.arguments, *schema.returns))


# ---------------------------------------------------------------------------------------------------------------------
# operators that write without saying so


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float,
                cudnn_enabled: bool = True) -> Any:
    if not training:
        return _ATEN._native_batch_norm_legit_no_training.default(x, weight, bias, mean, variance, momentum, eps)[0]
    if mean is None:
        return _ATEN._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)[0]
    return _ATEN._native_batch_norm_legit.default(x, weight, bias, mean, variance, True, momentum, eps)[0]


_SPECIAL: Table = {_ATEN.batch_norm.default: _batch_norm, _ATEN.lift_fresh_copy.default: _ATEN.clone.default}
# Compositions that are taken apart even so: what they return may be their argument, or they write to it.
_UNSAFE = frozenset({"instance_norm", "_batch_norm_impl_index", "embedding_renorm_", "rnn_relu", "feature_dropout"})


def _is_of_any_length(func: Any, args: Sequence[Any]) -> bool:
    """Whether a call is a recurrent network that cannot be taken apart into steps."""
    return is_described(func.__name__) and is_symbolic(args[0])


class FunctionalRecorder(Recorder):
    """Records functional operators; those of a table are taken apart by the table alone."""

    def __init__(self, table: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self.table = table
        self._inside = 0
        self.objects: dict[int, torch.fx.Node] = {}
        """Inputs that are objects which operators take, by the ids of these."""

    def _argument(self, value: Any) -> Any:
        return self.objects[id(value)] if id(value) in self.objects and is_opaque(value) else super()._argument(value)

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._inside:
            return dispatch(self, func, args, kwargs)
        decomposition = self.table.get(func) or _SPECIAL.get(func)
        if decomposition is not None:
            result = self.run(decomposition, args, kwargs)
            if result is not NotImplemented:
                return self._in_layout(func, args, kwargs, result)
        operator = operator_of(func)
        if operator.kind is Kind.COMPOSITE and _is_functional(func) and (
                torch_compat.schema_of(func).name.partition("::")[2] not in _UNSAFE or _is_of_any_length(func, args)):
            return self._whole(operator, args, kwargs)
        return super().call(func, args, kwargs)

    def _write(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if operator.writes is not None or operator.name.startswith("aten."):
            return super()._write(operator, args, kwargs)
        return self._write_copies(operator, args, kwargs)

    def _write_copies(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A custom operator that has no functional form: it writes to copies, which are the new contents."""
        func = operator.func
        places = [(position if position < len(args) else name, name)
                  for position, name in torch_compat.written_arguments(func)]
        targets = tuple([at for at, _ in places if isinstance(at, int) or at in kwargs])
        values = [args[at] if isinstance(at, int) else kwargs[at] for at in targets]
        self._inside += 1
        try:
            copies = [self.run(copied, (value,)) for value in values]
            given = [copies[targets.index(at)] if at in targets else value for at, value in enumerate(args)]
            named = {key: copies[targets.index(key)] if key in targets else value for key, value in kwargs.items()}
            result = dispatch(self, func, tuple(given), named)
        finally:
            self._inside -= 1
        results = (*fresh_results(func, result), *copies)
        node = self.new_node(written_copies, (
            operator.name.replace(".", "::", 1), targets, *[self._argument(value) for value in args]),
            {key: self._argument(value) for key, value in kwargs.items()}, results)
        self._take(results, node)
        for value, copy in zip(values, copies, strict=True):
            for one, new in zip(value, copy, strict=True) if isinstance(value, (list, tuple)) else ((value, copy),):
                if isinstance(one, FakeTensor):
                    self.assign(one, new)
        fresh = iter(results)
        schema = torch_compat.schema_of(func)
        aliases = {str(spec.alias_info.before_set): at for at, spec in enumerate(schema.arguments) if spec.alias_info}
        returned = []
        for spec in schema.returns:
            at = None if spec.alias_info is None else aliases[str(spec.alias_info.before_set)]
            returned.append(next(fresh) if at is None else args[at] if at < len(args)
                            else kwargs[schema.arguments[at].name])
        return None if not returned else returned[0] if len(returned) == 1 else tuple(returned)

    def _in_layout(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """Results of a decomposition with the strides of the operator's: views that come later rely on them."""
        operator = operator_of(func)
        if operator.kind is not Kind.PURE or _strides_do_not_matter(result):
            return result
        self._inside += 1
        try:
            expected = dispatch(self, func, args, kwargs)
        finally:
            self._inside -= 1
            self.data_symbols.clear()
        several = isinstance(result, (tuple, list))
        restrided = [self._restrided(one, other) for one, other in zip(result if several else [result],
                                                                   expected if several else [expected], strict=False)]
        return type(result)(restrided) if several else restrided[0]

    def _restrided(self, value: Any, like: Any) -> Any:
        if not isinstance(value, FakeTensor) or not isinstance(like, FakeTensor) or value.dim() != like.dim() \
                or same_layout(value, like):
            return value
        order = sorted(range(like.dim()), key=lambda dim: (_stride_rank(like, dim), dim))
        back = [order.index(dim) for dim in range(len(order))]
        return self.run(lambda: value.permute(order).clone(memory_format=torch.contiguous_format).permute(back))

    def _whole(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A composition that stays."""
        self._inside += 1
        try:
            if find_rule(operator.name) is not None:
                result = dispatch(self, operator.func, args, kwargs)
            else:
                rule = find_function(operator.name.split(".")[1], args, exports=True)
                result = self.run(torch_compat.run_composition, (operator.func, args, kwargs)) if rule is None \
                    else self.run(rule, args, kwargs)
        finally:
            self._inside -= 1
        if any(result is value for value in args if isinstance(value, torch.Tensor)):
            return result  # it did nothing
        self.record(operator.func, args, kwargs, result)
        return result

    def _make_view(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if operator.func is not _ATEN.detach.default:
            return super()._make_view(operator, args, kwargs)
        result = dispatch(self, operator.func, args, kwargs)
        self._add_view(self.tracked(args[0]), result, View(operator.func))  # elsewhere it is the tensor itself
        return result

    def _compute(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = dispatch(self, operator.func, args, kwargs)
        self.record(operator.func, args, kwargs, result)
        return result


def _strides_do_not_matter(result: Any) -> bool:
    values = result if isinstance(result, (tuple, list)) else (result,)
    return not any(isinstance(value, FakeTensor) and value.dim() > 1 for value in values)


def _stride_rank(fake: FakeTensor, dim: int) -> int:
    """How far outside a dimension lies, 0 the outermost."""
    strides = layout_of(fake)[1]
    return sum(bool(strides[other] > strides[dim]) for other in range(fake.dim()))


def _examples_of(placeholders: Sequence[torch.fx.Node]) -> list[Any]:
    """The values of inputs; one that is the second name of a tensor, and not used, does not share its memory here."""
    examples: list[Any] = []
    for node in placeholders:
        value = node.meta["val"]
        if isinstance(value, FakeTensor) and not node.users and any(value is other for other in examples):
            value = new_fake(value.shape, value.stride(), value.dtype, value.device)
        examples.append(value)
    return examples


class _FunctionalGraph(Tracing):
    """Runs a graph while the recorder writes down the functional one."""

    def __init__(self, module: torch.fx.GraphModule, table: Mapping[Any, Callable[..., Any]], env: ShapeEnv) -> None:
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        super().__init__(module, _examples_of(placeholders), FunctionalRecorder(table))
        self.recorder.shape_env = env
        self.table = table
        self.subgraphs: dict[str, torch.fx.GraphModule] = {}
        self.add_inputs()
        for entry in self.inputs:
            if is_opaque(entry.example):
                assert isinstance(self.recorder, FunctionalRecorder)
                self.recorder.objects[id(entry.example)] = entry.node

    def results(self) -> Any:
        """The values of the graph's outputs."""
        with following(list(self.module.graph.nodes), self.recorder.graph) as origins:
            torch_compat.push_dispatch_mode(self.recorder)
            try:
                values = self.interpret()
            finally:
                torch_compat.pop_dispatch_mode()
        for node, origin in origins.items():
            node.meta.update({key: origin.meta[key] for key in ("torch_fn", "source_fn_stack") if key in origin.meta})
            note_origin(node, origin, "run_decompositions")
        return values

    def call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is torch.is_grad_enabled:
            return self.recorder.new_node(target, (), {}, torch.is_grad_enabled())
        if target is set_grad_mode:
            argument = args[0]
            set_grad_mode(argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument)
            self.recorder.new_node(set_grad_mode, args, {}, None)
            return None
        if target in operators.OPERATORS:
            return self._control_flow(target, args)
        return super().call(target, args, kwargs)

    def rule_of(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The recorder knows those rules itself."""

    def node_of(self, value: Any) -> Any:
        """A value of the program as the functional graph has it: a node, or a plain number."""
        if isinstance(value, FakeTensor):
            return self.recorder.node_of(value)
        return self.recorder.sizes.node_of(value) if isinstance(value, _SYMBOLIC) else value

    def module_of(self, outputs: Sequence[Any]) -> torch.fx.GraphModule:
        """The functional graph with these outputs."""
        graph = self.recorder.graph
        graph.output(tuple(outputs))
        _remove_dead_nodes(graph)
        root = torch.nn.Module()
        for name, part in self.subgraphs.items():
            root.add_module(name, part)
        return torch.fx.GraphModule(root, graph, class_name=type(self.module).__name__)

    def changed_inputs(self) -> list[tuple[Input, torch.fx.Node]]:
        """Inputs that the graph writes to, and their new contents."""
        positions = []
        for entry in self.inputs:
            if isinstance(entry.example, FakeTensor):
                tracked = self.recorder.tracked(entry.example)
                if tracked.memory.root is tracked and tracked.node is not None and tracked.node is not entry.node:
                    positions.append((entry, tracked.node))
        return positions

    def _control_flow(self, target: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        recorder = self.recorder
        torch_compat.pop_dispatch_mode()
        try:
            given: list[Any] = []
            for arg in args:
                given.append(self._body(arg) if isinstance(arg, torch.fx.GraphModule) else recorder._argument(arg))
        finally:
            torch_compat.push_dispatch_mode(recorder)
        fakes = tuple([new_fake(value.shape, value.stride(), value.dtype, value.device)
                       for value in results_of(target, args)])
        node = recorder.new_node(target, tuple(given), {}, fakes)
        recorder._take(fakes, node)
        return fakes

    def _body(self, module: torch.fx.GraphModule) -> torch.fx.Node:
        assert self.recorder.shape_env is not None
        body = _FunctionalGraph(module, self.table, self.recorder.shape_env)
        results = body.results()
        if body.changed_inputs():
            raise Unsupported("a function of a control flow operator that changes its operands")
        name = type(module).__name__
        name = name if name not in self.subgraphs else f"{name}_{len(self.subgraphs)}"
        self.subgraphs[name] = body.module_of([body.node_of(value) for value in results])
        node = self.recorder.graph.create_node("get_attr", name)
        node.meta["val"] = None
        return node


def run_decompositions(program: ExportedProgram, table: Mapping[Any, Callable[..., Any]]) -> ExportedProgram:
    """The functional form of a program, with the operators of a table taken apart."""
    tracing = _FunctionalGraph(
        program.graph_module, table, environment_of([node.meta.get("val") for node in program.graph.nodes]))
    state = GlobalState.current()
    try:
        with below_autograd(), any_factor():
            values = tracing.results()
    except (FakeError, UndecidableError, ContradictionError, Unsupported) as error:
        frames = tracing.recorder.origin.get("user_frames", ())
        raise ExportError(f"run_decompositions: {error}", None, frames) from error
    finally:
        state.restore()
    old = program.graph_signature
    inputs = [_renamed(spec, entry.node) for spec, entry in zip(old.input_specs, tracing.inputs, strict=True)]
    by_name = {spec.arg.name: spec for spec in inputs}
    outputs: list[Any] = []
    specs: list[OutputSpec] = []
    for entry, node in sorted(tracing.changed_inputs(),
                              key=lambda pair: by_name[pair[0].name].kind is InputKind.USER_INPUT):
        spec = by_name[entry.name]
        if spec.kind not in _MUTATION:
            raise ExportError(f"the program changes the constant {spec.target}",
                              "Register it as a buffer (self.register_buffer).")
        outputs.append(node)
        target = spec.target if spec.target is not None else entry.name
        specs.append(OutputSpec(_MUTATION[spec.kind], TensorArgument(node.name), target))
    kept = [spec for spec in old.output_specs if spec.kind is not OutputKind.USER_OUTPUT]
    for result, value in zip(old.output_specs, values, strict=True):
        if result.kind is not OutputKind.USER_OUTPUT:
            continue
        node = tracing.node_of(value)
        outputs.append(node)
        argument = argument_of(node, value) if isinstance(node, torch.fx.Node) else ConstantArgument("", node)
        specs.append(OutputSpec(OutputKind.USER_OUTPUT, argument, None))
    if kept:
        outputs, specs = _with_earlier(tracing.recorder, kept, old, values, outputs, specs)
    return program.replace(tracing.module_of(outputs), ExportGraphSignature(inputs, specs))


def _with_earlier(recorder: Recorder, kept: list[OutputSpec], old: ExportGraphSignature, values: Any,
                  outputs: list[Any], specs: list[OutputSpec]) -> tuple[list[Any], list[OutputSpec]]:
    """A program that is functional already has its mutations as outputs."""
    nodes = [recorder.node_of(value) for spec, value in zip(old.output_specs, values, strict=True)
             if spec.kind is not OutputKind.USER_OUTPUT]
    again = [OutputSpec(spec.kind, TensorArgument(node.name), spec.target)
             for spec, node in zip(kept, nodes, strict=True)]
    return [*nodes, *outputs], [*again, *specs]


def _renamed(spec: InputSpec, node: torch.fx.Node) -> InputSpec:
    if isinstance(spec.arg, CustomObjArgument):
        return InputSpec(spec.kind, CustomObjArgument(node.name, spec.arg.class_fqn), spec.target, spec.persistent)
    return InputSpec(spec.kind, argument_of(node, node.meta["val"]) if not isinstance(spec.arg, ConstantArgument)
                     else ConstantArgument(node.name, spec.arg.value), spec.target, spec.persistent)


def _remove_dead_nodes(graph: torch.fx.Graph) -> None:
    """Computations that nothing depends on, random numbers excepted: they move the generator."""
    for node in reversed(graph.nodes):
        if node.op == "get_attr" and not node.users:
            graph.erase_node(node)
        if node.op != "call_function" or node.users or node.target is set_grad_mode:
            continue
        if isinstance(node.target, torch_compat.OpOverload):
            operator = operator_of(node.target)
            if operator.has_effect or operator.random or operator.kind is Kind.WRITES:
                continue
        graph.erase_node(node)
