"""What a capture knows of the classes that the program makes (see `class_bodies`), and how an entry makes them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..records import dataclass
from .signals import GraphBreak, Restart
from .source import ConstantSource, Source

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .values.base import Value
    from .values.functions import CellValue


class _Bare:
    """Comes before the bases of a class while that is made: what they do with subclasses is not done."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        pass


class _BareWithSlots:
    """The same for bases whose objects have no dictionary."""

    __slots__ = ()
    __init_subclass__ = vars(_Bare)["__init_subclass__"]


def bare_class(metaclass: Any, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
    """A class as ``type.__new__`` makes it, without the methods that it calls: ``__set_name__`` of members and
    ``__init_subclass__`` of bases."""
    named = {key: member for key, member in members.items() if hasattr(type(member), "__set_name__")}
    plain = {key: None if key in named else member for key, member in members.items()}
    if all(isinstance(getattr(base, "__init_subclass__", None), _BUILTIN) for base in bases):
        class_object = metaclass.__new__(metaclass, name, bases, plain) if metaclass.__new__ in _C_NEW else \
            type.__new__(metaclass, name, bases, plain)
    else:
        bare = _Bare if bases[0].__dictoffset__ else _BareWithSlots
        class_object = type.__new__(metaclass, name, (bare, *bases), plain)
        class_object.__bases__ = bases
    for key, member in named.items():
        type.__setattr__(class_object, key, member)
    return class_object


_BUILTIN = type(object.__init_subclass__)
_C_NEW: list[Any] = [type.__new__]


@dataclass
class Recipe:
    """How a class came about: ``metaclass(name, bases, members)``, then what `later` does with it."""

    metaclass: type
    name: str
    bases: tuple[type, ...]
    members: dict[str, Value]
    cell: CellValue | None = None
    #: makes the class from its metaclass, name, bases and members; a decorator may have changed it after that
    make: Callable[..., Any] = bare_class
    later: list[tuple[Any, tuple[Any, ...]]] = field(default_factory=list)


class MadeClasses:
    """The stand-ins of classes that the program makes, and of their members."""

    def __init__(self) -> None:
        #: each class with the step of the root frame at which the program makes it
        self.steps: dict[type, int] = {}
        #: what members of classes stand for, by the identity of the member
        self.stand_ins: dict[int, Value] = {}
        #: how the classes came about that can be made again
        self.recipes: dict[type, Recipe] = {}
        #: makes the stand-in of a member
        self.stand_in: Callable[[Value], Any] | None = None

    def __contains__(self, cls: object) -> bool:
        return cls in self.steps

    def own(self, source: Source | None) -> bool:
        """Whether a source leads to something of such a class: the program makes it anew in every call."""
        if not self.steps:
            return False
        while source is not None and source.base is not None:
            source = source.base
        if not isinstance(source, ConstantSource):
            return False
        holder = source.holder.obj
        return (type(holder) if isinstance(holder, enum.Enum) else holder) in self.steps \
            if isinstance(holder, (type, enum.Enum)) else False

    def set_member(self, cls: type, name: str, value: Value) -> None:
        """Set an attribute of a class that the program makes."""
        assert self.stand_in is not None
        type.__setattr__(cls, name, self.stand_in(value))
        self.recipes[cls].members[name] = value

    def emit(self, code: EntryCode, cls: type) -> str:
        """Have the entry make the class; gives the name of the variable that holds it."""
        recipe = self.recipes.pop(cls, None)  # while it is being made, its members must not need it
        if recipe is None:
            raise Restart(self.steps[cls], GraphBreak(
                f"class {cls.__name__}, made inside, or an object of it is needed after the graph",
                "make the class outside of the compiled function"))
        try:
            return self._emit(code, cls, recipe)
        finally:
            self.recipes[cls] = recipe

    def _emit(self, code: EntryCode, cls: type, recipe: Recipe) -> str:
        cells = {id(cell): cell for cell in self._cells_with(cls, recipe) if cell.source is None}
        if recipe.cell is not None:
            cells[id(recipe.cell)] = recipe.cell
        names = [(cell, cell.emit_empty(code)) for cell in cells.values() if not code.is_built(cell)]
        items = ", ".join(f"{key!r}: {code.value(value)}" for key, value in recipe.members.items())
        bases = "".join(f"{code.constant(base)}, " for base in recipe.bases)
        class_object = code.fresh(f"{code.constant(recipe.make)}({code.constant(recipe.metaclass)}, {recipe.name!r}, "
                          f"({bases}), {{{items}}})")
        for function, args in recipe.later:
            class_object = code.fresh(f"{code.constant(function)}({class_object}, *{code.constant(args)})")
        code.name_constant(cls, class_object)
        for cell, text in names:
            cell.emit_content(code, text)
        return class_object

    def subclasses(self, cls: type) -> list[type]:
        """Those of a class that the program makes."""
        subclasses: list[type] = type.__subclasses__(cls)
        return [each for each in subclasses if each in self.steps]

    def _cells_with(self, cls: type, recipe: Recipe) -> list[CellValue]:
        """The closure cells of a class's functions that hold the class itself."""
        cells = []
        for value in recipe.members.values():
            for function in (value, *getattr(value, "parts", ())):
                for cell in getattr(function, "closure", ()):
                    content = cell.content.realize() if cell.content is not None else None
                    if getattr(content, "cls", None) is cls and not hasattr(content, "real"):
                        cells.append(cell)
        return cells
