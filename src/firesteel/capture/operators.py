"""Operators on Values: arithmetic, comparison, identity, membership."""

from __future__ import annotations

import collections
import operator
import types
from typing import TYPE_CHECKING, Any

import numpy

from . import number_rules, object_operators
from .equivalents import REGISTRY
from .number_rules import is_number
from .numpy_numbers import exact_binary
from .object_operators import not_implemented
from .objects import can_iterate, find_on_class, special_method
from .python_errors import missing_method
from .signals import GraphBreak, NotConstant, UserRaise
from .source import written_in_python
from .values.arrays import ArrayValue
from .values.base import IdentityHash, IdentityNumber, Value, inherits_method
from .values.constants import ConstantValue, NumberValue, PythonObject, itself_or
from .values.mapping_proxies import MappingProxyValue
from .values.mappings import DictValue, DictViewValue, HookNumber, SetValue
from .values.methods import MethodValue
from .values.objects import ClassValue, ObjectValue, bare_constant, speaks_for_itself
from .values.opaque import OpaqueValue
from .values.ranges import RangeValue
from .values.sequences import ListValue, SequenceValue, TupleValue
from .values.storages import AddressNumber
from .values.subclass_tensors import SubclassTensorValue
from .values.tensors import TensorValue
from .values.text import TextValue, join
from .values.weak_references import WeakReference

if TYPE_CHECKING:
    from .tracer import Tracer

# symbol: (function, special method, reflected method)
BINARY: dict[str, tuple[Any, str, str]] = {
    "+": (operator.add, "__add__", "__radd__"),
    "-": (operator.sub, "__sub__", "__rsub__"),
    "*": (operator.mul, "__mul__", "__rmul__"),
    "/": (operator.truediv, "__truediv__", "__rtruediv__"),
    "//": (operator.floordiv, "__floordiv__", "__rfloordiv__"),
    "%": (operator.mod, "__mod__", "__rmod__"),
    "**": (operator.pow, "__pow__", "__rpow__"),
    "@": (operator.matmul, "__matmul__", "__rmatmul__"),
    "&": (operator.and_, "__and__", "__rand__"),
    "|": (operator.or_, "__or__", "__ror__"),
    "^": (operator.xor, "__xor__", "__rxor__"),
    "<<": (operator.lshift, "__lshift__", "__rlshift__"),
    ">>": (operator.rshift, "__rshift__", "__rrshift__"),
}
IN_PLACE: dict[str, tuple[Any, str]] = {
    "+": (operator.iadd, "__iadd__"), "-": (operator.isub, "__isub__"), "*": (operator.imul, "__imul__"),
    "/": (operator.itruediv, "__itruediv__"), "//": (operator.ifloordiv, "__ifloordiv__"),
    "%": (operator.imod, "__imod__"), "**": (operator.ipow, "__ipow__"), "@": (operator.imatmul, "__imatmul__"),
    "&": (operator.iand, "__iand__"), "|": (operator.ior, "__ior__"), "^": (operator.ixor, "__ixor__"),
    "<<": (operator.ilshift, "__ilshift__"), ">>": (operator.irshift, "__irshift__"),
}
COMPARE: dict[str, tuple[Any, str, str]] = {
    "==": (operator.eq, "__eq__", "__eq__"), "!=": (operator.ne, "__ne__", "__ne__"),
    "<": (operator.lt, "__lt__", "__gt__"), "<=": (operator.le, "__le__", "__ge__"),
    ">": (operator.gt, "__gt__", "__lt__"), ">=": (operator.ge, "__ge__", "__le__"),
}
UNARY: dict[str, tuple[Any, str]] = {
    "-": (operator.neg, "__neg__"), "+": (operator.pos, "__pos__"), "~": (operator.invert, "__invert__"),
}
BITWISE = frozenset({"&", "|", "^", "<<", ">>"})
DUNDER_TO_COMPARE = {names[1]: symbol for symbol, names in COMPARE.items()}

