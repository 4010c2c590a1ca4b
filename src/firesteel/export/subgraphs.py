"""Control flow operators in exported programs: their functions become graphs of their own, held by the program's graph.

    true_graph_0 = self.true_graph_0
    false_graph_0 = self.false_graph_0
    cond = firesteel.control_flow.operators.cond(gt, true_graph_0, false_graph_0, [x])
    getitem = cond[0]

Tensors and numbers from around that the functions use are passed to them as further operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..control_flow import operators
from ..fake import FakeTensor
from ..fake.tensor import new_fake
from ..functional.graph import Unsupported
from ..functional.size_nodes import SizeNodes
from ..shapes import Symbol
from ..shapes.symnode import make_symbolic
from .errors import ExportError
from .pre_dispatch import PreDispatchRecorder

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class BodyRecorder(PreDispatchRecorder):
    """Records the graph of a function; what it uses from around becomes a further input."""

    def __init__(self, outer: PreDispatchRecorder) -> None:
        super().__init__()
        self.outer = outer
        self.shape_env = outer.shape_env
        self.sizes = _BodySizes(self)
        self.lift = self._lift_outside
        self.captured: list[Any] = []
        self._last_placeholder: torch.fx.Node | None = None

    def add_placeholder(self, name: str, value: Any) -> torch.fx.Node:
        node = super().add_placeholder(name, value)
        self._last_placeholder = node
        return node

    def capture(self, value: Any) -> torch.fx.Node:
        """A further input."""
        self.captured.append(value)
        first = next((node for node in self.graph.nodes if node.op != "placeholder"), None)
        with self.graph.inserting_before(first) if first is not None else self.graph.inserting_after(
                self._last_placeholder):
            return self.add_placeholder(f"outer_{len(self.captured)}", value)

    def node_of(self, fake: FakeTensor) -> torch.fx.Node:
        if not self.knows_tensor(fake) and self.outer.has_tensor(fake):
            return self.capture(fake)
        return super().node_of(fake)

    def has_tensor(self, fake: FakeTensor) -> bool:
        return super().has_tensor(fake) or self.outer.has_tensor(fake)

    def _lift_outside(self, tensor: torch.Tensor, fake: FakeTensor) -> torch.fx.Node:
        """A tensor that the whole program takes from outside comes by way of the graphs around this one."""
        return self.capture(self.outer.outside(tensor))

    def from_real(self, t: torch.Tensor, layout: Any = None) -> FakeTensor:
        return self.outer.from_real(t, layout)


class _BodySizes(SizeNodes):
    def __init__(self, recorder: BodyRecorder) -> None:
        super().__init__(recorder._new_size_node)
        self.recorder = recorder

    def symbol_node(self, symbol: Symbol) -> Any:
        if self.knows(symbol):
            return super().symbol_node(symbol)
        env = self.recorder.shape_env
        assert env is not None
        return self.recorder.capture(make_symbolic(env, symbol))


Run = Callable[[PreDispatchRecorder, Any, Sequence[Any]], Sequence[Any]]


def record_control_flow(recorder: PreDispatchRecorder, operator: Any, args: tuple[Any, ...],
                        run: Run) -> tuple[Any, ...]:
    """Write an operator down and return its results; ``run`` runs one of its functions under a recorder."""
    torch_compat.pop_dispatch_mode()
    try:
        return _RECORD[operator](_Call(recorder, operator, run), *args)
    finally:
        torch_compat.push_dispatch_mode(recorder)


class _Call:
    """One operator being recorded."""

    def __init__(self, recorder: PreDispatchRecorder, operator: Any, run: Run) -> None:
        self.recorder = recorder
        self.operator = operator
        self.run = run
        self.bodies: list[tuple[str, BodyRecorder, list[Any]]] = []

    def body(self, name: str, function: Any, operands: Sequence[Any], named: Sequence[Any] | None = None) -> list[Any]:
        """Record the graph of a function; its results. Inputs are called after the tensors in ``named``."""
        recorder = BodyRecorder(self.recorder)
        recorder.locate = self.recorder.locate
        recorder.origin = self.recorder.origin
        inputs = [_fresh(value) for value in operands]
        taken: set[str] = set()
        for at, value in enumerate(inputs):
            given = (operands if named is None else named)[at]
            known = isinstance(given, FakeTensor) and self.recorder.has_tensor(given)
            node = self.recorder.node_of(given) if known else None
            # A tensor may be an operand twice: what a loop begins with, and what its body uses besides.
            called = node.name if node is not None and node.name not in taken else f"arg_{at}"
            taken.add(called)
            recorder.add_placeholder(called, value)
        torch_compat.push_dispatch_mode(recorder)
        try:
            results = list(self.run(recorder, function, inputs))
        finally:
            torch_compat.pop_dispatch_mode()
        outputs: list[Any] = []
        for result in results:
            if isinstance(result, torch.Tensor):
                outputs.append(recorder.node_of(result if isinstance(result, FakeTensor) else recorder.outside(result)))
            elif isinstance(result, _SYMBOLIC):
                outputs.append(recorder.sizes.node_of(result))
            elif isinstance(result, (bool, int, float)):
                outputs.append(result)
            else:
                raise ExportError(f"{self.operator.__name__}: a function returns a {type(result).__qualname__}",
                                  "Return tensors.", recorder.origin.get("user_frames", ()))
        recorder.graph.output(tuple(outputs))
        self.bodies.append((name, recorder, results))
        return results

    def finish(self, arguments: Callable[[list[Any], list[Any]], tuple[Any, ...]],
               results: Sequence[Any]) -> tuple[Any, ...]:
        """Record the call: ``arguments`` are made from the graphs' nodes and the further operands."""
        outer = self.recorder
        captured = _union([recorder for _, recorder, _ in self.bodies])
        graphs = []
        for name, recorder, _ in self.bodies:
            _take_all(recorder, captured)
            number = sum(known.startswith(name) for known in outer.subgraphs)
            attribute = f"{name}_{number}"
            root = torch.nn.Module()
            for inner_name, inner in recorder.subgraphs.items():
                root.add_module(inner_name, inner)
            outer.subgraphs[attribute] = torch.fx.GraphModule(root, recorder.graph, class_name=attribute)
            node = outer.graph.create_node("get_attr", attribute)
            node.meta.update(outer.locate() if outer.locate is not None else outer.origin, val=None)
            graphs.append(node)
        fakes = tuple([new_fake(value.shape, value.stride(), value.dtype, value.device) for value in results])
        node = outer.new_node(self.operator, outer._argument_tuple(arguments(graphs, captured)), {}, fakes)
        for at, fake in enumerate(fakes):
            outer.bind(fake, outer.new_node(getitem, (node, at), {}, fake))
        return fakes


