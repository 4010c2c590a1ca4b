"""One form for the bytecode of CPython 3.11 to 3.14: `decode(code)` gives the instructions that capture interprets.

CACHE, EXTENDED_ARG, NOP, NOT_TAKEN, RESUME, PRECALL, KW_NAMES and END_FOR do not appear, specialised opcodes neither;
what 3.13 and 3.14 spread over several opcodes (CALL_KW and its names, MAKE_FUNCTION and its attributes, TO_BOOL before
what looks at a truth value, the start of a with block, CALL_FUNCTION_EX and the NULL for no keywords) is one. "3.12"
means 3.12 and later. Jump targets are positions in `DecodedCode.instructions`. In the tables `a, b -> c` means: pops b
and a (b was on top), pushes c.
`NULL` is CPython's empty stack slot. `local`, `cell` etc. below are variable *names*; `argval` is as given,
`-` stands for None. "3.11"/"3.12" marks an op that only this version produces.

Constants, names, variables
    LOAD_CONST              constant             -> constant
    PUSH_NULL               -                    -> NULL              (also split off LOAD_GLOBAL; in 3.13 after it)
    POP_TOP                 -                    a ->
    COPY                    n                    -> the n-th value from the top (1 is the top)
    SWAP                    n                    exchanges the top with the n-th value from the top (the top is the 1st)
    LOAD_FAST               name                 -> value             (known to be bound in 3.12; 3.11 may be unbound)
    LOAD_FAST_CHECK         name                 -> value             UnboundLocalError when unbound; 3.12
    LOAD_FAST_AND_CLEAR     name                 -> value or NULL     leaves the local unbound; 3.12. On a cell
                                                 variable it takes the *cell object* out of the slot.
    STORE_FAST              name                 a ->                 `a` may be NULL in 3.12: unbinds the local.
                                                 On a cell variable, `a` is the cell object (or NULL) to put back.
    DELETE_FAST             name                                      UnboundLocalError when unbound
    LOAD_GLOBAL             name                 -> value             globals, then builtins. Never with a NULL
    STORE_GLOBAL, DELETE_GLOBAL   name           a -> / (nothing)
    LOAD_NAME, STORE_NAME, DELETE_NAME  name     class bodies and modules
    MAKE_CELL               name                                      puts the slot's value (or nothing) into a new cell
    LOAD_CLOSURE            name                 -> cell object       3.13: LOAD_FAST of any cell variable, so where
                                                 a comprehension has taken the cell out: -> value
    LOAD_DEREF, STORE_DEREF, DELETE_DEREF  name  -> value / a -> / (nothing); NameError/UnboundLocalError when empty
    LOAD_CLASSDEREF         name                 -> value             locals() first, then the cell; 3.11
    LOAD_LOCALS             -                    -> locals()          3.12
    LOAD_FROM_DICT_OR_DEREF    name              mapping -> value     3.12
    LOAD_FROM_DICT_OR_GLOBALS  name              mapping -> value     3.12
    COPY_FREE_VARS          n                                         the closure's cells get into the frame
    LOAD_BUILD_CLASS        -                    -> builtins.__build_class__
    LOAD_ASSERTION_ERROR    -                    -> AssertionError
    SETUP_ANNOTATIONS       -                                         (class bodies and modules)

Operators
    UNARY_POSITIVE, UNARY_NEGATIVE, UNARY_NOT, UNARY_INVERT   -       a -> result
    TO_BOOL                 -                    a -> bool            `not not a`; 3.13
    BINARY_OP               '+', '//', '+=' ...  a, b -> result       in-place forms have the '='
    COMPARE_OP              '<' '<=' '==' '!=' '>' '>='   a, b -> result
    IS_OP, CONTAINS_OP      invert: bool         a, b -> bool         `a is b`, `a in b`; with invert: not
    BINARY_SUBSCR           -                    container, key -> value
    STORE_SUBSCR            -                    value, container, key ->
    DELETE_SUBSCR           -                    container, key ->
    BINARY_SLICE            -                    container, start, stop -> value          3.12
    STORE_SLICE             -                    value, container, start, stop ->         3.12
    LOAD_ATTR               name                 obj -> value
    LOAD_METHOD             name                 obj -> function, obj    for a plain method,
                                                 obj -> NULL, value      for anything else (both are right for CALL);
                                                 in 3.13 obj -> value, NULL
    LOAD_SUPER_ATTR         (name, is_method, two_arg)  super, cls, self -> value; with is_method like LOAD_METHOD; 3.12
    STORE_ATTR              name                 value, obj ->
    DELETE_ATTR             name                 obj ->

Calls and functions
    CALL                    (count, kwnames)     x, y, arg1 .. argN -> result    N = count; kwnames: tuple[str, ...]
                                                 names the last len(kwnames) args. x is NULL: calls y(args);
                                                 y is NULL (3.13): calls x(args); otherwise calls x(y, args)
    CALL_FUNCTION_EX        has_kwargs: bool     NULL, callable, args[, kwargs] -> result     (3.13: callable, NULL)
                                                 args: a tuple or any iterable, kwargs: a mapping
    MAKE_FUNCTION           flags                [defaults], [kwdefaults], [annotate], [annotations], [closure], code
                                                 -> function; each in brackets is there if its flag (1, 2, 16, 4, 8)
                                                 is set. annotate is a function, 3.14

Building
    BUILD_TUPLE, BUILD_LIST, BUILD_SET  n        n values -> container
    BUILD_MAP               n                    k1, v1 .. kn, vn -> dict
    BUILD_CONST_KEY_MAP     n                    v1 .. vn, keys tuple -> dict
    BUILD_STRING            n                    n strings -> str
    BUILD_SLICE             n (2 or 3)           start, stop[, step] -> slice
    FORMAT_VALUE            (conversion, has_spec)  value[, spec] -> str    conversion is '', 's', 'r' or 'a'
    CONVERT_VALUE           's', 'r' or 'a'      value -> str         before a FORMAT_VALUE; 3.13
    BUILD_INTERPOLATION     (conversion, has_spec)  value, source[, spec] -> Interpolation    3.14
    BUILD_TEMPLATE          -                    strings tuple, interpolations tuple -> Template    3.14
    LIST_APPEND, SET_ADD    n                    value ->             into the container n-th from the top after the pop
    MAP_ADD                 n                    key, value ->        same, n-th after both pops
    LIST_EXTEND, SET_UPDATE, DICT_UPDATE  n      iterable ->          same
    DICT_MERGE              n                    mapping ->           same; TypeError on repeated keys (for a call)
    LIST_TO_TUPLE           -                    list -> tuple
    UNPACK_SEQUENCE         n                    iterable -> vn .. v1     (the first item ends on top)
    UNPACK_EX               (before, after)      iterable -> last .. rest list .. first
    GET_LEN                 -                    obj -> obj, len(obj)
    MATCH_CLASS             n                    subject, cls, names tuple -> tuple of attributes or None
    MATCH_MAPPING, MATCH_SEQUENCE   -            subject -> subject, bool
    MATCH_KEYS              -                    subject, keys -> subject, keys, values tuple or None
    IMPORT_NAME             name                 level, fromlist -> module
    IMPORT_FROM             name                 module -> module, value
    CALL_INTRINSIC_1        name                 a -> result          3.12; 'TYPEVAR', 'PARAMSPEC', 'TYPEVARTUPLE',
                                                 'SUBSCRIPT_GENERIC', 'TYPEALIAS'
    CALL_INTRINSIC_2        name                 a, b -> result       3.12; 'TYPEVAR_WITH_BOUND',
                                                 'TYPEVAR_WITH_CONSTRAINTS', 'SET_FUNCTION_TYPE_PARAMS',
                                                 'SET_TYPEPARAM_DEFAULT'
    PRINT_EXPR, IMPORT_STAR pushes_none: bool    a -> [None]          never in functions

Control flow (argval is the target's position)
    JUMP                    target
    POP_JUMP_IF_TRUE, POP_JUMP_IF_FALSE, POP_JUMP_IF_NONE, POP_JUMP_IF_NOT_NONE   target    a ->
    GET_ITER                -                    iterable -> iterator
    FOR_ITER                target               iterator -> iterator, value; when exhausted: iterator -> and jumps
    RETURN_VALUE            -                    a ->                 leaves the frame
  `a and b` is COPY 1; POP_JUMP_IF_FALSE target; POP_TOP in both versions.

Exceptions and with. When an instruction with `handler` raises, the stack is cut to `handler.depth`, then the
instruction's lasti is pushed if `handler.push_lasti` (only RERAISE reads it), then the exception; execution
goes on at `handler.target`.
    PUSH_EXC_INFO           -                    exc -> previous handled exception or None, exc    exc is now handled
    POP_EXCEPT              -                    previous ->          previous is the handled exception again
    CHECK_EXC_MATCH         -                    exc, type -> exc, bool
    CHECK_EG_MATCH          -                    exc, type -> rest or None, match or None    a match is now handled
    PREP_RERAISE_STAR       -                    original exception, list -> exception to raise or None
    RAISE_VARARGS           n                    [exc [, cause]] ->   n = 0: re-raise the handled one
    RERAISE                 depth                exc ->               raises it, without a new traceback entry;
                                                 depth != 0: lasti is depth-th from the top after the pop
    BEFORE_WITH             -                    manager -> bound __exit__, result of __enter__()
                                                 in 3.14 manager -> bound __exit__, NULL, result
    WITH_EXCEPT_START       -                    exit, lasti, previous, exc -> the same, exit(type, exc, tb)
                                                 in 3.14 exit, NULL, lasti, previous, exc -> the same, result
    BEFORE_ASYNC_WITH       -                    manager -> __aexit__, awaitable      (3.14: __aexit__, NULL, awaitable)

Generators and coroutines
    RETURN_GENERATOR        -                    -> None              the call returns the generator here
    YIELD_VALUE             -                    a -> sent value
    GET_YIELD_FROM_ITER     -                    a -> iterator
    SEND                    target               receiver, value -> receiver, yielded; when the receiver returns:
                                                 receiver, value -> returned value, and jumps (same in both versions)
    END_SEND                -                    receiver, value -> value             3.12, only after CLEANUP_THROW
    CLEANUP_THROW           -                    receiver, last sent, exc -> None, value   3.12; or re-raises
    ASYNC_GEN_WRAP          -                    a -> wrapped
    STOPITERATION_ERROR     -                    exc -> RuntimeError or exc           3.12
    GET_AWAITABLE           where                a -> awaitable
    GET_AITER               -                    a -> async iterator
    GET_ANEXT               -                    aiter -> aiter, awaitable
    END_ASYNC_FOR           -                    aiter, exc ->        (re-raises unless StopAsyncIteration)
"""

