"""Containers of tensors as leaves and structure, for functions that control flow operators call.

>>> from firesteel.capture.values.constants import ConstantValue
>>> from firesteel.capture.values.sequences import TupleValue
>>> flatten(None, TupleValue([ConstantValue(1), ConstantValue(None)]))
([], ('tuple', <class 'tuple'>, (('constant', 1), ('constant', None))))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..torch_compat.pytrees import functions_of_class
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.mappings import DictValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

Structure = tuple[Any, ...]
LEAF: Structure = ("tensor",)


def flatten(tx: Tracer | None, value: Value) -> tuple[list[TensorValue], Structure]:
    """The tensors of a value in order, and what is around them."""
    leaves: list[TensorValue] = []
    return leaves, _structure(tx, value, leaves)


def _structure(tx: Any, value: Value, leaves: list[TensorValue]) -> Structure:
    value = value.realize()
    if isinstance(value, TensorValue):
        leaves.append(value)
        return LEAF
    if isinstance(value, ConstantValue):
        return "constant", value.value
    if isinstance(value, NumberValue):
        return "number", value.expr
    if isinstance(value, TupleValue):
        return "tuple", value.cls, tuple([_structure(tx, item, leaves) for item in value.elements(tx)])
    if isinstance(value, ListValue):
        return "list", list, tuple([_structure(tx, item, leaves) for item in value.elements(tx)])
    if isinstance(value, DictValue):
        entries = value.fill(tx).values()
        keys = tuple([tx.constant_of(key) for key, _ in entries])
        return "dict", keys, tuple([_structure(tx, item, leaves) for _, item in entries])
    cls = value.python_type()
    functions = functions_of_class(cls)
    if functions is not None:
        apart = tx.to_list(tx.call(tx.python_object(functions[0]), [value], {}))
        within: list[TensorValue] = []
        context = _structure(tx, apart[1], within)
        if not within:
            items = tuple([_structure(tx, item, leaves) for item in tx.to_list(apart[0])])
            return "object", (cls, context), items
    raise GraphBreak(f"{value.describe()} where a control flow operator takes tensors",
                     "use tensors in tuples, lists, dictionaries and registered pytree classes")


def rebuild(tx: Tracer, structure: Structure, leaves: Iterator[Value]) -> Value:
    """New containers around other leaves."""
    kind = structure[0]
    if kind == "tensor":
        return next(leaves)
    if kind == "constant":
        return tx.python_object(structure[1])
    if kind == "number":
        return tx.symbols.number(structure[1])
    items = [rebuild(tx, part, leaves) for part in structure[2]]
    if kind == "tuple":
        return TupleValue(items, structure[1])
    if kind == "list":
        return ListValue(items)
    if kind == "object":
        cls, context = structure[1]
        functions = functions_of_class(cls)
        assert functions is not None
        around = rebuild(tx, context, iter(()))
        return tx.call(tx.python_object(functions[1]), [ListValue(items), around], {})
    entries = [(tx.python_object(key), item) for key, item in zip(structure[1], items, strict=True)]
    return DictValue({key.key(tx): (key, item) for key, item in entries})


def describe(structure: Structure) -> str:
    """A structure in messages."""
    kind = structure[0]
    if kind == "tensor":
        return "a tensor"
    if kind in ("constant", "number"):
        return repr(structure[1]) if kind == "constant" else str(structure[1])
    inner = [describe(part) for part in structure[2]]
    if kind == "object":
        return f"{structure[1][0].__qualname__}({', '.join(inner)})"
    if kind == "dict":
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(structure[1], inner, strict=True)) + "}"
    return f"({', '.join(inner)})" if kind == "tuple" else f"[{', '.join(inner)}]"
