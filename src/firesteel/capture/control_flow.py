"""Control flow operators in captured code: their functions are captured as graphs that the operation owns.

Ours and torch's of the same names mean the same here (see `firesteel.control_flow`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ..control_flow import operators
from ..control_flow.associative import by_halves, one_by_one
from ..control_flow.checks import predicate_reason
from ..fake.tensor import new_fake
from ..shapes import eq
from ..shapes.symnode import expr_of
from ..torch_compat import storage_address
from .markers import control_flow_operator
from .regions import Region, capture_region, make_graph, remove
from .signals import GraphBreak
from .torch_calls import wrap_result
from .trees import Structure, describe, flatten, rebuild
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


def bind(operator: str, names: Sequence[str], args: list[Value], kwargs: dict[str, Value],
         required: int) -> dict[str, Value]:
    """Arguments by name."""
    if len(args) > len(names) or any(name not in names or name in names[:len(args)] for name in kwargs):
        raise GraphBreak(f"{operator}() is called with arguments that it does not have")
    bound = {**dict(zip(names, args, strict=False)), **kwargs}
    if any(name not in bound for name in names[:required]):
        raise GraphBreak(f"{operator}() is called with too few arguments")
    return bound


# ---------------------------------------------------------------------------------------------------------------------
# cond


@control_flow_operator("cond")
def call_cond(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``cond(pred, true_fn, false_fn, operands)``."""
    bound = bind("cond", ("pred", "true_fn", "false_fn", "operands"), args, kwargs, 3)
    given = tx.to_list(bound["operands"]) if "operands" in bound else []
    pred = bound["pred"].realize()
    known = known_truth(tx, pred)
    if known is not None:
        return tx.call(bound["true_fn"] if known else bound["false_fn"], given, {})
    leaves = [leaf for value in given for leaf in flatten(tx, value)[0]]
    first = capture_region(tx, "cond: true_fn", lambda: tx.call(bound["true_fn"], list(given), {}), given)
    second = capture_region(tx, "cond: false_fn", lambda: tx.call(bound["false_fn"], list(given), {}), given)
    ones, structure = results_of(tx, "cond: true_fn", first)
    others, structure_of_other = results_of(tx, "cond: false_fn", second)
    if not _fits(structure, structure_of_other):
        raise GraphBreak(f"cond: true_fn returns {describe(structure)}, false_fn {describe(structure_of_other)}",
                         "both functions return the same structure")
    for position, (one, other) in enumerate(zip(ones, others, strict=True)):
        difference = tensor_difference(tx, one.fake, other.fake)
        if difference:
            raise GraphBreak(f"cond: result {position} of true_fn and of false_fn {difference}",
                             "both functions return tensors with the same metadata")
    operands = list(dict.fromkeys([*(leaf.node for leaf in leaves), *first.free, *second.free]))
    fakes = [new_result([one.fake, other.fake]) for one, other in zip(ones, others, strict=True)]
    values = add_cond(tx, pred, (first, second), operands,
                      ([one.node for one in ones], [other.node for other in others]), fakes)
    return rebuild(tx, _chosen(tx, pred, structure, structure_of_other), iter(values))


_CHOSEN = {int: torch.int64, float: torch.float64, bool: torch.bool}


def _fits(one: Structure, other: Structure) -> bool:
    """Whether what two functions return differs in plain numbers at most, of one type each."""
    if one[0] == other[0] == "constant":  # 3 and 3.0 are equal, and not the same
        return type(one[1]) is type(other[1]) and (one == other or type(one[1]) in _CHOSEN)
    if one[0] == other[0] and one[0] in ("tuple", "list", "dict"):
        return one[1] == other[1] and len(one[2]) == len(other[2]) and all(map(_fits, one[2], other[2]))
    return one == other


def _chosen(tx: Tracer, pred: Value, one: Structure, other: Structure) -> Structure:
    """What is around the results: a number that the functions differ in is read from the predicate."""
    if one == other:
        return one
    if one[0] != "constant":
        return (*one[:2], tuple([_chosen(tx, pred, *parts) for parts in zip(one[2], other[2], strict=True)]))
    flag = pred if isinstance(pred, TensorValue) else tx.call_torch(torch.tensor, [pred], {})
    kind: dict[str, Value] = {"dtype": tx.constant(_CHOSEN[type(one[1])])}
    numbers = [tx.call_torch(torch.tensor, [tx.constant(part[1])], kind) for part in (one, other)]
    number = tx.call_method(tx.call_torch(torch.where, [flag, *numbers], {}), "item", [], {}).realize()
    assert isinstance(number, NumberValue)
    return "number", number.expr


