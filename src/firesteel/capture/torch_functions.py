"""``__torch_function__`` of tensor subclasses and of modes in captured code.

torch itself decides which class or mode is asked, and with what: a torch function is called on *stand-ins*, empty
tensors whose classes derive from each other as the program's do. Their ``__torch_function__`` ends here, where that of
the program's class is executed symbolically with the Values that the stand-ins stand for.

    y = x * 2                     stand_in(x) * 2
                                    -> __torch_function__(Tensor.mul, (StandIn,), (stand_in(x), 2), {})
                                    -> Scaled.__torch_function__(Tensor.mul, (Scaled,), (x, 2), {}), symbolically
"""

from __future__ import annotations

import functools
import operator
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..functional.wrapper_tensors import is_wrapper_class
from ..torch_compat import subclasses
from .call_handlers import handles
from .signals import GraphBreak, NotConstant, UserRaise
from .values.base import Value
from .values.constants import ConstantValue, NumberValue, PythonObject, SliceValue
from .values.functions import FunctionValue
from .values.mappings import DictValue
from .values.methods import NativeMethod
from .values.objects import ClassValue, ObjectValue
from .values.sequences import ListValue, TupleValue
from .values.subclass_tensors import TORCHS_OWN, SubclassTensorValue, as_subclass
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


