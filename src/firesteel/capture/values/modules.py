"""nn.Modules from outside: what they have is found in their tables of parameters, buffers and submodules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ... import torch_compat
from ...torch_compat.module_tables import own_buffers, own_modules, own_parameters
from ..effects import forget_any_attribute, forget_past_descriptor, set_past_descriptor
from ..signals import GraphBreak
from ..source import ModuleTableSource, has_own_getter, item_source
from .base import Value, inherits_method
from .mappings import DictValue
from .objects import ObjectValue
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..tracer import Tracer

MODULE_TABLES = ("_parameters", "_buffers", "_modules")


class ModuleValue(ObjectValue):
    """An nn.Module from outside: parameters, buffers and submodules are found in its tables."""

    __slots__ = ()

    def table_attr(self, tx: Tracer, name: str) -> Value | None:
        """What ``nn.Module.__getattr__`` finds."""
        assert self.source is not None
        for table in MODULE_TABLES:
            entries = self.real.__dict__.get(table)
            known = self.known_table(tx, table)
            if known is not None:
                value = known.lookup(tx, tx.constant(name))
                if value is not None:
                    return value
            elif entries is not None and name in entries:
                value = tx.looked_up(entries[name], item_source(ModuleTableSource(self.source, table), name))
                self.attrs[name] = value
                return value
        return None

    def known_table(self, tx: Tracer, table: str) -> DictValue | None:
        """The table itself, where the program has got hold of it: it may have changed it."""
        replaced = self.attrs.get(table)
        known = replaced.realize() if replaced is not None else tx.known.get(id(self.real.__dict__.get(table)))
        return known if isinstance(known, DictValue) else None

    def instance_attr(self, tx: Tracer, name: str) -> Value | None:
        if name not in MODULE_TABLES or name in self.attrs or name not in self.real.__dict__:
            return super().instance_attr(tx, name)
        assert self.source is not None
        return tx.wrap(self.real.__dict__[name], ModuleTableSource(self.source, name))

    def store_attr(self, tx: Tracer, name: str, value: Value | None) -> None:
        if name in MODULE_TABLES:
            self.look_up_in_table(tx, name)
        super().store_attr(tx, name, value)

    def look_up_in_table(self, tx: Tracer, table: str) -> None:
        """From now on what was read of a table is found in the table: the program has got hold of it, on whatever way,
        and may change it."""
        entries = self.real.__dict__.get(table) or ()
        for attribute in [attribute for attribute in self.attrs if attribute in entries]:
            if attribute in tx.effects.attributes_set(self):
                raise GraphBreak(f"the table {table} of a module after {attribute!r} was set")
            del self.attrs[attribute]

    def is_slot(self, name: str) -> bool:
        tables = (self.real.__dict__.get(table) or {} for table in MODULE_TABLES)
        return any(name in table for table in tables) or super().is_slot(name)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        known = self.attrs.get(name)
        if known is not None and not has_own_getter(self.cls):
            return known
        tx.reliance.classes[self.cls] = None
        if inherits_method(self.cls, "__getattr__", torch.nn.Module) and not has_own_getter(self.cls) \
                and name not in self.attrs \
                and name not in self.real.__dict__ and not _on_class(self.cls, name) \
                and torch_compat.MODULE_METHODS.quick():
            tx.guard_stamp(torch_compat.MODULE_METHODS)
            value = self.table_attr(tx, name)
            if value is not None:
                return value
            if name == "__dict__":
                return self.instance_dict(tx)
            if not any(name in self.real.__dict__.get(table, ()) for table in MODULE_TABLES):
                tx.guard(self.source, "missing attribute", f"not hasattr({{0}}, {name!r})")
            raise tx.raised(AttributeError(f"{self.cls.__name__!r} object has no attribute {name!r}"))
        return tx.objects.generic_get_attr(tx, self, name)

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        if not inherits_method(self.cls, "__setattr__", torch.nn.Module) or not torch_compat.MODULE_METHODS.quick():
            super().set_attr(tx, name, value)
            return
        if name == "__class__":
            raise GraphBreak("assigning the class of a module")
        tx.guard_stamp(torch_compat.MODULE_METHODS)
        member = getattr(self.cls, name, None)
        if isinstance(member, property):
            super().set_attr(tx, name, value)
            return
        value = value.realize()
        if isinstance(value, ModuleValue) and own_modules(self.real).get(name) is value.real is not None:
            return  # as in `self.layer = self.layer.to(dtype)`, which returns the module itself
        if name in own_modules(self.real) or name in own_parameters(self.real) or isinstance(value, ModuleValue) or \
                isinstance(value, TensorValue) and (issubclass(value.cls, torch.nn.Parameter) or
                                                    isinstance(getattr(value, "real", None), torch.nn.Parameter)):
            raise GraphBreak(f"assigning parameter or submodule {name!r} of a module")
        if name in own_buffers(self.real) and not (isinstance(value, TensorValue) or
                                                    (value.is_constant() and value.as_constant() is None)):
            raise GraphBreak(f"assigning a non-tensor to buffer {name!r}")
        tables = {table: self.known_table(tx, table) for table in MODULE_TABLES}
        buffers = tables["_buffers"]
        if buffers is not None and buffers.lookup(tx, tx.constant(name)) is not None:
            buffers.set_item(tx, tx.constant(name), value)
            return
        if any(table is not None and (name in self.real.__dict__.get(place, ()) or
                                      table.lookup(tx, tx.constant(name)) is not None)
               for place, table in tables.items()):
            raise GraphBreak(f"assigning {name!r} of a module whose tables were changed")
        self.store_attr(tx, name, value)

    def attribute_setter(self, name: str) -> Callable[[Any, str, Any], None]:
        return set_past_descriptor if self.is_behind_descriptor(name) else setattr

    def attribute_deleter(self, name: str) -> Callable[[Any, str], None]:
        return forget_past_descriptor if self.is_behind_descriptor(name) else forget_any_attribute

    def truth(self, tx: Tracer) -> bool:
        if hasattr(self.cls, "__len__") or hasattr(self.cls, "__bool__"):
            return super().truth(tx)
        return True

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.call_module(self, args, kwargs)


def _on_class(cls: type, name: str) -> bool:
    return any(name in base.__dict__ for base in cls.__mro__)


class CompiledModuleValue(ModuleValue):
    """A module that was compiled before: all that is asked of it is answered by the module behind it."""

    __slots__ = ()