def known_truth(tx: Tracer, pred: Value) -> bool | None:
    """The value of a predicate that is known without looking at data; None for one that is not."""
    if isinstance(pred, TensorValue):
        reason = predicate_reason(pred.fake)
        if reason:
            raise GraphBreak(f"cond: {reason}", "make it a bool tensor with one element, for example with .any()")
        return None
    if isinstance(pred, NumberValue) and pred.expr.kind == "bool":
        decided = tx.shape_env.decide(pred.expr)
        return None if decided is None else bool(decided)
    if isinstance(pred, (ConstantValue, NumberValue)):
        return tx.truth(pred)
    raise GraphBreak(f"cond: the predicate is {pred.describe()}", "a predicate is a bool or a bool tensor")


def add_cond(tx: Tracer, pred: Value, regions: tuple[Region, Region], operands: list[torch.fx.Node],
             results: tuple[list[torch.fx.Node], list[torch.fx.Node]], fakes: list[Any],
             cloned: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())) -> list[Value]:
    """The operation, in place of the two regions."""
    node = pred.node if isinstance(pred, TensorValue) else tx.number_nodes.of(pred)  # type: ignore[arg-type]
    # both take the graphs inside of them along before they get names
    graphs = [make_graph(tx, region, operands, nodes, copies)
              for region, nodes, copies in zip(regions, results, cloned, strict=True)]
    named = [add_graph(tx, name, graph) for name, graph in zip(("true_graph", "false_graph"), graphs, strict=True)]
    return add_call(tx, operators.cond, (node, *named, tuple(operands)), fakes)


def tensor_difference(tx: Tracer, one: Any, other: Any) -> str:
    """How two tensors differ that must not; empty if they do not. Sizes that are equal now are guarded to be so."""
    if one.dtype is not other.dtype:
        return f"have the dtypes {one.dtype} and {other.dtype}"
    if one.device != other.device:
        return f"are on the devices {one.device} and {other.device}"
    if one.dim() != other.dim() or not all(_equal(tx, a, b) for a, b in zip(one.shape, other.shape, strict=True)):
        return f"have the shapes {list(one.shape)} and {list(other.shape)}"
    for size, a, b in zip(one.shape, one.stride(), other.stride(), strict=True):
        if not (isinstance(size, int) and size == 1) and not _equal(tx, a, b):
            return f"have the strides {list(one.stride())} and {list(other.stride())} (call .contiguous())"
    return ""


def _equal(tx: Tracer, one: Any, other: Any) -> bool:
    condition = eq(expr_of(one), expr_of(other))
    known = tx.shape_env.decide(condition)
    if known is None and tx.shape_env.is_backed(tx.shape_env.replace(condition)):
        known = tx.symbols.decide(condition)
    return known is True


# ---------------------------------------------------------------------------------------------------------------------
# loops


