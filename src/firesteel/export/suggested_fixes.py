"""Declarations with which an export succeeds, found from what the program was seen to need.

A fix is an assignment to a named dim, as it stands in the user's program: a constant, a multiple of another dim, a dim
with other bounds, or `Dim.AUTO` where what the program needs cannot be said with dims.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import shapes
from ..errors import UserCodeError
from ..shapes import Const, Expr, Facts, Interval, ShapeEnv, ShapeGuard, Symbol, polynomials, relations
from ..shapes.dims import Dim, HintKind, affine_text, as_ours
from ..shapes.ranges import INF
from .dynamic_shapes import SMALLEST
from .exhaustive import holds_everywhere

if TYPE_CHECKING:
    from .declared import DeclaredSymbols

AUTO = "Dim.AUTO"


def suggest(symbols: DeclaredSymbols, env: ShapeEnv, guards: Sequence[ShapeGuard]) -> list[str]:
    """Assignments that make the declaration fit the program."""
    fixes = _Fixes(symbols, env, guards)
    lines = []
    for position, dim, declared, size in symbols.fixed:
        if isinstance(declared, Dim):
            lines.append(f"{declared.root.name} = {declared.root_for(size)}")
        else:
            lines.append(f"{symbols.contract.inputs[position].where(dim)} = Dim.STATIC")
    # A dim that others are made of comes before them.
    for name in sorted(symbols.roots, key=fixes.depends):
        lines += fixes.lines(name)
    for symbol, (position, dim, hint) in symbols.hints.items():
        if hint.kind is HintKind.DYNAMIC and isinstance(env.replace(symbol), Const):
            lines.append(f"{symbols.contract.inputs[position].where(dim)} = Dim.STATIC")
    return list(dict.fromkeys(lines))


class _Fixes:
    """A new definition for each named dim that needs one."""

    def __init__(self, symbols: DeclaredSymbols, env: ShapeEnv, guards: Sequence[ShapeGuard]) -> None:
        self.symbols = symbols
        self.env = env
        self.guards = guards
        self.named = {symbol: name for name, symbol in symbols.roots.items()}
        self.values: dict[str, Expr] = {}
        """What each root is now: a constant, itself, or an affine expression of another root or of a new dim."""
        self.fresh: dict[str, Symbol] = {}
        self.automatic: set[str] = set()
        for name, symbol in symbols.roots.items():
            self._settle(name, env.replace(symbol))
        for guard in guards:
            self._join(guard.expr)
        self._leave_the_rest_to_export()

    def _settle(self, name: str, value: Expr) -> None:
        symbol = self.symbols.roots[name]
        constant, terms = polynomials.parts(value)
        if isinstance(value, Const) or (len(terms) == 1 and terms[0][0] in self.named and value is not symbol
                                        and terms[0][1] >= 1):
            self.values[name] = value
        elif len(terms) == 1 and isinstance(terms[0][0], Symbol) and value is not symbol and terms[0][1] > 1:
            self._multiple_of_new(name, terms[0][1], constant)
        elif value is symbol:
            modulus, residue = self.env.facts.congruence(symbol)
            if modulus > 1:
                self._multiple_of_new(name, modulus, residue)
            else:
                self.values[name] = symbol
        else:
            self.automatic.add(name)

    def _multiple_of_new(self, name: str, modulus: int, residue: int) -> None:
        new = self.fresh[name] = shapes.symbol("_" + name)
        self.values[name] = new * modulus + residue % modulus

    def _join(self, condition: Expr) -> None:
        """`4*a == 3*b` made a a multiple of 3 and b one of 4; they are multiples of one number."""
        concerned = [self.named[symbol] for symbol in condition.free_symbols if symbol in self.named]
        if len(concerned) != 2 or not all(name in self.fresh for name in concerned):
            return
        earlier, later = sorted(concerned, key=list(self.symbols.roots).index)
        values: dict[Expr, Expr | int | float] = {self.symbols.roots[name]: self.values[name] for name in concerned}
        same = relations.eq(self.fresh[earlier], self.fresh[later])
        if condition.substitute(values) is same:
            self.values[later] = self.values[later].substitute({self.fresh[later]: self.fresh[earlier]})
            del self.fresh[later]

    def _value(self, name: str) -> Expr:
        """What a root is in terms of those that stay."""
        value = self.values[name]
        for _ in self.values:
            one: dict[Expr, Expr | int | float] = {
                symbol: self.values[other] for symbol, other in self.named.items()
                if other in self.values and other not in self.automatic and symbol in value.free_symbols}
            if not any(new is not old for old, new in one.items()):
                break
            value = value.substitute(one)
        return value

    def _ranges(self) -> dict[Symbol, Interval]:
        intervals = {symbol: self._interval(name) for symbol, name in self.named.items()}
        for new in self.fresh.values():
            intervals[new] = Interval()
            for name, value in self.values.items():
                if new in value.free_symbols:
                    scale, offset = _affine(value)
                    inner = self._interval(name)
                    lower = -((offset - int(inner.lower)) // scale) if inner.lower != -INF else -INF
                    upper = (int(inner.upper) - offset) // scale if inner.upper != INF else INF
                    intervals[new] &= Interval(lower, upper)
        return intervals

    def _interval(self, name: str) -> Interval:
        return self.env.interval(self.symbols.roots[name])

    def _leave_the_rest_to_export(self) -> None:
        """Named dims of conditions that still do not hold for all values are for export to work out."""
        while True:
            before = len(self.automatic)
            ranges = self._ranges()
            known = Facts()
            for symbol, interval in ranges.items():
                known.set_bounds(symbol, interval)
            replaced: dict[Expr, Expr | int | float] = {
                symbol: self._value(name) for symbol, name in self.named.items() if name not in self.automatic}
            for guard in self.guards:
                concerned = {self.named[symbol] for symbol in guard.expr.free_symbols if symbol in self.named}
                if not concerned or concerned & self.automatic or not guard.expr.free_symbols <= self.named.keys():
                    continue
                expr = guard.expr.substitute(replaced)
                if known.decide(expr, expected=True) is not True and not holds_everywhere(expr, ranges):
                    self.automatic |= concerned
            for name in self.values:
                if any(self.named.get(symbol) in self.automatic for symbol in self.values[name].free_symbols):
                    self.automatic.add(name)
            if len(self.automatic) == before:
                return

    def depends(self, name: str) -> int:
        """Where the new definition of a root comes: 2 if it names another root."""
        if name in self.automatic or name in self.fresh:
            return int(name in self.fresh)
        return 2 if self.values[name].free_symbols - {self.symbols.roots[name]} else 0

    def lines(self, name: str) -> list[str]:
        """The new definition of a root, nothing where it stays."""
        symbol = self.symbols.roots[name]
        if name in self.automatic:
            return [f"{name} = {AUTO}"]
        value = self.values[name]
        if isinstance(value, Const):
            return [f"{name} = {value}"]
        if name in self.fresh:
            scale, offset = _affine(value)
            new = self.fresh[name]
            return [f"{new} = {_dim_text(str(new), self._ranges()[new], SMALLEST // scale)}",
                    f"{name} = {affine_text(str(new), scale, offset)}"]
        if value is not symbol:
            return [f"{name} = {value}"]
        interval, declared = self._interval(name), self.env.symbols[symbol].interval
        given, relied = self.symbols.contract.roots[name].given_min, name in self.symbols.relied
        if given is None:
            return [] if interval == declared else [f"{name} = {_dim_text(name, interval, declared.lower)}"]
        if interval == declared and not relied:
            return []
        if interval.lower == declared.lower and not relied:
            interval = Interval(given, interval.upper)
        return [f"{name} = {_dim_text(name, interval, -INF)}"]


def _affine(value: Expr) -> tuple[int, int]:
    constant, ((_, scale),) = polynomials.parts(value)
    return scale, constant


def _dim_text(name: str, interval: Interval, usual: float) -> str:
    bounds = f", min={interval.lower}" if interval.lower > usual else ""
    if interval.upper != INF:
        bounds += f", max={interval.upper}"
    return f"Dim({name!r}{bounds})"


# Applying them

_PLACE = re.compile(r"^(?P<name>\w+)(?P<path>(\[[^\]]+\])*)\.shape\[(?P<dim>\d+)\]$")


def refine_dynamic_shapes_from_suggested_fixes(message: str, dynamic_shapes: Any) -> Any:
    """The declaration with the fixes that the message of a `ConstraintViolationError` suggests.

    >>> a, b = Dim("a"), Dim("b")
    >>> text = "Suggested fixes:\\n  a = Dim('a', max=8)\\n  b = 2*a"
    >>> refine_dynamic_shapes_from_suggested_fixes(text, {"x": {0: a}, "y": (b, None)})
    {'x': {0: a}, 'y': (2*a, None)}
    """
    _, heading, tail = message.partition("Suggested fixes:")
    if not heading:
        raise UserCodeError("the message has no suggested fixes", "pass str(error) of a ConstraintViolationError")
    scope: dict[str, Any] = {"Dim": Dim}
    roots = {dim.root.name: dim.root for dim in _dims_in(dynamic_shapes)}
    scope.update(roots)
    places: list[tuple[str, Any]] = []
    for line in tail.strip().splitlines():
        target, _, text = line.strip().partition(" = ")
        value = _evaluate(text, scope)
        if target.isidentifier():
            scope[target] = value
        else:
            places.append((target, value))
    refined = _replaced(dynamic_shapes, scope)
    for place, value in places:
        refined = _at_place(refined, place, value)
    return refined


def _dims_in(spec: Any) -> list[Dim]:
    spec = as_ours(spec)
    if isinstance(spec, Dim):
        return [spec]
    if isinstance(spec, Mapping):
        spec = list(spec.values())
    return [dim for one in spec for dim in _dims_in(one)] if isinstance(spec, (list, tuple)) else []


def _evaluate(text: str, scope: Mapping[str, Any]) -> Any:
    """The value of a fix: names, integers, `Dim`, products, sums and differences, and nothing else."""
    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | str()):
                return node.value
            case ast.Name(id=name) if name in scope:
                return scope[name]
            case ast.Attribute(value=ast.Name(id="Dim"), attr="AUTO" | "DYNAMIC" | "STATIC" as attr):
                return getattr(Dim, attr)
            case ast.Call(func=ast.Name(id="Dim"), args=args, keywords=keywords):
                return Dim(*[value(arg) for arg in args], **{k.arg: value(k.value) for k in keywords if k.arg})
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return value(left) * value(right)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return value(left) + value(right)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return value(left) - value(right)
        raise UserCodeError(f"{text!r} is no suggested fix", "pass str(error) of a ConstraintViolationError")

    return value(ast.parse(text, mode="eval").body)


def _replaced(spec: Any, scope: Mapping[str, Any]) -> Any:
    spec = as_ours(spec)
    if isinstance(spec, Dim):
        root = scope[spec.root.name]
        return root * spec.scale + spec.offset if spec.is_derived else root
    if isinstance(spec, Mapping):
        return {key: _replaced(value, scope) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(_replaced(value, scope) for value in spec)
    return spec


def _at_place(spec: Any, place: str, value: Any) -> Any:
    """The declaration with another value at one dimension."""
    match = _PLACE.match(place)
    if match is None or not isinstance(spec, Mapping) or match["name"] not in spec:
        raise UserCodeError(f"{place} is not found in dynamic_shapes", "change that dimension by hand")
    path = [match["name"], *(ast.literal_eval(key) for key in re.findall(r"\[([^\]]+)\]", match["path"])),
            int(match["dim"])]

    def changed(one: Any, keys: list[Any]) -> Any:
        if not keys:
            return value
        if isinstance(one, Mapping):
            return {**one, keys[0]: changed(one[keys[0]], keys[1:])}
        items = list(one)
        items[keys[0]] = changed(items[keys[0]], keys[1:])
        return type(one)(items)

    return changed(spec, path)