from __future__ import annotations

import dataclasses
import dis
import opcode
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from .machine import (
    CALLABLE_FIRST,
    JUMPS_NEVER,
    KEYWORDS_OR_NULL,
    ExceptionRange,
    MachineCode,
    MachineInstruction,
    Positions,
    read_machine_code,
)


@dataclasses.dataclass(frozen=True, slots=True)
class ExceptionHandler:
    """Where an exception goes: the handler's position and the stack depth it keeps below what it pushes."""

    target: int
    depth: int
    push_lasti: bool

    @property
    def entry_depth(self) -> int:
        """Stack depth on entry: what was kept, lasti if pushed, and the exception."""
        return self.depth + int(self.push_lasti) + 1


@dataclasses.dataclass(slots=True)
class Instruction:
    """One normalised instruction; the module's docstring lists all of them."""

    index: int
    op: str
    arg: int | None
    argval: Any
    lineno: int | None
    offset: int
    positions: Positions
    handler: ExceptionHandler | None = None

    @property
    def is_jump(self) -> bool:
        """Whether `argval` is a position that control may go to."""
        return self.op in JUMPS

    def __str__(self) -> str:
        value = "" if self.argval is None else f" {self.argval!r}"
        return f"{self.index:4d} {self.op}{value}"


class DecodedCode:
    """The normalised instructions of one code object.

    `depths[i]` is the stack depth before instruction `i`, None where control never comes. `machine_entry[i]` is the
    position in `machine.instructions` at which execution of instruction `i` begins.
    """

    __slots__ = ("__weakref__", "_code", "_machine", "depths", "facts", "instructions", "machine_entry")

    def __init__(
        self, code: types.CodeType, instructions: list[Instruction], machine: MachineCode, machine_entry: list[int]
    ) -> None:
        # Weak, because the memo of `decode` lives exactly as long as the code object does.
        self._code = weakref.ref(code)
        self._machine = machine
        self.instructions = instructions
        self.machine_entry = machine_entry
        self.depths = compute_depths(instructions)
        self.facts: dict[str, object] = {}
        """Results of analyses over this code (liveness, cells), by analysis name."""

    @property
    def code(self) -> types.CodeType:
        """The code object that was decoded."""
        code = self._code()
        if code is None:
            raise ReferenceError("the decoded code object is gone")
        return code

    @property
    def machine(self) -> MachineCode:
        """The real opcodes behind the normalised ones."""
        return self._machine

    def __len__(self) -> int:
        return len(self.instructions)

    def __str__(self) -> str:
        """The listing of the code, one instruction a line, with line numbers where they change."""
        lines = []
        lineno: int | None = None
        targets = {i.argval for i in self.instructions if i.is_jump} | {
            i.handler.target for i in self.instructions if i.handler
        }
        for instruction in self.instructions:
            mark = ">>" if instruction.index in targets else "  "
            shown = "" if instruction.lineno == lineno else instruction.lineno
            lineno = instruction.lineno
            handler = f"   ! {instruction.handler.target}" if instruction.handler else ""
            depth = self.depths[instruction.index]
            lines.append(f"{shown!s:>5} {mark} [{'-' if depth is None else depth}] {instruction}{handler}")
        return "\n".join(lines)