_ABSENT = object()
TEXT_OR_NUMBER = (NumberValue, ConstantValue, TextValue)


def _plain(value: Value) -> bool:
    return isinstance(value, (ConstantValue, PythonObject, ClassValue))


def _has_fields(text: Any) -> bool:
    """Whether formatting with ``%`` makes another text of this one."""
    return not isinstance(text, str) or "%" in text


def binary(tx: Tracer, symbol: str, left: Value, right: Value, in_place: bool = False) -> Value:
    """``left <symbol> right``, or the augmented assignment."""
    left, right = left.realize(), right.realize()
    function, method, reflected = BINARY[symbol]
    formats = symbol == "%" and issubclass(left.python_type(), (str, bytes))
    if formats and speaks_for_itself(right):
        raise GraphBreak(f"{right.describe()} in a text, which its own methods make", "use an f-string")
    given = left, right
    left, right = _bare_operands(left, right, {method, IN_PLACE[symbol][1]}, {reflected})
    if formats and given[0] is not left and isinstance(left, ConstantValue) and not _has_fields(left.value):
        tx.fold(operator.mod, [left.value, tx.constant_of(right)], {})  # which may raise
        # Python gives it back where there is nothing to put in, whatever its class, unless nothing is in it
        return given[0] if left.value else left
    folded = IN_PLACE[symbol][0] if in_place else function  # they differ in what they say when they fail
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        try:
            return itself_or(left, itself_or(right, tx.fold(folded, [left.value, right.value], {})))
        except UserRaise:
            if (left, right) == given:
                raise
            raise GraphBreak(f"operator {symbol} is refused for objects of a subclass") from None  # which it names
    if is_number(left) and is_number(right) and symbol != "@":
        if in_place and symbol in BITWISE and float in (left.python_type(), right.python_type()):
            function = folded  # which raises
        return number_rules.apply(tx, function, [left, right])
    if formats and any(isinstance(item.realize(), TensorValue)
                       for item in (right.items if isinstance(right, TupleValue) else [right])):
        return tx.builtin_text.percent_fields(tx, tx.constant_of(left), right)
    if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
        exact = exact_binary(tx, symbol, left, right)
        if exact is not None:
            return exact
        return tx.arrays.binary(tx, symbol, left, right, in_place)
    if isinstance(left, TensorValue) or isinstance(right, TensorValue):
        other = right if isinstance(left, TensorValue) else left
        own = own_operator(tx, left, right, method, reflected, IN_PLACE[symbol][1] if in_place else None)
        if own is not None:
            return own
        if not isinstance(other, ObjectValue):
            if in_place and isinstance(left, TensorValue):
                function = IN_PLACE[symbol][0]
            return tx.call_torch(function, [left, right], {})
    if (_has_methods(left, method) or _has_methods(right, reflected)) and not (
            symbol == "%" and left.python_type() in {str, bytes}):
        augmented = IN_PLACE[symbol][1] if in_place else None
        return object_operators.binary(tx, symbol, left, right, (method, reflected), augmented)
    if isinstance(left, OpaqueValue) or isinstance(right, OpaqueValue):  # it may have methods of its own
        why = next((side.why() for side in (left, right) if isinstance(side, OpaqueValue)), "")
        raise GraphBreak(f"operator {symbol} between {left.describe()} and {right.describe()} is not captured{why}")
    if in_place:
        result = _in_place_container(tx, symbol, left, right)
        if result is not None:
            return result
    result = _container_binary(tx, symbol, left, right)
    if result is not None:
        return result
    if isinstance(left, TEXT_OR_NUMBER) and isinstance(right, TEXT_OR_NUMBER):
        if symbol == "+" and left.python_type() is str and right.python_type() is str:
            return join(tx, [left, right])
        return number_rules.fold(tx, folded, [left, right])  # beside a string, a complex number, a number of NumPy's
    if _plain(left) and _plain(right):
        return tx.fold(folded, [left.as_constant(), right.as_constant()], {})
    try:
        constants = [left.as_constant(), right.as_constant()]
    except NotConstant:
        raise GraphBreak(
            f"operator {symbol} between {left.describe()} and {right.describe()} is not captured") from None
    result = tx.fold(folded, constants, {})
    return itself_or(left, result) if isinstance(left, ConstantValue) else result