@control_flow_operator("while_loop")
def call_while_loop(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``while_loop(cond_fn, body_fn, carried_inputs)``."""
    bound = bind("while_loop", ("cond_fn", "body_fn", "carried_inputs", "additional_inputs"), args, kwargs, 3)
    more = tx.to_list(bound["additional_inputs"]) if "additional_inputs" in bound else []
    carried = bound["carried_inputs"].realize()
    leaves, structure = carry_of(tx, "while_loop: carried_inputs", TupleValue(tx.to_list(carried)))
    body = Body(tx, "while_loop: body_fn", leaves, [])

    def run(items: list[Value]) -> Value:
        arguments = tx.to_list(rebuild(tx, structure, iter(items)))
        result = tx.call(bound["body_fn"], [*arguments, *more], {}).realize()
        return TupleValue(tx.to_list(result) if isinstance(result, (TupleValue, ListValue)) else [result])

    body.capture(run, structure)
    stand_ins = list(body.stand_ins)

    def condition() -> Value:
        arguments = tx.to_list(rebuild(tx, structure, iter(stand_ins)))
        return tx.call(bound["cond_fn"], [*arguments, *more], {})

    region = capture_region(tx, "while_loop: cond_fn", condition, stand_ins)
    result = region.result.realize()
    if isinstance(result, TupleValue) and len(result.items) == 1:
        result = result.items[0].realize()
    if not isinstance(result, TensorValue):
        raise GraphBreak(f"while_loop: cond_fn returns {result.describe()}, not a tensor")
    reason = predicate_reason(result.fake)
    if reason:
        raise GraphBreak(f"while_loop: cond_fn: {reason}")
    copied = frozenset() if region.is_new(result) else frozenset({0})
    additional = list(dict.fromkeys([*body.additional(), *(n for n in region.free if n not in body.nodes)]))
    if copied and result.node not in additional and result.node not in body.nodes:
        additional.append(result.node)
    graphs = make_graph(tx, region, [*body.nodes, *additional], [result.node], copied), body.graph(additional)
    test, graph = add_graph(tx, "cond_graph", graphs[0]), add_graph(tx, "body_graph", graphs[1])
    fakes = [new_result([stand_in.fake]) for stand_in in body.stand_ins]
    body.finish()
    values = add_call(tx, operators.while_loop, (test, graph, tuple(leaf.node for leaf in leaves), tuple(additional)),
                      fakes)
    results = tx.to_list(rebuild(tx, structure, iter(values)))
    return ListValue(results) if isinstance(carried, ListValue) else TupleValue(results)


@control_flow_operator("scan")
def call_scan(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``scan(combine_fn, init, xs, *, dim=0, reverse=False)``."""
    bound = bind("scan", ("combine_fn", "init", "xs", "dim", "reverse"), args, kwargs, 3)
    leaves, structure = carry_of(tx, "scan: init", bound["init"])
    slices, structure_of_xs = flatten(tx, bound["xs"])
    if not slices or not leaves:
        raise GraphBreak("scan: init or xs holds no tensor")
    dim = tx.constant_of(bound["dim"]) if "dim" in bound else 0
    dim %= max(slices[0].fake.dim(), 1)
    reverse = tx.truth(bound["reverse"]) if "reverse" in bound else False
    check_lengths(tx, "scan", slices, dim)
    xs = [from_dim(tx, x, dim, reverse) for x in slices]
    body = Body(tx, "scan: combine_fn", leaves, xs)

    def run(items: list[Value]) -> Value:
        carry = rebuild(tx, structure, iter(items[:len(leaves)]))
        x = rebuild(tx, structure_of_xs, iter(items[len(leaves):]))
        results = tx.to_list(tx.call(bound["combine_fn"], [carry, x], {}))
        if len(results) != 2:
            raise GraphBreak("scan: combine_fn does not return a pair",
                             "return the next carry and the result of this step")
        return TupleValue(results)

    body.capture(run, structure)
    values = add_scan(tx, body, leaves, xs)
    count = len(leaves)
    carry = rebuild(tx, structure, iter(values[:count]))
    assert body.rest is not None
    ys = rebuild(tx, body.rest, iter([to_dim(tx, y, dim, reverse) for y in values[count:]]))
    return TupleValue([carry, ys])


def add_scan(tx: Tracer, body: Body, leaves: list[TensorValue], xs: list[TensorValue]) -> list[Value]:
    """The operation of a scan whose body is captured."""
    additional = body.additional()
    graph = add_graph(tx, "body_graph", body.graph(additional))
    length = xs[0].fake.shape[0]
    fakes = [new_result([stand_in.fake]) for stand_in in body.stand_ins[:len(leaves)]]
    fakes += [new_result([y.fake], (length, *y.fake.shape)) for y in body.results[len(leaves):]]
    body.finish()
    return add_call(tx, operators.scan, (graph, tuple(leaf.node for leaf in leaves), tuple(x.node for x in xs),
                                         tuple(additional)), fakes)


@control_flow_operator("operators.scan")
def scan_operator(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`operators.scan`, as graphs call it."""
    bound = bind("scan", ("body_graph", "init", "xs", "additional"), args, kwargs, 3)
    leaves, structure = carry_of(tx, "scan: init", TupleValue(tx.to_list(bound["init"])))
    xs, _ = flatten(tx, bound["xs"])
    more = tx.to_list(bound["additional"]) if "additional" in bound else []
    body = Body(tx, "scan", leaves, xs)

    def run(items: list[Value]) -> Value:
        results = tx.to_list(tx.call(bound["body_graph"], [*items, *more], {}))
        return TupleValue([TupleValue(results[:len(leaves)]), TupleValue(results[len(leaves):])])

    body.capture(run, structure)
    return TupleValue(add_scan(tx, body, leaves, xs))


@control_flow_operator("map")
def call_map(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``map(f, xs, *args)``."""
    if len(args) < 2 or kwargs:
        raise GraphBreak("map() is called with arguments that it does not have")
    slices, structure = flatten(tx, args[1])
    check_lengths(tx, "map", slices, 0)
    body = Body(tx, "map: f", [], slices)

    def run(items: list[Value]) -> Value:
        result = tx.call(args[0], [rebuild(tx, structure, iter(items)), *args[2:]], {})
        return TupleValue([TupleValue([]), result])

    body.capture(run, ("tuple", tuple, ()))
    assert body.rest is not None
    return rebuild(tx, body.rest, iter(add_map(tx, body, slices)))


def add_map(tx: Tracer, body: Body, xs: list[TensorValue]) -> list[Value]:
    """The operation of a map whose body is captured."""
    additional = body.additional()
    graph = add_graph(tx, "body_graph", body.graph(additional))
    fakes = [new_result([y.fake], (xs[0].fake.shape[0], *y.fake.shape)) for y in body.results]
    body.finish()
    return add_call(tx, operators.map, (graph, tuple(x.node for x in xs), tuple(additional)), fakes)


@control_flow_operator("operators.map")
def map_operator(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`operators.map`, as graphs call it."""
    bound = bind("map", ("body_graph", "xs", "additional"), args, kwargs, 2)
    xs, _ = flatten(tx, bound["xs"])
    more = tx.to_list(bound["additional"]) if "additional" in bound else []
    body = Body(tx, "map", [], xs)
    body.capture(lambda items: TupleValue([TupleValue([]), tx.call(bound["body_graph"], [*items, *more], {})]),
                 ("tuple", tuple, ()))
    return TupleValue(add_map(tx, body, xs))


@control_flow_operator("associative_scan")
def call_associative_scan(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise")``: its steps, inlined."""
    names = ("combine_fn", "xs", "dim", "reverse", "combine_mode")
    bound = bind("associative_scan", names, args, kwargs, 3)
    leaves, structure = flatten(tx, bound["xs"])
    dim = tx.constant_of(bound["dim"]) % max(leaves[0].fake.dim() if leaves else 1, 1)
    reverse = tx.truth(bound["reverse"]) if "reverse" in bound else False
    mode = tx.constant_of(bound["combine_mode"]) if "combine_mode" in bound else "pointwise"
    if mode not in ("pointwise", "generic"):
        raise GraphBreak(f"associative_scan: combine_mode is {mode!r}", "choose 'pointwise' or 'generic'")
    check_lengths(tx, "associative_scan", leaves, dim)
    xs: list[Value] = [from_dim(tx, x, dim, reverse) for x in leaves]
    # Elsewhere a length becomes a number: few steps are worth more than one program for all lengths.
    open_ended = tx.compiler.exports and bool(leaves) and isinstance(leaves[0].fake.shape[dim], torch.SymInt)
    run = tx.python_object(by_halves if mode == "pointwise" and not open_ended else one_by_one)
    results = tx.to_list(tx.call(run, [_Combine(tx, bound["combine_fn"], structure), ListValue(xs)], {}))
    return rebuild(tx, structure, iter([to_dim(tx, y, dim, reverse) for y in results]))


class _Combine(Value):
    """The combining function, as one of lists of tensors."""

    __slots__ = ("function", "structure")
    fixed_type = type(lambda: None)

    def __init__(self, tx: Tracer, function: Value, structure: Structure) -> None:
        super().__init__(None)
        self.function = function
        self.structure = structure

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given = [rebuild(tx, self.structure, iter(tx.to_list(arg))) for arg in args]
        leaves, structure = flatten(tx, tx.call(self.function, given, kwargs))
        if structure != self.structure:
            raise GraphBreak(f"associative_scan: combine_fn returns {describe(structure)} for "
                             f"{describe(self.structure)}")
        return ListValue(list(leaves))


class Body:
    """The body of a loop: captured on stand-ins for what it carries and for the first slices."""

    def __init__(self, tx: Tracer, title: str, carried: list[TensorValue], xs: list[TensorValue]) -> None:
        self.tx = tx
        self.title = title
        self.carried = carried
        self.xs = xs
        self.needs_gradient = [leaf.fake.requires_grad for leaf in carried]
        self.rest: Structure | None = None

    def capture(self, run: Callable[[list[Value]], Value], structure: Structure) -> None:
        """Capture the body until what it carries needs gradients exactly where it is said to."""
        tx, count = self.tx, len(self.carried)
        while True:
            self.stand_in()
            self.region = capture_region(tx, self.title, lambda: run(list(self.stand_ins)), self.stand_ins)
            leaves, results = results_of(tx, self.title, self.region)
            carry = results if not self.xs else results[2][0]
            self.rest = None if not self.xs else results[2][1]
            if carry != structure:
                raise GraphBreak(f"{self.title} carries on {describe(carry)}, but begins with {describe(structure)}",
                                 "what is carried on keeps its structure")
            for position, (old, new) in enumerate(zip(self.stand_ins, leaves[:count], strict=False)):
                difference = carried_difference(tx, old.fake, new.fake)
                if difference:
                    raise GraphBreak(f"{self.title}: value {position} that is carried on {difference}",
                                     "what is carried on keeps its shape, dtype and device")
            self.results = leaves
            needs = [known or leaf.fake.requires_grad for known, leaf in
                     zip(self.needs_gradient, leaves[:count], strict=True)]
            if needs == self.needs_gradient:
                return
            self.needs_gradient = needs
            remove(tx, self.region.nodes)
            self.finish()

    def stand_in(self) -> None:
        """Tensors that stand for those of one turn."""
        tx = self.tx
        self.stand_ins: list[TensorValue] = []
        for leaf, needs in zip(self.carried, self.needs_gradient, strict=True):
            copy = tx.call_torch("clone", [leaf], {})
            assert isinstance(copy, TensorValue)
            if needs and not copy.fake.requires_grad and torch.is_grad_enabled():
                copy.fake.requires_grad_()
            self.stand_ins.append(copy)
        for x in self.xs:
            part = tx.call_torch("select", [x, tx.constant(0), tx.constant(0)], {})
            assert isinstance(part, TensorValue)
            self.stand_ins.append(part)

    @property
    def nodes(self) -> list[torch.fx.Node]:
        return [stand_in.node for stand_in in self.stand_ins]

    def additional(self) -> list[torch.fx.Node]:
        """What the body uses besides what it is given."""
        given = set(self.nodes)
        return [node for node in self.region.free if node not in given]

    def graph(self, additional: list[torch.fx.Node]) -> Any:
        """The graph of the body."""
        return make_graph(self.tx, self.region, [*self.nodes, *additional], [leaf.node for leaf in self.results])

    def finish(self) -> None:
        """Take the stand-ins out of the graph."""
        remove(self.tx, self.nodes)


def carry_of(tx: Tracer, title: str, value: Value) -> tuple[list[TensorValue], Structure]:
    """What a loop begins with: tensors only, because numbers would have other values in every turn."""
    leaves, structure = flatten(tx, value)
    if _has_numbers(structure):
        raise GraphBreak(f"{title} holds numbers", "carry tensors: torch.tensor(0)")
    return leaves, structure


def _has_numbers(structure: Structure) -> bool:
    if structure[0] in ("tuple", "list", "dict", "object"):
        return any(map(_has_numbers, structure[2]))
    return structure[0] == "number" or structure[0] == "constant" and structure[1] is not None


def carried_difference(tx: Tracer, old: Any, new: Any) -> str:
    """How what is carried differs from what it was; strides are kept by the operation itself."""
    difference = tensor_difference(tx, old, new)
    return "" if "strides" in difference else difference


def check_lengths(tx: Tracer, operator: str, xs: list[TensorValue], dim: int) -> None:
    """All tensors that are taken apart have the same size, at least 1."""
    if not xs:
        raise GraphBreak(f"{operator}: xs holds no tensor")
    if any(x.fake.dim() <= dim for x in xs):
        raise GraphBreak(f"{operator}: a tensor of xs has no dimension {dim}")
    sizes = [tx.symbols.value_of(x.fake.shape[dim]) for x in xs]
    for size in sizes[1:]:
        if not tx.truth(tx.compare("==", size, sizes[0])):
            raise GraphBreak(f"{operator}: the tensors of xs have different sizes in dimension {dim}")
    if not tx.truth(tx.compare(">", sizes[0], tx.constant(0))):
        raise GraphBreak(f"{operator}: the tensors of xs have no slices in dimension {dim}")


def from_dim(tx: Tracer, x: Value, dim: int, reverse: bool) -> Any:
    """The counterpart of `scanning.from_dim`."""
    if dim:
        x = tx.call_torch("movedim", [x, tx.constant(dim), tx.constant(0)], {})
    return tx.call_torch("flip", [x, TupleValue([tx.constant(0)])], {}) if reverse else x


def to_dim(tx: Tracer, y: Value, dim: int, reverse: bool) -> Value:
    """The counterpart of `scanning.to_dim`."""
    if reverse:
        y = tx.call_torch("flip", [y, TupleValue([tx.constant(0)])], {})
    if 0 < dim < y.realize().fake.dim():  # type: ignore[attr-defined]
        y = tx.call_torch("movedim", [y, tx.constant(0), tx.constant(dim)], {})
    return y


# ---------------------------------------------------------------------------------------------------------------------
# results and nodes


def results_of(tx: Tracer, title: str, region: Region) -> tuple[list[TensorValue], Structure]:
    """The tensors that a function returned, which are all its own."""
    leaves, structure = flatten(tx, region.result)
    seen: set[int] = set()
    for leaf in leaves:
        if not region.is_new(leaf):
            raise GraphBreak(f"{title} returns a tensor that it did not make, or a view of one",
                             "return a copy: .clone()")
        memory = storage_address(leaf.fake)
        if memory in seen:
            raise GraphBreak(f"{title} returns two tensors that share memory", "return a copy: .clone()")
        seen.add(memory)
    return leaves, structure


def new_result(sources: list[Any], shape: tuple[Any, ...] | None = None) -> Any:
    """A fake for a result like ``sources``, or of another shape, by rows; it needs gradients if one of them does."""
    like = sources[0]
    if shape is not None:
        fake = new_fake(shape, None, like.dtype, like.device)
    else:
        fake = new_fake(like.shape, like.stride(), like.dtype, like.device)
    needing = [source for source in sources if source.requires_grad]
    if needing and torch.is_grad_enabled():
        fake = _Result.apply([fake], *needing)  # type: ignore[no-untyped-call]
    return fake


class _Result(torch.autograd.Function):
    """Lets autograd know what a result of an operation depends on."""

    @staticmethod
    def forward(ctx: Any, results: list[Any], *sources: Any) -> Any:
        ctx.sources = [(tuple(source.shape), source.dtype, source.device) for source in sources]
        return results[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, *[new_fake(shape, None, dtype, device) for shape, dtype, device in ctx.sources]


def add_graph(tx: Tracer, name: str, graph: Any) -> torch.fx.Node:
    """Make a graph a submodule of the one under construction."""
    number = 0
    while f"{name}_{number}" in tx.graph.submodules:
        number += 1
    tx.graph.submodules[f"{name}_{number}"] = graph
    return tx.graph.graph.create_node("get_attr", f"{name}_{number}")


def add_call(tx: Tracer, operator: Any, args: tuple[Any, ...], fakes: list[Any]) -> list[Value]:
    """The node of an operator and the tensors that it gives."""
    node = tx.graph.call(operator, args, {}, tx.user_frames())
    tx.effects.version += 1
    node.meta["example_value"] = tuple(fakes)
    result = wrap_result(tx, node, tuple(fakes))
    assert isinstance(result, TupleValue)
    return result.items