def _union(recorders: Sequence[BodyRecorder]) -> list[Any]:
    united: list[Any] = []
    for recorder in recorders:
        united += [value for value in recorder.captured if not any(_same(value, other) for other in united)]
    return united


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, _SYMBOLIC) and isinstance(other, _SYMBOLIC) and str(one) == str(other))


def _take_all(recorder: BodyRecorder, captured: Sequence[Any]) -> None:
    """Give a graph all further inputs in one order, those of the other graphs included."""
    own = {id(value): node for value, node in zip(recorder.captured, _captured_nodes(recorder), strict=True)}
    before = next(node for node in recorder.graph.nodes if node.op != "placeholder")
    for position, value in enumerate(captured):
        known = next((own[id(other)] for other in recorder.captured if _same(value, other)), None)
        with recorder.graph.inserting_before(before):
            node = recorder.graph.placeholder(f"captured_{position}")
        node.target = node.name
        node.meta["val"] = value
        if known is not None:
            known.replace_all_uses_with(node)
            recorder.graph.erase_node(known)


def _captured_nodes(recorder: BodyRecorder) -> list[torch.fx.Node]:
    placeholders = [node for node in recorder.graph.nodes if node.op == "placeholder"]
    return placeholders[len(placeholders) - len(recorder.captured):]