def own_operator(tx: Tracer, left: Value, right: Value, method: str, reflected: str,
                 augmented: str | None) -> Value | None:
    """What special methods of the program's classes of tensors answer; None where torch's are to be asked."""
    order = [(left, method, right), (right, reflected, left)]
    if right.python_type() is not left.python_type() and issubclass(right.python_type(), left.python_type()):
        order.reverse()
    if augmented is not None:
        order.insert(0, (left, augmented, right))
    for receiver, name, other in order:
        if isinstance(receiver, SubclassTensorValue) and receiver.defines(tx, name):
            result = tx.call(receiver.get_attr(tx, name), [other], {})
            if not not_implemented(result):
                return result
        elif isinstance(receiver, TensorValue):
            return None  # torch's own method answers first
    return None


def _bare_operands(left: Value, right: Value, asked: set[str], reflected: set[str]) -> tuple[Value, Value]:
    """The operands, as numbers and text where objects are that of a subclass without methods of its own for this."""
    if isinstance(left, TensorValue):
        reflected = set()  # it takes a subclass for what it is

    def own(value: Value, names: set[str]) -> bool:
        if not isinstance(value, ObjectValue) or not isinstance(value.storage, ConstantValue):
            return isinstance(value, ObjectValue)
        plain = value.storage.python_type()
        return any(getattr(value.cls, name, _ABSENT) is not getattr(plain, name, _ABSENT) for name in names)

    return (left, right) if own(left, asked) or own(right, reflected) else (bare_constant(left), bare_constant(right))


def _in_place_container(tx: Tracer, symbol: str, left: Value, right: Value) -> Value | None:
    if isinstance(left, ListValue) and symbol == "+":
        return left.call_method(tx, "__iadd__", [right], {})
    if isinstance(left, ListValue) and symbol == "*" and isinstance(right, (ConstantValue, NumberValue)) and \
            right.python_type() in {int, bool}:
        return left.call_method(tx, "__imul__", [right], {})
    if isinstance(left, DictValue) and symbol == "|":
        return left.call_method(tx, "__ior__", [right], {})
    if isinstance(left, SetValue) and left.cls is set and symbol in "|&-^" and isinstance(right, SetValue):
        return left.call_method(tx, IN_PLACE[symbol][1], [right], {})
    return None


def _container_binary(tx: Tracer, symbol: str, left: Value, right: Value) -> Value | None:
    if symbol == "+" and isinstance(left, SequenceValue):
        return object_operators.concatenated(tx, left, right)
    if symbol == "*":
        sequence, count = (left, right) if isinstance(left, SequenceValue) else (right, left)
        if isinstance(sequence, SequenceValue) and isinstance(count, (ConstantValue, NumberValue)):
            return object_operators.repeated(tx, sequence, count)
    if symbol in "|&-^":
        if symbol == "&" and DictViewValue in (type(left), type(right)) and all(
                isinstance(side, (DictViewValue, SetValue)) for side in (left, right)):
            return _view_intersection(tx, left, right)
        if isinstance(left, DictViewValue):
            left = left.as_set(tx)
        if isinstance(right, DictViewValue):
            right = right.as_set(tx)
            if isinstance(left, SetValue) and left.cls is frozenset:
                left = SetValue.of(tx, left, set)  # it is the view that answers
        if isinstance(left, SetValue) and isinstance(right, SetValue):
            return left.call_method(tx, BINARY[symbol][1], [right], {})
        if symbol == "|" and isinstance(left, DictValue) and isinstance(right, DictValue):
            return left.merged(tx, right)
    if symbol == "%" and isinstance(left, (ConstantValue, TextValue)) and left.python_type() in {str, bytes}:
        if not isinstance(left, ConstantValue):
            left = ConstantValue(tx.constant_of(left))
        return itself_or(left, tx.fold(operator.mod, [left.value, tx.constant_of(right)], {}))
    return None


