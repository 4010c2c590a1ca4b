"""What Python calls for the program between two graphs, dispatched to compiled entries: operators, attributes, items,
truth, iteration and `with` of objects whose classes are written in Python.

    box.value        ->  NestedCall(type(box).value.fget)(box)
    box + 1          ->  NestedCall(type(box).__add__)(box, 1)
    for x in box     ->  NestedCall(type(iterator).__next__)(iterator), again and again

Each method here does what the operation does in CPython, order and messages included, with the methods of the classes
compiled for themselves. Where there is no such method, or its class derives from a builtin one that may do more, the
operation itself is done.
"""

from __future__ import annotations

import collections
import functools
import operator
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from ..capture.graph_functions import is_graph_function
from ..own_frames import passed_over

if TYPE_CHECKING:
    from .compiler import Compiler
    from .nested_calls import NestedCall

HEAP_TYPE = 1 << 9
MISSING = object()
PLAIN_LEFT = frozenset({int, float, complex, bool, str, bytes, tuple, list, dict, set, type(None), torch.Tensor,
                        torch.nn.Parameter})
"""Classes whose operators leave it to the right operand when they do not know it."""
BINARY: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "+": ("add", operator.add), "-": ("sub", operator.sub), "*": ("mul", operator.mul),
    "@": ("matmul", operator.matmul),
    "/": ("truediv", operator.truediv), "//": ("floordiv", operator.floordiv), "%": ("mod", operator.mod),
    "**": ("pow", operator.pow), "<<": ("lshift", operator.lshift), ">>": ("rshift", operator.rshift),
    "&": ("and", operator.and_), "|": ("or", operator.or_), "^": ("xor", operator.xor),
}
COMPARISONS: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    "==": ("__eq__", "__eq__", operator.eq), "!=": ("__ne__", "__ne__", operator.ne),
    "<": ("__lt__", "__gt__", operator.lt), "<=": ("__le__", "__ge__", operator.le),
    ">": ("__gt__", "__lt__", operator.gt), ">=": ("__ge__", "__le__", operator.ge),
}
UNARY: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "UNARY_NEGATIVE": ("__neg__", operator.neg), "UNARY_POSITIVE": ("__pos__", operator.pos),
    "UNARY_INVERT": ("__invert__", operator.invert),
}


