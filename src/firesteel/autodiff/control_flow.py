"""Tracing of control flow operators: their graphs become functional bodies, the call one node of the functional graph.

    cond(gt, true_graph, false_graph, (x, w))    ->    cond = control_flow.cond(gt, x, w)
                                                       true (x, w): sin = aten.sin.default(x) ...

Where operands need gradients, autograd sees one function whose backward is recorded as another such node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import torch_compat
from ..control_flow import operators
from ..fake import FakeTensor
from ..fake.dims import known_equal, layout_of, offset_of
from ..fake.tensor import new_fake, view_of
from ..functional.cleanup import separate_results
from ..functional.graph import Constant, FreshTensor, FunctionalGraph, Input, InputAlias, Unsupported, needed_for
from ..functional.recorder import Recorder
from ..functional.subprograms import Body, Cond, Scan, ScanBackward, Subprogram, WhileLoop, WhileLoopBackward
from ..records import dataclass
from ..shapes import Symbol
from ..shapes.symnode import expr_of, make_symbolic
from ..torch_compat.graph_modules import LazyGraphModule

if TYPE_CHECKING:
    from ..functional.tracing import Tracing
    from .joint_graph import JointGraph

_ATEN = torch.ops.aten
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def trace_call(tracing: Tracing, target: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results of an operator on fake tensors; its node is recorded."""
    recorder = tracing.recorder
    if target not in _TRACERS:
        target = _TORCHS_OWN[target.__name__]
    torch_compat.pop_dispatch_mode()
    try:
        outcome = _TRACERS[target](recorder, *args)
    finally:
        torch_compat.push_dispatch_mode(recorder)
    return outcome.call()


@dataclass
class Call:
    """A traced operator, ready to be recorded."""

    recorder: Recorder
    program: Subprogram
    operands: list[Any]
    results: list[FakeTensor]
    """What the results are like, and whether they need gradients."""
    backward: Callable[[], Backward] | None = None

    def call(self) -> tuple[Any, ...]:
        """Record the node; with its backward behind it where gradients are needed."""
        if self.backward is None:
            return self.record(self.program, self.operands, self.results)
        if self.program.random:
            raise Unsupported(f"gradients of {self.program.title} with random numbers inside")
        torch_compat.pop_dispatch_mode()
        try:
            backward = self.backward()
        finally:
            torch_compat.push_dispatch_mode(self.recorder)
        return _Differentiated.apply(self, backward, *self.operands)  # type: ignore[no-untyped-call,no-any-return]

    def record(self, program: Subprogram, operands: Sequence[Any], like: Sequence[FakeTensor]) -> tuple[Any, ...]:
        results = tuple([new_fake(fake.shape, fake.stride(), fake.dtype, fake.device) for fake in like])
        self.recorder.record(program, tuple(operands), {}, results)
        return results


@dataclass
class Backward:
    """The operator that computes gradients."""

    program: Subprogram
    tangents: list[int]
    """The results whose gradients it takes, behind the operands."""
    gradients: list[int]
    """The operands whose gradients it gives."""