def _view_intersection(tx: Tracer, left: Value, right: Value) -> Value:
    """``&`` with a view: of two equal elements the result has the one of the side that Python goes through."""
    view, other = (left, right) if isinstance(left, DictViewValue) else (right, left)
    lengths = [tx.constant_of(side.length(tx)) for side in (view, other)]
    if lengths[1] > lengths[0] if isinstance(other, DictViewValue) else \
            other.python_type() is set and lengths[0] <= lengths[1]:
        view, other = other, view
    asked, taken = (side.as_set(tx) if isinstance(side, DictViewValue) else side for side in (view, other))
    assert isinstance(asked, SetValue) and isinstance(taken, SetValue)
    in_order = isinstance(other, DictViewValue) or not all(item.is_constant() for item in taken.items.values())
    items = taken.items.values() if in_order else taken.ordered(tx)
    return SetValue({token: item for item in items if (token := item.key(tx)) in asked.items})


def compare(tx: Tracer, symbol: str, left: Value, right: Value) -> Value:
    """A rich comparison."""
    left, right = left.realize(), right.realize()
    function, method, reflected = COMPARE[symbol]
    given = left, right
    left, right = _bare_operands(left, right, {method}, {reflected})
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        try:
            return tx.fold(function, [left.value, right.value], {})
        except UserRaise:
            if (left, right) == given:
                raise
            raise GraphBreak(f"comparison {symbol} is refused for objects of a subclass") from None  # which it names
    if is_number(left) and is_number(right):
        return number_rules.apply(tx, function, [left, right])
    if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
        exact = exact_binary(tx, symbol, left, right)
        if exact is not None:
            return exact
        compared = tx.arrays.compare(tx, symbol, left, right)
        if compared is not None:
            return compared
        raise GraphBreak(f"comparison {symbol} between {left.describe()} and {right.describe()} is not captured")
    if _beside_number(left, right) or _beside_number(right, left):
        if symbol in ("==", "!=") and _known_unequal(left, right):
            return ConstantValue(symbol == "!=")
        return number_rules.fold(tx, function, [left, right])
    if isinstance(left, TensorValue) or isinstance(right, TensorValue):
        other = right if isinstance(left, TensorValue) else left
        own = own_operator(tx, left, right, method, reflected, None)
        if own is not None:
            return own
        if isinstance(other, (TensorValue, ConstantValue, NumberValue)):
            if isinstance(other, ConstantValue) and (other.value is None or isinstance(other.value, str)):
                if symbol in ("==", "!="):
                    return ConstantValue(symbol == "!=")
            return tx.call_torch(function, [left, right], {})
        if isinstance(other, (TupleValue, ListValue)) and symbol in ("==", "!="):
            return ConstantValue(symbol == "!=")
        if isinstance(other, ObjectValue) and hasattr(other.cls, "__torch_function__"):
            raise GraphBreak(f"comparison {symbol} of a tensor and an object with __torch_function__, which torch asks")
    if _has_methods(left, method) or _has_methods(right, reflected):
        return _object_compare(tx, symbol, left, right, method, reflected)
    result = container_compare(tx, symbol, left, right)
    if result is not None:
        return result
    if symbol in ("==", "!="):
        if isinstance(left, AddressNumber) and isinstance(right, AddressNumber):
            return ConstantValue((symbol == "==") == left.same(tx, right))
        if isinstance(left, AddressNumber) and isinstance(right, ConstantValue) and right.value == 0:
            return ConstantValue(symbol == "!=")
        if isinstance(left, IdentityNumber) and isinstance(right, IdentityNumber):
            return ConstantValue((symbol == "==") == tx.same(left.of, right.of))
        if isinstance(left, IdentityHash) and isinstance(right, IdentityHash) and tx.same(left.of, right.of):
            return ConstantValue(symbol == "==")  # those of different objects may be equal
        if left is right and not isinstance(left, (OpaqueValue, MappingProxyValue)):
            return ConstantValue(symbol == "==")
        if _plain(left) and _plain(right):
            return tx.fold(function, [left.as_constant(), right.as_constant()], {})
        if _identity_equality(left) and _identity_equality(right):
            return ConstantValue((symbol == "==") == tx.same(left, right))
        if _known_unequal(left, right):
            return ConstantValue(symbol == "!=")
        if isinstance(left, MethodValue) and isinstance(right, MethodValue):
            same = tx.same(left.receiver, right.receiver) and tx.same(left.function, right.function)
            return ConstantValue(same == (symbol == "=="))
    try:
        constants = [left.as_constant(), right.as_constant()]
    except NotConstant:
        raise GraphBreak(
            f"comparison {symbol} between {left.describe()} and {right.describe()} is not captured") from None
    return tx.fold(function, constants, {})


