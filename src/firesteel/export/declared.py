"""A shape contract put to work: the symbols that stand for declared sizes while a program is traced.

Each named dim is one symbol, called after it, and a derived dim is an expression of its root, so that everything
declared holds by construction. A dimension under AUTO or DYNAMIC is a symbol of its own, ``s0`` and so on in the
order of the inputs. When tracing ties such a symbol to others, it gives way to the named ones. A number that is
declared to vary is a symbol too, of any value; a capture makes that one itself, where the program first uses it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from .. import shapes
from ..capture import dynamism
from ..capture.argument_sizes import Place
from ..capture.source import DerivedSizeSource, SizeSource, Source
from ..capture.wrapping import number_bounds
from ..shapes.dims import Dim, DimHint, HintKind
from ..shapes.symnode import make_symbolic, make_symint
from .dynamic_shapes import SMALLEST, Declaration, InputSizes, ShapeContract, parameter_names, varies
from .lifting import Arguments

Size = shapes.Expr | int


class DeclaredSymbols:
    """The symbols of one contract in one environment, and the sizes of the inputs in them."""

    def __init__(self, contract: ShapeContract, env: shapes.ShapeEnv) -> None:
        self.contract = contract
        self.env = env
        self.roots: dict[str, shapes.Symbol] = {}
        self.hints: dict[shapes.Symbol, tuple[int, int, DimHint]] = {}
        """The symbols of AUTO and DYNAMIC dimensions: input, dimension, declaration."""
        self.fixed: list[tuple[int, int, Declaration, int]] = []
        """Dimensions that are declared to vary and whose example is a size of 0 or 1."""
        for name, root in contract.roots.items():
            self._make_root(name, root)
        self.sizes = [self._sizes(position, sizes) for position, sizes in enumerate(contract.inputs)]
        env.yielding = frozenset(self.hints)
        if any(env.symbols[symbol].interval.lower > contract.roots[name].min for name, symbol in self.roots.items()):
            env.answers = []
        self.relied: dict[str, shapes.Provenance] = {}
        """Roots for which the program answers a question by their being at least 2, and where it does."""

    def _make_root(self, name: str, root: Dim) -> None:
        uses = self.contract.uses[name]
        example = self.contract.examples[name]
        if any(how.size_for(example) < SMALLEST for _, _, how in uses):
            return
        # the root of a derived dim may become a size too: ``4*n`` seen as n rows of 4
        lower = max([root.min, SMALLEST, *(-((how.offset - SMALLEST) // how.scale) for _, _, how in uses)])
        upper = shapes.Interval().upper if root.max is None else root.max
        position, dim, how = uses[0]
        where = f"{self.contract.inputs[position].name}.size({dim})"
        source = where if not how.is_derived else name
        self.env.reserved.add(name)
        self.roots[name] = self.env.new_symbol(example, source, lower=min(lower, example), upper=upper, name=name)

    def _sizes(self, position: int, sizes: InputSizes) -> list[Size]:
        result: list[Size] = []
        if sizes.tensor is None:  # numbers come later: see `number`
            return result
        for dim, declared in enumerate(sizes.dims):
            size: Size = sizes.tensor.shape[dim]
            assert isinstance(size, int)
            if isinstance(declared, Dim):
                symbol = self.roots.get(declared.root.name)
                if symbol is None:
                    self.fixed.append((position, dim, declared, size))
                else:
                    size = symbol * declared.scale + declared.offset
            elif isinstance(declared, DimHint) and varies(declared):
                if size < SMALLEST:
                    if declared.kind is HintKind.DYNAMIC:
                        self.fixed.append((position, dim, declared, size))
                else:
                    size = self._hinted(position, dim, declared, size, sizes.name)
            result.append(size)
        return result

    def _hinted(self, position: int, dim: int, hint: DimHint, size: int, name: str) -> shapes.Symbol:
        lower = max(hint.min or SMALLEST, SMALLEST)
        upper = shapes.Interval().upper if hint.max is None else hint.max
        symbol = self.env.new_symbol(size, f"{name}.size({dim})", lower=lower, upper=upper)
        self.hints[symbol] = (position, dim, hint)
        return symbol


    def number(self, position: int, known: shapes.Symbol | None = None) -> shapes.Symbol:
        """The symbol of a number that varies: the one that a capture made for it, or a new one."""
        sizes = self.contract.inputs[position]
        if self.sizes[position]:
            before = self.sizes[position][0]
            assert isinstance(before, shapes.Symbol)
            return before
        hint, = sizes.dims
        assert sizes.number is not None and isinstance(hint, DimHint)
        symbol = known
        if symbol is None and isinstance(sizes.number, float):
            symbol = self.env.new_symbol(sizes.number, sizes.name, kind="float", is_size=False)
        elif symbol is None:
            bounds = number_bounds(int(sizes.number)) or {}
            symbol = self.env.new_symbol(sizes.number, sizes.name, is_size=False, **bounds)
        self.hints[symbol] = (position, 0, hint)
        self.sizes[position] = [symbol]
        self.env.yielding = frozenset(self.hints)
        if hint.min is not None:
            self.env.assume(shapes.ge(symbol, hint.min))
        if hint.max is not None:
            self.env.assume(shapes.le(symbol, hint.max))
        return symbol


class Declared:
    """A contract while programs are traced for it."""

    def __init__(self, contract: ShapeContract) -> None:
        self.contract = contract
        self._symbols: DeclaredSymbols | None = None

    def symbols(self, env: shapes.ShapeEnv) -> DeclaredSymbols:
        """The symbols in an environment; they are made when first asked for."""
        if self._symbols is None or self._symbols.env is not env:
            self._symbols = DeclaredSymbols(self.contract, env)
        return self._symbols

    @property
    def env(self) -> shapes.ShapeEnv | None:
        """The environment of the last tracing, None before that."""
        return None if self._symbols is None else self._symbols.env

    # Tracing bytecode

    @contextlib.contextmanager
    def marking(self) -> Iterator[None]:
        """Captures inside take their sizes from the contract, and every other size and number is a constant."""
        token = dynamism.DECLARED.set(self)
        try:
            yield
        finally:
            dynamism.DECLARED.reset(token)

    def captured(self, env: shapes.ShapeEnv, tensor: torch.Tensor, source: Source,
                 static: frozenset[tuple[str, int]]) -> dynamism.CapturedSizes | None:
        """The sizes of a tensor that a capture meets; None when all of them are constants."""
        declaration = self.contract.of_tensor(tensor)
        if declaration is None:
            return None
        position, sizes = declaration
        values = self.symbols(env).sizes[position]
        if not any(isinstance(size, shapes.Expr) for size in values):
            return None
        sources: dict[shapes.Symbol, Source] = {}
        demanded: dict[shapes.Symbol, SizeSource] = {}
        for dim, declared in enumerate(sizes.dims):
            if (source.name, dim) in static and isinstance(declared, DimHint):
                values[dim] = tensor.shape[dim]  # the others were demanded, which is an error before it comes here
            size = values[dim]
            if not isinstance(size, shapes.Expr):
                continue
            where = SizeSource(source, dim)
            if isinstance(declared, Dim):
                symbol = self.symbols(env).roots[declared.root.name]
                if declared.is_derived:
                    sources.setdefault(symbol, DerivedSizeSource(source, dim, declared.scale, declared.offset))
                else:
                    sources[symbol] = demanded[symbol] = where
            else:
                assert isinstance(size, shapes.Symbol) and isinstance(declared, DimHint)
                sources[size] = where
                if declared.kind is HintKind.DYNAMIC:
                    demanded[size] = where
        return dynamism.CapturedSizes(list(values), sources, demanded)

    def places(self, module: torch.nn.Module, arguments: Arguments) -> dict[int, Place]:
        """Where the numbers that vary are among the parameters of forward, by position."""
        numbers = [position for position, sizes in enumerate(self.contract.inputs) if sizes.number is not None]
        if not numbers:
            return {}
        parameters = parameter_names(module, arguments.args, arguments.kwargs)
        return {position: _place(arguments, parameters, arguments.inputs[position].keys) for position in numbers}

    def numbers(self, env: shapes.ShapeEnv,
                known: Mapping[int, shapes.Symbol] | None = None) -> dict[int, Any]:
        """The numbers that vary, by position, as symbols; `known` are those that a capture made."""
        symbols = self.symbols(env)
        return {position: make_symbolic(env, symbols.number(position, (known or {}).get(position)))
                for position, sizes in enumerate(self.contract.inputs) if sizes.number is not None}

    # Tracing by running Python

    def layout(self, tensor: torch.Tensor, env: shapes.ShapeEnv) -> tuple[list[Any], list[Any]] | None:
        """Sizes and strides of an input with symbols in them; None when all of it is constant."""
        declaration = self.contract.of_tensor(tensor)
        if declaration is None:
            return None
        values = self.symbols(env).sizes[declaration[0]]
        if not any(isinstance(size, shapes.Expr) for size in values):
            return None
        strides = dynamism.strides_as_products(tensor, values)
        return [make_symint(env, size) for size in values], [make_symint(env, stride) for stride in strides]


def _place(arguments: Arguments, parameters: Sequence[tuple[Any, ...]], keys: Sequence[Any]) -> Place:
    """A leaf among the parameters of forward, from its way in ``(args, kwargs)``."""
    which, first, *rest = keys
    number = first.idx if which.idx == 0 else len(arguments.args) + list(arguments.kwargs).index(first.key)
    value: Any = (*arguments.args, *arguments.kwargs.values())[number]
    name, *inner = parameters[number]
    steps: list[tuple[str, Any]] = [("item", key) for key in inner]
    for key in rest:
        field = getattr(key, "name", None)
        if field is not None and isinstance(value, tuple):  # a named tuple
            steps.append(("item", type(value)._fields.index(field)))  # type: ignore[attr-defined]
            value = getattr(value, field)
        elif field is not None:
            steps.append(("attribute", field))
            value = getattr(value, field)
        else:
            item = key.idx if hasattr(key, "idx") else key.key
            steps.append(("item", item))
            value = value[item]
    return Place(name, tuple(steps))