class _Differentiated(torch.autograd.Function):
    """A recorded operator as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, call: Call, backward: Backward, *operands: Any) -> Any:
        recorder = call.recorder
        # values in a functional graph never change, tensors of the program may
        ctx.nodes = [recorder._argument(operand) for operand in operands]
        ctx.like = [operands[at] for at in backward.gradients]
        ctx.call, ctx.program = call, backward
        ctx.set_materialize_grads(False)
        results = call.record(call.program, operands, call.results)
        known = set(backward.tangents)
        ctx.mark_non_differentiable(*[result for at, result in enumerate(results) if at not in known])
        return results

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> Any:
        call, backward = ctx.call, ctx.program
        recorder = call.recorder
        given = []
        for at in backward.tangents:
            tangent, fake = tangents[at], call.results[at]
            if tangent is None:
                tangent = torch.zeros(tuple(fake.shape), dtype=fake.dtype, device=fake.device)
            given.append(recorder._argument(tangent))
        fakes = tuple([new_fake(like.shape, None, like.dtype, like.device) for like in ctx.like])
        node = recorder.new_node(backward.program, (*ctx.nodes, *given), {}, fakes)
        recorder._take(fakes, node)
        gradients: list[Any] = [None] * len(ctx.nodes)
        for at, gradient in zip(backward.gradients, fakes, strict=True):
            gradients[at] = gradient
        return None, None, *gradients


# ---------------------------------------------------------------------------------------------------------------------
# the operators


def _trace_cond(recorder: Recorder, pred: Any, true_graph: Any, false_graph: Any, operands: Sequence[Any]) -> Call:
    operands = [_unexpanded(recorder, value) for value in operands]
    given = [*operands, *_more_symbols(recorder, operands)]
    graphs = [_extended(graph, len(given) - len(operands)) for graph in (true_graph, false_graph)]
    bodies = [_body(recorder, name, graph, given) for name, graph in zip(("true", "false"), graphs, strict=True)]
    results, others = _results(bodies[0]), _results(bodies[1])
    if len(results) != len(others) or any(_differ(one, other) for one, other in zip(results, others, strict=True)):
        raise Unsupported("cond: the results of its graphs differ in shape, strides or dtype")
    call = Call(recorder, Cond(tuple(bodies), "cond"), [pred, *given], results)
    if _needs_gradients(given):
        wanted = _differentiable(given)
        joints = [_joint(recorder, graph, given, wanted) for graph in graphs]
        tangents = sorted({at for joint in joints for at in joint.differentiable})
        if tangents:
            def backward() -> Backward:
                bodies = [_gradient_body(name, joint, given, results, tangents, wanted)
                          for name, joint in zip(("true", "false"), joints, strict=True)]
                return Backward(Cond(tuple(bodies), "cond_backward"), tangents, [1 + at for at in wanted])

            call.backward = backward
    return call


def _trace_while_loop(recorder: Recorder, cond_graph: Any, body_graph: Any, carried: Sequence[Any],
                      additional: Sequence[Any] = ()) -> Call:
    additional = [_unexpanded(recorder, value) for value in additional]
    more = [*additional, *_more_symbols(recorder, [*carried, *additional])]
    extra = len(more) - len(additional)
    # begins with tensors of its own, without gaps, as eager does
    begun = [_recorded(recorder, lambda value: value.clone(), value) for value in carried]
    given = [*begun, *more]
    count = len(begun)
    test = _body(recorder, "condition", _extended(cond_graph, extra), given)
    graph = _in_layout(_extended(body_graph, extra), begun)
    body = _body(recorder, "body", graph, given)
    results = _results(body)
    if any(_differ(one, other) for one, other in zip(begun, results, strict=True)):
        raise Unsupported("while_loop: what is carried changes its shape, strides or dtype")
    call = Call(recorder, WhileLoop((test, body), "while_loop", count), given, results)
    if _needs_gradients(given):
        joint, differentiable = _loop_joint(recorder, graph, given, count)
        wanted = [at for at in _differentiable(given) if at >= count]
        if differentiable:
            def backward() -> Backward:
                back = _gradient_body("backward", joint, given, results, differentiable, [*differentiable, *wanted])
                program = WhileLoopBackward((test, body, back), "while_loop_backward", count, len(more),
                                            tuple(differentiable), tuple(at - count for at in wanted))
                return Backward(program, differentiable, [*differentiable, *wanted])

            call.backward = backward
    return call


def _trace_scan(recorder: Recorder, body_graph: Any, init: Sequence[Any], xs: Sequence[Any],
                additional: Sequence[Any] = ()) -> Call:
    xs, additional = ([_unexpanded(recorder, value) for value in values] for values in (xs, additional))
    slices = [_slice(x) for x in xs]
    more = [*additional, *_more_symbols(recorder, [*init, *slices, *additional])]
    begun = [_recorded(recorder, lambda value: value.clone(), value) for value in init]
    given = [*begun, *slices, *more]
    count, length = len(begun), xs[0].shape[0]
    graph = _in_layout(_extended(body_graph, len(more) - len(additional)), begun)
    body = _body(recorder, "body", graph, given)
    body_results = _results(body)
    if any(_differ(one, other) for one, other in zip(begun, body_results, strict=False)):
        raise Unsupported("scan: what is carried changes its shape, strides or dtype")
    stacked = [new_fake((length, *y.shape), None, y.dtype, y.device) for y in body_results[count:]]
    results = [*body_results[:count], *stacked]
    title = "scan" if count else "map"
    operands = [*begun, *xs, *more]
    call = Call(recorder, Scan((body,), title, count, len(xs)), operands, results)
    if _needs_gradients(operands):
        needs = [isinstance(value, torch.Tensor) and value.requires_grad for value in operands]
        joint, carried = _loop_joint(recorder, graph, given, count, needs)
        ys = [at for at in joint.differentiable if at >= count]
        of_slices = [at for at in range(count, count + len(xs)) if needs[at]]
        wanted = [at for at in range(count + len(xs), len(operands)) if needs[at]]
        if carried or ys:
            def backward() -> Backward:
                tangents = [*carried, *ys]
                gradients = [*carried, *of_slices, *wanted]
                back = _gradient_body("backward", joint, given, body_results, tangents, gradients)
                program = ScanBackward((body, back), f"{title}_backward", count, len(xs), len(more), tuple(carried),
                                       tuple(at - count for at in of_slices),
                                       tuple(at - count - len(xs) for at in wanted))
                return Backward(program, tangents, gradients)

            call.backward = backward
    return call


def _trace_map(recorder: Recorder, body_graph: Any, xs: Sequence[Any], additional: Sequence[Any] = ()) -> Call:
    return _trace_scan(recorder, body_graph, (), xs, additional)


_TRACERS: dict[Any, Callable[..., Call]] = {
    operators.cond: _trace_cond, operators.while_loop: _trace_while_loop, operators.scan: _trace_scan,
    operators.map: _trace_map,
}
# torch's operators with the same arguments, in graphs that its own front end captured
_TORCHS_OWN = {"cond": operators.cond, "while_loop": operators.while_loop, "scan": operators.scan,
               "map_impl": operators.map}


# ---------------------------------------------------------------------------------------------------------------------
# bodies


def _body(recorder: Recorder, name: str, graph: torch.fx.GraphModule, given: Sequence[Any]) -> Body:
    """A graph made functional for such operands."""
    from ..functional.tracing import trace

    functional = trace(graph, [_plain(value) for value in given], is_core=recorder._is_core)
    _check(functional)
    return Body(name, functional)


def _check(functional: FunctionalGraph) -> None:
    if functional.mutated:
        raise Unsupported("a body of a control flow operator changes its operands")
    if functional.state_changes:
        raise Unsupported("a body of a control flow operator changes the state of torch")
    if not all(isinstance(output, FreshTensor) for output in functional.outputs):
        kinds = {type(output).__name__ for output in functional.outputs if not isinstance(output, FreshTensor)}
        raise Unsupported(f"a body of a control flow operator returns {', '.join(sorted(kinds))}")


def _results(body: Body) -> list[FakeTensor]:
    """Fakes like the results of a body."""
    results = []
    for output in body.graph.outputs:
        assert isinstance(output, FreshTensor)
        value = output.node.meta["val"]
        if output.view is None:
            results.append(new_fake(value.shape, value.stride(), value.dtype, value.device))
        else:
            view = output.view
            results.append(new_fake(view.shape, view.stride, view.dtype, value.device))
    return results


def _plain(value: Any, needs_gradient: bool = False) -> Any:
    """An operand as an example for tracing: one that autograd knows nothing of, or a leaf."""
    if not isinstance(value, FakeTensor):
        return value
    copy = view_of(value, *layout_of(value), offset_of(value))
    return copy.requires_grad_() if needs_gradient else copy


def _slice(x: FakeTensor) -> FakeTensor:
    shape, stride = layout_of(x)
    return view_of(x, shape[1:], stride[1:], offset_of(x))


def _recorded(recorder: Recorder, function: Callable[[Any], Any], value: Any) -> Any:
    torch_compat.push_dispatch_mode(recorder)
    try:
        return function(value)
    finally:
        torch_compat.pop_dispatch_mode()


def _unexpanded(recorder: Recorder, value: Any) -> Any:
    """An operand whose elements lie at places of their own: how an expanded one lies in memory is nobody's promise."""
    if not isinstance(value, FakeTensor):
        return value
    if not any(known_equal(step, 0) and not known_equal(size, 1) for size, step in zip(*layout_of(value), strict=True)):
        return value
    return _recorded(recorder, lambda expanded: expanded.contiguous(), value)