def _beside_number(left: Value, right: Value) -> bool:
    return isinstance(left, NumberValue) and isinstance(right, ConstantValue)


def _identity_equality(value: Value) -> bool:
    if isinstance(value, PythonObject) and isinstance(value.obj, types.BuiltinFunctionType):
        return not hasattr(value.obj.__self__, "__dict__") or isinstance(value.obj.__self__, types.ModuleType)
    return inherits_method(value.python_type(), "__eq__", object)


def _has_methods(value: Value, name: str) -> bool:
    """Whether a value is of a class of the program's, or a class whose metaclass defines the method."""
    return isinstance(value, ObjectValue) or isinstance(value, ClassValue) and \
        isinstance(find_on_class(type(value.cls), name)[0], types.FunctionType)


def _known_unequal(left: Value, right: Value) -> bool:
    """Builtin containers and constants of different kinds never compare equal."""
    def family(value: Value) -> str | None:
        if isinstance(value, NumberValue):
            return "constant:number"
        if isinstance(value, ConstantValue):
            numeric = isinstance(value.value, (int, float, complex, numpy.generic))
            return "constant:" + ("number" if numeric else type(value.value).__name__)
        for kind in (TupleValue, DictValue, SetValue):
            if isinstance(value, kind):
                return kind.__name__
        if isinstance(value, ListValue):
            return value.cls.__name__
        return "identity" if _identity_equality(value) else None

    families = (family(left), family(right))
    return None not in families and families[0] != families[1]


def _object_compare(tx: Tracer, symbol: str, left: Value, right: Value, method: str, reflected: str) -> Value:
    order: list[tuple[Value, Value, str]] = [(left, right, method), (right, left, reflected)]
    left_type, right_type = left.python_type(), right.python_type()
    if right_type is not left_type and issubclass(right_type, left_type):
        order.reverse()
    for receiver, other, name in order:
        result = _rich_comparison(tx, receiver, other, name)
        if result is not None:
            return result
    if symbol in ("==", "!="):  # no side knows the other
        return ConstantValue((symbol == "==") == tx.same(left, right))
    names = (left_type.__name__, right_type.__name__)
    raise tx.raised(TypeError(f"{symbol!r} not supported between instances of {names[0]!r} and {names[1]!r}"))


