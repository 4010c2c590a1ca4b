"""Which sizes, strides and numbers are symbols in a capture: the policy, and the layout of symbolic inputs.

Static first: the first capture of a function takes sizes and numbers as constants. What differs at the next capture
becomes a symbol there, exactly that (`changes`), and with it a size of a tensor that comes in for the first time then,
if it is one that an input had before (`outdated_sizes`): a cache that is as long as the prompt it was filled from will
grow. ``dynamic=True`` makes every size and number of the arguments a symbol at once, ``dynamic=False`` none; marks on a
tensor (`shape_markers`) go before all of these. Sizes 0 and 1 stay constants always: operators treat them as cases of
their own. So do the shapes of a module's parameters and buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

import torch

from .. import config, shapes
from ..errors import ConstraintViolationError
from ..records import dataclass
from ..shape_markers import dims_marked
from ..shapes.symnode import make_symint
from .argument_sizes import ArgumentSizes
from .learned import Learned
from .named_sources import NOTHING, NamedSources, dynamic_values, named_dynamic, named_static
from .source import ItemSource, LocalSource, ModuleTableSource, SizeSource, Source, StrideSource

if TYPE_CHECKING:
    from .tracer import Tracer

SMALLEST = 2
"""The smallest size that a symbol stands for."""


class DeclaredSizes(Protocol):
    """Sizes of inputs that someone else decides on, with symbols shared between inputs: the contract of an export."""

    def captured(self, env: shapes.ShapeEnv, tensor: torch.Tensor, source: Source,
                 static: frozenset[tuple[str, int]]) -> CapturedSizes | None:
        """The sizes of an input; None when all of them are constants. `static`: sizes that cannot be symbols."""


@dataclass(frozen=True, slots=True)
class CapturedSizes:
    """The declared sizes of one input, where their symbols are read, and those that must stay symbols."""

    sizes: list[Any]
    sources: dict[shapes.Symbol, Source]
    demanded: dict[shapes.Symbol, SizeSource]


DECLARED: ContextVar[DeclaredSizes | None] = ContextVar("declared sizes of inputs", default=None)
"""While set, captures take the sizes of inputs from it, and all other sizes and numbers are constants."""


@dataclass(frozen=True, slots=True)
class TensorSeen:
    """A tensor from outside that a capture used, and its layout then."""

    source: Source
    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True)
class Suspects:
    """Sizes that inputs of earlier captures had and that these inputs do not have any more."""

    sizes: frozenset[int] = frozenset()
    known: frozenset[str] = frozenset()
    """The tensors that earlier captures saw: what these have in common with a size that varies is chance."""


@dataclass(frozen=True)
class Dynamism:
    """What is symbolic in one capture."""

    everything: bool = False
    nothing: bool = False
    learned: Learned = field(default_factory=Learned)
    static: frozenset[tuple[str, int]] = frozenset()
    """Sizes that an operation of the program cannot take as symbols."""
    suspects: Suspects | None = None
    declared: ArgumentSizes | None = None
    """What was declared of the arguments: everything else is constant then."""
    named_dynamic: NamedSources = NOTHING
    named_static: NamedSources = NOTHING
    values: frozenset[int] = frozenset()
    """Sizes and numbers that are symbols wherever they occur."""

    @staticmethod
    def of(dynamic: bool | None, learned: Learned, static: frozenset[tuple[str, int]] = frozenset(),
           suspects: Suspects | None = None, declared: ArgumentSizes | None = None) -> Dynamism:
        """The policy for the `dynamic` argument of compile, with what is known to vary."""
        if declared is not None:
            return Dynamism(static=static, declared=declared)
        if config.dynamic_shapes != "auto":
            dynamic = config.dynamic_shapes == "1"
        return Dynamism(dynamic is True, dynamic is False, learned, static, suspects, None, named_dynamic(),
                        named_static(), dynamic_values())

    def number(self, source: Source, value: int | float, changing: bool = False) -> bool:
        """Whether a number from outside is a symbol; `changing`: it is known to be another one soon."""
        if self.declared is not None:
            return self.declared.is_symbol(source.name)
        if not config.dynamic_numbers or DECLARED.get() is not None or self.named_static.covers(source.name):
            return False
        if self.named_dynamic.covers(source.name) or (self.values and value in self.values):
            return True
        if self.nothing:
            return False
        return changing or source.name in self.learned.numbers or (self.everything and is_argument(source))

    def dims(self, source: Source, t: torch.Tensor) -> dict[int, tuple[int, int | None, bool]]:
        """The dimensions of a tensor that are symbols: lower bound, upper bound, and whether the user demands it."""
        if self.declared is not None:
            return {dim: bounds for dim, bounds in self.declared.dims(source.name, t).items()
                    if (source.name, dim) not in self.static}
        marks = dims_marked(t)
        declared: dict[int, tuple[int, int | None, bool]] = {}
        everything = self.everything and not in_module(source)
        name = source.name
        suspects = self.suspects
        suspected: frozenset[int] = frozenset()
        if suspects is not None and name not in suspects.known and not in_module(source):
            suspected = suspects.sizes
        for dim, size in enumerate(t.shape):
            if size < SMALLEST or (name, dim) in self.static:
                continue
            if dim in marks.dynamic:
                lower, upper = marks.dynamic[dim]
                declared[dim] = (max(lower or SMALLEST, SMALLEST), upper, True)
                continue
            if dim in marks.static or (self.named_static.entries and self.named_static.covers(name, dim)):
                continue
            if dim in marks.maybe or (self.named_dynamic.entries and self.named_dynamic.covers(name, dim)) or \
                    (size in self.values and not in_module(source)):
                declared[dim] = (SMALLEST, None, False)
                continue
            if not self.nothing and (everything or size in suspected or (name, dim) in self.learned.dims):
                declared[dim] = (SMALLEST, None, False)
        return declared


def in_module(source: Source | None) -> bool:
    """Whether a value is kept in a module's tables of parameters and buffers."""
    while source is not None:
        if isinstance(source, ModuleTableSource):
            return True
        source = source.base
    return False


