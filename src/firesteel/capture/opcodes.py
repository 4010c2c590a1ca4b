"""One function per normalised opcode (see `bytecode.instructions` for their meaning).

A handler returns None to go on, or the Value with which the frame returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .bytecode.instructions import Instruction
from .frame import Frame, HandledMark, cells_of_made_function, handled_exception
from .objects import find_on_class, special_method
from .operators import contains, same_object, unary
from .signals import GraphBreak, UserRaise
from .values.base import Value
from .values.constants import NULL, ConstantValue, NullValue, OpaqueValue, SliceValue
from .values.exceptions import traceback_of
from .values.functions import CellValue, FunctionValue, MethodValue, SuperValue
from .values.iterators import GeneratorValue, IteratorValue, OpaqueIterator
from .values.mappings import DictValue, SetValue
from .values.objects import ClassValue, ExceptionValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

Handler = Callable[[Frame, Instruction], Value | None]
HANDLERS: dict[str, Handler] = {}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Register the handler of one or more opcodes."""
    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


# Constants, names, variables


@opcode("LOAD_CONST")
def load_const(frame: Frame, inst: Instruction) -> None:
    value = inst.argval
    frame.push(frame.tx.python_object(value) if isinstance(value, (tuple, frozenset)) else ConstantValue(value))


@opcode("PUSH_NULL")
def push_null(frame: Frame, inst: Instruction) -> None:
    frame.push(NULL)


@opcode("POP_TOP")
def pop_top(frame: Frame, inst: Instruction) -> None:
    frame.stack.pop()


@opcode("COPY")
def copy(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.stack[-inst.argval])  # type: ignore[operator]


@opcode("SWAP")
def swap(frame: Frame, inst: Instruction) -> None:
    stack, n = frame.stack, inst.argval
    stack[-1], stack[-n] = stack[-n], stack[-1]  # type: ignore[operator]


@opcode("LOAD_FAST", "LOAD_FAST_CHECK")
def load_fast(frame: Frame, inst: Instruction) -> None:
    try:
        frame.stack.append(frame.locals[inst.argval])  # type: ignore[index]
    except KeyError:
        raise frame.tx.raised(UnboundLocalError(
            f"cannot access local variable {inst.argval!r} where it is not associated with a value")) from None


