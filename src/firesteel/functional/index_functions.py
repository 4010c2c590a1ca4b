"""Tensors of integers and bools as functions of their indices, where operators say what they are.

    arange: i64[s0] = aten.arange.default(s0)                   the last index
    unsqueeze: i64[s0, 1] = aten.unsqueeze.default(arange, 1)   the last index but one
    le: bool[s0, s0] = aten.le.Tensor(arange, unsqueeze)        the last index <= the last but one
    ge: bool[s0] = aten.ge.Scalar(arange, 0)                    true: an index is not negative

A tensor of integers is an expression in symbols for its indices, counted from the last one on, so that tensors that are
broadcast against each other share them. A tensor of bools is a set of such expressions, all of which are at most 0
where the tensor is true. Sizes may be symbols too. What is not understood is None, and so is what follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx

from ..registry import Registry
from ..shapes import Expr, ShapeEnv, as_expr, ge, le, lt, symbol
from ..shapes.symnode import expr_of

_INTEGERS = (torch.int64, torch.int32)
ZERO, ONE = as_expr(0), as_expr(1)

Condition = frozenset[Expr]
Function = Expr | Condition
TRUE: Condition = frozenset()
FALSE: Condition = frozenset({ONE})
LAST = [symbol(f"index_{place}") for place in range(1, 9)]
"""The symbol of the last index, of the last but one, and so on."""


class IndexFunctions:
    """What the values of a graph are as functions of their indices."""

    def __init__(self, env: ShapeEnv | None) -> None:
        self.env = env or ShapeEnv()
        self._known: dict[torch.fx.Node, Function | None] = {}

    def of(self, node: torch.fx.Node) -> Function | None:
        """The function of a node's value, and of all that it is computed from."""
        if node not in self._known:
            open_nodes = [node]
            while open_nodes:
                top = open_nodes[-1]
                missing = [source for source in top.all_input_nodes if source not in self._known]
                if missing and _rule(top) is not None:
                    open_nodes.extend(missing)
                else:
                    self._known[open_nodes.pop()] = self._find(top)
        return self._known[node]

    def _find(self, node: torch.fx.Node) -> Function | None:
        value, rule = node.meta.get("val"), _rule(node)
        if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
            return expr_of(value)
        if rule is None or not isinstance(value, torch.Tensor) or value.ndim > len(LAST):
            return None
        if value.dtype is not torch.bool and value.dtype not in _INTEGERS:
            return None
        try:
            return rule(self, node, *node.args, **node.kwargs)
        except TypeError:  # arguments that a rule does not know
            return None

    # arguments

    def number(self, argument: Any) -> Expr | None:
        """An integer, or a tensor of integers."""
        if isinstance(argument, torch.fx.Node):
            known = self._known.get(argument)
            return self._spread(argument, known) if isinstance(known, Expr) else None
        return as_expr(argument) if type(argument) is int else None

    def condition(self, argument: Any) -> Condition | None:
        known = self._known.get(argument) if isinstance(argument, torch.fx.Node) else None
        return frozenset(self._spread(argument, each) for each in known) if isinstance(known, frozenset) else None

    def _spread(self, node: torch.fx.Node, function: Expr) -> Expr:
        """A function that does not change along dimensions of size 1, whatever they are broadcast to."""
        sizes = sizes_of(node)
        return function.substitute({LAST[at]: ZERO for at, size in enumerate(reversed(sizes)) if size is ONE})

    # what always holds

    def decide(self, difference: Expr, sizes: list[Expr]) -> bool | None:
        """Whether an expression is at most 0 for all indices (True), for none (False), or for some."""
        most, least = self._extreme(difference, sizes, True), self._extreme(difference, sizes, False)
        if most is not None and self.env.decide(le(most, ZERO)) is True:
            return True
        return False if least is not None and self.env.decide(le(least, ZERO)) is False else None

    def _extreme(self, value: Expr, sizes: list[Expr], largest: bool) -> Expr | None:
        for at, size in enumerate(reversed(sizes)):
            index = LAST[at]
            if index not in value.free_symbols:
                continue
            step = value.substitute({index: index + 1}) - value
            if step.free_symbols & set(LAST):
                return None
            if self.env.decide(ge(step, ZERO)) is True:
                rises = True
            elif self.env.decide(le(step, ZERO)) is True:
                rises = False
            else:
                return None
            value = value.substitute({index: size - 1 if rises is largest else ZERO})
        return value if not value.free_symbols & set(LAST) else None

    def stays_within(self, value: Expr, sizes: list[Expr], size: Expr) -> bool:
        """Whether all values are indices of a dimension of this size."""
        least, most = self._extreme(value, sizes, False), self._extreme(value, sizes, True)
        return least is not None and most is not None and self.env.decide(ge(least, ZERO)) is True \
            and self.env.decide(lt(most, size)) is True

    def where(self, difference: Expr, sizes: list[Expr]) -> Condition:
        """Where an expression is at most 0."""
        known = self.decide(difference, sizes)
        return TRUE if known is True else FALSE if known is False else frozenset({difference})


