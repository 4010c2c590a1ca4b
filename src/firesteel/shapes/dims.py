"""What users declare about one dimension: `Dim`, dims derived from it, and the hints AUTO, DYNAMIC and STATIC.

    >>> batch = Dim("batch", min=4, max=256)
    >>> 2 * batch + 1, (2 * batch + 1).size_for(8)
    (2*batch + 1, 17)
    >>> Dim.AUTO, Dim.DYNAMIC(max=64)
    (Dim.AUTO, Dim.DYNAMIC(max=64))
"""

from __future__ import annotations

import keyword
from enum import Enum
from typing import Any, ClassVar, NoReturn

from ..errors import UserCodeError


class HintKind(Enum):
    """What a hint says."""

    AUTO = "AUTO"
    """A symbol if the program allows it; ranges and relations are found out."""
    DYNAMIC = "DYNAMIC"
    """Like AUTO, but an error where the program allows one size only."""
    STATIC = "STATIC"
    """The size of the example."""


class DimHint:
    """`Dim.AUTO`, `Dim.DYNAMIC` or `Dim.STATIC`; the first two may be called with bounds.

    Arithmetic on a hint is the hint: ``2*Dim.AUTO`` leaves it to export to find the relation.
    """

    __slots__ = ("kind", "max", "min")

    def __init__(self, kind: HintKind, min: int | None = None, max: int | None = None) -> None:
        self.kind, self.min, self.max = kind, min, max

    def __call__(self, *, min: int | None = None, max: int | None = None) -> DimHint:
        """The same hint with bounds; for STATIC the example must lie within them."""
        check_bounds(f"Dim.{self.kind.value}", min, max)
        return DimHint(self.kind, min, max)

    def _same(self, other: int) -> DimHint:
        return self if type(other) is int else NotImplemented

    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = _same

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimHint) and (self.kind, self.min, self.max) == (other.kind, other.min, other.max)

    def __hash__(self) -> int:
        return hash((self.kind, self.min, self.max))

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={bound}" for name, bound in (("min", self.min), ("max", self.max))
                           if bound is not None)
        return f"Dim.{self.kind.value}({bounds})" if bounds else f"Dim.{self.kind.value}"


