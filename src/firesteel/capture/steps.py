"""The step between two graphs: one instruction that is not captured, as Python source.

Each function emits the instruction into the entry, given the expressions of the values it pops (bottom first), and
returns the expressions of the values it pushes.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import functools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..own_frames import passed_over
from .bytecode.instructions import EXIT_HAS_RECEIVER, Instruction
from .bytecode.machine import CALLABLE_FIRST
from .entry_code import EntryCode
from .frame import Frame
from .signals import GraphBreak, SkipFrame
from .user_frames import outer_frame
from .values.base import LazyValue, Value
from .values.constants import NullValue

Step = Callable[[EntryCode, Frame, Instruction, list[str]], list[str]]
STEPS: dict[str, tuple[int | Callable[[Instruction], int], Step]] = {}


def step(pops: int | Callable[[Instruction], int], *names: str) -> Callable[[Step], Step]:
    """Register the source form of opcodes that pop a number of values."""
    def register(function: Step) -> Step:
        for name in names:
            STEPS[name] = (pops, function)
        return function

    return register


def pops_of(inst: Instruction) -> int:
    """How many stack values the instruction consumes."""
    if inst.op not in STEPS:
        raise SkipFrame(f"{inst.op} cannot run between two graphs")
    pops = STEPS[inst.op][0]
    return pops if isinstance(pops, int) else pops(inst)


def emit_step(code: EntryCode, frame: Frame, inst: Instruction, operands: list[str],
              values: Sequence[Value] = ()) -> list[str]:
    """The instruction with operands of these texts; `values` are what they are known to be."""
    dispatched = DISPATCHED.get(inst.op)
    if inst.op == "CALL" and any(overrides_torch(value) for value in values[2:]):
        overridden = code.constant(frame.tx.compiler.protocols.overridden)
        function = operands[0] or operands[1]
        if not (operands[0] and operands[1]):
            return emit_call(code, frame, inst, [overridden, function, *operands[2:]], dispatches=False)
    if dispatched is not None and not frame.tx.compiler.fullgraph and any(calls_python(value) for value in values):
        return dispatched(code, frame, inst, operands)
    return STEPS[inst.op][1](code, frame, inst, operands)


def calls_python(value: Value) -> bool:
    """Whether operations on a value may call methods that are written in Python. This relies on nothing: the step looks
    again when it runs."""
    kind = _class_of(value)
    return bool(kind.__flags__ & HEAP_TYPE) and not issubclass(kind, torch.Tensor) or kind is collections.defaultdict


def overrides_torch(value: Value) -> bool:
    """Whether a value, no tensor, may say what functions of torch do with it; relies on nothing either."""
    kind = _class_of(value)
    return hasattr(kind, "__torch_function__") and not issubclass(kind, torch.Tensor)


def _class_of(value: Value) -> type:
    if isinstance(value, LazyValue) and value.known is None:
        return type(value.real)
    try:
        return type(None) if isinstance(value, NullValue) else value.python_type()
    except (GraphBreak, NotImplementedError):
        return type(None)


DISPATCHED: dict[str, Step] = {}
"""Steps on objects with methods that are written in Python: these are called through the dispatcher."""
HEAP_TYPE = 1 << 9


def dispatched_step(*names: str) -> Callable[[Step], Step]:
    """Register a step through the dispatcher."""
    def register(function: Step) -> Step:
        for name in names:
            DISPATCHED[name] = function
        return function

    return register


def _dispatch(op: str, method: str, template: str, pushes: bool) -> None:
    """Register the call of a method of the compiler's protocols with these arguments."""
    def emit(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
        function = code.constant(getattr(frame.tx.compiler.protocols, method))
        text = f"{function}({template.format(*ops, arg=inst.argval)})"
        if pushes:
            return _result(code, text)
        code.line(text)
        return []

    DISPATCHED[op] = emit


def _result(code: EntryCode, text: str) -> list[str]:
    return [code.fresh(text)]


@step(2, "BINARY_OP")
def binary_op(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    symbol = str(inst.argval)
    if symbol.endswith("="):
        name = code.fresh(ops[0])
        code.line(f"{name} {symbol} {ops[1]}")
        return [name]
    return _result(code, f"{ops[0]} {symbol} {ops[1]}")


@step(2, "CONTAINS_OP")
def contains_op(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    return _result(code, f"{ops[0]} {'not in' if inst.argval else 'in'} {ops[1]}")


@step(2, "IS_OP")
def is_op(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    # a call, because the compiler warns about "is" with a literal
    return _result(code, f"{code.constant(operator.is_not if inst.argval else operator.is_)}({ops[0]}, {ops[1]})")


def _owner(text: str) -> str:
    """What stands before the dot of an attribute: a number's text needs parentheses there."""
    return f"({text})" if text[:1].isdigit() or text.startswith("-") else text


@step(1, "LOAD_ATTR")
def load_attr(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    if inst.argval == "f_back":
        return _result(code, f"{code.constant(outer_frame)}({ops[0]})")
    return _result(code, f"{_owner(ops[0])}.{inst.argval}")


@step(1, "LOAD_METHOD")
def load_method(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    return _without_receiver(_result(code, f"{_owner(ops[0])}.{inst.argval}"))


@step(3, "LOAD_SUPER_ATTR")
def load_super_attr(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    name, is_method, _ = inst.argval
    result = _result(code, f"{ops[0]}({ops[1]}, {ops[2]}).{name}")
    return _without_receiver(result) if is_method else result


def _without_receiver(function: list[str]) -> list[str]:
    """Something to call, and the NULL that stands for its receiver."""
    return [*function, ""] if CALLABLE_FIRST else ["", *function]


@step(2, "STORE_ATTR")
def store_attr(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    code.line(f"{_owner(ops[1])}.{inst.argval} = {ops[0]}")
    return []


@step(1, "DELETE_ATTR")
def delete_attr(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    code.line(f"del {_owner(ops[0])}.{inst.argval}")
    return []


GIVE_FRAMES = frozenset({"_getframe", "currentframe", "stack"})
"""Names of functions whose results hold the frame that calls them."""


@step(lambda inst: inst.argval[0] + 2, "CALL")
def call(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    return emit_call(code, frame, inst, ops)


def emit_call(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str], dispatches: bool = True) -> list[str]:
    """CALL, through the dispatcher or as it stands here."""
    count, names = inst.argval
    first, second, args = ops[0], ops[1], ops[2:]
    positional = args[: len(args) - len(names)]
    keywords = [f"{name}={text}" for name, text in zip(names, args[len(positional):], strict=True)]
    if first and second:
        function, positional = first, [second, *positional]
    else:
        function = first or second
    nested = code.constant(frame.tx.compiler.nested)
    if not positional and not keywords and "__class__" in frame.code.co_freevars:
        receiver = own_first_argument(frame)
        if receiver is not None:
            cell = code.value(frame.cells["__class__"])
            arguments = f"{nested}, {function}, {cell}, {code.value(receiver)}"
            return _result(code, f"{code.constant(call_or_super)}({arguments})")
    text = f"{f'{nested}({function})' if dispatches else function}({', '.join([*positional, *keywords])})"
    if GIVE_FRAMES.isdisjoint(frame.code.co_names):
        return _result(code, text)
    # a frame in one of its own variables would be a cycle, which keeps everything in it alive
    return [f"{code.fresh(f'[{text}]')}.pop()"]


def own_first_argument(frame: Frame) -> Value | None:
    """What ``super()`` takes for the object: the function's first parameter."""
    name = frame.code.co_varnames[0] if frame.code.co_argcount else None
    if name is None:
        return None
    if name in frame.locals:
        return frame.locals[name]
    return frame.cells[name].load(frame.tx) if name in frame.cells else None


def of_class(function: Any) -> Any:
    """A method of a builtin class as Python calls it that has just looked it up, by the name that the class has for it
    in messages: ``TensorBase.t() takes no arguments``, where the bound method is ``Tensor.t()``."""
    if type(function) is types.BuiltinFunctionType and not isinstance(function.__self__, (type, types.ModuleType)):
        method = getattr(type(function.__self__), function.__name__, None)
        if type(method) is types.MethodDescriptorType:
            return functools.partial(method, function.__self__)
    return function


@passed_over
def call_or_super(nested: Callable[[Any], Any], function: Any, cell: Any, receiver: Any) -> Any:
    """A call without arguments inside a method: ``super`` would look for its own arguments in the calling frame."""
    return super(cell.cell_contents, receiver) if function is super else nested(function)()


@step(lambda inst: 4 if inst.argval else 3, "CALL_FUNCTION_EX")
def call_function_ex(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    nested = code.constant(frame.tx.compiler.nested)
    function = ops[0] or ops[1]
    if not inst.argval:
        return _result(code, f"{nested}({function})(*{ops[2]})")
    chosen = f"{code.constant(with_keywords)}({nested}, {function}, {ops[3]})"
    return _result(code, f"{chosen}(*{ops[2]}, **{ops[3]})")


def with_keywords(nested: Callable[[Any], Any], function: Any, keywords: Any) -> Any:
    """What to call with these keywords: what they are called that no function can have, the function itself says."""
    refused = type(keywords) is dict and any(type(name) is not str for name in keywords)
    return function if refused else nested(function)


@step(lambda inst: inst.argval + 3 + CALLABLE_FIRST, "DICT_MERGE")
def dict_merge(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    code.line(f"{code.constant(merge_keywords)}({ops[0]}, {ops[-2]}, {ops[-1]})")
    return ops[:-1]


def merge_keywords(function: Any, keywords: dict[str, Any], more: Any) -> None:
    """Add to the keywords of a call what stands behind ``**``; raises as Python does, in the function's name."""
    if type(more) is dict and keywords.keys().isdisjoint(more):
        keywords.update(more)
    else:
        keywords.update(_Taker(function)(**keywords, **more))


class _Taker:
    """Takes all keywords, and is called in messages what `function` is called."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, /, **kwargs: Any) -> dict[str, Any]:
        return kwargs

    def __str__(self) -> str:
        name = getattr(self.function, "__qualname__", None)
        module = getattr(self.function, "__module__", None)
        if name is None:
            return str(self.function)
        return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


@step(1, "UNPACK_SEQUENCE")
def unpack_sequence(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    count: Any = inst.argval
    names = [code.fresh("None") for _ in range(count)]
    code.line(f"[{', '.join(names)}] = {ops[0]}")
    return names[::-1]


@step(1, "UNPACK_EX")
def unpack_ex(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    before, after = inst.argval
    names = [code.fresh("None") for _ in range(before + 1 + after)]
    targets = [*names[:before], "*" + names[before], *names[before + 1:]]
    code.line(f"[{', '.join(targets)}] = {ops[0]}")
    return names[::-1]


CONVERSIONS: dict[str, Callable[[Any], str]] = {"s": str, "r": repr, "a": ascii}


def format_field(value: Any, conversion: str, spec: str) -> str:
    """What an f-string field becomes."""
    if conversion:
        value = CONVERSIONS[conversion](value)
    return format(value, spec)


@step(lambda inst: 2 if inst.argval[1] else 1, "FORMAT_VALUE")
def format_value(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    conversion, has_spec = inst.argval
    spec = ops[1] if has_spec else "''"
    return _result(code, f"{code.constant(format_field)}({ops[0]}, {conversion!r}, {spec})")


@step(1, "CONVERT_VALUE")
def convert_value(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    return _result(code, f"{code.constant(CONVERSIONS[str(inst.argval)])}({ops[0]})")


def make_interpolation(value: Any, source: str, conversion: str, spec: str) -> Any:
    """BUILD_INTERPOLATION: a field of a t-string."""
    from string.templatelib import Interpolation  # type: ignore[import-not-found, unused-ignore]

    return Interpolation(value, source, conversion or None, spec)


@step(lambda inst: 3 if inst.argval[1] else 2, "BUILD_INTERPOLATION")
def build_interpolation(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    conversion, has_spec = inst.argval
    spec = ops[2] if has_spec else "''"
    return _result(code, f"{code.constant(make_interpolation)}({ops[0]}, {ops[1]}, {conversion!r}, {spec})")


def make_template(strings: tuple[str, ...], interpolations: tuple[Any, ...]) -> Any:
    """BUILD_TEMPLATE: a t-string of its texts, one more than fields, and its fields."""
    from string.templatelib import Template  # type: ignore[import-not-found, unused-ignore]

    parts = [part for pair in zip(strings, interpolations, strict=False) for part in pair]
    return Template(*parts, strings[-1])


@step(lambda inst: inst.argval, "BUILD_STRING")
def build_string(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    return _result(code, f"''.join(({', '.join(ops)},))")


@step(lambda inst: inst.argval, "BUILD_SET")
def build_set(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    return _result(code, f"{{{', '.join(ops)}}}" if ops else "set()")


@step(lambda inst: 2 * inst.argval, "BUILD_MAP")
def build_map(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    return _result(code, "{" + ", ".join(f"{k}: {v}" for k, v in zip(ops[::2], ops[1::2], strict=True)) + "}")


@step(0, "LOAD_GLOBAL")
def load_global(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    return _result(code, f"{code.constant(global_variable)}({code.constant(frame.globals)}, {inst.argval!r})")


def global_variable(table: dict[str, Any], name: str) -> Any:
    """LOAD_GLOBAL."""
    if name in table:
        return table[name]
    scope = table.get("__builtins__", builtins)
    scope = scope if isinstance(scope, dict) else scope.__dict__
    if name in scope:
        return scope[name]
    raise NameError(f"name {name!r} is not defined", name=name)


@step(0, "DELETE_GLOBAL")
def delete_global(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    code.line(f"{code.constant(forget_global)}({code.constant(frame.globals)}, {inst.argval!r})")
    return []


def forget_global(table: dict[str, Any], name: str) -> None:
    """DELETE_GLOBAL."""
    if name not in table:
        raise NameError(f"name {name!r} is not defined", name=name)
    del table[name]


def raise_unbound(name: str) -> Any:
    """LOAD_FAST of an unbound variable."""
    raise UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with a value")


def raise_free(name: str) -> Any:
    """LOAD_DEREF of an empty cell."""
    raise NameError(f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope")


@step(0, "LOAD_FAST", "LOAD_FAST_CHECK", "DELETE_FAST")
def load_fast(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    if inst.op == "DELETE_FAST" and inst.argval in frame.locals:
        code.line("pass")  # the entry lets go of everything that is not needed behind the step
        return []
    return _result(code, f"{code.constant(raise_unbound)}({inst.argval!r})")


@step(0, "LOAD_DEREF", "DELETE_DEREF")
def load_deref(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    helper = raise_unbound if inst.argval in frame.code.co_cellvars else raise_free
    return _result(code, f"{code.constant(helper)}({inst.argval!r})")


@step(2, "IMPORT_NAME")
def import_name(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    importer = code.constant(builtins.__import__)
    return _result(code, f"{importer}({inst.argval!r}, {code.constant(frame.globals)}, None, {ops[1]}, {ops[0]})")


def import_from_module(module: Any, name: str) -> Any:
    """IMPORT_FROM."""
    with contextlib.suppress(AttributeError):
        return getattr(module, name)
    namespace: dict[str, Any] = {"__builtins__": {"__import__": lambda *args: module}}
    exec(f"from _ import {name}", namespace)  # what else is tried, and the error's words, are the interpreter's
    return namespace[name]


@step(lambda inst: inst.argval, "RAISE_VARARGS")
def raise_varargs(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    code.line("raise" + (f" {ops[0]}" if ops else "") + (f" from {ops[1]}" if len(ops) > 1 else ""))
    return []


def bound_exit(manager: Any) -> Any:
    """The bound ``__exit__`` that a with statement keeps."""
    kind = type(manager)
    if not (hasattr(kind, "__enter__") and hasattr(kind, "__exit__")):
        with manager:  # raises the TypeError that says what is missing
            pass
    leave = kind.__exit__
    return leave.__get__(manager, kind) if hasattr(leave, "__get__") else leave


@step(1, "BEFORE_WITH")
def before_with(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    leave = code.fresh(f"{code.constant(bound_exit)}({ops[0]})")
    receiver = [""] if EXIT_HAS_RECEIVER else []
    return [leave, *receiver, *_result(code, f"type({ops[0]}).__enter__({ops[0]})")]


@step(4 + EXIT_HAS_RECEIVER, "WITH_EXCEPT_START")
def with_except_start(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    raised = ops[-1]
    nested = code.constant(frame.tx.compiler.nested)
    return [*ops, *_result(code, f"{nested}({ops[0]})(type({raised}), {raised}, {raised}.__traceback__)")]


def exception_matches(raised: BaseException, kinds: Any) -> bool:
    """``except kinds``."""
    try:
        raise raised
    except kinds:
        return True
    except BaseException as error:
        if error is raised:
            return False
        raise


def match_class_pattern(subject: Any, cls: Any, count: int, names: tuple[str, ...]) -> Any:
    """MATCH_CLASS."""
    if not isinstance(subject, cls):
        return None
    positional: tuple[Any, ...] = ()
    if count:
        match_args = getattr(cls, "__match_args__", None)
        if match_args is None:
            positional = (subject,)
        else:
            if count > len(match_args):
                raise TypeError(f"{cls.__name__}() accepts {len(match_args)} positional sub-patterns ({count} given)")
            names = (*match_args[:count], *names)
    try:
        return (*positional, *(getattr(subject, name) for name in names))
    except AttributeError:
        return None


def match_mapping_keys(subject: Any, keys: tuple[Any, ...]) -> Any:
    """MATCH_KEYS."""
    values = []
    absent = object()
    for key in keys:
        value = subject.get(key, absent)
        if value is absent:
            return None
        values.append(value)
    return tuple(values)


EXPRESSIONS: tuple[tuple[str, int, int, str, Callable[..., Any] | None], ...] = (
    # opcode, values it pops, how many of them it pushes again, the expression that it pushes, a function in it
    ("COMPARE_OP", 2, 0, "{0} {arg} {1}", None),
    ("UNARY_NEGATIVE", 1, 0, "-{0}", None),
    ("UNARY_POSITIVE", 1, 0, "+{0}", None),
    ("UNARY_INVERT", 1, 0, "~{0}", None),
    ("UNARY_NOT", 1, 0, "not {0}", None),
    ("TO_BOOL", 1, 0, "not not {0}", None),
    ("BINARY_SUBSCR", 2, 0, "{0}[{1}]", None),
    ("BINARY_SLICE", 3, 0, "{0}[{1}:{2}]", None),
    ("LIST_TO_TUPLE", 1, 0, "tuple({0})", None),
    ("GET_LEN", 1, 1, "len({0})", None),
    ("GET_ITER", 1, 0, "{function}({0})", builtins.iter),
    ("BUILD_TEMPLATE", 2, 0, "{function}({0}, {1})", make_template),
    ("IMPORT_FROM", 1, 1, "{function}({0}, {arg!r})", import_from_module),
    ("CHECK_EXC_MATCH", 2, 1, "{function}({0}, {1})", exception_matches),
    ("MATCH_CLASS", 3, 0, "{function}({0}, {1}, {arg}, {2})", match_class_pattern),
    ("MATCH_KEYS", 2, 2, "{function}({0}, {1})", match_mapping_keys),
)

STATEMENTS: tuple[tuple[str, int, str], ...] = (
    # opcode, values it pops, the statement that it is
    ("STORE_SUBSCR", 3, "{1}[{2}] = {0}"),
    ("DELETE_SUBSCR", 2, "del {0}[{1}]"),
    ("STORE_SLICE", 4, "{1}[{2}:{3}] = {0}"),
)

ADDITIONS: tuple[tuple[str, int, str], ...] = (
    # opcode that adds to the container {0}, which stands deeper in the stack; values it pops, the statement that it is
    ("LIST_EXTEND", 1, "{0}[:] = [*{0}, *{last}]"),
    ("SET_UPDATE", 1, "{0}.update({last})"),
    ("DICT_UPDATE", 1, "{0}.update({{**{last}}})"),  # of a mapping, where update takes pairs too
    ("LIST_APPEND", 1, "{0}.append({last})"),
    ("SET_ADD", 1, "{0}.add({last})"),
    ("MAP_ADD", 2, "{0}[{key}] = {last}"),
)


def _register_expression(op: str, pops: int, stays: int, template: str, function: Callable[..., Any] | None) -> None:
    @step(pops, op)
    def emit(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
        name = "" if function is None else code.constant(function)
        return [*ops[:stays], *_result(code, template.format(*ops, arg=inst.argval, function=name))]


def _register_statement(op: str, pops: int, template: str) -> None:
    @step(pops, op)
    def emit(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
        code.line(template.format(*ops))
        return []


def _register_addition(op: str, pops: int, template: str) -> None:
    @step(lambda inst: inst.argval + pops, op)
    def emit(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
        code.line(template.format(ops[0], last=ops[-1], key=ops[-2]))
        return ops[: len(ops) - pops]


@dispatched_step("UNARY_NOT", "TO_BOOL")
def truth(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    text = f"{code.constant(frame.tx.compiler.protocols.truth)}({ops[0]})"
    return _result(code, f"not {text}" if inst.op == "UNARY_NOT" else text)


@dispatched_step("CONTAINS_OP")
def contains(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    text = f"{code.constant(frame.tx.compiler.protocols.contains)}({ops[0]}, {ops[1]})"
    return _result(code, f"not {text}" if inst.argval else text)


@dispatched_step("LOAD_METHOD")
def attribute_to_call(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    return _without_receiver(DISPATCHED["LOAD_ATTR"](code, frame, inst, ops))


@dispatched_step("BEFORE_WITH")
def enter(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    leave = code.fresh(f"{code.constant(bound_exit)}({ops[0]})")
    receiver = [""] if EXIT_HAS_RECEIVER else []
    entered = f"{code.constant(frame.tx.compiler.protocols.enter)}({ops[0]})"
    return [leave, *receiver, *_result(code, entered)]


@dispatched_step("FORMAT_VALUE")
def dispatched_format(code: EntryCode, frame: Frame, inst: Instruction, ops: list[str]) -> list[str]:
    conversion, has_spec = inst.argval
    if conversion:
        return format_value(code, frame, inst, ops)
    spec = ops[1] if has_spec else "''"
    return _result(code, f"{code.constant(frame.tx.compiler.protocols.formatted)}({ops[0]}, {spec})")


for _op, _method, _template, _pushes in (
    ("BINARY_OP", "binary", "{arg!r}, {0}, {1}", True),
    ("COMPARE_OP", "compare", "{arg!r}, {0}, {1}", True),
    ("UNARY_NEGATIVE", "unary", "'UNARY_NEGATIVE', {0}", True),
    ("UNARY_POSITIVE", "unary", "'UNARY_POSITIVE', {0}", True),
    ("UNARY_INVERT", "unary", "'UNARY_INVERT', {0}", True),
    ("BINARY_SUBSCR", "item", "{0}, {1}", True),
    ("STORE_SUBSCR", "set_item", "{1}, {2}, {0}", False),
    ("DELETE_SUBSCR", "delete_item", "{0}, {1}", False),
    ("LOAD_ATTR", "attribute", "{0}, {arg!r}", True),
    ("STORE_ATTR", "set_attribute", "{1}, {arg!r}, {0}", False),
    ("GET_ITER", "iterate", "{0}", True),
):
    _dispatch(_op, _method, _template, _pushes)
for _expression in EXPRESSIONS:
    _register_expression(*_expression)
for _statement in STATEMENTS:
    _register_statement(*_statement)
for _addition in ADDITIONS:
    _register_addition(*_addition)