def sizes_of(node: torch.fx.Node) -> list[Expr]:
    """The sizes of a node's value; a number has none."""
    value = node.meta["val"]
    return [expr_of(size) for size in value.shape] if isinstance(value, torch.Tensor) else []


# ---------------------------------------------------------------------------------------------------------------------
# operators

Rule = Callable[..., Function | None]
_RULES: Registry[str, Rule] = Registry("rule for positions")


def _rule(node: torch.fx.Node) -> Rule | None:
    return _RULES.get(str(node.target)) if node.op == "call_function" else None


def _operators(*names: str) -> Callable[[Rule], Rule]:
    return _RULES.register(*[f"aten.{name}" for name in names])


@_operators("arange.default", "arange.start", "arange.start_step")
def _arange(known: IndexFunctions, node: torch.fx.Node, first: Any, end: Any = None, step: Any = 1,
            **_: Any) -> Function | None:
    start, hop = (ZERO if end is None else known.number(first)), known.number(step)
    return None if start is None or hop is None else start + hop * LAST[0]


@_operators("full.default", "new_full.default", "full_like.default")
def _full(known: IndexFunctions, node: torch.fx.Node, like: Any, *rest: Any, **_: Any) -> Function | None:
    return _constant(node, rest[-1])


@_operators("ones.default", "new_ones.default", "ones_like.default")
def _ones(known: IndexFunctions, node: torch.fx.Node, *_: Any, **__: Any) -> Function | None:
    return _constant(node, 1)


@_operators("zeros.default", "new_zeros.default", "zeros_like.default")
def _zeros(known: IndexFunctions, node: torch.fx.Node, *_: Any, **__: Any) -> Function | None:
    return _constant(node, 0)


def _constant(node: torch.fx.Node, value: Any) -> Function | None:
    if node.meta["val"].dtype is torch.bool:
        return TRUE if value else FALSE
    return as_expr(value) if type(value) is int else None


@_operators("clone.default", "alias.default", "detach.default", "_to_copy.default", "expand.default")
def _same(known: IndexFunctions, node: torch.fx.Node, source: torch.fx.Node, *_: Any, **__: Any) -> Function | None:
    now, before = node.meta["val"].dtype, source.meta["val"].dtype
    if now is not before and (torch.bool in (now, before) or now.itemsize < before.itemsize):
        return None
    return _either(known, source)


def _either(known: IndexFunctions, source: torch.fx.Node) -> Function | None:
    number = known.number(source)
    return number if number is not None else known.condition(source)


def _moved(known: IndexFunctions, source: torch.fx.Node, places: dict[Expr, Expr | int | float]) -> Function | None:
    """What a view shows: the indices of its source in terms of its own."""
    function = _either(known, source)
    if isinstance(function, Expr):
        return function.substitute(places)
    return None if function is None else frozenset(each.substitute(places) for each in function)


@_operators("unsqueeze.default")
def _unsqueeze(known: IndexFunctions, node: torch.fx.Node, source: torch.fx.Node, dim: int) -> Function | None:
    rank = source.meta["val"].ndim
    behind = rank - (dim if dim >= 0 else dim + rank + 1)  # so many dimensions stay where they are
    return _moved(known, source, {LAST[at]: LAST[at + 1] for at in range(behind, rank)})


@_operators("permute.default", "transpose.int", "t.default")
def _permute(known: IndexFunctions, node: torch.fx.Node, source: torch.fx.Node, *dims: Any) -> Function | None:
    rank = source.meta["val"].ndim
    order = list(range(rank))
    if len(dims) == 1:
        order = [dim % rank for dim in dims[0]]
    elif rank > 1:
        one, other = dims or (0, 1)
        order[one % rank], order[other % rank] = order[other % rank], order[one % rank]
    return _moved(known, source, {LAST[rank - 1 - dim]: LAST[rank - 1 - at] for at, dim in enumerate(order)})


@_operators("slice.Tensor")
def _slice(known: IndexFunctions, node: torch.fx.Node, source: torch.fx.Node, dim: int = 0, start: Any = None,
           end: Any = None, step: Any = 1) -> Function | None:
    first, hop = known.number(0 if start is None else start), known.number(step)
    if first is None or hop is None or known.env.decide(ge(first, ZERO)) is not True:
        return None
    index = LAST[source.meta["val"].ndim - 1 - dim % source.meta["val"].ndim]
    return _moved(known, source, {index: index * hop + first})


