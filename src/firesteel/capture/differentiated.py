"""``torch.func.grad``, ``vjp`` and ``jvp`` in captured code, and what is made of them: jacobians, hessians.

The function is captured as a graph that the operation owns; gradients come about when the operation runs.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..functional.transforms import differentiated, pullback_of, pulled_back, pushed_forward
from .control_flow import add_call
from .markers import control_flow_operator
from .regions import reachable
from .signals import GraphBreak, Restart
from .transform_bodies import (
    TransformBody,
    add_transform,
    argument_numbers,
    capture_body,
    refuse_asked,
    stand_in,
    try_transform,
)
from .trees import LEAF, Structure, flatten, rebuild
from .values.base import Value
from .values.constants import ConstantValue
from .values.sequences import TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    import torch.fx

    from .entry_code import EntryCode
    from .tracer import Tracer


class _Arguments:
    """The arguments of a function, some of which are differentiated."""

    def __init__(self, tx: Tracer, title: str, args: Sequence[Value], numbers: int | tuple[int, ...]) -> None:
        chosen = TupleValue([args[number] for number in numbers]) if isinstance(numbers, tuple) else args[numbers]
        self.args = args
        self.numbers = numbers
        self.leaves, self.structure = flatten(tx, chosen)
        if not _only_tensors(self.structure):
            raise GraphBreak(f"{title} with respect to something that is no tensor")

    def with_leaves(self, tx: Tracer, leaves: Sequence[TensorValue]) -> list[Value]:
        """All arguments, with these tensors in the place of those that are differentiated."""
        chosen = rebuild(tx, self.structure, iter(leaves))
        args = list(self.args)
        if isinstance(self.numbers, tuple):
            for number, value in zip(self.numbers, tx.to_list(chosen), strict=True):
                args[number] = value
        else:
            args[self.numbers] = chosen
        return args


def _only_tensors(structure: Structure) -> bool:
    if structure[0] in ("constant", "number"):
        return False
    return structure == LEAF or all(map(_only_tensors, structure[2]))


def _capture(tx: Tracer, title: str, function: Value, arguments: _Arguments, kwargs: dict[str, Value],
             has_aux: bool) -> tuple[TransformBody, Structure, Structure | None, int]:
    """The function on leaves that need gradients: its graph, what it returns, and how many tensors of that count."""
    leaves = [stand_in(tx, leaf, _leaf(title, leaf.fake)) for leaf in arguments.leaves]
    with torch.enable_grad():
        body = capture_body(tx, title, lambda: tx.call(function, arguments.with_leaves(tx, leaves), kwargs),
                            arguments.leaves, leaves)
    return body, *_parts(title, body.structure, has_aux)


def _leaf(title: str, fake: torch.Tensor) -> torch.Tensor:
    if not (fake.dtype.is_floating_point or fake.dtype.is_complex):
        raise GraphBreak(f"{title} with respect to a tensor of {fake.dtype}")
    with torch.enable_grad():
        return fake.detach().requires_grad_()


def _parts(title: str, structure: Structure, has_aux: bool) -> tuple[Structure, Structure | None, int]:
    """The structure of what is differentiated, that of what is returned besides, and the tensors in the first one."""
    if not has_aux:
        return structure, None, _count(structure)
    if structure[0] != "tuple" or len(structure[2]) != 2:
        raise GraphBreak(f"{title} with has_aux of a function that does not return a pair")
    first, second = structure[2]
    if not _only_tensors(second):
        raise GraphBreak(f"{title} with has_aux of a function that returns something besides that is no tensor")
    return first, second, _count(first)


def _count(structure: Structure) -> int:
    if structure[0] in ("constant", "number"):
        return 0
    return 1 if structure == LEAF else sum(map(_count, structure[2]))


@control_flow_operator("grad_and_value")
def call_grad_and_value(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``grad_and_value_impl(func, argnums, has_aux, args, kwargs)``."""
    bound = dict(zip(("func", "argnums", "has_aux", "args", "kwargs"), args, strict=False)) | kwargs
    given = tx.to_list(bound["args"])
    has_aux = tx.truth(bound["has_aux"])
    arguments = _Arguments(tx, "grad", given, argument_numbers(tx, bound["argnums"], len(given), "grad"))
    named = _keywords(tx, bound["kwargs"])
    refuse_asked(tx, "grad", [*given, *named.values()])
    body, output, aux, count = _capture(tx, "grad", bound["func"], arguments, named, has_aux)
    if output != LEAF or body.results[0].fake.dim():
        raise GraphBreak("grad of a function that does not return a scalar tensor")
    values, _ = add_transform(tx, "grad", differentiated, body, len(arguments.leaves))
    of_arguments, (value, *others) = values[:len(arguments.leaves)], values[len(arguments.leaves):]
    gradients = rebuild(tx, arguments.structure, iter(of_arguments))
    result = value if aux is None else TupleValue([value, rebuild(tx, aux, iter(others))])
    return TupleValue([gradients, result])