def _rich_comparison(tx: Tracer, receiver: Value, other: Value, name: str) -> Value | None:
    """What one side's method answers; None for NotImplemented."""
    raw, owner = find_on_class(receiver.python_type(), name, tx)
    if isinstance(raw, types.FunctionType):
        result = tx.call(special_method(tx, receiver, name), [other], {})
        return None if not_implemented(result) else result
    if owner is not None and written_in_python(owner):
        raise GraphBreak(f"{name} of {receiver.describe()} is not a function")
    if isinstance(receiver, ObjectValue) and isinstance(receiver.storage, ConstantValue):
        if not bare_constant(other).is_constant():
            return None
        result = receiver.call_method(tx, name, [other], {})
        return None if not_implemented(result) else result
    if isinstance(receiver, ObjectValue) and receiver.storage is not None:
        return container_compare(tx, DUNDER_TO_COMPARE[name], receiver.storage, _storage(other))
    if owner is object:
        if name == "__ne__":
            equal = _rich_comparison(tx, receiver, other, "__eq__")
            return None if equal is None else ConstantValue(not tx.truth(equal))
        return ConstantValue(True) if name == "__eq__" and tx.same(receiver, other) else None
    if isinstance(receiver, ObjectValue):
        if isinstance(raw, types.WrapperDescriptorType) and raw in REGISTRY:
            result = tx.call(special_method(tx, receiver, name), [other], {})
            return None if not_implemented(result) else result
        raise GraphBreak(f"{name} of {receiver.describe()} is implemented in C")
    if isinstance(receiver, (SequenceValue, DictValue, SetValue, DictViewValue)):
        return container_compare(tx, DUNDER_TO_COMPARE[name], receiver, _storage(other))
    if isinstance(receiver, (ConstantValue, NumberValue, TextValue)) and bare_constant(other) is not other:
        # a number or text of another class is one all the same
        known = getattr(receiver.python_type()(), name)(bare_constant(other).as_constant()) is not NotImplemented
        return compare(tx, DUNDER_TO_COMPARE[name], receiver, bare_constant(other)) if known else None
    if isinstance(receiver, (NumberValue, TensorValue, ClassValue, TextValue)) or isinstance(receiver, ConstantValue) \
            and type(receiver.value).__module__ in ("builtins", "torch"):
        return None  # they do not know objects of the program's
    raise GraphBreak(f"comparison between {receiver.describe()} and {other.describe()} is not captured")


def _storage(value: Value) -> Value:
    return value.storage if isinstance(value, ObjectValue) and value.storage is not None else value


def native_comparison(tx: Tracer, name: str, receiver: Value, other: Value) -> Value:
    """``list.__eq__(receiver, other)`` and the like, which look past methods of a subclass."""
    result = container_compare(tx, DUNDER_TO_COMPARE[name], receiver, _storage(other.realize()))
    return ConstantValue(NotImplemented) if result is None else result


def comparison_of_objects(tx: Tracer, name: str, receiver: Value, other: Value) -> Value:
    """``object.__eq__(receiver, other)`` and the like, which know nothing but which object is which."""
    if name == "__eq__":
        return ConstantValue(True if tx.same(receiver, other) else NotImplemented)
    if name != "__ne__":
        return ConstantValue(NotImplemented)
    if isinstance(receiver, TensorValue):
        raise GraphBreak("object.__ne__ of a tensor")  # it asks the tensor's own __eq__ for a truth
    equal = receiver.call_method(tx, "__eq__", [other], {}) if isinstance(receiver, SetValue) else \
        _rich_comparison(tx, receiver, other, "__eq__")  # of a set and a view, the view knows
    return ConstantValue(NotImplemented if equal is None or not_implemented(equal) else not tx.truth(equal))


def container_compare(tx: Tracer, symbol: str, left: Value, right: Value) -> Value | None:
    if isinstance(left, DictViewValue) or isinstance(right, DictViewValue):
        if not all(isinstance(v, SetValue) or isinstance(v, DictViewValue) and v.kind != "values"
                   for v in (left, right)):
            return None
        return _view_compare(tx, symbol, left, right)
    if isinstance(left, SetValue) and isinstance(right, SetValue):
        return ConstantValue(COMPARE[symbol][0](set(left.items), set(right.items)))
    if isinstance(left, SequenceValue) and isinstance(right, SequenceValue) and left.builtin is right.builtin:
        ours, theirs = left.elements(tx), right.elements(tx)
        if symbol in ("==", "!=") and len(ours) != len(theirs) and left.builtin is not tuple:
            return ConstantValue(symbol == "!=")
        for a, b in zip(ours, theirs, strict=False):
            if not same_or_equal(tx, a, b):
                return ConstantValue(symbol == "!=") if symbol in ("==", "!=") else compare(tx, symbol, a, b)
        return ConstantValue(COMPARE[symbol][0](len(ours), len(theirs)))
    if isinstance(left, DictValue) and isinstance(right, DictValue) and symbol in ("==", "!="):
        ours_d, theirs_d = left.fill(tx), right.fill(tx)
        equal = len(ours_d) == len(theirs_d) and all(
            token in theirs_d and same_or_equal(tx, pair[1], theirs_d[token][1])
            for token, pair in ours_d.items())
        if equal and left.cls is collections.OrderedDict and right.cls is collections.OrderedDict:
            equal = list(ours_d) == list(theirs_d)
        return ConstantValue(equal == (symbol == "=="))
    return None