@_operators("select.int")
def _select(known: IndexFunctions, node: torch.fx.Node, source: torch.fx.Node, dim: int, place: Any) -> Function | None:
    rank, at = source.meta["val"].ndim, known.number(place)
    if at is None or known.env.decide(ge(at, ZERO)) is not True:
        return None
    behind = rank - 1 - dim % rank
    places: dict[Expr, Expr | int | float] = {LAST[each]: LAST[each - 1] for each in range(behind + 1, rank)}
    return _moved(known, source, {**places, LAST[behind]: at})


@_operators("cat.default")
def _cat(known: IndexFunctions, node: torch.fx.Node, parts: list[torch.fx.Node], dim: int = 0) -> Function | None:
    """Parts that all continue one function: those of length 1 may be any that have its value there."""
    rank = node.meta["val"].ndim
    index = LAST[rank - 1 - dim % rank]
    begin, pieces = ZERO, []
    for part in parts:
        function, size = known.number(part), sizes_of(part)[dim % rank]
        if function is None:
            return None
        pieces.append((begin, size, function.substitute({index: index - begin})))
        begin = begin + size
    whole = next((function for _, size, function in pieces if size is not ONE), None)
    if whole is None:
        return None
    for begin, size, function in pieces:
        place = {index: begin} if size is ONE else {}
        if function.substitute(place) is not whole.substitute(place):
            return None
    return whole


@_operators("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def _add(known: IndexFunctions, node: torch.fx.Node, left: Any, right: Any) -> Function | None:
    a, b = known.number(left), known.number(right)
    if a is None or b is None:
        return None
    return a + b if ".add" in str(node.target) else a - b


@_operators("mul.Tensor", "mul.Scalar", "bitwise_and.Tensor", "logical_and.default")
def _and(known: IndexFunctions, node: torch.fx.Node, left: Any, right: Any) -> Function | None:
    if node.meta["val"].dtype is not torch.bool:
        a, b = known.number(left), known.number(right)
        return a * b if a is not None and b is not None and ".mul" in str(node.target) else None
    one, other = known.condition(left), known.condition(right)
    if one is None or other is None:
        return FALSE if FALSE in (one, other) else None
    return FALSE if FALSE in (one, other) else one | other


@_operators(*(f"{name}.{kind}" for name in ("le", "lt", "ge", "gt", "eq", "ne") for kind in ("Tensor", "Scalar")))
def _compare(known: IndexFunctions, node: torch.fx.Node, left: Any, right: Any) -> Function | None:
    a, b, name = known.number(left), known.number(right), str(node.target).split(".")[1]
    if a is None or b is None:
        return None
    sizes = sizes_of(node)
    if name in ("eq", "ne"):
        if a is b:
            return TRUE if name == "eq" else FALSE
        apart = FALSE in (known.where(a - b, sizes), known.where(b - a, sizes))
        return None if not apart else FALSE if name == "eq" else TRUE
    difference = a - b if name in ("le", "lt") else b - a
    return known.where(difference if name in ("le", "ge") else difference + 1, sizes)


@_operators("tril.default", "triu.default")
def _triangle(known: IndexFunctions, node: torch.fx.Node, source: Any, diagonal: Any = 0) -> Function | None:
    condition, shift = known.condition(source), known.number(diagonal)
    if condition is None or shift is None:
        return None
    below = LAST[0] - LAST[1] - shift
    inside = known.where(below if ".tril" in str(node.target) else -below, sizes_of(node))
    return FALSE if FALSE in (condition, inside) else condition | inside


@_operators("bitwise_not.default", "logical_not.default")
def _not(known: IndexFunctions, node: torch.fx.Node, source: Any) -> Function | None:
    """Of at most one condition: several would have to be alternatives."""
    condition = known.condition(source)
    if condition is None or len(condition) > 1:
        return None
    if condition in (TRUE, FALSE):
        return FALSE if condition == TRUE else TRUE
    return frozenset(1 - each for each in condition)


@_operators("cumsum.default")
def _cumsum(known: IndexFunctions, node: torch.fx.Node, source: torch.fx.Node, dim: int, **_: Any) -> Function | None:
    """Of what is nothing but zeros."""
    return ZERO if known.condition(source) == FALSE or known.number(source) is ZERO else None


@_operators("index.Tensor")
def _index(known: IndexFunctions, node: torch.fx.Node, source: torch.fx.Node, places: list[Any]) -> Function | None:
    """Where every dimension has an index."""
    rank = source.meta["val"].ndim
    indices = list(_all_numbers(known, places))
    if len(indices) != rank or not all(
            known.stays_within(index, sizes_of(node), size)
            for index, size in zip(indices, sizes_of(source), strict=True)):
        return None
    return _moved(known, source, {LAST[rank - 1 - at]: index for at, index in enumerate(indices)})


def _all_numbers(known: IndexFunctions, places: list[Any]) -> Iterator[Expr]:
    for place in places:
        number = known.number(place)
        if number is None:
            return
        yield number


__all__ = ["FALSE", "LAST", "TRUE", "IndexFunctions", "sizes_of"]
