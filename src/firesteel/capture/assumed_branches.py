"""A branch on data that asks for a flag goes the way that it goes now, and the graph asserts that it does.

    if not mask.any():             any_1 = mask.any()
        mask = None         ->     assert not any_1.item()         there is no padding in this call
    return attend(x, mask)         attend(x, None)

A flag says one thing of all elements (``any``, ``all``, ``==``, ``isnan``), and most programs find the same answer in
nearly every call: there is no padding, nothing overflowed. Where the assertion fails, the call runs as plain Python;
after a second time the function is compiled anew with a break at the branch (`Unit.assumption_failed`), which is what
comparisons of magnitudes (``x.mean() > 0``) have at once: they go either way. Integers that are compared with bounds
far away (``if n > 4096``, a table that is long enough) are flags too, and so is whether data selects anything
(``if x[mask].numel() == 0``). Measured (`benchmarks/branches.py`), a graph that
goes on is never slower than a break, and a ``cond`` often is: what follows it is not fused with either of its ways.

Which way it is, is found by running the operators that the condition is made of, on the arguments of the call that is
captured. A wrong answer costs time only. Not assumed: what random numbers decide (they do not decide whether something
is finite), ends of loops, and anything in ``while`` loops, which would be unrolled for the data at hand; nor anything
after operators of others, which may do more than compute and would run twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from .. import config, shapes, torch_compat
from ..devices import kind_of
from ..pipeline.failing_graphs import MAX_KEPT_BYTES, bytes_of, random_state, restore_random_state
from ..shapes.symnode import hint_of
from . import assertions
from .bytecode.join_points import join_point
from .bytecode.loops import loops_around
from .data_facts import function_name
from .graph import TALKS
from .values.base import Value
from .values.constants import NumberValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .frame import Frame
    from .tracer import Tracer

MOST_ASSUMED = 32
"""Branches that one graph may have assumptions about."""
MOST_NODES = 4_000
MOST_BYTES = 1 << 30
"""What the operators behind a condition may compute, to find out which way it goes."""
MOST_ROUNDS = 64
"""Rounds of a loop over what data selects that are unrolled."""
FAR = 128
"""A number of data that is compared with a bound is taken to be anything from nothing to this, or to twice itself."""
RECORDING_MODES = ("reduce-overhead", "max-autotune")
"""Graphs without questions to the device are recorded then."""

_FLAGS = frozenset({"any", "all", "equal", "allclose", "eq", "ne", "not_equal", "__eq__", "__ne__", "isnan", "isinf",
                    "isfinite"})
_FINITE = frozenset({"isnan", "isinf", "isfinite"})
_OF_A_FLAG = frozenset({"item", "__bool__", "bool", "is_nonzero", "logical_not", "not_", "invert", "__invert__",
                        "bitwise_not", "squeeze", "view", "reshape", "clone", "detach", "cpu", "to", "sym_not"})
_OF_FLAGS = frozenset({"logical_and", "logical_or", "and_", "or_", "__and__", "__or__", "bitwise_and", "bitwise_or"})
# Comparisons that ask whether there is none of what is counted, and with which number they do.
_ABOUT_NONE = {"gt": 0, "le": 0, "ge": 1, "lt": 1, "__gt__": 0, "__le__": 0, "__ge__": 1, "__lt__": 1}
# Where functions come from that do nothing but compute.
_HOMES = frozenset({"torch", "aten", "prim", "prims", "_operator", "math", "builtins", ""})


Place = tuple[Node | None, str | None, tuple[Any, ...]]
"""Where a number is read: a node, a method or None for subscripts, and its arguments."""


class _Unknown(Exception):
    """What a condition is cannot be found out now."""


def assumed_truth(tx: Tracer, value: Value) -> bool | None:
    """The way of a branch on a condition, asserted in the graph; None where it is not to be assumed."""
    branches = tx.branches
    if not _may_assume(tx) or not _is_flag(tx, value) or _decides_a_loop(tx, tx.frames[-1]):
        return None
    key = _key(tx, value)
    known = branches.assumed.get(key)
    if known is not None:
        return known
    if any(_is_foreign(node) for node in tx.graph.graph.nodes):
        return None
    try:
        answer = _answer_now(tx, value)
    except _Unknown:
        return None
    number = value.number(tx, "__bool__").realize() if isinstance(value, TensorValue) else value
    if not isinstance(number, NumberValue):
        return tx.truth(number)
    condition = _condition(number)
    if not assertions.assume(tx, condition if answer else shapes.not_(condition)):
        return tx.symbols.decide(condition)
    branches.assumed[key] = answer
    return answer


def _may_assume(tx: Tracer) -> bool:
    """Whether the graph may go one way here, and not too many have gone before."""
    return config.assume_branches and not tx.compiler.fullgraph and tx.effects.changes is None and bool(tx.frames) and \
        len(tx.branches.assumed) < MOST_ASSUMED and str(tx.provenance()) not in tx.refused


def assumed_rounds(tx: Tracer, size: shapes.Expr) -> None:
    """Assert in the graph how often a loop over what data selects (``for expert in hit.nonzero()``) goes round now.

    A layer of experts asks as many of them for every token, or all for many tokens. Nothing is asserted where the
    number is not to be assumed, or is large.
    """
    if not _may_assume(tx) or _inside_a_while_loop(tx) or any(_is_foreign(node) for node in tx.graph.graph.nodes):
        return
    symbols = sorted((symbol for symbol in size.free_symbols if tx.shape_env.hint(symbol) is None), key=str)
    try:
        known: dict[Any, Any] = {symbol: tx.shape_env.hint(symbol) for symbol in size.free_symbols}
        known.update(zip(symbols, _results(tx, [_read_from(tx, symbol) for symbol in symbols]), strict=True))
        rounds = size.evaluate(known)
    except Exception:  # the operators' own, which the program meets when it comes to them
        return
    if type(rounds) is int and rounds <= MOST_ROUNDS and assertions.assume(tx, shapes.eq(size, rounds)):
        tx.branches.assumed[size] = True


def assumed_flag(tx: Tracer, number: NumberValue) -> bool | None:
    """`assumed_truth` of a bool that was read from a tensor, and of nothing that is computed with numbers."""
    return assumed_truth(tx, number) if isinstance(_without_not(number.expr), shapes.Symbol) else None


def _key(tx: Tracer, value: Value) -> Any:
    """A condition as it is now: one that may have been written to is another one every time."""
    if isinstance(value, TensorValue):
        return object() if getattr(value.fake, "storage_key", None) in tx.fake.written else value.node
    assert isinstance(value, NumberValue)
    return value.expr


# Which conditions


def _is_flag(tx: Tracer, value: Value) -> bool:
    if isinstance(value, TensorValue):
        single = all(type(size) is int and size == 1 for size in value.fake.shape)
        return single and _is_flag_node(value.node, 0)
    if not isinstance(value, NumberValue):
        return False
    expr = _without_not(_condition(value))
    if _is_bound(expr):
        return all(symbol.kind == "int" for symbol in expr.free_symbols)
    read = [_read_from(tx, symbol) for symbol in expr.free_symbols]
    if isinstance(expr, shapes.Symbol) and expr.kind == "bool":
        return all(node is not None and _is_flag_node(node, 0) for node, _, _ in read)
    return bool(read) and all(node is not None and method in ("item", "size") for node, method, _ in read) and \
        getattr(expr, "op", "") in ("eq0", "ne0")


def _condition(number: NumberValue) -> shapes.Expr:
    """What is asked of a number in a branch."""
    return number.expr if number.expr.kind == "bool" else shapes.ne(number.expr, 0)


def _without_not(expr: shapes.Expr) -> shapes.Expr:
    while isinstance(expr, shapes.Call) and expr.op == "not":
        expr = expr.operands[0]
    return expr


def _is_bound(expr: shapes.Expr) -> bool:
    """Whether a condition compares a number with a bound, rather than asking for equality."""
    return getattr(_without_not(expr), "op", "") == "ge0"


def _read_from(tx: Tracer, symbol: shapes.Symbol) -> Place:
    """Where the value of a symbol comes from: a node, and a method or subscripts."""
    node = tx.number_nodes.by_expr.get(symbol)
    if not isinstance(node, Node):
        return tx.number_nodes.places.get(symbol, (None, None, ()))
    name = function_name(node)
    if name in ("item", "size") and isinstance(node.args[0], Node):
        return node.args[0], name, node.args[1:]
    return node, None, ()


def _is_flag_node(node: Node, depth: int, flags: frozenset[str] = _FLAGS) -> bool:
    """Whether a node computes one of some flags, or a flag of those."""
    name = function_name(node)
    if name in flags:
        return True
    operands = [argument for argument in node.args if isinstance(argument, Node)]
    if flags is _FLAGS and name in _ABOUT_NONE and len(operands) == 1 and \
            (_is_count(operands[0]) or _is_counter(operands[0])):
        return node.args[1] is _ABOUT_NONE[name]
    return depth < 20 and bool(operands) and (
        name in _OF_A_FLAG | _FLAGS and _is_flag_node(operands[0], depth + 1, flags)
        or name in _OF_FLAGS and all(_is_flag_node(operand, depth + 1, flags) for operand in operands))


def _is_count(node: Node) -> bool:
    """Whether a tensor says how many elements are true."""
    counted = node.args[0] if len(node.args) == 1 and not node.kwargs else None
    name = function_name(node)
    return isinstance(counted, Node) and (name == "count_nonzero" or name == "sum" and
                                          counted.meta["example_value"].dtype is torch.bool)


def _is_counter(node: Node) -> bool:
    """Whether a tensor from outside is one integer, which says how often something was done (`n_averaged > 0`)."""
    example = node.meta.get("example_value")
    return node.op == "placeholder" and isinstance(example, torch.Tensor) and not example.dim() and \
        example.dtype in (torch.int32, torch.int64)


def _decides_a_loop(tx: Tracer, frame: Frame) -> bool:
    """Whether the branch may leave a loop, or is anywhere in a ``while`` loop: neither is to be unrolled."""
    if frame.user_frame().is_loop:
        return True
    index = frame.current.index
    around = loops_around(frame.decoded, index) if not frame.hidden else ()  # of ``any(...)``: over what is there
    if around:
        meeting = join_point(frame.decoded, index)
        if meeting is None or not around[-1].start <= meeting <= around[-1].end:
            return True
    return _inside_a_while_loop(tx)


def _inside_a_while_loop(tx: Tracer) -> bool:
    return any(not loop.counted for active in tx.frames if not active.hidden
               for loop in loops_around(active.decoded, active.current.index))


# Which way


def _answer_now(tx: Tracer, value: Value) -> bool:
    """The truth of a condition for the arguments of the call that is captured."""
    try:
        if isinstance(value, TensorValue):
            return bool(_results(tx, [(value.node, "item", ())])[0])
        assert isinstance(value, NumberValue)
        hints = {symbol: tx.shape_env.hint(symbol) for symbol in value.expr.free_symbols}
        unknown = [symbol for symbol, hint in hints.items() if hint is None]
        places = [_read_from(tx, symbol) for symbol in unknown]
        values: dict[Any, Any] = {**hints, **dict(zip(unknown, _results(tx, places), strict=True))}
        answer = bool(value.expr.evaluate(values))
    except _Unknown:
        raise
    except Exception as error:  # the operators' own, which the program meets when it comes to them
        raise _Unknown from error
    if _is_bound(value.expr):
        numbers = {symbol: values[symbol] for symbol in unknown}
        if not all(_is_same(value.expr, {**values, **others}, answer) for others in _far_from(tx, numbers)) \
                and not _asks_for_none(value.expr, places, unknown):
            raise _Unknown
    return answer


def _is_same(expr: shapes.Expr, values: dict[Any, Any], answer: bool) -> bool:
    """Whether a condition has that answer for other numbers too."""
    try:
        return bool(expr.evaluate(values)) is answer
    except ArithmeticError:  # the program has no answer for them
        return False


def _asks_for_none(expr: shapes.Expr, places: list[Place], symbols: list[shapes.Symbol]) -> bool:
    """Whether a condition on a number asks if there is none of what is counted, by a size or by the sum of a mask."""
    node, method, _ = places[0]
    counts = method == "size" or method == "item" and node is not None and _is_count(node)
    if len(places) > 1 or not counts or len(expr.free_symbols) > 1:
        return False
    try:
        answers = [bool(expr.evaluate({symbols[0]: number})) for number in (0, 1, 2, FAR)]
    except ArithmeticError:
        return False
    return answers[0] is not answers[1] and len(set(answers[1:])) == 1


def _far_from(tx: Tracer, values: dict[shapes.Symbol, int]) -> list[dict[shapes.Symbol, int]]:
    """Numbers that data may give another time: nothing, much more, and as much below zero where that may be."""
    far = [dict.fromkeys(values, 0), {symbol: max(FAR, 2 * value) for symbol, value in values.items()}]
    if any(tx.shape_env.interval(symbol).lower < 0 for symbol in values):
        far.append({symbol: -max(FAR, 2 * value) for symbol, value in values.items()})
    return far


def _results(tx: Tracer, places: list[Place]) -> list[Any]:
    """Numbers that are read from nodes, by running what they depend on; what draws random numbers is not known."""
    wanted = [node for node, _, _ in places if node is not None]
    if len(wanted) < len(places):
        raise _Unknown
    if tx.compiler.mode in RECORDING_MODES and any(
            not kind_of(node.meta["example_value"]).is_host for node, method, _ in places
            if node is not None and method == "item"):
        raise _Unknown
    needed = _needed(wanted)
    given = _inputs(tx, needed)
    uses = dict.fromkeys(needed, 0)
    for node in needed:
        for used in node.all_input_nodes:
            uses[used] += 1
    for node in wanted:
        uses[node] += 1
    values: dict[Node, Any] = {}
    generators = random_state() if tx.fake.draws_random else []
    try:
        with torch_compat.without_modes(), torch.no_grad():
            for node in tx.graph.graph.nodes:
                if node not in uses:
                    continue
                values[node] = given[node] if node.op == "placeholder" else _result(node, values)
                for used in node.all_input_nodes:
                    uses[used] -= 1
                    if not uses[used]:
                        del values[used]
            results = [_read(values[node], method, args) for node, method, args in places if node is not None]
            drawn = any(not torch.equal(now, before) for (_, now), (_, before) in
                        zip(random_state() if generators else [], generators, strict=True))
    finally:
        restore_random_state(generators)
    if drawn and not all(_is_flag_node(node, 0, _FINITE) for node in wanted):
        raise _Unknown
    return results


def _read(value: Any, method: str | None, args: tuple[Any, ...]) -> Any:
    if method is not None:
        return getattr(value, method)(*args)
    for index in args:
        value = value[index]
    return value


def _needed(wanted: list[Node]) -> set[Node]:
    """Nodes with all that they depend on."""
    needed: set[Node] = set()
    open_nodes = list(wanted)
    size = 0
    while open_nodes:
        node = open_nodes.pop()
        if node in needed:
            continue
        needed.add(node)
        example = node.meta.get("example_value")
        if node.op != "placeholder" and isinstance(example, torch.Tensor):
            size += hint_of(example.numel()) * example.element_size() if _has_hint(example) else 0
        if len(needed) > MOST_NODES or size > MOST_BYTES or not _may_run(node):
            raise _Unknown
        open_nodes.extend(node.all_input_nodes)
    return needed


def _has_hint(example: torch.Tensor) -> bool:
    try:
        return hint_of(example.numel()) is not None
    except Exception:
        return False  # a size that data decides


def _is_foreign(node: Node) -> bool:
    """Whether a node may do more than compute, which must not be done again: operators of others, collectives."""
    return TALKS in node.meta or node.op == "call_function" and _home(node.target) not in _HOMES | {"firesteel"}


def _may_run(node: Node) -> bool:
    """Whether a node is an operator of torch's that does nothing but compute."""
    if any(isinstance(argument, torch.Generator) for argument in (*node.args, *node.kwargs.values())):
        return False
    return node.op in ("placeholder", "call_method") or node.op == "call_function" and (
        node.target is getattr or _home(node.target) in _HOMES - {"", "builtins"})