def _differ(one: FakeTensor, other: FakeTensor) -> bool:
    if one.dtype is not other.dtype or one.device != other.device or one.dim() != other.dim():
        return True
    (shape, stride), (other_shape, other_stride) = layout_of(one), layout_of(other)
    return not all(known_equal(size, other_size) and (known_equal(size, 1) or known_equal(a, b)) for
                   size, other_size, a, b in zip(shape, other_shape, stride, other_stride, strict=True))


def _needs_gradients(operands: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in operands)


def _differentiable(operands: Sequence[Any]) -> list[int]:
    return [at for at, value in enumerate(operands) if isinstance(value, torch.Tensor) and value.requires_grad]


def _more_symbols(recorder: Recorder, operands: Sequence[Any]) -> list[Any]:
    """Symbols in sizes of operands that cannot be read from them: a body takes them as numbers."""
    from ..functional.size_nodes import collect_symbols

    used: set[Symbol] = set()
    readable: set[Symbol] = set()
    for value in operands:
        collect_symbols(value, used)
        numbers = (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)
        for number in numbers:
            if isinstance(number, _SYMBOLIC) and isinstance(expr_of(number), Symbol):
                readable.add(expr_of(number))  # type: ignore[arg-type]
    missing = sorted((symbol for symbol in used - readable if recorder.sizes.knows(symbol)), key=str)
    assert recorder.shape_env is not None
    return [make_symbolic(recorder.shape_env, symbol) for symbol in missing]