def _fresh(value: Any) -> Any:
    """An operand as a function sees it: another tensor of the same kind, as it belongs to another graph."""
    if not isinstance(value, FakeTensor):
        return value
    return new_fake(value.shape, value.stride(), value.dtype, value.device)


# ---------------------------------------------------------------------------------------------------------------------
# the operators


def _record_cond(call: _Call, pred: Any, true_graph: Any, false_graph: Any, operands: Sequence[Any]) -> tuple[Any, ...]:
    first = call.body("true_graph", true_graph, operands)
    second = call.body("false_graph", false_graph, operands)
    _check_equal(call, first, second)
    return call.finish(lambda graphs, more: (pred, *graphs, [*operands, *more]), first)


def _record_while(call: _Call, cond_graph: Any, body_graph: Any, carried: Sequence[Any],
                  additional: Sequence[Any] = ()) -> tuple[Any, ...]:
    call.body("while_cond_graph", cond_graph, [*carried, *additional])
    results = call.body("while_body_graph", body_graph, [*carried, *additional])
    _check_equal(call, list(carried), results)
    return call.finish(lambda graphs, more: (*graphs, list(carried), [*additional, *more]), results)


def _record_scan(call: _Call, body_graph: Any, init: Sequence[Any], xs: Sequence[Any],
                 additional: Sequence[Any] = ()) -> tuple[Any, ...]:
    results = call.body("scan_graph", body_graph, [*init, *map(_slice, xs), *additional], [*init, *xs, *additional])
    count = len(init)
    _check_equal(call, list(init), results[:count])
    stacked = [_stacked(xs[0].shape[0], value) for value in results[count:]]
    return call.finish(lambda graphs, more: (*graphs, list(init), list(xs), [*additional, *more]),
                       [*results[:count], *stacked])


def _record_map(call: _Call, body_graph: Any, xs: Sequence[Any], additional: Sequence[Any] = ()) -> tuple[Any, ...]:
    results = call.body("body_graph", body_graph, [*map(_slice, xs), *additional], [*xs, *additional])
    stacked = [_stacked(xs[0].shape[0], value) for value in results]
    return call.finish(lambda graphs, more: (*graphs, list(xs), [*additional, *more]), stacked)


_RECORD: dict[Any, Callable[..., tuple[Any, ...]]] = {
    operators.cond: _record_cond, operators.while_loop: _record_while, operators.scan: _record_scan,
    operators.map: _record_map,
}


def results_of(operator: Any, args: tuple[Any, ...]) -> list[Any]:
    """Fakes like the results of a recorded operator, from the results of its graphs."""
    graph = args[1] if operator in (operators.cond, operators.while_loop) else args[0]
    output = next(node for node in reversed(graph.graph.nodes) if node.op == "output")
    fakes = [node.meta["val"] for node in output.args[0]]
    if operator in (operators.cond, operators.while_loop):
        return fakes
    carried, xs = (0, args[1]) if operator is operators.map else (len(args[1]), args[2])
    return [*fakes[:carried], *[_stacked(xs[0].shape[0], value) for value in fakes[carried:]]]


def _slice(x: FakeTensor) -> FakeTensor:
    return new_fake(x.shape[1:], x.stride()[1:], x.dtype, x.device)


def _stacked(length: Any, value: Any) -> FakeTensor:
    return new_fake((length, *value.shape), None, value.dtype, value.device)


def _check_equal(call: _Call, first: Sequence[Any], second: Sequence[Any]) -> None:
    name = call.operator.__name__
    if len(first) != len(second):
        raise ExportError(f"{name}: its functions give {len(first)} and {len(second)} tensors",
                          "Both must return the same number of tensors.")
    for position, (one, other) in enumerate(zip(first, second, strict=True)):
        kinds = [(str(tuple(value.shape)), value.dtype, value.device) if isinstance(value, torch.Tensor)
                 else type(value) for value in (one, other)]
        if kinds[0] != kinds[1]:
            raise ExportError(f"{name}: result {position} of its functions differs: {one} and {other}",
                              "Both must return tensors of the same shape, dtype and device.")
        if not isinstance(one, torch.Tensor):
            raise Unsupported(f"{name} of numbers")