def is_argument(source: Source) -> bool:
    """Whether a value was passed to the function, by itself or inside of containers."""
    while isinstance(source, ItemSource):
        source = source.parent
    return isinstance(source, LocalSource) and source.variable != "_fs_closure"


def name_symbols(tx: Tracer, arguments: Iterable[tuple[Source, Any]]) -> None:
    """Give the sizes of tensors their names in the order of the arguments, whatever is used first."""
    if DECLARED.get() is not None:
        return
    for source, value in arguments:
        kind = type(value)
        if kind is not torch.Tensor and kind is not torch.nn.Parameter:
            continue  # a subclass is not looked into, and would notice
        if value.layout is torch.strided and not value.is_nested:
            for dim in tx.symbols.dynamism.dims(source, value):
                tx.symbols.names[source, dim] = tx.shape_env.reserve_name()


def symbolic_layout(tx: Tracer, real: torch.Tensor, source: Source) -> tuple[list[Any], list[Any]] | None:
    """Sizes and strides of an input with symbols in them; None when all of it is constant."""
    env = tx.shape_env
    declared = DECLARED.get()
    if declared is not None:
        layout = declared.captured(env, real, source, tx.symbols.dynamism.static)
        if layout is None:
            return None
        for symbol, place in layout.sources.items():
            if symbol not in tx.symbols.sources or isinstance(place, SizeSource):
                tx.symbols.sources[symbol] = place
        tx.symbols.demanded.update(layout.demanded)
        strides = tx.symbols.layouts[source] = strides_as_products(real, layout.sizes)
        return [make_symint(env, size) for size in layout.sizes], [make_symint(env, stride) for stride in strides]
    plan = tx.symbols.dynamism.dims(source, real)
    if not plan:
        return None
    sizes: list[Any] = list(real.shape)
    for dim, (lower, upper, demanded) in plan.items():
        where = SizeSource(source, dim)
        bounds: dict[str, Any] = {"lower": lower}
        if upper is not None:
            bounds["upper"] = upper
        symbol = env.new_symbol(real.size(dim), where.name, name=tx.symbols.names.get((source, dim)), **bounds)
        tx.symbols.sources[symbol] = where
        if demanded:
            tx.symbols.demanded[symbol] = where
        sizes[dim] = symbol
    strides = _strides(tx, real, source, sizes)
    tx.symbols.layouts[source] = strides
    return [make_symint(env, size) for size in sizes], [make_symint(env, stride) for stride in strides]


def _strides(tx: Tracer, real: torch.Tensor, source: Source, sizes: list[Any]) -> list[Any]:
    """Strides as products, or symbols of their own where they are known to vary."""
    def free(dim: int) -> Any:
        if (source.name, dim) not in tx.symbols.dynamism.learned.strides:
            return None
        where = StrideSource(source, dim)
        symbol = tx.shape_env.new_symbol(real.stride(dim), where.name, lower=SMALLEST)
        tx.symbols.sources[symbol] = where
        return symbol

    return strides_as_products(real, sizes, free)


