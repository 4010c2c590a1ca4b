"""Constants: immutable Python objects whose value is known while capturing, and Python-level singletons."""

from __future__ import annotations

import dis
import enum
import inspect
import operator
import re
import types
from typing import TYPE_CHECKING, Any

import torch

from ... import shapes, torch_compat
from ..call_handlers import HANDLERS
from ..signals import GraphBreak, NotConstant, UserRaise
from ..source import (
    AttrSource,
    ConstantSource,
    InstanceDictSource,
    Source,
    item_source,
    name_in_messages,
    written_in_python,
)
from .base import LazyValue, Value
from .iterators import ConstantIterator, ListIterator
from .methods import MethodValue, NativeMethod

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


NUMBER_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool}


PLAIN_LOOKUPS = frozenset({kind.__getattribute__ for kind in (object, int, float, str, bytes, tuple)})
"""How attributes of enum members are looked up, unless the user has another way."""
LEAST_IDENTITY = 2 ** 16
"""No object is at a smaller address, which ``id`` gives."""


class ConstantValue(Value):
    """An int, str, dtype, enum member or other immutable object; guarded by equality when it came from outside."""

    __slots__ = ("value",)
    native_methods = True

    def __init__(self, value: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.value = value

    def __repr__(self) -> str:
        return f"ConstantValue({self.value!r})"

    def python_type(self) -> type:
        return type(self.value)

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return self.value

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if isinstance(self.value, enum.Enum):
            tx.reliance.classes[type(self.value)] = None
            if type(self.value).__getattribute__ not in PLAIN_LOOKUPS:
                raise GraphBreak(f"{type(self.value).__name__} has its own __getattribute__")
            attribute = self.member_attr(tx, name) or self.method_of_member(tx, name)
            if attribute is not None:
                return attribute
        try:
            attr = getattr(self.value, name)
        except AttributeError as error:
            raise tx.raised(error) from None
        if callable(attr) and getattr(attr, "__self__", None) is self.value and not isinstance(attr, type):
            function = getattr(attr, "__func__", None)
            if isinstance(function, types.FunctionType):  # a Python method of an enum or an int subclass
                return MethodValue(self, tx.python_object(function))
            return NativeMethod(self, name)
        return tx.python_object(attr)

    def member_attr(self, tx: Tracer, name: str) -> Value | None:
        """What an enum member's dictionary holds under the name: a member is a constant, its attributes are not."""
        held = {"value": "_value_", "name": "_name_"}.get(name, name)
        if held != name and inspect.getattr_static(type(self.value), name, None) is not vars(enum.Enum)[name]:
            return None  # the class defines an attribute of its own
        if held not in self.value.__dict__ or (held == name and hasattr(type(self.value), name)):
            return None
        where = self.source or ConstantSource.of(self.value, str(self.value))
        return LazyValue(tx, self.value.__dict__[held], item_source(InstanceDictSource(where), held)).realize()

    def method_of_member(self, tx: Tracer, name: str) -> Value | None:
        """A method or property that the user has given to an enum."""
        raw, owner = tx.objects.find_on_class(type(self.value), name)
        if owner is None or owner.__module__ == "enum" or not isinstance(raw, (types.FunctionType, property)):
            return None
        tx.objects.find_on_class(type(self.value), name, tx)
        if isinstance(raw, types.FunctionType):
            where = InstanceDictSource(self.source or ConstantSource.of(self.value, str(self.value)))
            if name in self.value.__dict__:
                return LazyValue(tx, self.value.__dict__[name], item_source(where, name)).realize()
            tx.guard(where, "missing attribute", f"{name!r} not in {{0}}")
        return tx.objects.bind(tx, self, type(self.value), name, raw, owner)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "join" and isinstance(self.value, (str, bytes)) and len(args) == 1 and not kwargs:
            try:
                iterator = tx.iterate(args[0])
            except UserRaise as raised:
                if not issubclass(raised.value.python_type(), TypeError):
                    raise
                raise tx.raised(TypeError("can only join an iterable")) from None
            items = tx.to_list(iterator)
            if type(self.value) is str and (joined := tx.builtin_text.joined(tx, self, items)) is not None:
                return joined
            return tx.fold(self.value.join, [[item.as_constant() for item in items]], {})
        if name == "format" and type(self.value) is str and any(isinstance(part.realize(), tx.builtin_text.HAVE_TEXT)
                                                               for part in (*args, *kwargs.values())):
            return tx.builtin_text.format_fields(tx, self.value, args, kwargs)
        if type(self.value) is re.Pattern:
            result = tx.pure_functions.call_pattern(tx, self.value, name, args, kwargs)
            if result is not None:
                return result
        if name == "__iter__" and type(self.value) in {range, str, bytes}:
            return self.iterate(tx)
        if name in ("__enter__", "__exit__") and isinstance(self.value, torch.device):
            return HANDLERS[getattr(torch.device, name)](tx, [self], {})
        if name == "__format__" and all(arg.python_type() is str for arg in args):
            return tx.fold(format, [self.value, *(a.as_constant() for a in args)], {})
        return itself_or(self, tx.fold(getattr(self.value, name), [tx.constant_of(a) for a in args],
                                       {k: tx.constant_of(v) for k, v in kwargs.items()}))

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        if isinstance(self.value, enum.Enum) and name in ("name", "value"):
            tx.fold(setattr, [self.value, name, None], {})  # which raises
        super().set_attr(tx, name, value)

    def truth(self, tx: Tracer) -> bool:
        try:
            return bool(self.value)
        except Exception as error:  # of a subclass with its own idea of truth
            raise tx.raised(error) from None

    def length(self, tx: Tracer) -> Value:
        return tx.fold(len, [self.value], {})

    def get_item(self, tx: Tracer, key: Value) -> Value:
        return tx.fold(lambda v, k: v[k], [self.value, tx.constant_of(key)], {})

    def iterate(self, tx: Tracer) -> Value:
        if type(self.value) in {range, str, bytes}:
            return ConstantIterator(self.value)
        if isinstance(self.value, (str, bytes)):
            return ListIterator([tx.constant(item) for item in self.value])
        try:
            items = list(self.value)
        except TypeError as error:
            raise tx.raised(error) from None
        return ListIterator([tx.python_object(item) for item in items])

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if not callable(self.value):
            raise tx.raised(TypeError(f"{name_in_messages(type(self.value))!r} object is not callable"))
        return super().call(tx, args, kwargs)

    def key(self, tx: Tracer) -> Any:
        try:
            hash(self.value)
        except TypeError as error:
            raise tx.raised(error) from None
        if isinstance(self.value, float) and self.value != self.value:
            raise GraphBreak("NaN as a dictionary key or set element, which is equal only to the same object")
        if type(self.value) is int and self.value >= LEAST_IDENTITY:
            tx.reliance.numbers_hashed[self.value] = None
        return self.value

    def is_distinct(self) -> bool:
        """Whether the program can tell this object from an equal one: an instance of a class of its own, or NaN."""
        value = self.value
        if type(value) is float:
            return value != value
        return isinstance(value, (int, float, str, bytes)) and written_in_python(type(value)) \
            and not isinstance(value, enum.Enum)

    def emit(self, code: EntryCode) -> str:
        value = self.value
        if value is None or value is True or value is False or type(value) in {int, str, bytes}:
            return f"({value!r})" if type(value) is int and value < 0 else repr(value)  # -1 ** n is -(1 ** n)
        bases = (int, float, str, bytes)
        if self.is_distinct() and value == value:
            # an instance of a user's subclass may be given attributes, so every call makes its own
            base = next(kind for kind in bases if isinstance(value, kind))
            plain = code.constant(base(value)) if base is float else repr(base(value))
            return code.assign(self, f"{code.constant(base.__new__)}({code.constant(type(value))}, {plain})")
        return code.constant(value)


def itself_or(operand: ConstantValue, result: Value) -> Value:
    """The operand where an operation gave back the very object, which a program may tell from an equal one."""
    return operand if isinstance(result, ConstantValue) and result.value is operand.value else result


class NumberValue(Value):
    """A number that is not a constant: a shape expression with its present value, `hint`.

    The hint is None where the value depends on data that exists only when the graph runs. `node` is the graph's node
    for it, or the function and the operands that compute it. A number that had to be made a constant is one from then
    on (`known`).
    """

    __slots__ = ("expr", "hint", "node", "known")
    native_methods = True

    def __init__(self, expr: Any, hint: Any, node: Any = None, source: Source | None = None) -> None:
        super().__init__(source)
        self.expr = expr
        self.hint = hint
        self.node = node
        self.known: ConstantValue | None = None

    def __repr__(self) -> str:
        return f"NumberValue({self.expr}, " + ("depends on data)" if self.hint is None else f"now {self.hint!r})")

    def realize(self) -> Value:
        return self if self.known is None else self.known

    def python_type(self) -> type:
        return NUMBER_TYPES[self.expr.kind]

    def is_constant(self) -> bool:
        return self.known is not None

    def as_constant(self) -> Any:
        if self.known is None:
            raise NotConstant(f"{self.describe()} that may change")
        return self.known.value

    def specialize(self, tx: Tracer) -> ConstantValue:
        """Give up generality: guard that the number is what it is now."""
        if self.known is None:
            tx.symbols.specialize(self)
            value = self.hint if self.hint is not None else tx.shape_env.evaluate(self.expr)
            self.known = ConstantValue(value)
        return self.known

    def get_attr(self, tx: Tracer, name: str) -> Value:
        kind = self.python_type()
        if name == "__class__":
            return tx.python_object(kind)
        if name == "real" or (name == "numerator" and kind is not float):
            return tx.number_rules.apply(tx, operator.pos, [self])
        if name == "imag" or (name == "denominator" and kind is not float):
            return ConstantValue((0.0 if kind is float else 0) if name == "imag" else 1)
        attribute = getattr(kind, name, None)
        if attribute is None and not hasattr(kind, name):
            raise tx.raised(AttributeError(f"{name_in_messages(kind)!r} object has no attribute {name!r}", name=name))
        if isinstance(attribute, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            return NativeMethod(self, name)
        return self.specialize(tx).get_attr(tx, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.number_rules.call_method(tx, self, name, args, kwargs)

    def truth(self, tx: Tracer) -> bool:
        if self.hint is None and self.expr.kind == "bool" and tx.shape_env.decide(self.expr) is None:
            from ..assumed_branches import assumed_flag  # few programs ask

            assumed = assumed_flag(tx, self)
            if assumed is not None:
                return assumed
        return tx.symbols.decide(self.expr if self.expr.kind == "bool" else shapes.ne(self.expr, 0))

    def key(self, tx: Tracer) -> Any:
        return self.specialize(tx).key(tx)

    def emit(self, code: EntryCode) -> str:
        return code.number(self)


class SliceValue(Value):
    """``slice(start, stop, step)`` whose parts may be tensors or numbers of the graph."""

    __slots__ = ("parts",)
    fixed_type = slice
    native_methods = True

    def __init__(self, start: Value, stop: Value, step: Value) -> None:
        super().__init__(None)
        self.parts = (start, stop, step)

    def as_constant(self) -> slice:
        return slice(*(part.as_constant() for part in self.parts))

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        return super().get_attr(tx, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.fold(getattr(tx.constant_of(self), name), [tx.constant_of(a) for a in args], {})

    def truth(self, tx: Tracer) -> bool:
        return True

    def emit(self, code: EntryCode) -> str:
        return f"slice({', '.join(code.value(part) for part in self.parts)})"


class PythonObject(Value):
    """A real object known by identity: a module, a builtin function, a C type's descriptor."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.obj = obj

    def __repr__(self) -> str:
        return f"PythonObject({self.obj!r})"

    def python_type(self) -> type:
        return type(self.obj)

    def describe(self) -> str:
        name = getattr(self.obj, "__qualname__", None) or getattr(self.obj, "__name__", None)
        module = getattr(self.obj, "__module__", None)
        if isinstance(name, str):
            return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name
        return super().describe()

    def as_constant(self) -> Any:
        return self.obj

    def is_constant(self) -> bool:
        return True

    def truth(self, tx: Tracer) -> bool:
        if type(self.obj).__bool__ if hasattr(type(self.obj), "__bool__") else hasattr(type(self.obj), "__len__"):
            raise GraphBreak(f"truth value of {self.describe()}")
        return True

    def get_attr(self, tx: Tracer, name: str) -> Value:
        obj = self.obj
        if isinstance(obj, types.ModuleType):
            where = InstanceDictSource(self.source or ConstantSource.of(obj, obj.__name__))
            table = tx.table_of_module(obj.__dict__, where)  # the globals of the module's own functions
            if name == "__dict__":
                return table
            fallback = obj.__dict__.get("__getattr__")
            if name not in obj.__dict__ and (hasattr(type(obj), "__getattr__") or isinstance(
                    fallback, types.FunctionType) and _imports(fallback.__code__)):
                getattr(obj, name, None)  # loads or makes it, and mostly leaves it in the module's dictionary
            attribute = table.lookup(tx, ConstantValue(name))
            return attribute.realize() if attribute is not None else self.computed_attr(tx, name, where)
        if name == "__class__":
            return tx.python_object(type(obj))
        try:
            attr = getattr(obj, name)
        except AttributeError as error:
            raise tx.raised(error) from None
        return tx.python_object(attr)

    def computed_attr(self, tx: Tracer, name: str, where: Source) -> Value:
        """An attribute of a module that is not in its dictionary: its class computes it, or its ``__getattr__``."""
        obj = self.obj
        flag = torch_compat.backend_flag(obj, name)
        if flag is not None:
            return tx.call(tx.python_object(flag[0]), [], {})
        fallback = obj.__dict__.get("__getattr__")
        if fallback is None:
            tx.guard(where, "missing attribute", "'__getattr__' not in {0}")
        elif inspect.getattr_static(type(obj), name, None) is None and isinstance(fallback, types.FunctionType) \
                and not _imports(fallback.__code__):
            return tx.call(LazyValue(tx, fallback, item_source(where, "__getattr__")), [ConstantValue(name)], {})
        try:
            attr = getattr(obj, name)  # torch's own flags, or a submodule that is imported when it is asked for
        except AttributeError as error:
            raise tx.raised(error) from None
        if name in obj.__dict__ or isinstance(attr, types.ModuleType) or callable(attr):
            return tx.python_object(attr)
        return LazyValue(tx, attr, AttrSource(self.source or ConstantSource.of(obj, obj.__name__), name)).realize()

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        flag = torch_compat.backend_flag(self.obj, name)
        if flag is None or not value.is_constant():
            super().set_attr(tx, name, value)
        else:
            tx.call(tx.python_object(flag[1]), [value], {})

    def get_item(self, tx: Tracer, key: Value) -> Value:
        if type(self.obj).__module__ == "typing":  # Optional[int]
            return tx.fold(lambda form, parts: form[parts], [self.obj, tx.constant_of(key)], {})
        return super().get_item(tx, key)

    def key(self, tx: Tracer) -> Any:
        try:
            hash(self.obj)
        except TypeError as error:
            raise tx.raised(error) from None
        return self.obj

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.call_object(self, args, kwargs)

    def emit(self, code: EntryCode) -> str:
        return code.constant(self.obj)


def _imports(code: types.CodeType) -> bool:
    """Whether a function may import: such a ``__getattr__`` is there for modules that are loaded when needed."""
    if "import_module" in code.co_names or "__import__" in code.co_names:
        return True
    return any(instruction.opname == "IMPORT_NAME" for instruction in dis.get_instructions(code))


class NullValue(Value):
    """The NULL that CPython pushes beside callables."""

    __slots__ = ()

    def emit(self, code: EntryCode) -> str:
        return "None"


NULL = NullValue()
LOOKED_UP = NullValue()
"""The NULL beside a method that was looked up only to be called: Python then calls what the class has."""
