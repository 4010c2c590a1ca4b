"""Functions, cells and partials."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from ..signals import GraphBreak
from ..source import AttrSource, Source, item_source
from .base import LazyValue, Value, identity_key
from .function_attributes import FunctionDict
from .methods import MethodValue, NativeMethod

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


class CellValue(Value):
    """A closure cell. `content` is None while empty or, for a cell from outside, while unread."""

    __slots__ = ("content", "real", "loaded")
    fixed_type = types.CellType

    def __init__(self, source: Source | None = None, real: types.CellType | None = None) -> None:
        super().__init__(source)
        self.content: Value | None = None
        self.real = real
        self.loaded = real is None

    def load(self, tx: Tracer) -> Value | None:
        if not self.loaded:
            self.loaded = True
            assert self.real is not None and self.source is not None
            try:
                contents = self.real.cell_contents
            except ValueError:
                tx.guard(self.source, "empty cell", "not {k[0]}({0})", (cell_has_content,))
                return None
            self.content = tx.looked_up(contents, AttrSource(self.source, "cell_contents"))
        return self.content

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name != "cell_contents":
            return super().get_attr(tx, name)
        content = self.load(tx)
        if content is None:
            raise tx.raised(ValueError("Cell is empty"))
        return content

    def store(self, tx: Tracer, value: Value | None) -> None:
        self.loaded = True
        self.content = value
        tx.effects.mutated(self)

    def emit(self, code: EntryCode) -> str:
        name = self.emit_empty(code)
        self.emit_content(code, name)
        return name

    def emit_empty(self, code: EntryCode) -> str:
        return code.assign(self, f"{code.constant(types.CellType)}()")

    def emit_content(self, code: EntryCode, name: str) -> None:
        if self.content is not None:
            code.line(f"{name}.cell_contents = {code.value(self.content)}")

    def emit_mutation(self, code: EntryCode, target: str, owner: type | None = None) -> None:
        if self.content is None:
            code.line(f"del {target}.cell_contents")
        else:
            code.line(f"{target}.cell_contents = {code.value(self.content)}")


def cell_has_content(cell: types.CellType) -> bool:
    """Whether a closure cell is bound."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