def strides_as_products(real: torch.Tensor, sizes: Sequence[Any],
                        otherwise: Callable[[int], Any] = lambda dim: None) -> list[Any]:
    """Strides as products of the sizes further inside where they are that in the tensor at hand.

    `otherwise` says what stands for a stride that is no such product, None for the number that it is.
    """
    plain = real.stride()
    strides: list[Any] = list(plain)
    inner_first = sorted(range(real.dim()), key=lambda dim: (plain[dim], real.shape[dim] > 1, -dim))
    placed: list[int] = []
    for dim in inner_first:
        if plain[dim] > 1:
            for inside in reversed(placed):
                if plain[inside] and plain[inside] * real.size(inside) == plain[dim]:
                    strides[dim] = shapes.as_expr(strides[inside]) * shapes.as_expr(sizes[inside])
                    break
            else:
                stride = otherwise(dim)
                strides[dim] = plain[dim] if stride is None else stride
        placed.append(dim)
    return strides


def tensor_conditions(tx: Tracer, real: torch.Tensor, source: Source, sizes: Iterable[Any]) -> str:
    """The part of a tensor's guard that speaks of its layout, for a tensor with symbolic sizes.

    What relates strides to sizes is left as a shape guard, see `layout_guards`.
    """
    parts = [f"{{0}}.dim() == {real.dim()}"]
    parts.extend(f"{{0}}.size({dim}) == {size}" for dim, size in enumerate(sizes) if isinstance(size, int))
    parts.extend(f"{{0}}.stride({dim}) == {stride}" for dim, stride in enumerate(tx.symbols.layouts[source])
                 if not shapes.as_expr(stride).free_symbols)
    return " and ".join(parts)


def layout_guards(tx: Tracer) -> list[shapes.ShapeGuard]:
    """Guards that the strides of symbolic inputs follow from sizes as they did; their symbols get sources here."""
    guards = []
    for source, strides in tx.symbols.layouts.items():
        conditions = []
        for dim, stride in enumerate(strides):
            expr = shapes.as_expr(stride)
            own = isinstance(expr, shapes.Symbol) and isinstance(tx.symbols.sources.get(expr), StrideSource)
            if expr.free_symbols and not own:
                where = StrideSource(source, dim)
                symbol = shapes.symbol(where.name)
                tx.symbols.sources[symbol] = where
                conditions.append(shapes.eq(symbol, tx.shape_env.replace(expr)))
        if conditions:
            guards.append(shapes.ShapeGuard(shapes.and_(*conditions), shapes.Provenance((), source.name, "its layout")))
    return guards


def check_demands(tx: Tracer, declared: bool) -> None:
    """Raise when the program does not work for all values of a size that the user marked or ``declared`` dynamic."""
    how, hint = ("declared", ConstraintViolationError.hint_for_declared) if declared else ("marked", None)
    if not tx.symbols.demanded or DECLARED.get() is not None:  # the contract lists all that it finds wrong
        return
    for info, constant, guard in tx.shape_env.specialised():
        if info.symbol in tx.symbols.demanded:
            where = tx.symbols.demanded[info.symbol]
            raise ConstraintViolationError(
                f"dimension {where.dim} of {where.parent.name} is {how} dynamic, but the program needs it to be "
                f"{constant}" + (f" ({guard.provenance.op} asked)" if guard.provenance.op else ""),
                hint, guard.provenance.frames)
    for info, guard in tx.shape_env.narrowed():
        if info.symbol in tx.symbols.demanded:
            where = tx.symbols.demanded[info.symbol]
            raise ConstraintViolationError(
                f"dimension {where.dim} of {where.parent.name} is {how} dynamic between {info.interval.lower} and "
                f"{info.interval.upper}, but the program needs {guard.expr}", hint, guard.provenance.frames)


def changes(seen: dict[str, TensorSeen], now: dict[str, torch.Tensor]) -> Learned:
    """The dimensions and strides in which tensors differ from what an earlier capture saw."""
    dims: set[tuple[str, int]] = set()
    strides: set[tuple[str, int]] = set()
    for name, before in seen.items():
        t = now.get(name)
        if t is None or t.dim() != len(before.shape) or in_module(before.source):
            continue
        dims.update((name, dim) for dim, size in enumerate(t.shape) if size != before.shape[dim])
        strides.update((name, dim) for dim, stride in enumerate(t.stride()) if stride != before.stride[dim])
    return Learned(dims=frozenset(dims), strides=frozenset(strides))


def outdated_sizes(seen: dict[str, TensorSeen], now: dict[str, torch.Tensor]) -> set[int]:
    """Sizes from an earlier capture that the same tensors do not have any more."""
    return {old for name, before in seen.items() if name in now and now[name].dim() == len(before.shape)
            for old, new in zip(before.shape, now[name].shape, strict=True) if old != new and old >= SMALLEST}