def _view_compare(tx: Tracer, symbol: str, left: Value, right: Value) -> Value:
    """Comparison of keys or items with another such view or a set: by membership, so that values need no hash."""
    lengths = [tx.constant_of(side.length(tx)) for side in (left, right)]
    if symbol in ("==", "!="):
        holds = lengths[0] == lengths[1]
    else:
        holds = bool(COMPARE[symbol][0](*lengths))
    smaller, larger = (right, left) if symbol in (">", ">=") else (left, right)
    holds = holds and all(tx.truth(contains(tx, larger, item)) for item in tx.iterate_lazily(smaller))
    return ConstantValue(holds != (symbol == "!="))


def unary(tx: Tracer, symbol: str, operand: Value) -> Value:
    """``-x``, ``+x`` or ``~x``."""
    operand = operand.realize()
    function, method = UNARY[symbol]
    if isinstance(operand, SubclassTensorValue) and operand.defines(tx, method):
        return tx.call(operand.get_attr(tx, method), [], {})
    if isinstance(operand, ArrayValue):
        return tx.arrays.unary(tx, symbol, operand)
    if isinstance(operand, TensorValue):
        return tx.call_torch(function, [operand], {})
    if isinstance(operand, NumberValue):
        return number_rules.invert(tx, operand) if symbol == "~" else number_rules.apply(tx, function, [operand])
    if isinstance(operand, ObjectValue):
        bound = special_method(tx, operand, method)
        if bound is not None:
            return tx.call(bound, [], {})
        if (missing := missing_method(tx, operand.cls, method)) is not None:
            raise missing
    return tx.fold(function, [tx.constant_of(operand)], {})


def same_object(tx: Tracer, left: Value, right: Value) -> bool:
    """``left is right``."""
    left, right = left.realize(), right.realize()
    if left is right:
        return True
    if isinstance(left, NumberValue) or isinstance(right, NumberValue):
        return _same_number(tx, left, right)
    if _plain(left) and _plain(right):
        return _same_constant_object(tx, left, right)
    if isinstance(left, WeakReference) and isinstance(right, WeakReference):
        raise GraphBreak("the identity of weak references, of which there is mostly one to an object")
    if getattr(left, "real", None) is not None and getattr(left, "real", None) is getattr(right, "real", None):
        return True
    if any(_stands_for_several(known.made, left, right) for known in tx.branches.copies):
        raise GraphBreak("whether a tensor is the one that data has chosen")
    if left.source is not None and right.source is not None and left.python_type() is right.python_type():
        tx.guard(left.source, "distinct objects", "{0} is not {1}", (), (right.source,))
    return False


def _stands_for_several(made: Any, left: Value, right: Value) -> bool:
    """Whether one of two tensors stands for the one that data chooses, which may be the other."""
    if not isinstance(left, TensorValue) or not isinstance(right, TensorValue):
        return False
    return (left.fake is made or right.fake is made) and left.python_type() is right.python_type()


def _same_number(tx: Tracer, left: Value, right: Value) -> bool:
    if not (is_number(left) and is_number(right)) or left.python_type() is not right.python_type():
        return False
    if not tx.truth(compare(tx, "==", left, right)):
        return False
    kind = left.python_type()
    small = kind is int and all(tx.truth(compare(tx, symbol, left, ConstantValue(bound)))
                                for symbol, bound in ((">=", -5), ("<=", 256)))
    if kind is bool or small:  # these exist once
        return True
    return tx.constant_of(left) is tx.constant_of(right)