@opcode("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(frame: Frame, inst: Instruction) -> None:
    name = str(inst.argval)
    if name in frame.cells:
        frame.push(frame.cells.pop(name))
    else:
        frame.push(frame.locals.pop(name, NULL))


@opcode("STORE_FAST")
def store_fast(frame: Frame, inst: Instruction) -> None:
    value = frame.stack.pop()
    name: Any = inst.argval
    if value is NULL:
        frame.locals.pop(name, None)
        frame.cells.pop(name, None)
    elif isinstance(value, CellValue) and name in frame.code.co_cellvars:
        frame.cells[name] = value
    else:
        frame.locals[name] = value


@opcode("DELETE_FAST")
def delete_fast(frame: Frame, inst: Instruction) -> None:
    if frame.locals.pop(inst.argval, None) is None:  # type: ignore[arg-type]
        raise frame.tx.raised(UnboundLocalError(
            f"cannot access local variable {inst.argval!r} where it is not associated with a value"))


@opcode("LOAD_GLOBAL")
def load_global(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.load_global(inst.argval))  # type: ignore[arg-type]


@opcode("STORE_GLOBAL")
def store_global(frame: Frame, inst: Instruction) -> None:
    frame.tx.globals_of(frame.globals).set_item(frame.tx, ConstantValue(inst.argval), frame.pop())


@opcode("DELETE_GLOBAL")
def delete_global(frame: Frame, inst: Instruction) -> None:
    table = frame.tx.globals_of(frame.globals)
    if table.lookup(frame.tx, ConstantValue(inst.argval)) is None:
        raise frame.tx.raised(NameError(f"name {inst.argval!r} is not defined", name=str(inst.argval)))
    raise GraphBreak("deleting a global variable")


@opcode("MAKE_CELL")
def make_cell(frame: Frame, inst: Instruction) -> None:
    name = str(inst.argval)
    cell = CellValue()
    cell.content = frame.locals.pop(name, None)
    frame.cells[name] = cell


@opcode("COPY_FREE_VARS", "RETURN_GENERATOR_MARK")
def nothing(frame: Frame, inst: Instruction) -> None:
    pass


@opcode("RETURN_GENERATOR")
def return_generator(frame: Frame, inst: Instruction) -> None:
    frame.push(ConstantValue(None))


@opcode("LOAD_CLOSURE")
def load_closure(frame: Frame, inst: Instruction) -> None:
    name = str(inst.argval)
    frame.push(frame.cells[name] if name in frame.cells else frame.locals[name])


@opcode("LOAD_DEREF")
def load_deref(frame: Frame, inst: Instruction) -> None:
    value = frame.cells[str(inst.argval)].load(frame.tx)
    if value is None:
        raise _unbound_cell(frame, str(inst.argval))
    frame.push(value)


def _unbound_cell(frame: Frame, name: str) -> UserRaise:
    if name in frame.code.co_cellvars:
        return frame.tx.raised(UnboundLocalError(
            f"cannot access local variable {name!r} where it is not associated with a value"))
    return frame.tx.raised(NameError(
        f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope"))


@opcode("STORE_DEREF")
def store_deref(frame: Frame, inst: Instruction) -> None:
    frame.cells[str(inst.argval)].store(frame.tx, frame.pop())


@opcode("DELETE_DEREF")
def delete_deref(frame: Frame, inst: Instruction) -> None:
    cell = frame.cells[str(inst.argval)]
    if cell.load(frame.tx) is None:
        raise _unbound_cell(frame, str(inst.argval))
    cell.store(frame.tx, None)


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.tx.python_object(AssertionError))


@opcode("LOAD_BUILD_CLASS")
def load_build_class(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.tx.python_object(__build_class__))


@opcode("CALL_INTRINSIC_1", "CALL_INTRINSIC_2", "PRINT_EXPR", "IMPORT_STAR", "MATCH_CLASS_EX",
        "BEFORE_ASYNC_WITH", "GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "ASYNC_GEN_WRAP",
        "CHECK_EG_MATCH", "PREP_RERAISE_STAR")
def not_captured(frame: Frame, inst: Instruction) -> None:
    raise GraphBreak(f"{inst.op.lower().replace('_', ' ')} is not captured")


# Operators


@opcode("UNARY_NEGATIVE")
def unary_negative(frame: Frame, inst: Instruction) -> None:
    frame.push(unary(frame.tx, "-", frame.pop()))


@opcode("UNARY_POSITIVE")
def unary_positive(frame: Frame, inst: Instruction) -> None:
    frame.push(unary(frame.tx, "+", frame.pop()))


@opcode("UNARY_INVERT")
def unary_invert(frame: Frame, inst: Instruction) -> None:
    frame.push(unary(frame.tx, "~", frame.pop()))


@opcode("UNARY_NOT")
def unary_not(frame: Frame, inst: Instruction) -> None:
    frame.push(ConstantValue(not frame.tx.truth(frame.pop())))


@opcode("BINARY_OP")
def binary_op(frame: Frame, inst: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    symbol = str(inst.argval)
    if symbol.endswith("="):
        frame.push(frame.tx.binary(symbol[:-1], left, right, in_place=True))
    else:
        frame.push(frame.tx.binary(symbol, left, right))


@opcode("COMPARE_OP")
def compare_op(frame: Frame, inst: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(frame.tx.compare(str(inst.argval), left, right))


@opcode("IS_OP")
def is_op(frame: Frame, inst: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(ConstantValue(same_object(frame.tx, left, right) != bool(inst.argval)))


@opcode("CONTAINS_OP")
def contains_op(frame: Frame, inst: Instruction) -> None:
    container, item = frame.pop(), frame.pop()
    found = contains(frame.tx, container, item)
    frame.push(ConstantValue(frame.tx.truth(found) != bool(inst.argval)))


@opcode("BINARY_SUBSCR")
def binary_subscr(frame: Frame, inst: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    frame.push(frame.tx.get_item(container, key))


@opcode("STORE_SUBSCR")
def store_subscr(frame: Frame, inst: Instruction) -> None:
    key, container, value = frame.pop(), frame.pop(), frame.pop()
    container.realize().set_item(frame.tx, key, value)


@opcode("DELETE_SUBSCR")
def delete_subscr(frame: Frame, inst: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    container.realize().del_item(frame.tx, key)


@opcode("BINARY_SLICE")
def binary_slice(frame: Frame, inst: Instruction) -> None:
    stop, start, container = frame.pop(), frame.pop(), frame.pop()
    frame.push(frame.tx.get_item(container, SliceValue(start, stop, ConstantValue(None))))


@opcode("STORE_SLICE")
def store_slice(frame: Frame, inst: Instruction) -> None:
    stop, start, container, value = frame.pop(), frame.pop(), frame.pop(), frame.pop()
    container.realize().set_item(frame.tx, SliceValue(start, stop, ConstantValue(None)), value)


@opcode("LOAD_ATTR")
def load_attr(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.tx.get_attr(frame.pop(), str(inst.argval)))


@opcode("LOAD_METHOD")
def load_method(frame: Frame, inst: Instruction) -> None:
    method = frame.tx.get_attr(frame.pop(), str(inst.argval))
    if isinstance(method, MethodValue) and method.source is None:
        frame.push(method.function)
        frame.push(method.receiver)
    else:
        frame.push(NULL)
        frame.push(method)


@opcode("LOAD_SUPER_ATTR")
def load_super_attr(frame: Frame, inst: Instruction) -> None:
    name, is_method, two_arg = inst.argval  # type: ignore[misc]
    receiver, cls, function = frame.pop(), frame.pop().realize(), frame.pop().realize()
    if isinstance(function, ClassValue) and function.cls is super and isinstance(cls, ClassValue):
        found = SuperValue(cls.cls, receiver).get_attr(frame.tx, name)
    else:
        raise GraphBreak("super is not the builtin")
    if is_method:
        frame.push(NULL)
    frame.push(found)


@opcode("STORE_ATTR")
def store_attr(frame: Frame, inst: Instruction) -> None:
    obj, value = frame.pop(), frame.pop()
    obj.realize().set_attr(frame.tx, str(inst.argval), value)


@opcode("DELETE_ATTR")
def delete_attr(frame: Frame, inst: Instruction) -> None:
    frame.pop().realize().del_attr(frame.tx, str(inst.argval))


# Calls and functions


@opcode("CALL")
def call(frame: Frame, inst: Instruction) -> None:
    count, names = inst.argval  # type: ignore[misc]
    args = frame.popn(count)
    second, first = frame.pop(), frame.pop()
    kwargs: dict[str, Value] = {}
    if names:
        kwargs = dict(zip(names, args[-len(names):], strict=True))
        args = args[: -len(names)]
    if isinstance(first, NullValue):
        frame.push(frame.tx.call(second, args, kwargs))
    else:
        frame.push(frame.tx.call(first, [second, *args], kwargs))


@opcode("CALL_FUNCTION_EX")
def call_function_ex(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    kwargs: dict[str, Value] = {}
    if inst.argval:
        mapping = frame.pop().realize()
        args_value, function = frame.pop(), frame.pop()
        for key, value in DictValue({}).pairs(tx, mapping):
            kwargs[tx.constant_of(key)] = value
    else:
        args_value, function = frame.pop(), frame.pop()
    frame.pop()  # NULL
    frame.push(tx.call(function, tx.to_list(args_value), kwargs))


@opcode("MAKE_FUNCTION")
def make_function(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    flags: Any = inst.argval
    code = frame.pop().as_constant()
    closure = cells_of_made_function(tx.to_list(frame.pop())) if flags & 8 else []
    annotations = frame.pop() if flags & 4 else None
    kwdefaults = {tx.constant_of(k): v for k, v in DictValue({}).pairs(tx, frame.pop())} if flags & 2 else {}
    defaults = tx.to_list(frame.pop()) if flags & 1 else []
    function = FunctionValue(code, frame.globals, code.co_name, defaults, kwdefaults, closure)
    if annotations is not None:
        known = annotations.realize()
        if isinstance(known, TupleValue):
            names = known.items
            function.attrs["__annotations__"] = DictValue(
                {k.as_constant(): (k, v) for k, v in zip(names[::2], names[1::2], strict=True)})
        else:
            function.attrs["__annotations__"] = known
    frame.push(function)


# Building


@opcode("BUILD_TUPLE")
def build_tuple(frame: Frame, inst: Instruction) -> None:
    frame.push(TupleValue(frame.popn(inst.argval)))  # type: ignore[arg-type]


@opcode("BUILD_LIST")
def build_list(frame: Frame, inst: Instruction) -> None:
    frame.push(ListValue(frame.popn(inst.argval)))  # type: ignore[arg-type]


@opcode("BUILD_SET")
def build_set(frame: Frame, inst: Instruction) -> None:
    made = SetValue({})
    for item in frame.popn(inst.argval):  # type: ignore[arg-type]
        made.items.setdefault(item.key(frame.tx), item.realize())
    frame.push(made)


@opcode("BUILD_MAP")
def build_map(frame: Frame, inst: Instruction) -> None:
    parts = frame.popn(2 * inst.argval)  # type: ignore[operator]
    made = DictValue({})
    for key, value in zip(parts[::2], parts[1::2], strict=True):
        made.set_item(frame.tx, key, value)
    frame.push(made)


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(frame: Frame, inst: Instruction) -> None:
    keys = frame.tx.to_list(frame.pop())
    made = DictValue({})
    for key, value in zip(keys, frame.popn(inst.argval), strict=True):  # type: ignore[arg-type]
        made.set_item(frame.tx, key, value)
    frame.push(made)


@opcode("BUILD_STRING")
def build_string(frame: Frame, inst: Instruction) -> None:
    frame.push(ConstantValue("".join(part.as_constant() for part in frame.popn(inst.argval))))  # type: ignore[arg-type]


@opcode("BUILD_SLICE")
def build_slice(frame: Frame, inst: Instruction) -> None:
    parts = frame.popn(inst.argval)  # type: ignore[arg-type]
    frame.push(SliceValue(parts[0], parts[1], parts[2] if len(parts) == 3 else ConstantValue(None)))


@opcode("FORMAT_VALUE")
def format_value(frame: Frame, inst: Instruction) -> None:
    from .builtin_calls import format_text

    conversion, has_spec = inst.argval  # type: ignore[misc]
    spec = frame.pop().as_constant() if has_spec else ""
    frame.push(format_text(frame.tx, frame.pop(), conversion, spec))


@opcode("LIST_APPEND")
def list_append(frame: Frame, inst: Instruction) -> None:
    value = frame.pop()
    frame.stack[-inst.argval].realize().append(frame.tx, value)  # type: ignore[operator, attr-defined]


@opcode("SET_ADD")
def set_add(frame: Frame, inst: Instruction) -> None:
    value = frame.pop()
    frame.stack[-inst.argval].realize().call_method(frame.tx, "add", [value], {})  # type: ignore[operator]


@opcode("MAP_ADD")
def map_add(frame: Frame, inst: Instruction) -> None:
    value, key = frame.pop(), frame.pop()
    frame.stack[-inst.argval].realize().set_item(frame.tx, key, value)  # type: ignore[operator]


@opcode("LIST_EXTEND")
def list_extend(frame: Frame, inst: Instruction) -> None:
    items = frame.pop()
    frame.stack[-inst.argval].realize().call_method(frame.tx, "extend", [items], {})  # type: ignore[operator]


@opcode("SET_UPDATE", "DICT_UPDATE")
def update_container(frame: Frame, inst: Instruction) -> None:
    items = frame.pop()
    frame.stack[-inst.argval].realize().call_method(frame.tx, "update", [items], {})  # type: ignore[operator]


@opcode("DICT_MERGE")
def dict_merge(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    mapping = frame.pop()
    target = frame.stack[-inst.argval].realize()  # type: ignore[operator]
    assert isinstance(target, DictValue)
    for key, value in target.pairs(tx, mapping):
        if target.lookup(tx, key.realize()) is not None:
            raise GraphBreak(f"keyword argument {key.as_constant()!r} given twice")
        target.set_item(tx, key, value)


@opcode("LIST_TO_TUPLE")
def list_to_tuple(frame: Frame, inst: Instruction) -> None:
    frame.push(TupleValue(frame.tx.to_list(frame.pop())))


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(frame: Frame, inst: Instruction) -> None:
    tx, count = frame.tx, inst.argval
    sequence = frame.pop().realize()
    items = _unpack(frame, sequence, count)  # type: ignore[arg-type]
    if len(items) != count:
        raise tx.raised(ValueError(
            f"not enough values to unpack (expected {count}, got {len(items)})" if len(items) < count  # type: ignore[operator]
            else f"too many values to unpack (expected {count})"))
    frame.stack.extend(reversed(items))


def _unpack(frame: Frame, sequence: Value, count: int) -> list[Value]:
    tx = frame.tx
    if isinstance(sequence, TensorValue):
        return tx.to_list(sequence)
    if isinstance(sequence, ConstantValue) and not isinstance(sequence.value, (str, bytes, range)):
        raise tx.raised(TypeError(f"cannot unpack non-iterable {type(sequence.value).__name__} object"))
    iterator = tx.iterate(sequence)
    items = []
    while len(items) <= count:
        item = tx.next_item(iterator)
        if item is None:
            break
        items.append(item)
    return items


@opcode("UNPACK_EX")
def unpack_ex(frame: Frame, inst: Instruction) -> None:
    before, after = inst.argval  # type: ignore[misc]
    items = frame.tx.to_list(frame.pop())
    if len(items) < before + after:
        raise frame.tx.raised(ValueError(
            f"not enough values to unpack (expected at least {before + after}, got {len(items)})"))
    rest = items[before: len(items) - after]
    parts = [*items[:before], ListValue(rest), *items[len(items) - after:]]
    frame.stack.extend(reversed(parts))


@opcode("GET_LEN")
def get_len(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.stack[-1].realize().length(frame.tx))


@opcode("MATCH_SEQUENCE")
def match_sequence(frame: Frame, inst: Instruction) -> None:
    kind = frame.stack[-1].realize().python_type()
    frame.push(ConstantValue(bool(kind.__flags__ & (1 << 5))))  # Py_TPFLAGS_SEQUENCE


@opcode("MATCH_MAPPING")
def match_mapping(frame: Frame, inst: Instruction) -> None:
    kind = frame.stack[-1].realize().python_type()
    frame.push(ConstantValue(bool(kind.__flags__ & (1 << 6))))  # Py_TPFLAGS_MAPPING


@opcode("MATCH_KEYS")
def match_keys(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    subject, keys = frame.stack[-2].realize(), tx.to_list(frame.stack[-1])
    values = []
    for key in keys:
        if not isinstance(subject, DictValue):
            raise GraphBreak("a mapping pattern on an object that is not a dict")
        value = subject.lookup(tx, key.realize())
        if value is None:
            frame.push(ConstantValue(None))
            return
        values.append(value)
    frame.push(TupleValue(values))


@opcode("MATCH_CLASS")
def match_class(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    names = [n.as_constant() for n in tx.to_list(frame.pop())]
    cls, subject = frame.pop().realize(), frame.pop().realize()
    if not isinstance(cls, ClassValue):
        raise tx.raised(TypeError("called match pattern must be a class"))
    if not issubclass(subject.python_type(), cls.cls):
        frame.push(ConstantValue(None))
        return
    count: Any = inst.argval
    values: list[Value] = []
    if count:
        match_args = getattr(cls.cls, "__match_args__", None)
        if match_args is None:
            if cls.cls not in (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple) or count != 1:
                raise GraphBreak(f"{cls.describe()} has no __match_args__")
            values.append(subject)
        else:
            if count > len(match_args):
                raise tx.raised(TypeError(f"{cls.cls.__name__}() accepts {len(match_args)} positional sub-patterns ({count} given)"))
            names = [*match_args[:count], *names]
    for name in names:
        if not tx.has_attr(subject, name):
            frame.push(ConstantValue(None))
            return
        values.append(tx.get_attr(subject, name))
    frame.push(TupleValue(values))


@opcode("IMPORT_NAME")
def import_name(frame: Frame, inst: Instruction) -> None:
    import sys

    tx = frame.tx
    names, level = tx.constant_of(frame.pop()), tx.constant_of(frame.pop())
    name = str(inst.argval)
    if level == 0 and name in sys.modules:
        top = sys.modules[name] if names else sys.modules.get(name.partition(".")[0])
        if top is not None and all(hasattr(top, n) for n in names or ()):
            frame.push(tx.python_object(top))
            return
    elif level > 0:
        package = frame.globals.get("__package__") or ""
        parts = package.rsplit(".", level - 1)
        absolute = parts[0] + ("." + name if name else "")
        if absolute in sys.modules and names and all(hasattr(sys.modules[absolute], n) for n in names):
            frame.push(tx.python_object(sys.modules[absolute]))
            return
    raise GraphBreak(f"importing {name!r}, which is not imported yet", "import it at the top of the module")


@opcode("IMPORT_FROM")
def import_from(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.tx.get_attr(frame.stack[-1], str(inst.argval)))


# Control flow


@opcode("JUMP")
def jump(frame: Frame, inst: Instruction) -> None:
    frame.index = inst.argval  # type: ignore[assignment]


@opcode("POP_JUMP_IF_TRUE")
def pop_jump_if_true(frame: Frame, inst: Instruction) -> None:
    if frame.tx.truth(frame.pop()):
        frame.index = inst.argval  # type: ignore[assignment]


@opcode("POP_JUMP_IF_FALSE")
def pop_jump_if_false(frame: Frame, inst: Instruction) -> None:
    if not frame.tx.truth(frame.pop()):
        frame.index = inst.argval  # type: ignore[assignment]


def _is_none(value: Value) -> bool:
    value = value.realize()
    return isinstance(value, ConstantValue) and value.value is None


@opcode("POP_JUMP_IF_NONE")
def pop_jump_if_none(frame: Frame, inst: Instruction) -> None:
    if _is_none(frame.pop()):
        frame.index = inst.argval  # type: ignore[assignment]


@opcode("POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(frame: Frame, inst: Instruction) -> None:
    if not _is_none(frame.pop()):
        frame.index = inst.argval  # type: ignore[assignment]


@opcode("GET_ITER")
def get_iter(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.tx.iterate(frame.pop()))


@opcode("FOR_ITER")
def for_iter(frame: Frame, inst: Instruction) -> None:
    item = frame.tx.next_item(frame.stack[-1])
    if item is None:
        frame.pop()
        frame.index = inst.argval  # type: ignore[assignment]
    else:
        frame.push(item)


@opcode("RETURN_VALUE")
def return_value(frame: Frame, inst: Instruction) -> Value:
    return frame.pop()


# Exceptions and with


@opcode("PUSH_EXC_INFO")
def push_exc_info(frame: Frame, inst: Instruction) -> None:
    raised = frame.pop().realize()
    frame.push(HandledMark(raised, frame.handled))
    frame.push(raised)
    frame.handled = raised


@opcode("POP_EXCEPT")
def pop_except(frame: Frame, inst: Instruction) -> None:
    mark = frame.pop()
    assert isinstance(mark, HandledMark)
    frame.handled = mark.previous


@opcode("CHECK_EXC_MATCH")
def check_exc_match(frame: Frame, inst: Instruction) -> None:
    wanted = frame.pop().realize()
    kinds = [item.realize() for item in wanted.items] if isinstance(wanted, TupleValue) else [wanted]
    if not all(isinstance(kind, ClassValue) and issubclass(kind.cls, BaseException) for kind in kinds):
        raise frame.tx.raised(TypeError("catching classes that do not inherit from BaseException is not allowed"))
    raised = frame.stack[-1].realize().python_type()
    frame.push(ConstantValue(any(issubclass(raised, kind.cls) for kind in kinds)))  # type: ignore[attr-defined]


@opcode("RAISE_VARARGS")
def raise_varargs(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    if inst.argval == 0:
        handled = handled_exception(tx)
        if handled is None:
            raise tx.raised(RuntimeError("No active exception to reraise"))
        raise UserRaise(handled)
    cause = frame.pop().realize() if inst.argval == 2 else None
    value = tx.as_exception(frame.pop())
    if value.source is not None and any(active.current.handler is not None for active in tx.frames):
        # its context and traceback change: only raising it for real does that
        raise GraphBreak("raising an exception that was made outside")
    if cause is not None:
        if not isinstance(value, ExceptionValue) or value.source is not None:
            raise GraphBreak("'raise ... from' with an exception from outside")
        value.cause = None if _is_none(cause) else _as_cause(frame, cause)
        value.suppress = True
        if value.cause is None:
            value.cause = ConstantValue(None)
    raise UserRaise(value)


def _as_cause(frame: Frame, cause: Value) -> Value:
    kind = cause.as_constant() if isinstance(cause, ClassValue) else cause.python_type()
    if not issubclass(kind, BaseException):
        raise frame.tx.raised(TypeError("exception causes must derive from BaseException"))
    return frame.tx.as_exception(cause)


@opcode("RERAISE")
def reraise(frame: Frame, inst: Instruction) -> None:
    raise UserRaise(frame.pop().realize())


@opcode("BEFORE_WITH")
def before_with(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    manager = frame.pop().realize()
    from .context_managers import enter_known

    pair = enter_known(tx, manager)
    if pair is not None:
        frame.stack.extend(pair)
        return
    if isinstance(manager, OpaqueValue):
        raise GraphBreak(f"with statement over {manager.describe()}")
    kind = manager.python_type()
    if find_on_class(kind, "__enter__")[1] is None or find_on_class(kind, "__exit__")[1] is None:
        raise GraphBreak(f"{manager.describe()} is not a context manager")
    enter, leave = special_method(tx, manager, "__enter__"), special_method(tx, manager, "__exit__")
    assert enter is not None and leave is not None
    frame.push(leave)
    frame.push(tx.call(enter, [], {}))


@opcode("WITH_EXCEPT_START")
def with_except_start(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    raised, leave = frame.stack[-1].realize(), frame.stack[-4]
    kind = tx.python_object(raised.python_type())
    frame.push(tx.call(leave, [kind, raised, traceback_of(raised)], {}))


# Generators


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(frame: Frame, inst: Instruction) -> None:
    value = frame.pop().realize()
    frame.push(value if isinstance(value, (GeneratorValue, IteratorValue)) else frame.tx.iterate(value))


@opcode("SEND")
def send(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    value = frame.pop()
    receiver = frame.stack[-1].realize()
    if isinstance(receiver, GeneratorValue):
        item = receiver.resume(tx, None if _is_none(value) else value)
        result: Value = receiver.frame.returned
    elif _is_none(value):
        if isinstance(receiver, OpaqueIterator):
            raise GraphBreak("yield from an iterator that was made outside")
        item, result = receiver.next_item(tx), ConstantValue(None)
    else:
        try:
            item, result = tx.call_method(receiver, "send", [value], {}), ConstantValue(None)
        except UserRaise as raised:
            if not issubclass(raised.value.python_type(), StopIteration):
                raise
            item, result = None, tx.get_attr(raised.value, "value")
    if item is None:
        frame.pop()
        frame.push(result)
        frame.index = inst.argval  # type: ignore[assignment]
    else:
        frame.push(item)


@opcode("END_SEND")
def end_send(frame: Frame, inst: Instruction) -> None:
    value = frame.pop()
    frame.pop()
    frame.push(value)


@opcode("CLEANUP_THROW")
def cleanup_throw(frame: Frame, inst: Instruction) -> None:
    raised = frame.pop().realize()
    frame.pop()
    frame.pop()
    if not issubclass(raised.python_type(), StopIteration):
        raise UserRaise(raised)
    frame.push(ConstantValue(None))
    frame.push(frame.tx.get_attr(raised, "value"))


@opcode("STOPITERATION_ERROR")
def stopiteration_error(frame: Frame, inst: Instruction) -> None:
    raised = frame.pop().realize()
    if issubclass(raised.python_type(), StopIteration):
        wrapped = frame.tx.make_exception(RuntimeError, [ConstantValue("generator raised StopIteration")])
        wrapped.cause = wrapped.context = raised
        wrapped.suppress = True
        raised = wrapped
    frame.push(raised)


@opcode("YIELD_VALUE")
def yield_value(frame: Frame, inst: Instruction) -> None:
    raise GraphBreak("yield outside of an inlined generator")
