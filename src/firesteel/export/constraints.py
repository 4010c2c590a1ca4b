"""After tracing: what the program needs of its sizes, against what was declared about them.

The declaration holds by construction (see `declared`), so every guard that is still needed narrows it. Where the guard
speaks of dimensions under AUTO, it becomes part of the contract: an equality, a range, or a condition that is checked
when the program is called. Where it speaks of named dims, the program is not valid on all the sizes that were declared,
and where it makes a dimension under DYNAMIC a constant, that is not what was asked for. All of these are listed in one
`ConstraintViolationError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import errors, shapes
from ..shapes import Const, Expr, Interval, ShapeEnv, ShapeGuard, Symbol, SymbolInfo
from ..shapes.dims import Dim, HintKind
from ..shapes.ranges import INF
from .declared import Declared, DeclaredSymbols
from .errors import BRANCH_ON_SIZES
from .exhaustive import holds_everywhere
from .ranges import ValueRanges
from .suggested_fixes import suggest


@dataclass(frozen=True)
class Conflict:
    """One thing that the program needs and that contradicts the declaration."""

    names: tuple[str, ...]
    """The dims that it is about; for a dimension without a name, the place."""
    reason: str
    provenance: shapes.Provenance = shapes.Provenance()

    def __str__(self) -> str:
        if self.provenance.frame is None:
            return self.reason
        line = f": {self.provenance.line}" if self.provenance.line else ""
        return f"{self.reason}\n      {self.provenance}{line}"


class ConstraintViolationError(errors.ConstraintViolationError):
    """The program is not valid on all the sizes that `dynamic_shapes` declares.

    Attributes:
        conflicts: what the program needs, each with the line that needs it.
        fixes: assignments to the dims of the declaration with which the export succeeds.

    >>> import torch, firesteel as fs
    >>> class Half(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x + 1 if x.shape[0] > 4 else x
    >>> try:
    ...     fs.export.export(Half(), (torch.ones(8),), dynamic_shapes={"x": {0: fs.export.Dim("batch")}})
    ... except fs.export.ConstraintViolationError as error:
    ...     print(error.fixes)
    ("batch = Dim('batch', min=5)",)
    """

    def __init__(self, conflicts: Sequence[Conflict], fixes: Sequence[str]) -> None:
        self.conflicts = tuple(conflicts)
        self.fixes = tuple(fixes)
        first = next((conflict.provenance.frames for conflict in conflicts if conflict.provenance.frames), ())
        super().__init__("; ".join(conflict.reason for conflict in conflicts), "; ".join(fixes), first)
        self.args = (self.conflicts, self.fixes)

    def __str__(self) -> str:
        names = dict.fromkeys(name for conflict in self.conflicts for name in conflict.names)
        lines = [f"Constraints violated ({', '.join(names)})!"]
        lines += [f"  - {conflict}" for conflict in self.conflicts]
        if any(conflict.provenance.line.lstrip().startswith(("if ", "elif ")) for conflict in self.conflicts):
            lines += ["", f"An example: print(fs.export.examples.get({BRANCH_ON_SIZES!r}).source)"]
        if self.fixes:
            lines += ["", "Suggested fixes:", *(f"  {fix}" for fix in self.fixes)]
        return "\n".join(lines)


@dataclass
class Solved:
    """The contract of a traced program."""

    ranges: dict[Expr, ValueRanges] = field(default_factory=dict)
    """For each symbol, and each expression that is the size of an input, the values it may have."""
    guards: list[ShapeGuard] = field(default_factory=list)
    """What sizes must fulfil beyond that."""


def solve(declared: Declared, env: ShapeEnv, deferred: bool = False) -> Solved:
    """The contract of a program that was traced with declared sizes; raises `ConstraintViolationError`.

    With `deferred`, what the program needs of named dims beyond what was declared is checked by calls instead, unless
    it makes one of them a constant.
    """
    symbols = declared.symbols(env)
    guards = env.guards
    _find_reliance(symbols, env)
    conflicts = [*_examples_of_zero_or_one(symbols), *_conflicts(symbols, env, guards, deferred),
                 *_without_small_sizes(symbols)]
    if conflicts:
        raise ConstraintViolationError(conflicts, suggest(symbols, env, guards))
    solved = Solved()
    ranges = {symbol: _range(symbols, env, symbol) for symbol in _surviving(symbols, env)}
    for sizes in symbols.sizes:
        for size in sizes:
            _add_range(env.replace(size), ranges, solved.ranges)
    for symbol in [*ranges, *(info.symbol for info in env.symbols.values() if _is_data(info))]:
        solved.ranges.setdefault(symbol, ValueRanges.of(ranges.get(symbol) or env.interval(symbol)))
    known = shapes.Facts()
    for symbol, interval in ranges.items():
        known.set_bounds(symbol, interval)
    # Not `env.replace`, which knows that what was asked is true.
    symbols_only: dict[Expr, Any] = {old: new for old, new in env.facts.replacements.items() if isinstance(old, Symbol)}
    for guard in guards:
        expr = guard.expr.substitute(symbols_only)
        if known.decide(expr, expected=True) is not True and not holds_everywhere(expr, ranges):
            solved.guards.append(ShapeGuard(expr, guard.provenance))
    return solved


def _is_data(info: SymbolInfo) -> bool:
    return info.hint is None and info.symbol.kind == "int"


def _surviving(symbols: DeclaredSymbols, env: ShapeEnv) -> Iterator[Symbol]:
    """The symbols that sizes of inputs are made of, in the order of the inputs."""
    seen: dict[Symbol, None] = {}
    for sizes in symbols.sizes:
        for size in sizes:
            seen.update(dict.fromkeys(sorted(env.replace(size).free_symbols, key=str)))
    return iter(seen)


def _range(symbols: DeclaredSymbols, env: ShapeEnv, symbol: Symbol) -> Interval:
    """The values of a symbol, 0 and 1 among them where they were declared and no decision depended on them."""
    interval = env.interval(symbol)
    root = symbols.contract.roots.get(symbol.name) if symbol in symbols.roots.values() else None
    if root is not None and root.name not in symbols.relied and root.min < interval.lower \
            and interval.lower == env.symbols[symbol].interval.lower:
        return Interval(root.min, interval.upper)
    return interval


def _add_range(size: Expr, ranges: Mapping[Symbol, Interval], result: dict[Expr, ValueRanges]) -> None:
    if isinstance(size, Const) or size in result:
        return
    known = shapes.Facts()
    for symbol in size.free_symbols:
        known.set_bounds(symbol, ranges[symbol])
    result[size] = ValueRanges.of(known.interval(size))


# Sizes of 0 and 1

_RANK_DEPENDS = frozenset({"squeeze", "squeeze_"})


def _find_reliance(symbols: DeclaredSymbols, env: ShapeEnv) -> None:
    """Note the named dims whose sizes of 0 and 1 the program treats differently from those it was traced for.

    Operators treat them as cases of their own, but do so again when the program runs. A decision of the program itself
    is taken once, while tracing.
    """
    small = {}
    for name, symbol in symbols.roots.items():
        lower, least = env.symbols[symbol].interval.lower, symbols.contract.roots[name].min
        if least < lower:
            small[symbol] = Interval(least, lower - 1)
    bounds = {symbol: info.interval for symbol, info in env.symbols.items()}
    for answer in env.answers or ():
        if answer.provenance.op and answer.provenance.op not in _RANK_DEPENDS:
            continue
        for symbol in answer.expr.free_symbols & small.keys():
            known = shapes.Facts()
            ranges = {**bounds, symbol: small[symbol]}
            for free in answer.expr.free_symbols:
                known.set_bounds(free, ranges[free])
            if known.decide(answer.expr) is not True and not holds_everywhere(answer.expr, ranges):
                symbols.relied.setdefault(symbol.name, answer.provenance)


def _without_small_sizes(symbols: DeclaredSymbols) -> Iterator[Conflict]:
    for name, provenance in symbols.relied.items():
        if symbols.contract.roots[name].given_min is not None:
            symbol = symbols.roots[name]
            least = symbols.env.symbols[symbol].interval.lower
            yield Conflict((name,), f"not all values of {_long(symbols, symbol)} in the declared range are valid: the "
                                    f"program takes a decision that holds from {least} on", provenance)


# Conflicts


def _examples_of_zero_or_one(symbols: DeclaredSymbols) -> Iterator[Conflict]:
    for position, dim, declared, size in symbols.fixed:
        where = symbols.contract.inputs[position].where(dim)
        name = str(declared) if isinstance(declared, Dim) else where
        at = f"{name} = {where}" if isinstance(declared, Dim) else where
        yield Conflict((name,), f"{at} is declared to vary, but the example has {size}, and programs are traced for a "
                                f"size of 0 or 1 alone (constant {size}); give an example with a size from 2 on")


def _conflicts(symbols: DeclaredSymbols, env: ShapeEnv, guards: Sequence[ShapeGuard],
               deferred: bool) -> Iterator[Conflict]:
    named = set(symbols.roots.values())
    declared = {symbol: env.symbols[symbol].interval for symbol in named}
    constants = {info.symbol: (value, guard) for info, value, guard in env.specialised()}
    reported: set[Symbol] = set()
    for symbol in [*symbols.roots.values(), *symbols.hints]:
        if symbol in constants and env.symbols[symbol].interval.is_single is False:
            hint = symbols.hints.get(symbol)
            if hint is not None and hint[2].kind is not HintKind.DYNAMIC:
                continue
            value, guard = constants[symbol]
            reported.add(symbol)
            yield Conflict((_short(symbols, symbol),), f"not all values of {_long(symbols, symbol)} are valid: the "
                                                       f"program makes it a constant ({value})", guard.provenance)
    if deferred:
        return
    for guard in guards:
        free = guard.expr.free_symbols
        concerned = free & named
        if not concerned or (_is_equality(guard.expr) and (free & reported) and len(free) == 1):
            continue
        if not free <= named:
            # A dimension under AUTO gives way, unless that leaves only some values of a named dim.
            concerned = frozenset(symbol for symbol in concerned if env.replace(symbol) is not symbol)
        if not concerned or concerned <= reported or holds_everywhere(guard.expr, declared):
            continue
        yield _conflict(symbols, env, guard)
    for info, guard in env.narrowed():
        # Bounds that reach a named dim by way of an equality with a dimension under AUTO.
        if info.symbol in named and not guard.expr.free_symbols <= named and info.symbol not in reported:
            interval = env.interval(info.symbol)
            before = declared[info.symbol]
            if interval.lower > before.lower or interval.upper < before.upper:
                reported.add(info.symbol)
                needs = _bounds_text(symbols.contract.roots[info.symbol.name].name, before, interval)
                yield Conflict((info.symbol.name,), f"not all values of {_long(symbols, info.symbol)} in the declared "
                                                    f"range are valid: the program needs {needs}", guard.provenance)


def _is_equality(expr: Expr) -> bool:
    return getattr(expr, "op", "") == "eq0"


def _conflict(symbols: DeclaredSymbols, env: ShapeEnv, guard: ShapeGuard) -> Conflict:
    free = sorted(guard.expr.free_symbols, key=lambda symbol: list(env.symbols).index(symbol))
    involved = [_long(symbols, symbol) for symbol in free]
    if _is_equality(guard.expr) and len(free) == 2:
        # The later dim follows the earlier one.
        for later, earlier in ((free[1], free[0]), (free[0], free[1])):
            value = solved_for(guard.expr, later)
            if value is earlier:
                reason = f"{_long(symbols, later)} and {_long(symbols, earlier)} must always be equal"
                return Conflict((_short(symbols, later),), reason, guard.provenance)
            if value is not None:
                where = "" if earlier in symbols.hints else f", where {_long(symbols, earlier)}"
                reason = f"{_long(symbols, later)} must always be {_in_places(symbols, value)}{where}"
                return Conflict((_short(symbols, later),), reason, guard.provenance)
    names = tuple(_short(symbols, symbol) for symbol in free)
    reason = f"not all values of {' and '.join(involved)} in the declared range are valid: the program needs " \
             f"{_in_places(symbols, guard.expr)}"
    return Conflict(names, reason, guard.provenance)


def solved_for(equality: Expr, symbol: Symbol) -> Expr | None:
    """What a symbol is by an equality, where it stands alone with a factor of 1 in it."""
    from ..shapes import polynomials

    polynomial = equality.args[0]
    _, terms = polynomials.parts(polynomial)
    factor = dict(terms).get(symbol)
    if factor not in (1, -1) or any(symbol in term.free_symbols for term, _ in terms if term is not symbol):
        return None
    rest = polynomials.add(polynomial, polynomials.scale(symbol, -factor))
    return polynomials.scale(rest, -factor)


def _short(symbols: DeclaredSymbols, symbol: Symbol) -> str:
    if symbol in symbols.hints:
        position, dim, _ = symbols.hints[symbol]
        return symbols.contract.inputs[position].where(dim)
    return symbol.name


def _long(symbols: DeclaredSymbols, symbol: Symbol) -> str:
    """A symbol with the place where its value comes from."""
    if symbol in symbols.hints:
        return _short(symbols, symbol)
    uses = symbols.contract.uses[symbol.name]
    first = uses[0][2]
    places = [symbols.contract.inputs[position].where(dim) for position, dim, how in uses if how == first]
    return " = ".join([str(first), *places])


def _in_places(symbols: DeclaredSymbols, expr: Expr) -> str:
    """An expression in which dims have their names, and sizes without a name their place."""
    return shapes.print_python(expr, {symbol: _short(symbols, symbol) for symbol in expr.free_symbols})


def _bounds_text(name: str, before: Interval, now: Interval) -> str:
    parts = [f"{name} >= {now.lower}"] if now.lower > before.lower else []
    if now.upper < before.upper or now.upper != INF and not parts:
        parts.append(f"{name} <= {now.upper}")
    return " and ".join(parts)