def _keywords(tx: Tracer, value: Value) -> dict[str, Value]:
    entries: Any = value.realize()
    return {tx.constant_of(key): item for key, item in entries.fill(tx).values()}


@control_flow_operator("vjp")
def call_vjp(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``_vjp_with_argnums(func, *primals, argnums=None, has_aux=False)``."""
    given = args[1:]
    if not given:
        raise GraphBreak("vjp without arguments")
    refuse_asked(tx, "vjp", given)
    chosen = kwargs.get("argnums", ConstantValue(None))
    numbers: Any = tuple(range(len(given))) if tx.constant_of(chosen) is None \
        else argument_numbers(tx, chosen, len(given), "vjp")
    arguments = _Arguments(tx, "vjp", given, numbers)
    has_aux = "has_aux" in kwargs and tx.truth(kwargs["has_aux"])
    body, output, aux, count = _capture(tx, "vjp", args[0], arguments, {}, has_aux)
    if not count or not _only_tensors(output) or \
            any(not (result.fake.dtype.is_floating_point or result.fake.dtype.is_complex)
                for result in body.results[:count]):
        raise GraphBreak("vjp of a function that returns something that is no tensor of floats")
    values, node = add_transform(tx, "vjp", pulled_back, body, len(arguments.leaves), count)
    pullback = PullbackValue(_last_part(tx, node), output, arguments.structure, tx.root_step)
    results = [rebuild(tx, output, iter(values[:count])), pullback]
    return TupleValue(results if aux is None else [*results, rebuild(tx, aux, iter(values[count:]))])


def _last_part(tx: Tracer, node: torch.fx.Node) -> torch.fx.Node:
    results = node.meta["example_value"]
    part = tx.graph.graph.call_function(operator.getitem, (node, len(results) - 1))
    part.meta["example_value"] = results[-1]
    return part


class PullbackValue(Value):
    """The function that ``vjp`` returns. It is a value inside of the graph, and cannot leave it."""

    __slots__ = ("node", "of", "step", "to")
    fixed_type = type(lambda: None)

    def __init__(self, node: torch.fx.Node, of: Structure, to: Structure, step: int) -> None:
        super().__init__(None)
        self.node = node
        self.step = step
        """The step of the root frame in which ``vjp`` is called."""
        self.of = of
        """The structure of the results whose gradients it takes."""
        self.to = to
        """The structure of the gradients that it returns."""

    def emit(self, code: EntryCode) -> str:
        raise Restart(self.step, GraphBreak("the function that vjp returns is needed outside of the graph",
                                            "call it in the compiled function"))

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """``vjp_fn(cotangents, retain_graph=True, create_graph=None)``."""
        named = dict(zip(("cotangents", "retain_graph", "create_graph"), args, strict=False)) | kwargs
        cotangents, structure = flatten(tx, named["cotangents"])
        refuse_asked(tx, "vjp", cotangents)
        if structure != self.of:
            raise GraphBreak("a function of vjp is called with another structure than that of the results")
        retain = tx.truth(named.get("retain_graph", ConstantValue(True)))
        create = tx.constant_of(named.get("create_graph", ConstantValue(None)))
        nodes = tuple([value.node for value in cotangents])
        fakes = try_transform(tx, "vjp", pullback_of, [
            self.node.meta["example_value"], [value.fake for value in cotangents], True, create])
        values = add_call(tx, pullback_of, (self.node, nodes, retain, create), list(fakes))
        return rebuild(tx, self.to, iter(values))


@control_flow_operator("jvp")
def call_jvp(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``_jvp_with_argnums(func, primals, tangents, argnums, *, strict=False, has_aux)``."""
    bound = dict(zip(("func", "primals", "tangents", "argnums"), args, strict=False)) | kwargs
    if "strict" in bound and tx.truth(bound["strict"]):
        raise GraphBreak("jvp with strict=True")
    primals = bound["primals"].realize()
    if not isinstance(primals, TupleValue):
        raise GraphBreak("jvp of primals that are no tuple")
    given = tx.to_list(primals)
    whole = tx.constant_of(bound["argnums"]) is None
    numbers: Any = tuple(range(len(given))) if whole else argument_numbers(tx, bound["argnums"], len(given), "jvp")
    numbers = numbers if isinstance(numbers, tuple) else (numbers,)
    arguments = _Arguments(tx, "jvp", given, numbers)
    tangents, structure = flatten(tx, bound["tangents"])
    refuse_asked(tx, "jvp", [*given, *tangents])
    if structure != arguments.structure or not tangents:
        raise GraphBreak("jvp of primals and tangents with different structures")
    leaves = [stand_in(tx, leaf, leaf.fake.view_as(leaf.fake)) for leaf in arguments.leaves]
    body = capture_body(tx, "jvp", lambda: tx.call(bound["func"], arguments.with_leaves(tx, leaves), {}),
                        arguments.leaves, leaves)
    output, aux, count = _parts("jvp", body.structure, tx.truth(bound["has_aux"]))
    if not count or not _only_tensors(output):
        raise GraphBreak("jvp of a function that returns something that is no tensor")
    values, _ = add_transform(tx, "jvp", pushed_forward, body, tuple([tangent.node for tangent in tangents]), count)
    results = [rebuild(tx, output, iter(values[:count])), rebuild(tx, output, iter(values[len(body.results):]))]
    if aux is not None:
        results.append(rebuild(tx, aux, iter(values[count:len(body.results)])))
    return TupleValue(results)


@control_flow_operator("functionalize")
def call_functionalize(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``functionalize(func, *, remove="mutations")``: graphs change nothing in place when they are compiled anyway."""
    if len(args) != 1 or tx.constant_of(kwargs.get("remove", ConstantValue("mutations"))) != "mutations":
        raise GraphBreak("functionalize that removes views as well", "leave out remove=")
    return args[0]


_WITHOUT_DERIVATIVE = frozenset({
    "detach", "detach_", "data", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like",
    "randint_like", "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "new_empty_strided"})


def _has_derivative(node: torch.fx.Node, of: set[torch.fx.Node]) -> bool:
    """Whether a node is computed from one of some others, through floats and operations that have a derivative."""
    queue, seen = [node], set()
    while queue:
        node = queue.pop()
        value = node.meta.get("example_value")
        names = (node.target, getattr(node.target, "__name__", None), *node.args[1:2])
        if node in seen or isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex()) \
                or not _WITHOUT_DERIVATIVE.isdisjoint(name for name in names if isinstance(name, str)):
            continue
        if node in of:
            return True
        seen.add(node)
        queue.extend(node.all_input_nodes)
    return False


class DerivativeValue(Value):
    """The function that ``linearize`` returns: the derivative of a captured graph. It cannot leave the graph."""

    __slots__ = ("arguments", "body", "step")
    fixed_type = type(lambda: None)

    def __init__(self, body: TransformBody, arguments: _Arguments, step: int) -> None:
        super().__init__(None)
        self.body = body
        self.arguments = arguments
        self.step = step
        """The step of the root frame in which ``linearize`` is called."""

    def leave(self, reason: str, hint: str = "") -> Restart:
        """The signal to run ``linearize`` in Python, and with it everything about this function."""
        return Restart(self.step, GraphBreak(reason, hint))

    def emit(self, code: EntryCode) -> str:
        raise self.leave("the function that linearize returns is needed outside of the graph",
                         "call it in the compiled function")

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """``derivative(*tangents)``."""
        tangents, structure = flatten(tx, TupleValue(args))
        refuse_asked(tx, "linearize", tangents)
        leaves = self.arguments.leaves
        if kwargs or structure != self.arguments.structure or any(
                tangent.fake.shape != leaf.fake.shape or tangent.fake.dtype is not leaf.fake.dtype
                for tangent, leaf in zip(tangents, leaves, strict=True)):
            raise self.leave("the function that linearize returns is called on other tensors than its primals")
        body = self.body
        body.place = None  # the last one may be in another graph
        values, _ = add_transform(tx, "linearize", pushed_forward, body,
                                  tuple([tangent.node for tangent in tangents]), len(body.results))
        return rebuild(tx, body.structure, iter(values[len(body.results):]))


@control_flow_operator("linearize")
def call_linearize(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``linearize(func, *primals)``. The function is called, and then captured once more for its derivative, as in
    plain Python, where that records operators."""
    function, *primals = args
    if kwargs or not primals:
        raise GraphBreak("linearize with unusual arguments")
    refuse_asked(tx, "linearize", primals)
    arguments = _Arguments(tx, "linearize", primals, tuple(range(len(primals))))
    before, symbols = set(tx.graph.graph.nodes), set(tx.shape_env.symbols)
    drew, tx.fake.draws_random = tx.fake.draws_random, False
    outer, tx.effects.changes = tx.effects.changes, []
    try:
        result = tx.call(function, primals, {})
        drawing = tx.fake.draws_random
    finally:
        tx.fake.draws_random = tx.fake.draws_random or drew
        changes, tx.effects.changes = tx.effects.changes or [], outer
        if outer is not None:
            outer.extend(changes)
    if any(value is None or value.source is not None or id(value) in reachable(args) for value in changes):
        raise GraphBreak("linearize of a function that changes something")
    output, structure = flatten(tx, result)
    if drawing:
        raise GraphBreak("linearize of a function that draws random numbers")
    if not _only_tensors(structure):
        raise GraphBreak("linearize of a function that returns something that is no tensor")
    if not all(map(tx.shape_env.is_backed, set(tx.shape_env.symbols) - symbols)) or any(
            node.target in ("item", "tolist") for node in tx.graph.graph.nodes if node not in before):
        raise GraphBreak("linearize of a function that reads elements")  # which raises
    if not all(_has_derivative(leaf.node, {value.node for value in arguments.leaves}) for leaf in output):
        raise GraphBreak("linearize of a function with a result that has no derivative")  # it becomes a Parameter
    if torch.is_grad_enabled() and any(leaf.fake.requires_grad for leaf in output):
        # the recorded derivative depends on some of them for autograd, and on others not
        raise GraphBreak("linearize of a function of tensors that require grad", "use jvp instead")
    leaves = [stand_in(tx, leaf, leaf.fake.view_as(leaf.fake)) for leaf in arguments.leaves]
    body = capture_body(tx, "linearize", lambda: tx.call(function, arguments.with_leaves(tx, leaves), {}),
                        arguments.leaves, leaves)
    return TupleValue([result, DerivativeValue(body, arguments, tx.root_step)])