class Dim:
    """A named size, the same number wherever it is used, from `min` to `max`; or a derived one, ``scale*dim + offset``.

    A dim without `min` stands for all sizes from 2 on, and for 0 and 1 as far as no decision of the program depends on
    that. Multiples and sums with integers give derived dims, which state relations and divisibility.

    >>> n = Dim("n", max=64)
    >>> 4 * n, n + 1, 3 * (n - 1)
    (4*n, n + 1, 3*n - 3)
    """

    AUTO: ClassVar[DimHint] = DimHint(HintKind.AUTO)
    DYNAMIC: ClassVar[DimHint] = DimHint(HintKind.DYNAMIC)
    STATIC: ClassVar[DimHint] = DimHint(HintKind.STATIC)

    __slots__ = ("_max", "_min", "_name", "offset", "root", "scale")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise UserCodeError(f"Dim got {name!r} as a name", "a dim is named like a variable")
        check_bounds(f"Dim({name!r})", min, max)
        self._name, self._min, self._max = name, min, max
        self.root: Dim = self
        self.scale, self.offset = 1, 0

    @classmethod
    def derived(cls, root: Dim, scale: int, offset: int) -> Dim:
        """``scale*root + offset``"""
        if scale < 1:
            _refuse(f"{scale}*{root.name} + {offset}")
        if (scale, offset) == (1, 0):
            return root
        dim = object.__new__(cls)
        dim.root, dim.scale, dim.offset = root, scale, offset
        dim._name = affine_text(root.name, scale, offset)
        dim._min = dim._max = None
        return dim

    @property
    def name(self) -> str:
        """The name, or the formula of a derived dim."""
        return self._name

    @property
    def __name__(self) -> str:  # type: ignore[override]  # torch's dims have it
        return self._name

    @property
    def is_derived(self) -> bool:
        """Whether it is a multiple or a sum of another dim."""
        return self.root is not self

    @property
    def given_min(self) -> int | None:
        """The lower bound that was given for the root; None when none was."""
        return self.root._min

    @property
    def min(self) -> int:
        """The least size."""
        return self.scale * (self.root._min or 0) + self.offset

    @property
    def max(self) -> int | None:
        """The greatest size, None when there is no bound."""
        return None if self.root._max is None else self.scale * self.root._max + self.offset

    def size_for(self, root: int) -> int:
        """The size when the root has a value."""
        return self.scale * root + self.offset

    def root_for(self, size: int) -> int | None:
        """The value of the root that gives a size, None when none does."""
        value, rest = divmod(size - self.offset, self.scale)
        return value if rest == 0 else None

    def __add__(self, other: int) -> Dim:
        return Dim.derived(self.root, self.scale, self.offset + _integer(other, f"{self} + {other}"))

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return Dim.derived(self.root, self.scale, self.offset - _integer(other, f"{self} - {other}"))

    def __rsub__(self, other: Any) -> NoReturn:
        _refuse(f"{other} - {self}")

    def __mul__(self, other: int) -> Dim:
        factor = _integer(other, f"{self} * {other}")
        return Dim.derived(self.root, self.scale * factor, self.offset * factor)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> NoReturn:
        _refuse(f"{self} // {other}")

    __truediv__ = __mod__ = __floordiv__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dim):
            return NotImplemented
        return (self.root._name, self.root._min, self.root._max, self.scale, self.offset) == (
            other.root._name, other.root._min, other.root._max, other.scale, other.offset)

    def __hash__(self) -> int:
        return hash((self.root._name, self.scale, self.offset))

    def __repr__(self) -> str:
        return self._name


def affine_text(name: str, scale: int, offset: int) -> str:
    """``scale*name + offset`` as people write it."""
    text = name if scale == 1 else f"{scale}*{name}"
    return text if offset == 0 else f"{text} {'+' if offset > 0 else '-'} {abs(offset)}"


def _integer(value: Any, what: str) -> int:
    if type(value) is not int:
        _refuse(what)
    return value


def _refuse(what: str) -> NoReturn:
    raise UserCodeError(f"{what} is no dim", "a dim can be multiplied by an integer from 1 on and added to an integer")


def check_bounds(what: str, min: Any, max: Any) -> None:
    """Refuse bounds that are no sizes, or that leave no size."""
    for name, bound in (("min", min), ("max", max)):
        if bound is not None and (type(bound) is not int or bound < 0):
            raise UserCodeError(f"{what} got {name}={bound!r}", "a bound is an integer, 0 or greater")
    if min is not None and max is not None and min > max:
        raise UserCodeError(f"{what} got min={min} and max={max}, which leaves no size to choose from",
                            "give a min that is not greater than max")


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several dims with the same bounds.

    >>> rows, columns = dims("rows", "columns", max=128)
    >>> columns.max
    128
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


def as_ours(spec: Any) -> Any:
    """A dim or hint of torch.export as ours; anything else as it is. Nothing of torch.export is imported for that."""
    if type(spec).__module__ != "torch.export.dynamic_shapes":
        return spec
    kind = getattr(getattr(spec, "type", None), "name", None)
    if isinstance(kind, str) and kind in HintKind.__members__:
        return DimHint(HintKind[kind], getattr(spec, "min", None), getattr(spec, "max", None))
    root, function = getattr(spec, "root", None), getattr(spec, "fn", None)
    if root is not None and callable(function):
        offset = int(function(0))
        return Dim.derived(as_ours(root), int(function(1)) - offset, offset)
    if isinstance(getattr(spec, "__name__", None), str) and hasattr(spec, "min") and hasattr(spec, "max"):
        upper = spec.max if isinstance(spec.max, int) and spec.max < 2**62 else None
        return Dim(spec.__name__, min=spec.min or None, max=upper)
    return spec