def member(kind: type, name: str) -> Any:
    """What a class has under a name, itself or from a base; `MISSING` if nothing."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def written_in_python(kind: type) -> bool:
    """Whether a class and all of its bases but `object` are written in Python."""
    return all(base.__flags__ & HEAP_TYPE and base.__module__ != "builtins" for base in kind.__mro__[:-1])


class Protocols:
    """The operations, for one compiler."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler

    def special(self, obj: Any, name: str) -> NestedCall | None:
        """A method of the object's class to call; None where it has none that is compiled."""
        kind = type(obj)
        if not kind.__flags__ & HEAP_TYPE:
            return None
        return self.bound(member(kind, name), obj)

    def bound(self, function: Any, obj: Any) -> NestedCall | None:
        """A function of a class, called with the object; None if it is not compiled."""
        if type(function) is not types.FunctionType or not self.compiler.compiles(function):
            return None
        from .nested_calls import NestedCall

        return NestedCall(self.compiler, function, obj)

    # Operators

    @passed_over
    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        """``left + right`` and its like, also in place."""
        in_place = symbol.endswith("=")
        symbol = symbol.removesuffix("=")
        name, plain = BINARY[symbol]
        if in_place:
            method = self.special(left, f"__i{name}__")
            if method is not None and written_in_python(type(left)):
                result = method(right)
                if result is not NotImplemented:
                    return result
            elif member(type(left), f"__i{name}__") is not MISSING:
                return getattr(operator, f"i{name}")(left, right)
        result = self.reflected(left, right, f"__{name}__", f"__r{name}__")
        if result is MISSING:
            return getattr(operator, f"i{name}")(left, right) if in_place else plain(left, right)
        if result is NotImplemented:
            if in_place:
                shown = [f"'{type(operand).__name__}'" for operand in (left, right)]
                raise TypeError(f"unsupported operand type(s) for {symbol}=: {' and '.join(shown)}")
            return plain(_stand_in(left), _stand_in(right))  # raises, in the names of the classes
        return result

    @passed_over
    def compare(self, symbol: str, left: Any, right: Any) -> Any:
        """``left < right`` and its like."""
        name, mirrored, plain = COMPARISONS[symbol]
        if symbol == "!=" and type(left) is type(right) or symbol == "!=" and type(right) in PLAIN_LEFT:
            if member(type(left), "__ne__") is object.__ne__ and written_in_python(type(left)):
                method = self.special(left, "__eq__")
                if method is not None:
                    equal = method(right)
                    return left is not right if equal is NotImplemented else not self.truth(equal)
        result = self.reflected(left, right, name, mirrored, comparing=True)
        if result is MISSING:
            return plain(left, right)
        if result is NotImplemented:
            if symbol in ("==", "!=") and type(right) not in PLAIN_LEFT:
                return (left is right) is (symbol == "==")
            return plain(_stand_in(left), _stand_in(right))
        return result

    @passed_over
    def reflected(self, left: Any, right: Any, name: str, mirrored: str, comparing: bool = False) -> Any:
        """What the methods of the two operands say; `MISSING` where the operation itself is to be done."""
        first, second = type(left), type(right)
        of_left = self.special(left, name) if written_in_python(first) else None
        asks_right = first is not second or comparing
        of_right = self.special(right, mirrored) if asks_right and written_in_python(second) else None
        if of_left is None and (of_right is None or first not in PLAIN_LEFT or hasattr(second, "__torch_function__")):
            return MISSING
        if asks_right and of_right is None and not (second in PLAIN_LEFT or written_in_python(second) and member(
                second, mirrored) in (MISSING, object.__dict__.get(mirrored, MISSING))):
            return MISSING  # the right one may have something to say
        if of_left is not None and of_right is not None and issubclass(second, first) and \
                member(second, mirrored) is not member(first, mirrored):
            of_left, of_right = of_right, of_left
            left, right = right, left
        for method, other in ((of_left, right), (of_right, left)):
            if method is not None:
                result = method(other)
                if result is not NotImplemented:
                    return result
        return NotImplemented

    @passed_over
    def unary(self, op: str, value: Any) -> Any:
        name, plain = UNARY[op]
        method = self.special(value, name)
        return plain(value) if method is None else method()

    @passed_over
    def truth(self, value: Any) -> bool:
        """``bool(value)``."""
        method = self.special(value, "__bool__")
        if method is None:
            if member(type(value), "__bool__") is not MISSING or self.special(value, "__len__") is None:
                return bool(value)
            return self.length(value) != 0
        result = method()
        if type(result) is not bool:
            raise TypeError(f"__bool__ should return bool, returned {type(result).__name__}")
        return result

    @passed_over
    def length(self, value: Any, /) -> int:
        """``len(value)``."""
        method = self.special(value, "__len__")
        return len(value) if method is None else len(_Sized(method()))

    @passed_over
    def converted(self, kind: Any, name: str, value: Any) -> Any:
        """``float(value)``, ``str(value)`` and their like, through one special method."""
        if kind is str and member(type(value), "__str__") is object.__str__:
            kind, name = repr, "__repr__"  # which object's own __str__ calls
        method = self.special(value, name)
        if method is None:
            return kind(value)
        result = method()
        holder = type(type(value).__name__, (), {name: lambda self: result})()
        return kind(holder)  # which checks the result, and takes it as it is

    @passed_over
    def formatted(self, value: Any, spec: str = "", /) -> str:
        """``format(value, spec)``."""
        method = self.special(value, "__format__")
        if method is None:
            if not spec and member(type(value), "__format__") is object.__format__:
                return self.converted(str, "__str__", value)  # type: ignore[no-any-return]
            return format(value, spec)
        result = method(spec)
        if not isinstance(result, str):
            raise TypeError(f"__format__ must return a str, not {type(result).__name__}")
        return result

    # Items

    @passed_over
    def item(self, value: Any, index: Any) -> Any:
        """``value[index]``."""
        method = self.special(value, "__getitem__")
        if method is not None:
            return method(index)
        if issubclass(type(value), dict) and member(type(value), "__getitem__") is dict.__dict__["__getitem__"]:
            missing = self.special(value, "__missing__")
            makes = type(value) is collections.defaultdict and value.default_factory is not None
            if missing is not None or makes:
                present = dict.get(value, index, MISSING)
                if present is not MISSING:
                    return present
                if missing is not None:
                    return missing(index)
                default = self.compiler.nested(value.default_factory)()  # type: ignore[attr-defined]
                value[index] = default
                return default
        return value[index]

    @passed_over
    def set_item(self, value: Any, index: Any, item: Any) -> None:
        method = self.special(value, "__setitem__")
        if method is None:
            value[index] = item
        else:
            method(index, item)

    @passed_over
    def delete_item(self, value: Any, index: Any) -> None:
        method = self.special(value, "__delitem__")
        if method is None:
            del value[index]
        else:
            method(index)

    @passed_over
    def contains(self, item: Any, value: Any) -> bool:
        """``item in value``."""
        method = self.special(value, "__contains__")
        return item in value if method is None else self.truth(method(item))

    # Attributes

    @passed_over
    def attribute(self, obj: Any, name: str) -> Any:
        """``obj.name``."""
        kind = type(obj)
        if not kind.__flags__ & HEAP_TYPE or issubclass(kind, type):
            return getattr(obj, name)
        own = member(kind, "__getattribute__")
        try:
            if own is object.__getattribute__:
                result = self.found(obj, kind, name)
                if result is not MISSING:
                    return result
            else:
                method = self.bound(own, obj)
                if method is None:
                    return getattr(obj, name)
                return method(name)
        except AttributeError:
            fallback = self.special(obj, "__getattr__")
            if fallback is None:
                if member(kind, "__getattr__") is MISSING:
                    raise
                return kind.__getattr__(obj, name)
            return fallback(name)
        fallback = self.special(obj, "__getattr__")
        if fallback is None or not self.is_absent(obj, kind, name):
            return getattr(obj, name)
        return fallback(name)

    @passed_over
    def found(self, obj: Any, kind: type, name: str) -> Any:
        """What a descriptor written in Python gives for an attribute; `MISSING` if none stands there."""
        descriptor = member(kind, name)
        if type(descriptor) is property:
            getter = self.bound(descriptor.fget, obj)
            return MISSING if getter is None else getter()
        if type(descriptor) is functools.cached_property:
            if name in getattr(obj, "__dict__", {}):
                return MISSING
            around = self.compiler.nested(functools.cached_property.__get__)
            return around(descriptor, obj, kind)
        get = self.special(descriptor, "__get__")
        if get is None:
            return MISSING
        overrides = any(member(type(descriptor), way) is not MISSING for way in ("__set__", "__delete__"))
        if not overrides and name in getattr(obj, "__dict__", {}):
            return MISSING
        return get(obj, kind)

    @staticmethod
    def is_absent(obj: Any, kind: type, name: str) -> bool:
        """Whether an object has no such attribute but what ``__getattr__`` says."""
        return member(kind, name) is MISSING and name not in getattr(obj, "__dict__", {})

    @passed_over
    def set_attribute(self, obj: Any, name: str, value: Any) -> None:
        """``obj.name = value``."""
        kind = type(obj)
        if not kind.__flags__ & HEAP_TYPE or issubclass(kind, type):
            return setattr(obj, name, value)
        own = member(kind, "__setattr__")
        method = self.bound(own, obj)
        if method is not None:
            method(name, value)
            return None
        if own is object.__setattr__:
            descriptor = member(kind, name)
            setter = self.bound(descriptor.fset, obj) if type(descriptor) is property else None
            if setter is not None:
                setter(value)
                return None
            store = self.special(descriptor, "__set__")
            if store is not None:
                store(obj, value)
                return None
        return setattr(obj, name, value)

    # Iteration

    @passed_over
    def iterate(self, value: Any, /) -> Any:
        """``iter(value)``."""
        method = self.special(value, "__iter__")
        if method is None:
            return iter(value)
        result = method()
        if member(type(result), "__next__") is MISSING:
            raise TypeError(f"iter() returned non-iterator of type '{type(result).__name__}'")
        return result

    @passed_over
    def advance(self, iterator: Any, end: Any) -> Any:
        """The next item of an iterator, or `end`."""
        method = self.special(iterator, "__next__")
        try:
            return next(iterator) if method is None else method()
        except StopIteration:
            return end

    @passed_over
    def following(self, iterator: Any, /, *default: Any) -> Any:
        """``next(iterator, default)``."""
        method = self.special(iterator, "__next__")
        if method is None or len(default) > 1:
            return next(iterator, *default)
        try:
            return method()
        except StopIteration:
            if default:
                return default[0]
            raise

    def stepped(self, value: Any) -> Any:
        """An iterable for what is written in C: the same, or one that steps through it here."""
        kind = type(value)
        if not kind.__flags__ & HEAP_TYPE or self.special(value, "__iter__") is None:
            return value
        return (_Stepped if member(kind, "__len__") is MISSING else _SizedStepped)(self, value)

    # With

    @passed_over
    def enter(self, manager: Any) -> Any:
        """``type(manager).__enter__(manager)``."""
        method = self.special(manager, "__enter__")
        return type(manager).__enter__(manager) if method is None else method()


    # Functions of torch

    @passed_over
    def overridden(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function, one of torch's perhaps, on objects whose classes say what it does."""
        kinds = {type(arg): None for arg in (*args, *kwargs.values()) if hasattr(type(arg), "__torch_function__")
                 and type(arg) is not torch.Tensor and type(arg) is not torch.nn.Parameter}
        override = member(next(iter(kinds)), "__torch_function__") if len(kinds) == 1 else None
        method: Any = override.__func__ if isinstance(override, classmethod) else None
        if type(function) is not types.BuiltinFunctionType or not is_graph_function(function) or method is None or \
                not self.compiler.compiles(method):
            return self.compiler.nested(function)(*args, **kwargs)
        (kind,) = kinds
        result = self.bound(method, kind)(function, (kind,), args, *([kwargs] if kwargs else []))  # type: ignore[misc]
        if result is NotImplemented:
            refusing = classmethod(lambda *_: NotImplemented)
            stand_in = type(kind.__name__, (), {"__torch_function__": refusing, "__module__": kind.__module__})()
            return function(*[stand_in if type(arg) is kind else arg for arg in args], **kwargs)  # raises
        return result


class _Sized:
    """Has a length that `len` checks."""

    def __init__(self, length: Any) -> None:
        self.length = length

    def __len__(self) -> Any:
        return self.length


class _Stepped:
    """An iterable whose iterator steps through compiled code."""

    def __init__(self, protocols: Protocols, value: Any) -> None:
        self.protocols = protocols
        self.value = value

    @passed_over
    def __iter__(self) -> Any:
        iterator = self.protocols.iterate(self.value)
        step = self.protocols.special(iterator, "__next__")
        return iterator if step is None else _Steps(step)


class _SizedStepped(_Stepped):
    """One that has a length too."""

    @passed_over
    def __len__(self) -> int:
        return len(self.value)


class _Steps(Iterator[Any]):
    """An iterator that calls a function for each item."""

    def __init__(self, step: Callable[[], Any]) -> None:
        self.step = step

    @passed_over
    def __next__(self) -> Any:
        return self.step()


def _stand_in(value: Any) -> Any:
    """An object without operators whose class has the name of the value's, for messages."""
    return value if type(value) in PLAIN_LEFT else type(type(value).__name__, (), {})()