def same_or_equal(tx: Tracer, left: Value, right: Value) -> bool:
    """How containers compare their items."""
    left, right = left.realize(), right.realize()
    if isinstance(left, NumberValue) or isinstance(right, NumberValue):
        # identity would only matter for NaN
        return left is right or tx.truth(compare(tx, "==", left, right))
    return same_object(tx, left, right) or tx.truth(compare(tx, "==", left, right))


def _same_constant_object(tx: Tracer, left: Value, right: Value) -> bool:
    one, two = left.as_constant(), right.as_constant()
    answer = one is two
    if type(one) is type(two) and not isinstance(one, (bool, type(None), type)) and (
            one == two or isinstance(one, float) and one != one):
        # guards on constants check equality, which says nothing about identity
        word = "is" if answer else "is not"
        if left.source is not None and right.source is not None:
            tx.guard(left.source, "identity", f"{{0}} {word} {{1}}", (), (right.source,))
        elif left.source is not None or right.source is not None:
            other = two if left.source is not None else one
            tx.guard(left.source or right.source, "identity", f"{{0}} {word} {{k[0]}}", (other,))
    return answer


def contains(tx: Tracer, container: Value, item: Value) -> Value:
    """``item in container``."""
    container = container.realize()
    if isinstance(item, HookNumber) and isinstance(container, DictValue):
        return tx.constant(container.contains(tx, item))
    item = item.realize()
    if isinstance(item, NumberValue):
        contained = _contains_number(tx, container, item)
        if contained is not None:
            return contained
    if isinstance(container, ConstantValue):
        if isinstance(item, TensorValue):
            raise GraphBreak("membership test of a tensor in a constant")
        return tx.fold(operator.contains, [container.value, tx.constant_of(item)], {})
    if isinstance(container, ClassValue):
        in_class = container.metaclass_method(tx, "__contains__")
        if in_class is not None and type(container.cls).__module__ != "enum":
            return tx.constant(tx.truth(tx.call(in_class, [item], {})))
        return tx.fold(operator.contains, [container.cls, tx.constant_of(item)], {})
    if isinstance(container, ObjectValue):
        method = special_method(tx, container, "__contains__")
        if method is not None:
            return tx.constant(tx.truth(tx.call(method, [item], {})))
    elif container.native_methods:
        if find_on_class(container.python_type(), "__contains__")[1] is not None:
            return container.call_method(tx, "__contains__", [item], {})
    try:
        iterator = tx.iterate(container) if can_iterate(container) else None
    except UserRaise as raised:
        if not issubclass(raised.value.python_type(), TypeError):
            raise
        iterator = None
    if iterator is None:
        missing = None if can_iterate(container) else missing_method(tx, container.python_type(), "__contains__")
        raise missing or GraphBreak(f"membership test in {container.describe()}")  # in other words than iter()
    while (candidate := tx.next_item(iterator)) is not None:
        if same_or_equal(tx, candidate, item):
            return tx.constant(True)
    return tx.constant(False)


# A number is compared with the elements of sets up to this size; in larger ones it is looked up as a constant.
_FEW = 16


def _contains_number(tx: Tracer, container: Value, number: NumberValue) -> Value | None:
    """Membership of a number of the graph by comparisons, where that says less about it than its value does."""
    if isinstance(container, ConstantValue) and type(container.value) is range and number.python_type() is not float:
        numbers = container.value
        return RangeValue(tx, ConstantValue(numbers.start), ConstantValue(numbers.stop), numbers.step).contains(
            tx, number)
    if isinstance(container, SetValue) and len(container.items) <= _FEW and \
            all(isinstance(element.realize(), ConstantValue) for element in container.items.values()):
        return ConstantValue(any(same_or_equal(tx, element, number) for element in container.items.values()))
    return None