def _extended(module: torch.fx.GraphModule, count: int) -> torch.fx.GraphModule:
    """A graph with more placeholders, which it does not use."""
    if not count:
        return module
    graph, _ = _copy(module)
    last = [node for node in graph.nodes if node.op == "placeholder"]
    position = graph.inserting_after(last[-1]) if last else graph.inserting_before(next(iter(graph.nodes)))
    with position:
        names = [graph.placeholder(f"symbol_{number}") for number in reversed(range(count))]
    del names
    return LazyGraphModule(module, graph)


def _in_layout(module: torch.fx.GraphModule, carried: Sequence[FakeTensor]) -> torch.fx.GraphModule:
    """A body whose first results have the strides of what is carried."""
    if not carried:
        return module
    graph, _ = _copy(module)
    end = graph.output_node()
    results: Any = list(end.args[0])  # type: ignore[arg-type]
    for at, fake in enumerate(carried):
        with graph.inserting_before(end):
            results[at] = graph.call_function(like_carried, (results[at], tuple(_order(fake))))
    end.args = (tuple(results),)
    return LazyGraphModule(module, graph)


def like_carried(value: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """A tensor that lies in memory without gaps, its dimensions in an order from the outermost to the innermost."""
    back = [0] * len(order)
    for position, dim in enumerate(order):
        back[dim] = position
    return value.permute(list(order)).contiguous().permute(back)


def _order(fake: FakeTensor) -> list[int]:
    """The dimensions of a dense tensor from the outermost to the innermost."""
    shape, stride = layout_of(fake)
    left = list(range(len(shape)))
    order: list[int] = []
    step: Any = 1
    while left:
        inner = next((dim for dim in reversed(left) if known_equal(stride[dim], step)), None)
        if inner is None:
            inner = left[-1]
        left.remove(inner)
        order.insert(0, inner)
        step = step * shape[inner]
    return order


def _copy(module: torch.fx.GraphModule) -> tuple[torch.fx.Graph, dict[torch.fx.Node, torch.fx.Node]]:
    graph = torch.fx.Graph()
    new: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in module.graph.nodes:
        new[node] = graph.node_copy(node, new.__getitem__)
    return graph, new


# ---------------------------------------------------------------------------------------------------------------------
# gradients


@dataclass
class _Joint:
    """Forward and backward of a body; ``differentiable`` are the results that gradients come back to."""

    graph: JointGraph | None
    differentiable: list[int]


def _joint(recorder: Recorder, module: torch.fx.GraphModule, given: Sequence[Any], wanted: Sequence[int]) -> _Joint:
    from .joint import trace_training
    from .joint_graph import History, JointGraph

    graph, _ = _copy(module)
    end = graph.output_node()
    copies = []
    for result in end.args[0]:  # type: ignore[union-attr]
        with graph.inserting_before(end):
            copies.append(graph.call_method("clone", (result,)))  # type: ignore[arg-type]
    end.args = (tuple(copies),)
    examples = [_plain(value, at in wanted) for at, value in enumerate(given)]
    traced = trace_training(LazyGraphModule(module, graph), examples, is_core=recorder._is_core)
    if not isinstance(traced, JointGraph):
        return _Joint(None, [])
    if traced.mutated or any(isinstance(output, (InputAlias, Constant)) for output in traced.outputs):
        raise Unsupported("a body of a control flow operator changes or returns its operands")
    return _Joint(traced, [at for at, remade in enumerate(traced.remade) if remade.history is not History.NONE])


def _loop_joint(recorder: Recorder, module: torch.fx.GraphModule, given: Sequence[Any], count: int,
                needs: Sequence[bool] | None = None) -> tuple[_Joint, list[int]]:
    """The same for the body of a loop, with the carried values that need gradients in the end."""
    if needs is None:
        needs = [isinstance(value, torch.Tensor) and value.requires_grad for value in given]
    wanted = [at for at, need in enumerate(needs) if need]
    while True:
        joint = _joint(recorder, module, given, wanted)
        carried = sorted({at for at in (*joint.differentiable, *wanted) if at < count})
        new = sorted({*wanted, *carried})
        if new == wanted:
            return joint, carried
        wanted = new


def _gradient_body(name: str, joint: _Joint, given: Sequence[Any], results: Sequence[FakeTensor],
                   tangents: Sequence[int], wanted: Sequence[int]) -> Body:
    """The functional graph from operands and tangents to gradients, all by rows."""
    graph = torch.fx.Graph()
    new: dict[torch.fx.Node, torch.fx.Node] = {}
    inputs: list[Input] = []
    placed: list[torch.fx.Node] = []

    def add_input(title: str, value: Any) -> torch.fx.Node:
        node = graph.placeholder(title)
        node.meta["val"] = value
        inputs.append(Input(node.name, node, value))
        return node

    source = joint.graph
    constants: dict[str, torch.Tensor] = {}
    for at, value in enumerate(given):
        node = add_input(f"operand_{at}", _plain(value))
        placed.append(node)
        if source is not None:
            new[source.inputs[at].node] = node
    known: dict[int, torch.fx.Node] = {}
    if source is not None:
        memories = {item.memory: item.tangent for item in source.differentiable if item.tangent is not None}
        for at in joint.differentiable:
            output = source.outputs[at]
            assert isinstance(output, FreshTensor)
            known[at] = memories[output.memory]
    for at in tangents:
        fake = results[at] if at not in known else known[at].meta["val"]
        node = add_input(f"tangent_{at}", new_fake(fake.shape, fake.stride(), fake.dtype, fake.device))
        if at in known:
            new[known[at]] = node
    gradients = [None if source is None else source.gradients[at] for at in wanted]
    if source is not None:
        needed = needed_for([output.node for output in gradients if isinstance(output, FreshTensor)])
        for node in source.graph.nodes:
            if node in needed and node not in new:
                new[node] = graph.node_copy(node, new.__getitem__)
                new[node].meta = dict(node.meta)
                if node.op == "get_attr":
                    constants[str(node.target)] = source.constants[str(node.target)]
    outputs: list[Any] = []
    for at, gradient in zip(wanted, gradients, strict=True):
        fake = new_fake(given[at].shape, None, given[at].dtype, given[at].device)
        if not isinstance(gradient, FreshTensor):
            result = graph.call_function(_ATEN.zeros_like.default, (placed[at],),
                                         {"memory_format": torch.contiguous_format})
            result.meta["val"] = fake
        else:
            result = new[gradient.node]
            if _differ(result.meta["val"], fake):
                result = graph.call_function(_ATEN.clone.default, (result,), {"memory_format": torch.contiguous_format})
                result.meta["val"] = fake
        outputs.append(FreshTensor(result, None, len(outputs)))
    graph.output(tuple([output.node for output in outputs]))
    functional = FunctionalGraph(graph, inputs, outputs, [], constants)
    separate_results(functional)
    return Body(name, functional)