class TorchFunctions:
    """Who is asked about torch functions where the captured program stands."""

    def __init__(self) -> None:
        self.subclasses_off = 0
        self.all_off = 0
        # modes that the program has entered, the innermost last
        self.modes: list[Value] = []
        # whether there is a tensor whose class is asked
        self.has_overrides = False
        # what code of wrapper classes can reach
        self.states: dict[type, Any] = {}
        # tensors from outside that are made of others
        self.wrappers: list[TensorValue] = []
        # nodes of wrappers that require grad and are results, and the nodes that take them apart
        self.taken_apart: list[tuple[Any, Any]] = []

    @property
    def subclasses_enabled(self) -> bool:
        return not self.subclasses_off and not self.all_off

    @property
    def is_changed(self) -> bool:
        """Whether the program has entered a mode, or switched something off, and not left it yet."""
        return bool(self.modes or self.subclasses_off or self.all_off)

    @property
    def asked_modes(self) -> list[Value]:
        return [] if self.all_off else self.modes

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """No class is asked."""
        self.subclasses_off += 1
        try:
            yield
        finally:
            self.subclasses_off -= 1

    def note(self, value: TensorValue) -> None:
        """A tensor of a class has come up."""
        self.has_overrides = self.has_overrides or subclasses.is_overriding(value.cls) and value.cls is not torch.Tensor

    def concern(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> bool:
        """Whether a torch function with these arguments is anybody's affair."""
        if self.asked_modes:
            return True
        return self.has_overrides and self.subclasses_enabled and any(
            isinstance(value, SubclassTensorValue) and value.overrides for value in _tensors(tx, [*args,
                                                                                                *kwargs.values()]))

    def call(self, tx: Tracer, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A torch function, or a method by its name, whose overrides are followed."""
        return _NativeCall(tx).run(target, args, kwargs)

    def read(self, tx: Tracer, tensor: TensorValue, name: str) -> Value:
        """An attribute that torch defines, of a tensor whose class is asked."""
        return _NativeCall(tx).run(getattr, [tensor, ConstantValue(name)], {})


def _tensors(tx: Tracer, values: list[Value]) -> Iterator[Value]:
    for value in values:
        value = value.realize()
        if isinstance(value, TensorValue):
            yield value
        elif isinstance(value, (TupleValue, ListValue)):
            yield from _tensors(tx, value.elements(tx))


# ---------------------------------------------------------------------------------------------------------------------
# stand-ins

_RUNNING = threading.local()
_CPU = torch.device("cpu")


class _Token:
    """A result on its way back through torch."""

    def __init__(self, value: Value) -> None:
        self.value = value


class _Int(int):
    """An integer that stands for a number of the program's."""


class _Float(float):
    """The same of a float."""


class _Placeholder:
    """Something that is no tensor and no constant, such as the function of a hook."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise GraphBreak("a torch function that a class or mode overrides calls one of its arguments")


def _current() -> _NativeCall:
    return _RUNNING.calls[-1]  # type: ignore[no-any-return]


class StandIn(torch.Tensor):
    """An empty tensor in the place of one of a class of the program's."""

    program_class: type = torch.Tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _current().ask_class(cls.program_class, func, types, args, kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise GraphBreak(f"{func} of a {cls.program_class.__name__}, which its __torch_function__ is not asked about")


@functools.lru_cache(1000)
def _stand_in_class(cls: type) -> type:
    """A class that stands to others of its kind as `cls` does to other classes of tensors."""
    if cls is torch.Tensor:
        return StandIn
    bases = [base for base in cls.__bases__ if issubclass(base, torch.Tensor)]
    metaclass: Any = type(torch.Tensor)
    stand_in: type = metaclass(cls.__name__, tuple(_stand_in_class(base) for base in bases), {"program_class": cls})
    return stand_in


class StandInMode(subclasses.FunctionMode):
    """A mode in the place of one of the program's, number `position` of those that are active."""

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _current().ask_mode(self.position, func, types, args, kwargs)


class _NativeCall:
    """One torch function, called on stand-ins."""

    def __init__(self, tx: Tracer) -> None:
        self.tx = tx
        self.values: dict[int, tuple[Any, Value]] = {}
        self.stand_ins: dict[int, Any] = {}
        self.asked = 0
        self.state = tx.torch_functions

    def run(self, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given = [self.stand_in(arg) for arg in args]
        named = {name: self.stand_in(arg) for name, arg in kwargs.items()}
        calls = _RUNNING.__dict__.setdefault("calls", [])
        calls.append(self)
        modes = [StandInMode(position) for position in range(len(self.state.asked_modes))]
        for mode in modes:
            subclasses.push_function_mode(mode)
        try:
            if isinstance(target, str):
                result = getattr(given[0], target)(*given[1:], **named)
            else:
                result = target(*given, **named)
        except (GraphBreak, UserRaise, NotConstant):
            raise
        except (TypeError, AttributeError, RuntimeError, ValueError, IndexError) as error:
            if isinstance(error, TypeError) and str(error).startswith("unsupported operand"):
                raise self.tx.raised(error) from None
            raise GraphBreak(f"{_name(target)} of a tensor subclass raises {type(error).__name__}: {error}") from None
        finally:
            for _ in modes:
                subclasses.pop_function_mode()
            calls.pop()
        if isinstance(result, _Token):
            return result.value
        if not self.asked:
            return self.without_classes(target, args, kwargs)
        if target is operator.setitem and self.asked == 1:
            return ConstantValue(None)
        raise GraphBreak(f"{_name(target)} of a tensor subclass, which is made of several torch functions")

    def without_classes(self, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """What torch did not ask anybody about."""
        tx = self.tx
        if target is getattr:
            receiver = args[0].realize()
            assert isinstance(receiver, TensorValue)
            return receiver.plain_attr(tx, tx.constant_of(args[1]))
        if isinstance(target, types.FunctionType):
            function = tx.python_object(target)
            assert isinstance(function, FunctionValue)
            return tx.inline(function, args, kwargs)
        raise GraphBreak(f"{_name(target)} of a tensor subclass")

    def stand_in(self, value: Value) -> Any:
        """A Python object in the place of a Value."""
        value = value.realize()
        known = self.stand_ins.get(id(value))
        if known is not None:
            return known
        obj = self.make(value)
        if not isinstance(value, ConstantValue):
            self.values[id(obj)] = (obj, value)
            self.stand_ins[id(value)] = obj
        return obj

    def make(self, value: Value) -> Any:
        tx = self.tx
        if isinstance(value, SubclassTensorValue) and value.asks_class(tx):
            return torch_compat.make_wrapper(_stand_in_class(value.cls), (0,), None, None, torch.float32, _CPU)
        if isinstance(value, TensorValue):
            return value.fake
        if isinstance(value, ConstantValue):
            return value.value
        if isinstance(value, NumberValue):
            kind = value.python_type()
            if kind is int:
                return _Int(2 if value.hint is None else value.hint)
            return _Float(2.5 if value.hint is None else value.hint)
        if isinstance(value, ListValue):
            return [self.stand_in(item) for item in value.elements(tx)]
        if isinstance(value, TupleValue):
            return tuple([self.stand_in(item) for item in value.elements(tx)])
        if isinstance(value, DictValue):
            return {tx.constant_of(key): self.stand_in(item) for key, item in value.fill(tx).values()}
        if isinstance(value, SliceValue):
            return slice(*[self.stand_in(part) for part in value.parts])
        if isinstance(value, (PythonObject, ClassValue)):
            return value.as_constant()
        return _Placeholder()

    def value_of(self, obj: Any) -> Value:
        """The Value that an object stands for."""
        known = self.values.get(id(obj))
        if known is not None:
            return known[1]
        if type(obj) is tuple:
            return TupleValue([self.value_of(item) for item in obj])
        if type(obj) is list:
            return ListValue([self.value_of(item) for item in obj])
        if type(obj) is dict:
            return self.tx.make_dict({name: self.value_of(item) for name, item in obj.items()})
        if isinstance(obj, _Token):
            return obj.value
        return self.tx.python_object(obj)

    # what torch asks

    def arguments(self, func: Any, kinds: Any, args: Any, kwargs: Any) -> list[Value]:
        self.asked += 1
        classes = [getattr(kind, "program_class", kind) for kind in kinds]
        return [self.tx.python_object(func), TupleValue([self.tx.python_object(kind) for kind in classes]),
                self.value_of(tuple(args)), ConstantValue(None) if kwargs is None else self.value_of(dict(kwargs))]

    def ask_class(self, cls: type, func: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        tx = self.tx
        with _without_stand_in_modes():
            method = tx.get_attr(tx.class_value(cls), "__torch_function__")
            return self.token(tx.call(method, self.arguments(func, kinds, args, kwargs), {}))

    def ask_mode(self, position: int, func: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        tx, modes = self.tx, self.state.modes
        self.state.modes = modes[:position]
        try:
            with _without_stand_in_modes():
                method = tx.get_attr(modes[position], "__torch_function__")
                return self.token(tx.call(method, self.arguments(func, kinds, args, kwargs), {}))
        finally:
            self.state.modes = modes

    def token(self, value: Value) -> Any:
        value = value.realize()
        if isinstance(value, (ConstantValue, PythonObject)) and value.as_constant() is NotImplemented:
            return NotImplemented
        return _Token(value)


@contextmanager
def _without_stand_in_modes() -> Iterator[None]:
    """Whoever is asked calls torch functions as the program does, with the modes that are left to it."""
    kept = []
    while subclasses.function_modes() and isinstance(subclasses.function_mode_at(subclasses.function_modes() - 1),
                                                     StandInMode):
        kept.append(subclasses.pop_function_mode())
    try:
        yield
    finally:
        for mode in reversed(kept):
            subclasses.push_function_mode(mode)


def _name(target: Any) -> str:
    return f"Tensor.{target}" if isinstance(target, str) else getattr(target, "__name__", str(target))


# ---------------------------------------------------------------------------------------------------------------------
# torch's own parts of the protocol


@handles(subclasses.default_impl)
def default_torch_function(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``torch.Tensor.__torch_function__``: the function as for plain tensors; results become instances of the class."""
    names = ("cls", "func", "types", "args", "kwargs")
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    cls = named["cls"].realize()
    kinds = [kind.realize() for kind in tx.to_list(named["types"])]
    if not isinstance(cls, ClassValue) or not all(isinstance(kind, ClassValue) for kind in kinds):
        raise GraphBreak("torch.Tensor.__torch_function__ with unusual arguments")
    if not all(issubclass(cls.cls, kind.cls) for kind in kinds):  # type: ignore[attr-defined]
        return ConstantValue(NotImplemented)
    positional = tx.to_list(named["args"]) if "args" in named else []
    keywords = named.get("kwargs", ConstantValue(None)).realize()
    by_name: dict[str, Value] = {}
    if isinstance(keywords, DictValue):
        by_name = {tx.constant_of(key): item for key, item in keywords.fill(tx).values()}
    before = len(tx.kept_alive)
    with tx.torch_functions.disabled():
        result = tx.call(named["func"], positional, by_name).realize()
    function = named["func"].realize()
    if function.is_constant() and _is_nowrap(function.as_constant()):
        return result
    fresh = {id(obj) for obj in tx.kept_alive[before:]}
    return convert(tx, result, cls.cls, fresh)


def _is_nowrap(function: Any) -> bool:
    try:
        return function in subclasses.nowrap_functions()
    except TypeError:
        return False


def convert(tx: Tracer, value: Value, cls: type, fresh: set[int]) -> Value:
    """A result with all its tensors as instances of a class; ``fresh`` are the ids of tensors that are new."""
    value = value.realize()
    if cls is torch.Tensor:
        return value
    if isinstance(value, TensorValue):
        if issubclass(value.cls, cls):
            return value
        return as_subclass(tx, value, cls, id(value.fake) in fresh and value.source is None)
    if isinstance(value, TupleValue):
        return TupleValue([convert(tx, item, cls, fresh) for item in value.elements(tx)], value.cls)
    if isinstance(value, ListValue) and value.cls is list:
        return ListValue([convert(tx, item, cls, fresh) for item in value.elements(tx)])
    return value


class DisablingValue(Value):
    """``torch._C.DisableTorchFunctionSubclass()`` or ``DisableTorchFunction()``."""

    __slots__ = ("cls",)

    def __init__(self, cls: type) -> None:
        super().__init__(None)
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    native_methods = True

    def get_attr(self, tx: Tracer, name: str) -> Value:
        return NativeMethod(self, name) if name in ("__enter__", "__exit__") else super().get_attr(tx, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        change = {"__enter__": 1, "__exit__": -1}.get(name)
        if change is None:
            self.unsupported(f"method {name!r}")
        if self.cls is subclasses.DisableSubclasses:
            tx.torch_functions.subclasses_off += change
        else:
            tx.torch_functions.all_off += change
        tx.effects.version += 1
        return ConstantValue(None)


@handles(subclasses.DisableSubclasses)
def disable_subclasses(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The context manager itself."""
    return DisablingValue(subclasses.DisableSubclasses)


@handles(subclasses.DisableAll)
def disable_all(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The context manager itself."""
    return DisablingValue(subclasses.DisableAll)


@handles(subclasses.push_function_mode)
def push_mode(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A mode of the program's is entered."""
    mode = args[0].realize()
    if not isinstance(mode, ObjectValue):
        raise GraphBreak(f"entering {mode.describe()} as a function mode")
    tx.torch_functions.modes.append(mode)
    tx.effects.version += 1
    return ConstantValue(None)


@handles(subclasses.pop_function_mode)
def pop_mode(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The innermost mode is left."""
    if not tx.torch_functions.modes:
        raise GraphBreak("leaving a function mode that was entered before this graph")
    tx.effects.version += 1
    return tx.torch_functions.modes.pop()


@handles(subclasses.as_subclass)
def call_as_subclass(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``tensor.as_subclass(cls)``."""
    tensor, cls = args[0].realize(), [*args[1:], *kwargs.values()][0].realize()
    if not isinstance(tensor, TensorValue) or not isinstance(cls, ClassValue):
        raise GraphBreak("as_subclass() with unusual arguments")
    return as_subclass(tx, tensor, cls.cls, fresh=False)


@handles(subclasses.make_subclass)
def call_make_subclass(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``torch.Tensor._make_subclass(cls, data, require_grad=False)``."""
    named = {**dict(zip(("cls", "data", "require_grad"), args, strict=False)), **kwargs}
    cls, data = named["cls"].realize(), named["data"].realize()
    if set(named) - {"cls", "data", "require_grad"} or not isinstance(cls, ClassValue) or \
            not isinstance(data, TensorValue) or issubclass(cls.cls, TORCHS_OWN[1:]):
        raise GraphBreak("_make_subclass() with unusual arguments")
    with tx.torch_functions.disabled():
        alias = data.call_method(tx, "detach", [], {})
        assert isinstance(alias, TensorValue)
        if "require_grad" in named and tx.truth(named["require_grad"]):
            alias.call_method(tx, "requires_grad_", [], {})
    return as_subclass(tx, alias, cls.cls, fresh=True)


@handles(subclasses.new_tensor)
def call_new(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``torch.Tensor.__new__(cls, tensor)``."""
    cls, *rest = [arg.realize() for arg in args]
    if kwargs or len(rest) != 1 or not isinstance(cls, ClassValue) or not isinstance(rest[0], TensorValue):
        raise GraphBreak("torch.Tensor.__new__ of something else than a tensor")
    if issubclass(cls.cls, TORCHS_OWN[1:]) or rest[0].fake.dtype is not torch.get_default_dtype():
        raise GraphBreak("torch.Tensor.__new__ with unusual arguments")
    return as_subclass(tx, rest[0], cls.cls, fresh=False)


def call_tensor_class(tx: Tracer, value: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``cls(*args)`` for a class of tensors that the program has written."""
    cls = value.cls
    if is_wrapper_class(cls):
        return tx.call_torch(cls, args, kwargs)
    if subclasses.has_own_dispatch(cls) or issubclass(cls, TORCHS_OWN[1:]):
        raise GraphBreak(f"making a {cls.__name__} inside the compiled function", "make it outside and pass it in")
    raw, owner = tx.objects.find_on_class(cls, "__new__", tx)
    function = raw.__func__ if isinstance(raw, staticmethod) else raw
    if isinstance(function, types.FunctionType) and owner is not None:
        tensor = tx.call(tx.python_object(function), [value, *args], kwargs).realize()
    else:
        tensor = call_new(tx, [value, *args], kwargs).realize()
    if not issubclass(tensor.python_type(), cls):
        return tensor
    init, init_owner = tx.objects.find_on_class(cls, "__init__", tx)
    if isinstance(init, types.FunctionType) and init_owner is not None:
        tx.call(tx.objects.class_member(tx, cls, "__init__", init, init_owner), [tensor, *args], kwargs)
    return tensor
