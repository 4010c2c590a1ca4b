"""Tensors of classes that the program has derived from ``torch.Tensor`` and that only differ in Python.

The graph knows them as plain tensors. What their class says about attributes, methods and torch functions is executed
symbolically, and results get their class when the entry hands them out.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from ...torch_compat import subclasses
from ..signals import GraphBreak
from ..source import InstanceDictSource, Source, item_source
from .base import Value
from .constants import ConstantValue
from .methods import NativeMethod
from .tensors import NUMBER_METHODS, TensorValue

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer

CONVERSIONS: dict[str, type] = {"__bool__": bool, "__int__": int, "__float__": float, "__index__": int}
"""Methods that Python calls for a number, and what they have to return."""
TORCHS_OWN: tuple[type, ...] = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def written_by_program(owner: type | None) -> bool:
    """Whether a class in the order of bases comes before those of torch."""
    return owner is not None and not any(owner is own for own in TORCHS_OWN) and issubclass(owner, object) \
        and owner is not object and owner.__module__ != "torch._C"


class SubclassTensorValue(TensorValue):
    """A tensor of a class of the program's."""

    __slots__ = ()

    def describe(self) -> str:
        return f"a {self.cls.__name__}"

    @property
    def overrides(self) -> bool:
        """Whether its class has a ``__torch_function__``."""
        return subclasses.is_overriding(self.cls)

    def asks_class(self, tx: Tracer) -> bool:
        """Whether torch functions call the ``__torch_function__`` of its class where the program stands."""
        return self.overrides and tx.torch_functions.subclasses_enabled

    def defines(self, tx: Tracer, name: str) -> bool:
        """Whether the program has written a method that torch has, too."""
        return written_by_program(tx.objects.find_on_class(self.cls, name, tx)[1])

    def get_item(self, tx: Tracer, key: Value) -> Value:
        if self.defines(tx, "__getitem__"):
            return tx.call(self.get_attr(tx, "__getitem__"), [key], {})
        return super().get_item(tx, key)

    def set_item(self, tx: Tracer, key: Value, value: Value) -> None:
        if self.defines(tx, "__setitem__"):
            tx.call(self.get_attr(tx, "__setitem__"), [key, value], {})
        else:
            super().set_item(tx, key, value)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "__class__":
            return tx.python_object(self.cls)
        raw, owner = tx.objects.find_on_class(self.cls, name, tx)
        own = written_by_program(owner)
        kind = type(raw)
        if own and hasattr(kind, "__get__") and (hasattr(kind, "__set__") or hasattr(kind, "__delete__")):
            assert owner is not None
            return tx.objects.bind(tx, self, self.cls, name, raw, owner)
        known = self.instance_attr(tx, name)
        if known is not None:
            return known
        if own:
            assert owner is not None
            if hasattr(kind, "__get__"):
                return tx.objects.bind(tx, self, self.cls, name, raw, owner)
            return tx.objects.class_member(tx, self.cls, name, raw, owner)
        if owner is None:
            getter, getter_owner = tx.objects.find_on_class(self.cls, "__getattr__", tx)
            if isinstance(getter, types.FunctionType) and getter_owner is not None:
                method = tx.objects.class_member(tx, self.cls, "__getattr__", getter, getter_owner)
                return tx.call(method, [self, tx.constant(name)], {})
            raise tx.raised(AttributeError(f"{self.cls.__name__!r} object has no attribute {name!r}", name=name))
        if name == "__dict__":
            raise GraphBreak(f"__dict__ of {self.describe()}")
        if callable(getattr(self.cls, name, None)):
            return NativeMethod(self, name)
        if self.asks_class(tx) or tx.torch_functions.asked_modes:
            return tx.torch_functions.read(tx, self, name)
        return self.plain_attr(tx, name)

    def instance_attr(self, tx: Tracer, name: str) -> Value | None:
        """What the dictionary of the instance has under a name."""
        if name in self.attrs:
            return self.attrs[name]
        if self.source is None:
            return None
        table = self.real.__dict__
        if name in table:
            value = tx.looked_up(table[name], item_source(InstanceDictSource(self.source), name)).realize()
            self.attrs[name] = value
            return value
        tx.guard(InstanceDictSource(self.source), "missing attribute", f"{name!r} not in {{0}}")
        return None

    def plain_attr(self, tx: Tracer, name: str) -> Value:
        """An attribute that torch defines, as it is for plain tensors."""
        if name == "is_leaf" and self.source is not None:
            with subclasses.DisableSubclasses():
                return tx.constant(self.real.is_leaf)
        if name == "grad" and self.source is not None and self.overrides:
            raise GraphBreak(f".grad of {self.describe()}")
        return super().plain_attr(tx, name)

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        raw, owner = tx.objects.find_on_class(self.cls, name, tx)
        if not written_by_program(owner):
            if owner is not None and self.asks_class(tx):
                raise GraphBreak(f"setting attribute {name!r} of {self.describe()}")
            super().set_attr(tx, name, value)
            return
        if isinstance(raw, property) and raw.fset is not None:
            method = tx.objects.class_member(tx, self.cls, name, raw, owner)
            tx.call(tx.get_attr(method, "fset"), [self, value], {})
            return
        if hasattr(type(raw), "__set__") or "__setattr__" in vars(owner):
            raise GraphBreak(f"setting attribute {name!r} of {self.describe()} through a descriptor")
        self.attrs[name] = value
        tx.effects.attribute(self, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "as_subclass" or name == "__torch_function__":
            return super().call_method(tx, name, args, kwargs)
        if name in CONVERSIONS and self.defines(tx, name):  # whether that one is meant, or what it overrides
            raise GraphBreak(f"{name} of {self.describe()}, which its class defines")
        if self.asks_class(tx):
            return tx.torch_functions.call(tx, name, [self, *args], kwargs)
        if name in NUMBER_METHODS and not args and not kwargs:
            return TensorValue.number(self, tx, name)
        if name == "__getitem__":  # torch's own, whatever the class defines
            return TensorValue.get_item(self, tx, args[0])
        if name == "__setitem__":
            TensorValue.set_item(self, tx, *args)
            return ConstantValue(None)
        if name == "__len__":
            return TensorValue.length(self, tx)
        if name == "__iter__":
            return TensorValue.iterate(self, tx)
        return super().call_method(tx, name, args, kwargs)

    def number(self, tx: Tracer, method: str) -> Value:
        if self.defines(tx, method):
            result = tx.call(self.get_attr(tx, method), [], {})
        elif self.asks_class(tx):
            result = tx.torch_functions.call(tx, method, [self], {})
        else:
            return super().number(tx, method)
        kind = CONVERSIONS.get(method)
        if kind is not None and result.realize().python_type() is not kind:
            raise GraphBreak(f"{method} of {self.describe()} returns something else than a {kind.__name__}")
        return result

    def truth(self, tx: Tracer) -> bool:
        if self.defines(tx, "__bool__") or self.asks_class(tx):
            return tx.truth(self.number(tx, "__bool__"))
        return super().truth(tx)

    def length(self, tx: Tracer) -> Value:
        if self.defines(tx, "__len__"):
            return tx.call(self.get_attr(tx, "__len__"), [], {})
        return self.call_method(tx, "__len__", [], {}) if self.asks_class(tx) else super().length(tx)

    def iterate(self, tx: Tracer) -> Value:
        """Its iterator, for a loop: what else takes one, such as ``list``, may ask for the length behind it."""
        in_loop = tx.frames and tx.frames[-1].current is not None and tx.frames[-1].current.op == "GET_ITER"
        if not in_loop and (self.asks_class(tx) or self.defines(tx, "__len__")):
            raise GraphBreak(f"iterating over {self.describe()} in something else than a loop")
        if self.defines(tx, "__iter__"):
            return tx.call(self.get_attr(tx, "__iter__"), [], {})
        if self.asks_class(tx):  # as Tensor.__iter__ does
            self.call_method(tx, "dim", [], {})
            return self.call_method(tx, "unbind", [ConstantValue(0)], {}).iterate(tx)
        return super().iterate(tx)

    def emit(self, code: EntryCode) -> str:
        plain = code.graph_output(self)
        name = code.assign(self, f"{code.constant(subclasses.with_class)}({plain}, {code.constant(self.cls)})")
        self.emit_attributes(code, name)
        return name


def as_subclass(tx: Tracer, value: TensorValue, cls: Any, fresh: bool) -> TensorValue:
    """The tensor as one of another class, which is another object on the same memory.

    ``fresh``: nobody else has the tensor, so that it can be that object itself.
    """
    if not isinstance(cls, type) or not issubclass(cls, torch.Tensor):
        raise GraphBreak("as_subclass() of something that is no class of tensors")
    if subclasses.has_own_dispatch(cls) or subclasses.has_own_dispatch(value.cls):
        raise GraphBreak(f"as_subclass({cls.__name__}), which has a __torch_dispatch__")
    if not fresh:
        with tx.torch_functions.disabled():
            alias = tx.call_torch(subclasses.alias_operator, [value], {})
        assert isinstance(alias, TensorValue)
        value = alias
    tensor = tensor_of_class(value.node, value.fake, cls)
    tx.tensor_of_fake[id(value.fake)] = tensor
    tx.torch_functions.note(tensor)
    return tensor


def tensor_of_class(node: Any, fake: Any, cls: type, source: Source | None = None, real: Any = None) -> TensorValue:
    """The Value of a tensor of a class."""
    if cls is torch.Tensor:
        return TensorValue(node, fake, source, cls, real)
    return SubclassTensorValue(node, fake, source, cls, real)
