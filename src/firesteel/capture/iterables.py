"""Iteration as Python's constructors of lists and tuples do it: they also ask an object how many items to expect."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from ..shapes.relations import ge
from .object_operators import not_implemented
from .objects import find_on_class, special_method
from .signals import GraphBreak, UserRaise
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.mapping_proxies import MappingProxyValue
from .values.objects import ObjectValue
from .values.reversals import ReversedIterator
from .values.sequences import MOST_ITEMS

if TYPE_CHECKING:
    from .tracer import Tracer


def ask_for_length(tx: Tracer, obj: Value) -> None:
    """Ask an object for its length as ``list(obj)`` does: the answer is a hint, the question may have effects."""
    if isinstance(obj, MappingProxyValue):
        obj = obj.mapping.realize()  # its length is that of its mapping
    if isinstance(obj, ReversedIterator) and obj.sequence is not None:
        obj = obj.sequence.realize()  # what remains is found out from how long it is now
    if isinstance(obj, ObjectValue):
        _ask_object(tx, obj)


def _ask_object(tx: Tracer, obj: ObjectValue) -> None:
    """Run what a class says about the length of its objects."""
    for name in ("__len__", "__length_hint__"):
        raw = find_on_class(obj.cls, name, tx)[0]
        if isinstance(raw, types.WrapperDescriptorType):
            return  # the builtin that the class inherits from knows
        if not isinstance(raw, types.FunctionType):
            continue
        method = special_method(tx, obj, name)
        assert method is not None
        try:
            length = tx.call(method, [], {}).realize()
        except UserRaise as raised:
            if issubclass(raised.value.python_type(), TypeError):
                continue
            raise
        if name != "__len__" and not_implemented(length):
            continue
        if not _is_length(tx, length):
            raise GraphBreak(f"{name} of {obj.describe()} gives something that is no length")
        return


def _is_length(tx: Tracer, length: Value) -> bool:
    if isinstance(length, NumberValue):
        return length.expr.kind == "int" and tx.shape_env.decide(ge(length.expr, 0)) is True
    # memory for that many items is asked for ahead
    return isinstance(length, ConstantValue) and isinstance(length.value, int) and 0 <= length.value <= MOST_ITEMS
