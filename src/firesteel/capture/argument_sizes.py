"""Sizes and numbers of a function's arguments that were declared where it is compiled: ``compile(dynamic_shapes=...)``.

What varies is a symbol from the first compilation on, everything else is a constant. What was declared is checked when
a function is compiled, and the relations between sizes are guards of every compiled version: a call that does not keep
them fits none, and the check for a new one says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from .. import shapes
from ..errors import DeclaredSizesError, UserFrame
from ..records import dataclass
from .source import AttrSource, LocalSource, SizeSource, Source, item_source

Declared = shapes.Expr | int | None
"""An expression of variables, a number, or None for what is not declared."""
SMALLEST = 2
Step = tuple[str, Any]
"""("item", key) or ("attribute", name)."""


@dataclass(frozen=True)
class Place:
    """A value among the arguments: a parameter, and the way into it."""

    parameter: str
    steps: tuple[Step, ...] = ()

    @property
    def source(self) -> Source:
        source: Source = LocalSource(self.parameter)
        for kind, key in self.steps:
            source = item_source(source, key) if kind == "item" else AttrSource(source, key)
        return source

    def read(self, arguments: Mapping[str, Any]) -> Any:
        """The value in a call; None where there is none."""
        value: Any = arguments.get(self.parameter)
        try:
            for kind, key in self.steps:
                value = value[key] if kind == "item" else getattr(value, key)
        except (LookupError, AttributeError, TypeError):
            return None
        return value


@dataclass(frozen=True)
class Bounds:
    """What is known of a variable."""

    lower: int | None = None
    upper: int | None = None
    demanded: bool = True
    """Whether it is an error when the program allows one value only."""


@dataclass(frozen=True)
class TensorDeclaration:
    """What was declared of the sizes of a tensor."""

    dims: Mapping[int, Declared]
    rank: int | None = None
    """How many dimensions it has; None if that was not said."""

    def fits(self, t: torch.Tensor) -> bool:
        return t.dim() == self.rank if self.rank is not None else t.dim() > max(self.dims, default=-1)


@dataclass(frozen=True)
class ArgumentSizes:
    """What was declared of the arguments of one function."""

    tensors: Mapping[Place, TensorDeclaration]
    numbers: Mapping[Place, Declared]
    variables: Mapping[shapes.Symbol, Bounds]
    assumptions: tuple[shapes.Expr, ...] = ()

    def dims(self, name: str, t: torch.Tensor) -> dict[int, tuple[int, int | None, bool]]:
        """The dimensions of a tensor that are symbols: lower bound, upper bound, whether that is demanded."""
        named: dict[int, tuple[int, int | None, bool]] = {}
        for place, declared in self.tensors.items():
            if place.source.name == name and declared.fits(t):
                for dim, size in declared.dims.items():
                    if isinstance(size, shapes.Expr) and t.shape[dim] >= SMALLEST:
                        bounds = self.variables.get(size, Bounds()) if isinstance(size, shapes.Symbol) else Bounds()
                        named[dim] = (max(bounds.lower or SMALLEST, SMALLEST), bounds.upper, bounds.demanded)
        return named

    def is_symbol(self, name: str) -> bool:
        """Whether a number among the arguments is a symbol."""
        return any(isinstance(number, shapes.Expr) for place, number in self.numbers.items()
                   if place.source.name == name)

    def check(self, arguments: Mapping[str, Any], where: UserFrame) -> None:
        """Raise if the arguments of a call are not as declared."""
        for place, declared in self.tensors.items():
            value = place.read(arguments)
            if isinstance(value, torch.Tensor) and not declared.fits(value):
                raise DeclaredSizesError(
                    f"{place.source.name} has {value.dim()} dimensions, and "
                    f"{'others' if declared.rank is None else declared.rank} are declared", None, (where,))
        relations, values = self.relations(arguments)
        numbers = {symbol: value for symbol, (_, value) in values.items()}
        for relation in relations:
            if not relation.evaluate(numbers):
                given = ", ".join(f"{symbol.name} is {numbers[symbol]}"
                                          for symbol in sorted(relation.free_symbols, key=lambda one: one.name))
                raise DeclaredSizesError(f"{relation} is declared, and {given or 'it does not hold'}", None, (where,))

    def relations(self, arguments: Mapping[str, Any]) -> tuple[
            list[shapes.Expr], dict[shapes.Symbol, tuple[Source, int]]]:
        """What must hold for the sizes and numbers of a call, in symbols named after where they are read.

        The second result has their sources and values.
        """
        values: dict[shapes.Symbol, tuple[Source, int]] = {}
        declared: list[tuple[shapes.Symbol, shapes.Expr | int]] = []
        for source, value, size in self._present(arguments):
            symbol = shapes.symbol(source.name)
            values[symbol] = source, value
            declared.append((symbol, size))
        meaning: dict[shapes.Expr, shapes.ExprLike] = {}
        for symbol, size in sorted(declared, key=lambda one: not isinstance(one[1], shapes.Symbol)):
            solved = _solved(symbol, size)
            if solved is not None:
                meaning.setdefault(*solved)
        relations = [shapes.eq(symbol, shapes.as_expr(size).substitute(meaning)) for symbol, size in declared
                     if shapes.as_expr(size).free_symbols <= meaning.keys()]
        relations = [relation for relation in relations if relation != shapes.as_expr(True)]
        for variable, bounds in self.variables.items():
            if variable in meaning:
                if bounds.lower is not None:
                    relations.append(shapes.ge(meaning[variable], bounds.lower))
                if bounds.upper is not None:
                    relations.append(shapes.le(meaning[variable], bounds.upper))
        relations += [assumption.substitute(meaning) for assumption in self.assumptions
                      if assumption.free_symbols <= meaning.keys()]
        return relations, values

    def _present(self, arguments: Mapping[str, Any]) -> Iterator[tuple[Source, int, shapes.Expr | int]]:
        """The declared sizes and numbers that a call has: where they are read, their values, and what is declared."""
        for place, declared in self.tensors.items():
            value = place.read(arguments)
            if isinstance(value, torch.Tensor) and declared.fits(value):
                for dim, size in declared.dims.items():
                    if size is not None:
                        yield SizeSource(place.source, dim), value.shape[dim], size
        for place, number in self.numbers.items():
            value = place.read(arguments)
            if type(value) is int and number is not None:
                yield place.source, value, number


def _solved(symbol: shapes.Symbol, size: shapes.Expr | int) -> tuple[shapes.Symbol, shapes.Expr] | None:
    """The variable of a size that is a variable or ``scale*variable + offset``, and what it is, given the size."""
    if not isinstance(size, shapes.Expr) or len(size.free_symbols) != 1:
        return None
    variable, = size.free_symbols
    offset, after = (int(size.evaluate({variable: value})) for value in (0, 1))
    scale = after - offset
    if scale < 1 or variable * scale + offset != size:
        return None
    return variable, (symbol - offset) // scale


def declared_guards(declared: ArgumentSizes, parameters: Sequence[str], args: Sequence[Any],
                    sources: dict[shapes.Symbol, Source]) -> list[shapes.ShapeGuard]:
    """The guards that a call keeps what was declared; their symbols get sources."""
    relations, values = declared.relations(dict(zip(parameters, args, strict=True)))
    used = {symbol for relation in relations for symbol in relation.free_symbols}
    for symbol, (source, _) in values.items():
        if symbol in used:
            sources[symbol] = source
    origin = shapes.Provenance((), "dynamic_shapes", "what is declared")
    return [shapes.ShapeGuard(relation, origin) for relation in relations if relation.free_symbols]