def _home(target: Any) -> str:
    """Whose a function is: a top-level module, or the namespace of an operator."""
    module = (getattr(target, "__module__", None) or "").split(".")
    return module[2] if module[:2] == ["torch", "_ops"] and len(module) > 2 else module[0]


def _inputs(tx: Tracer, needed: set[Node]) -> dict[Node, Any]:
    """The arguments of the call for placeholders; copies of those that the program has changed in place by now."""
    given: dict[Node, Any] = {}
    for entry in tx.graph.inputs:
        if entry.node not in needed:
            continue
        value = tx.tensor_of_fake.get(id(entry.example))
        if not isinstance(value, TensorValue) or type(value.real) not in _PLAIN:
            raise _Unknown
        real: Any = value.real
        if entry.mutated or entry.example.storage_key in tx.fake.written:
            if bytes_of(entry) > MAX_KEPT_BYTES:
                raise _Unknown
            with torch_compat.without_modes():
                real = real.detach().clone()
        given[entry.node] = real
    return given


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _result(node: Node, values: dict[Node, Any]) -> Any:
    args, kwargs = torch.fx.node.map_aggregate((node.args, node.kwargs), lambda item: values[item]
                                               if isinstance(item, Node) else item)  # type: ignore[misc]
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    function: Any = node.target
    return function(*args, **kwargs)