JUMPS = frozenset(
    {
        "JUMP",
        "POP_JUMP_IF_TRUE",
        "POP_JUMP_IF_FALSE",
        "POP_JUMP_IF_NONE",
        "POP_JUMP_IF_NOT_NONE",
        "FOR_ITER",
        "SEND",
    }
)
"""Ops whose argval is a position."""

TERMINATORS = frozenset({"JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
"""Ops after which control does not fall through to the next instruction."""

_DROPPED = frozenset({"NOP", "NOT_TAKEN", "RESUME", "PRECALL", "KW_NAMES", "END_FOR", "SET_FUNCTION_ATTRIBUTE"})
_ENTERS = [("COPY", 1), ("LOAD_SPECIAL", 1), ("SWAP", 2), ("SWAP", 3), ("LOAD_SPECIAL", 0), ("CALL", 0)]
_ENTERS_ASYNC = [("COPY", 1), ("LOAD_SPECIAL", 3), ("SWAP", 2), ("SWAP", 3), ("LOAD_SPECIAL", 2), ("CALL", 0)]
"""How a with block starts in 3.14: finds __exit__ and __enter__, calls the latter."""
_LOOKS_AT_TRUTH = frozenset({"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT"})

_RENAMED = {
    "JUMP_FORWARD": "JUMP",
    "JUMP_BACKWARD": "JUMP",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
} | {
    f"POP_JUMP_{direction}_IF_{kind}": f"POP_JUMP_IF_{kind}"
    for direction in ("FORWARD", "BACKWARD")
    for kind in ("TRUE", "FALSE", "NONE", "NOT_NONE")
}

# The arguments of CALL_INTRINSIC_1/2 in 3.12; those that 3.11 has as opcodes get the opcode's name.
_INTRINSIC_1 = {
    1: ("PRINT_EXPR", True),
    2: ("IMPORT_STAR", True),
    3: ("STOPITERATION_ERROR", None),
    4: ("ASYNC_GEN_WRAP", None),
    5: ("UNARY_POSITIVE", None),
    6: ("LIST_TO_TUPLE", None),
    7: ("CALL_INTRINSIC_1", "TYPEVAR"),
    8: ("CALL_INTRINSIC_1", "PARAMSPEC"),
    9: ("CALL_INTRINSIC_1", "TYPEVARTUPLE"),
    10: ("CALL_INTRINSIC_1", "SUBSCRIPT_GENERIC"),
    11: ("CALL_INTRINSIC_1", "TYPEALIAS"),
}
_INTRINSIC_2 = {
    1: ("PREP_RERAISE_STAR", None),
    2: ("CALL_INTRINSIC_2", "TYPEVAR_WITH_BOUND"),
    3: ("CALL_INTRINSIC_2", "TYPEVAR_WITH_CONSTRAINTS"),
    4: ("CALL_INTRINSIC_2", "SET_FUNCTION_TYPE_PARAMS"),
    5: ("CALL_INTRINSIC_2", "SET_TYPEPARAM_DEFAULT"),
}

SLOT_OPCODES = frozenset(dis.opname[op] for op in (*dis.haslocal, *dis.hasfree))
"""Real opcodes whose argument is a slot of the frame: locals, then cells, then free variables."""

_HAS_NAME = frozenset(dis.opname[op] for op in dis.hasname)


def _words(text: str) -> list[str]:
    return text.split()


_COUNTED = frozenset(
    _words("""
        COPY SWAP BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_CONST_KEY_MAP BUILD_STRING BUILD_SLICE LIST_APPEND
    SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE UNPACK_SEQUENCE MATCH_CLASS MAKE_FUNCTION
    COPY_FREE_VARS RAISE_VARARGS RERAISE GET_AWAITABLE""")
)
_IS_312 = sys.version_info >= (3, 12)
LOAD_FAST_UNCHECKED = _IS_312
"""Whether LOAD_FAST relies on the compiler having proved the variable bound (LOAD_FAST_CHECK does not)."""
ATTRIBUTE_SHIFT = int(_IS_312)
"""How far LOAD_ATTR's argument is shifted: in 3.12 its lowest bit asks for a method."""
_NAME_SHIFT = {"LOAD_GLOBAL": 1, "LOAD_ATTR": ATTRIBUTE_SHIFT, "LOAD_SUPER_ATTR": 2}
EXIT_HAS_RECEIVER = sys.version_info >= (3, 14)
"""Whether a with block keeps its exit function as calls want it, with a slot for the receiver (NULL in normal form)."""
_COMMON_CONSTANTS: list[object] = getattr(opcode, "_common_constants", [])
_COMPARE_SHIFT = 5 if CALLABLE_FIRST else 4 if _IS_312 else 0
_BINARY_OPERATORS = [symbol for _, symbol in dis._nb_ops]  # type: ignore[attr-defined]
_CONVERSIONS = ("", "s", "r", "a")


def _normalise(code: types.CodeType, name: str, arg: int, kwnames: tuple[str, ...]) -> tuple[str, object]:
    """The normalised op and its argval, for everything but jumps."""
    if name in _COUNTED:
        return name, arg
    if name == "LOAD_CONST":
        return name, code.co_consts[arg]
    if name in SLOT_OPCODES:
        variable = code._varname_from_oparg(arg)  # type: ignore[attr-defined]
        if name == "LOAD_FAST" and CALLABLE_FIRST and (variable in code.co_cellvars or variable in code.co_freevars):
            return "LOAD_CLOSURE", variable
        return name, variable
    if name in _HAS_NAME:
        attribute = code.co_names[arg >> _NAME_SHIFT.get(name, 0)]
        if name == "LOAD_ATTR" and arg & ATTRIBUTE_SHIFT:
            return "LOAD_METHOD", attribute
        if name == "LOAD_SUPER_ATTR":
            return name, (attribute, bool(arg & 1), bool(arg & 2))
        return name, attribute
    if name == "CALL":
        return name, (arg, kwnames)
    if name == "BINARY_OP":
        symbol = _BINARY_OPERATORS[arg]
        return ("BINARY_SUBSCR", None) if symbol == "[]" else (name, symbol)
    if name == "COMPARE_OP":
        return name, dis.cmp_op[arg >> _COMPARE_SHIFT]
    if name in ("IS_OP", "CONTAINS_OP"):
        return name, bool(arg)
    if name == "CALL_FUNCTION_EX":
        return name, bool(arg & 1)
    if name == "LOAD_SMALL_INT":
        return "LOAD_CONST", arg
    if name == "LOAD_COMMON_CONSTANT":
        constant = _COMMON_CONSTANTS[arg]
        return ("LOAD_ASSERTION_ERROR", None) if constant is AssertionError else ("LOAD_CONST", constant)
    if name == "POP_ITER":
        return "POP_TOP", None
    if name == "BUILD_INTERPOLATION":
        return name, (_CONVERSIONS[arg >> 2], bool(arg & 1))
    if name == "FORMAT_VALUE":
        return name, (_CONVERSIONS[arg & 3], bool(arg & 4))
    if name in ("FORMAT_SIMPLE", "FORMAT_WITH_SPEC"):
        return "FORMAT_VALUE", ("", name == "FORMAT_WITH_SPEC")
    if name == "CONVERT_VALUE":
        return name, _CONVERSIONS[arg]
    if name == "UNPACK_EX":
        return name, (arg & 0xFF, arg >> 8)
    if name == "CALL_INTRINSIC_1":
        return _INTRINSIC_1[arg]
    if name == "CALL_INTRINSIC_2":
        return _INTRINSIC_2[arg]
    if name in ("PRINT_EXPR", "IMPORT_STAR"):
        return name, False
    return name, None


_memo: dict[int, tuple[weakref.ref[types.CodeType], DecodedCode]] = {}


def decode(code: types.CodeType) -> DecodedCode:
    """The normalised instructions of `code`, decoded once for as long as the code object lives.

    >>> print(decode((lambda a, b: a + b).__code__).instructions[-2])
       2 BINARY_OP '+'
    """
    # Code objects compare by value and ignore the file name, hence the key by identity.
    key = id(code)
    known = _memo.get(key)
    if known is not None and known[0]() is code:
        return known[1]
    decoded = _decode(code)

    def forget(reference: weakref.ref[types.CodeType]) -> None:
        entry = _memo.get(key)
        if entry is not None and entry[0] is reference:
            del _memo[key]

    _memo[key] = (weakref.ref(code, forget), decoded)
    return decoded


def _decode(code: types.CodeType) -> DecodedCode:
    machine = read_machine_code(code)
    instructions: list[Instruction] = []
    machine_entry: list[int] = []
    index_of_position: list[int] = []
    jumps: list[tuple[Instruction, int]] = []
    kwnames: tuple[str, ...] = ()
    entry: int | None = None
    enters, inside_until = "", 0
    for position, real in enumerate(machine.instructions):
        index_of_position.append(len(instructions))
        name, arg = real.name, real.arg
        if name in _DROPPED:
            if name == "KW_NAMES":
                kwnames = code.co_consts[arg]
                entry = position
            elif name == "PRECALL" and entry is None:
                entry = position
            continue
        if name == "TO_BOOL" and machine.instructions[position + 1].name in _LOOKS_AT_TRUTH:
            entry = position
            continue
        if name in ("POP_TOP", "POP_ITER") and CALLABLE_FIRST and _follows(machine.instructions, position, "END_FOR"):
            continue
        if position < inside_until:
            continue
        if name == "COPY" and (enters := _enters(machine.instructions, position)):
            entry, inside_until = position, position + len(_ENTERS) - 1
            continue
        if enters:
            name, enters = enters, ""
        if name == "PUSH_NULL" and KEYWORDS_OR_NULL and machine.instructions[position + 1].name == "CALL_FUNCTION_EX":
            entry = position
            continue
        if name == "CALL_FUNCTION_EX" and KEYWORDS_OR_NULL:
            arg = not _follows(machine.instructions, position, "PUSH_NULL")
        if name == "CALL_KW":
            # Its names are the constant before it, which the normal form does not push.
            name, kwnames = "CALL", instructions.pop().argval
            entry = machine_entry.pop()
            index_of_position[-1] -= 1
        elif name == "MAKE_FUNCTION" and CALLABLE_FIRST:
            arg = _function_attributes(machine.instructions, position)
        jumps_to = None if name in JUMPS_NEVER else real.target
        if jumps_to is None:
            op, argval = _normalise(code, name, arg, kwnames)
        else:
            op, argval = _RENAMED.get(name, name), None
        instruction = Instruction(
            index=len(instructions),
            op=op,
            arg=arg if dis.opmap[real.name] >= dis.HAVE_ARGUMENT else None,
            argval=argval,
            lineno=real.positions.lineno,
            offset=real.offset,
            positions=real.positions,
        )
        if name == "CALL":
            kwnames = ()
        machine_entry.append(position if entry is None else entry)
        entry = None
        if jumps_to is not None:
            jumps.append((instruction, jumps_to))
        instructions.append(instruction)
    _aim(jumps, machine.instructions, index_of_position)
    _protect(instructions, [machine.instructions[position].region for position in machine_entry], index_of_position)
    return DecodedCode(code, instructions, machine, machine_entry)


def _aim(jumps: list[tuple[Instruction, int]], machine: list[MachineInstruction], index_of_position: list[int]) -> None:
    """Give jumps the instructions they go to, where their targets are positions in machine code."""
    for jump, target in jumps:
        # 3.12 leaves the receiver on the stack for an END_SEND that follows; the normal form's SEND does that itself.
        if jump.op == "SEND" and machine[target].name == "END_SEND":
            target += 1
        # 3.13 has END_FOR and POP_TOP behind a loop, and neither runs.
        if jump.op == "FOR_ITER" and CALLABLE_FIRST and machine[target].name == "END_FOR":
            target += 2
        jump.argval = index_of_position[target]


def _protect(instructions: list[Instruction], regions: list[ExceptionRange | None],
             index_of_position: list[int]) -> None:
    """Give instructions their handlers: one object for all that share it."""
    handlers: dict[tuple[int, int, bool], ExceptionHandler] = {}
    for instruction, region in zip(instructions, regions, strict=True):
        if region is not None:
            key = (region.target, region.depth, region.push_lasti)
            handler = handlers.get(key)
            if handler is None:
                handler = ExceptionHandler(index_of_position[region.target], region.depth, region.push_lasti)
                handlers[key] = handler
            instruction.handler = handler


def _follows(instructions: list[MachineInstruction], position: int, name: str) -> bool:
    return position > 0 and instructions[position - 1].name == name


def _enters(instructions: list[MachineInstruction], position: int) -> str:
    """What begins here: a with block, an asynchronous one, or neither (3.14)."""
    here = [(real.name, real.arg) for real in instructions[position:position + len(_ENTERS)]]
    return "BEFORE_WITH" if here == _ENTERS else "BEFORE_ASYNC_WITH" if here == _ENTERS_ASYNC else ""


def _function_attributes(instructions: list[MachineInstruction], position: int) -> int:
    """The flags of a MAKE_FUNCTION that says with opcodes of their own which attributes the function gets (3.13)."""
    flags = 0
    while instructions[position + 1].name == "SET_FUNCTION_ATTRIBUTE":
        position += 1
        flags |= instructions[position].arg
    return flags


# Stack effects that do not depend on the argument.
_FIXED_EFFECTS = {
    **dict.fromkeys(
        _words("""
        LOAD_CONST PUSH_NULL COPY LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_GLOBAL LOAD_NAME LOAD_CLOSURE
        LOAD_DEREF LOAD_CLASSDEREF LOAD_LOCALS LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR LOAD_METHOD GET_LEN MATCH_MAPPING
        MATCH_SEQUENCE MATCH_KEYS IMPORT_FROM PUSH_EXC_INFO WITH_EXCEPT_START RETURN_GENERATOR GET_ANEXT"""),
        1,
    ),
    **dict.fromkeys(("BEFORE_WITH", "BEFORE_ASYNC_WITH"), 1 + EXIT_HAS_RECEIVER),
    **dict.fromkeys(
        _words("""
        SWAP DELETE_FAST DELETE_GLOBAL DELETE_NAME MAKE_CELL DELETE_DEREF LOAD_FROM_DICT_OR_DEREF
        LOAD_FROM_DICT_OR_GLOBALS COPY_FREE_VARS SETUP_ANNOTATIONS UNARY_POSITIVE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT
        TO_BOOL CONVERT_VALUE LOAD_ATTR LIST_TO_TUPLE CALL_INTRINSIC_1 JUMP GET_ITER CHECK_EXC_MATCH CHECK_EG_MATCH
        YIELD_VALUE GET_YIELD_FROM_ITER ASYNC_GEN_WRAP STOPITERATION_ERROR GET_AWAITABLE GET_AITER"""),
        0,
    ),
    **dict.fromkeys(
        _words("""
        POP_TOP STORE_FAST STORE_GLOBAL STORE_NAME STORE_DEREF BINARY_OP COMPARE_OP IS_OP CONTAINS_OP BINARY_SUBSCR
        DELETE_ATTR LIST_APPEND SET_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE IMPORT_NAME CALL_INTRINSIC_2
        POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE RETURN_VALUE POP_EXCEPT
        PREP_RERAISE_STAR RERAISE END_SEND CLEANUP_THROW BUILD_TEMPLATE"""),
        -1,
    ),
    **dict.fromkeys(
        _words("DELETE_SUBSCR BINARY_SLICE STORE_ATTR MAP_ADD MATCH_CLASS END_ASYNC_FOR"),
        -2,
    ),
    "STORE_SUBSCR": -3,
    "STORE_SLICE": -4,
}

_ARGUMENT_EFFECTS: dict[str, Callable[..., int]] = {
    "LOAD_SUPER_ATTR": lambda argval: -1 if argval[1] else -2,
    "CALL": lambda argval: -argval[0] - 1,
    "CALL_FUNCTION_EX": lambda has_kwargs: -3 if has_kwargs else -2,
    "MAKE_FUNCTION": lambda flags: -(flags & 31).bit_count(),
    "BUILD_TUPLE": lambda n: 1 - n,
    "BUILD_LIST": lambda n: 1 - n,
    "BUILD_SET": lambda n: 1 - n,
    "BUILD_MAP": lambda n: 1 - 2 * n,
    "BUILD_CONST_KEY_MAP": lambda n: -n,
    "BUILD_STRING": lambda n: 1 - n,
    "BUILD_SLICE": lambda n: 1 - n,
    "FORMAT_VALUE": lambda argval: -1 if argval[1] else 0,
    "BUILD_INTERPOLATION": lambda argval: -2 if argval[1] else -1,
    "UNPACK_SEQUENCE": lambda n: n - 1,
    "UNPACK_EX": lambda argval: argval[0] + argval[1],
    "RAISE_VARARGS": lambda n: -n,
    "PRINT_EXPR": lambda pushes_none: 0 if pushes_none else -1,
    "IMPORT_STAR": lambda pushes_none: 0 if pushes_none else -1,
}


def stack_effect(instruction: Instruction, jump: bool) -> int:
    """How much deeper the stack is after `instruction`, when it jumps or when it does not."""
    op = instruction.op
    effect = _FIXED_EFFECTS.get(op)
    if effect is not None:
        return effect
    if op == "FOR_ITER":
        return -1 if jump else 1
    if op == "SEND":
        return -1 if jump else 0
    return _ARGUMENT_EFFECTS[op](instruction.argval)


def compute_depths(instructions: list[Instruction]) -> list[int | None]:
    """Stack depth before every instruction that control can reach, handlers included; None for the others."""
    depths: list[int | None] = [None] * len(instructions)
    pending: list[int] = []

    def reach(index: int, depth: int) -> None:
        known = depths[index]
        if known is None:
            depths[index] = depth
            pending.append(index)
        elif known != depth:
            raise ValueError(f"instruction {instructions[index]} is reached with stack depths {known} and {depth}")

    reach(0, 0)
    while pending:
        index = pending.pop()
        instruction = instructions[index]
        depth = depths[index]
        assert depth is not None
        if instruction.handler is not None:
            reach(instruction.handler.target, instruction.handler.entry_depth)
        if instruction.op in JUMPS:
            target = instruction.argval
            assert isinstance(target, int)
            reach(target, depth + stack_effect(instruction, jump=True))
        if instruction.op not in TERMINATORS:
            reach(index + 1, depth + stack_effect(instruction, jump=False))
    return depths