class FunctionValue(Value):
    """A Python function: one from outside (`real`) or one that the captured program made."""

    __slots__ = ("code", "globals", "name", "defaults", "kwdefaults", "closure", "real", "attrs", "annotations")
    fixed_type = types.FunctionType
    native_methods = True

    def __init__(self, code: types.CodeType, globals_: dict[str, Any], name: str, defaults: list[Value],
                 kwdefaults: dict[str, Value], closure: list[CellValue], source: Source | None = None,
                 real: types.FunctionType | None = None) -> None:
        super().__init__(source)
        self.code = code
        self.globals = globals_
        self.name = name
        self.defaults = defaults
        self.kwdefaults = kwdefaults
        self.closure = closure
        self.real = real
        self.attrs: dict[str, Value | None] = {}
        self.annotations: Value | None = None

    def __repr__(self) -> str:
        return f"FunctionValue({self.name})"

    def describe(self) -> str:
        return f"function {self.code.co_qualname}"

    def is_constant(self) -> bool:
        return False

    def key(self, tx: Tracer) -> Any:
        return identity_key(tx, self)

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.call_function(self, args, kwargs)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name in self.attrs:
            value = self.attrs[name]
            if value is not None:
                return value
            raise tx.raised(AttributeError(f"'function' object has no attribute {name!r}"))
        if name == "__name__":
            return self.text(tx, name, self.name)
        if name == "__qualname__":
            return self.text(tx, name, self.code.co_qualname)
        if name == "__code__":
            return tx.python_object(self.code)
        if name == "__class__":
            return tx.python_object(types.FunctionType)
        if self.real is not None and self.source is not None and name in ("__defaults__", "__kwdefaults__",
                                                                          "__annotations__"):
            return tx.looked_up(getattr(self.real, name), AttrSource(self.source, name))
        if name == "__defaults__":
            return tx.make_tuple(self.defaults) if self.defaults else tx.constant(None)
        if name == "__get__":
            return NativeMethod(self, name)
        if name == "__closure__":
            return tx.make_tuple(list(self.closure)) if self.closure else tx.constant(None)
        if self.real is not None:
            if name == "__dict__":
                if self.attrs or self.source is None:
                    raise GraphBreak("__dict__ of a function")
                return tx.looked_up(self.real.__dict__, AttrSource(self.source, name))
            try:
                attr = getattr(self.real, name)
            except AttributeError as error:
                if self.source is not None:
                    tx.guard(self.source, "missing attribute", "not hasattr({0}, {k[0]})", (name,))
                raise tx.raised(error) from None
            own = name == "__wrapped__" or name in self.real.__dict__ or isinstance(attr, str)
            if own and self.source is not None:
                return tx.looked_up(attr, AttrSource(self.source, name))
            return tx.python_object(attr)
        if name == "__module__":
            return tx.python_object(self.globals.get("__name__"))
        if name == "__doc__":
            doc = self.code.co_consts[0] if self.code.co_consts else None
            return tx.constant(doc if isinstance(doc, str) else None)
        if name == "__dict__":
            return FunctionDict(self)
        annotate = self.attrs.get("__annotate__")
        if name in ("__annotations__", "__type_params__"):
            default: Value
            if name == "__type_params__":
                default = tx.make_tuple([])
            elif annotate is not None:
                default = tx.call(annotate, [tx.constant(1)], {})  # their values, in the format of annotationlib.Format
            else:
                default = tx.make_dict({})
            self.attrs[name] = default
            return default
        if name == "__kwdefaults__":
            return tx.make_dict(dict(self.kwdefaults)) if self.kwdefaults else tx.constant(None)
        raise tx.raised(AttributeError(f"'function' object has no attribute {name!r}"))

    def text(self, tx: Tracer, name: str, made_inside: str) -> Value:
        """One of the function's names."""
        if self.real is None or self.source is None:
            return tx.constant(made_inside if self.real is None else getattr(self.real, name))
        return LazyValue(tx, getattr(self.real, name), AttrSource(self.source, name)).realize()

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__get__":
            if args[0].is_constant() and args[0].as_constant() is None:
                return self
            return MethodValue(args[0], self)
        if name == "__call__":
            return self.call(tx, args, kwargs)
        self.unsupported(f"method {name!r}")

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        if name in ("__code__", "__defaults__", "__kwdefaults__", "__closure__"):
            self.unsupported(f"setting attribute {name!r}")
        if name == "__name__" and value.is_constant() and self.real is None:
            self.name = value.as_constant()
        self.attrs[name] = value
        if self.source is not None:
            tx.effects.attribute(self, name)

    def emit(self, code: EntryCode) -> str:
        # the function may refer to itself: what its cells hold is built after it
        empty = [(cell, cell.emit_empty(code)) for cell in self.closure
                 if cell.source is None and not code.is_built(cell)]
        closure = f"({', '.join(code.value(cell) for cell in self.closure)},)" if self.closure else "None"
        defaults = f"({', '.join(code.value(value) for value in self.defaults)},)" if self.defaults else "None"
        name = code.assign(self, f"{code.constant(types.FunctionType)}({code.constant(self.code)}, "
                                 f"{code.constant(self.globals)}, {self.name!r}, {defaults}, {closure})")
        for cell, text in empty:
            cell.emit_content(code, text)
        if self.kwdefaults:
            text = ", ".join(f"{key!r}: {code.value(value)}" for key, value in self.kwdefaults.items())
            code.line(f"{name}.__kwdefaults__ = {{{text}}}")
        for key, attr in self.attrs.items():
            if attr is not None:
                code.line(f"{name}.{key} = {code.value(attr)}")
        return name


class PartialValue(Value):
    """``functools.partial``."""

    __slots__ = ("function", "args", "kwargs", "attrs")
    fixed_type = functools.partial

    def __init__(
        self, function: Value, args: list[Value], kwargs: dict[str, Value], source: Source | None = None
    ) -> None:
        super().__init__(source)
        self.attrs: dict[str, Value] = {}
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def key(self, tx: Tracer) -> Any:
        return identity_key(tx, self)

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "func":
            return self.function
        if name == "args":
            return tx.make_tuple(self.args)
        if name == "keywords":
            return tx.make_dict(dict(self.kwargs))
        if name in self.attrs:
            return self.attrs[name]
        return super().get_attr(tx, name)

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        if self.source is not None or name in ("func", "args", "keywords"):
            self.unsupported(f"setting attribute {name!r}")
        self.attrs[name] = value

    def emit(self, code: EntryCode) -> str:
        parts = [code.value(self.function), *(code.value(a) for a in self.args)]
        if self.kwargs:
            parts.append("**{" + ", ".join(f"{k!r}: {code.value(v)}" for k, v in self.kwargs.items()) + "}")
        partial = code.assign(self, f"{code.constant(functools.partial)}({', '.join(parts)})")
        for name, attr in self.attrs.items():
            code.line(f"{partial}.{name} = {code.value(attr)}")
        return partial


def closure_cells(tx: Tracer, real: types.FunctionType, source: Source | None) -> list[CellValue]:
    """Cells of a real function, reached through ``__closure__``."""
    if not real.__closure__:
        return []
    cells = []
    for position, cell in enumerate(real.__closure__):
        where = item_source(AttrSource(source, "__closure__"), position) if source is not None else None
        cells.append(tx.cell(cell, where))
    return cells
