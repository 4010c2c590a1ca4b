"""A function's own code, unchanged except that the functions it calls are chosen by somebody else.

`dispatching(code, choose)` puts ``choose`` between every call and its callee, so that a frame runs as plain Python
while what it calls can be compiled:

    def a(x):                            def a(x):
        return b(c(x), k=1)                  return choose(b)(choose(c)(x), k=1)

Methods are looked up as bound objects and go through ``choose`` too. Comprehensions and generator expressions belong to
the frame and are changed with it, functions that it defines if that is asked for; decorators and the calls of a with
statement stay as they are.
"""

from __future__ import annotations

import dataclasses
import dis
import types
from collections.abc import Callable
from typing import Any

from .assemble import assemble
from .instructions import ATTRIBUTE_SHIFT
from .machine import CALLABLE_FIRST, JUMPS_NEVER, KEYWORDS_OR_NULL, MachineInstruction, read_machine_code

INNER_SCOPES = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
PRECALL = "PRECALL" in dis.opmap


def dispatching(code: types.CodeType, choose: Callable[[Any], Any], with_inner: bool = False) -> types.CodeType:
    """`code` with every callee passed through `choose`; `with_inner` in functions that it defines too.

    >>> def f(x):
    ...     return abs(x) + max(x, 1)
    >>> seen = []
    >>> def choose(callee):
    ...     seen.append(callee.__name__)
    ...     return callee
    >>> types.FunctionType(dispatching(f.__code__, choose), {})(-5)
    6
    >>> seen
    ['abs', 'max']
    """
    consts = tuple(dispatching(const, choose, with_inner) if _is_inner_scope(const, with_inner) else const
                   for const in code.co_consts)
    instructions = read_machine_code(code).instructions
    depths = _depths(instructions)
    choose_at = len(consts)
    instructions_out: list[MachineInstruction] = []
    position: list[int] = []
    for at, instruction in enumerate(instructions):
        position.append(len(instructions_out))
        call = _call_from(instructions, at)
        if call is not None and not _leaves_a_block(instructions, at, call, code.co_consts) and \
                _has_null_below(instructions, depths, call):
            instructions_out.extend(_choose(instruction, _above(instructions[call]), choose_at))
        if instruction.name in ("LOAD_METHOD", "LOAD_ATTR", "LOAD_SUPER_ATTR") and _finds_method(instruction):
            instructions_out.extend(_plain_attribute(instruction))
        else:
            instructions_out.append(dataclasses.replace(instruction))
    position.append(len(instructions_out))
    for moved in instructions_out:
        if moved.target is not None:
            moved.target = position[moved.target]
        if moved.region is not None:
            moved.region = dataclasses.replace(moved.region, target=position[moved.region.target])
    return assemble(code, instructions_out, co_consts=(*consts, choose), co_stacksize=code.co_stacksize + 3)


def _is_inner_scope(const: Any, functions: bool) -> bool:
    return isinstance(const, types.CodeType) and (functions or const.co_name in INNER_SCOPES)


def _call_from(instructions: list[MachineInstruction], at: int) -> int | None:
    """Where the call is that begins at this instruction, if one does: KW_NAMES and PRECALL come before it."""
    start = at
    if instructions[at].name in ("CALL_FUNCTION_EX", "CALL_KW"):
        return at
    if at and instructions[at - 1].name in ("KW_NAMES", "PRECALL"):
        return None  # began earlier
    while instructions[at].name in ("KW_NAMES", "PRECALL"):
        at += 1
    return at if instructions[at].name == "CALL" and (not PRECALL or at > start) else None


def _leaves_a_block(instructions: list[MachineInstruction], start: int, call: int, consts: tuple[Any, ...]) -> bool:
    """Whether a call is that of ``__exit__`` at the end of a ``with`` block: with None three times."""
    return instructions[call].name == "CALL" and instructions[call].arg == 2 and start > 2 and all(
        before.name == "LOAD_CONST" and consts[before.arg] is None for before in instructions[start - 3:start])


def _above(call: MachineInstruction) -> int:
    """How many values are above the callee: arguments, in 3.13 their names and NULL too."""
    if call.name == "CALL_FUNCTION_EX":
        arguments = 2 if KEYWORDS_OR_NULL else 1 + (call.arg & 1)
    else:
        arguments = call.arg + (call.name == "CALL_KW")
    return arguments + CALLABLE_FIRST


def _has_null_below(instructions: list[MachineInstruction], depths: list[int | None], call: int) -> bool:
    """Whether the callee stands beside NULL, not below its first argument as in `with` and decorators."""
    depth = depths[call]
    if depth is None:
        return False
    instruction = instructions[call]
    if CALLABLE_FIRST:
        slot = depth - _above(instruction)
    else:
        # In 3.11, PRECALL has taken the arguments off the counted depth already.
        slot = depth - 2 - (0 if PRECALL and instruction.name == "CALL" else _above(instruction))
    for at in range(call - 1, -1, -1):
        if depths[at] == slot + (not CALLABLE_FIRST) and _finds_method(instructions[at]):
            return True
        if depths[at] == slot:
            return instructions[at].name == "PUSH_NULL"
    return False


def _finds_method(instruction: MachineInstruction) -> bool:
    """Whether an attribute lookup pushes two values: a method and its object, or NULL and what was found."""
    if instruction.name == "LOAD_METHOD":
        return True
    return instruction.name == "LOAD_SUPER_ATTR" and bool(instruction.arg & 1) or \
        instruction.name == "LOAD_ATTR" and ATTRIBUTE_SHIFT == 1 and bool(instruction.arg & 1)


def _plain_attribute(instruction: MachineInstruction) -> list[MachineInstruction]:
    if instruction.name == "LOAD_METHOD":
        lookup = dataclasses.replace(instruction, name="LOAD_ATTR")
    else:
        lookup = dataclasses.replace(instruction, arg=instruction.arg & ~1)
    swap = [] if CALLABLE_FIRST else [_like(instruction, "SWAP", 2)]
    return [lookup, _like(instruction, "PUSH_NULL"), *swap]


def _choose(where: MachineInstruction, above: int, choose_at: int) -> list[MachineInstruction]:
    """Replace the callee, which stands below `above` values, by ``choose(callee)``."""
    swap = [("SWAP", above + 1)] if above else []
    call = [("PRECALL", 1), ("CALL", 1)] if PRECALL else [("CALL", 1)]
    function = [("PUSH_NULL", 0), ("SWAP", 2), ("LOAD_CONST", choose_at), ("SWAP", 2)]
    if CALLABLE_FIRST:
        function = function[2:] + function[:2]
    return [_like(where, name, arg) for name, arg in (*swap, *function, *call, *swap)]


def _like(where: MachineInstruction, name: str, arg: int = 0) -> MachineInstruction:
    return MachineInstruction(name, arg, where.positions, where.offset, None, where.region)


def _depths(instructions: list[MachineInstruction]) -> list[int | None]:
    """Stack depth before each instruction; None where control never arrives."""
    depths: list[int | None] = [None] * len(instructions)
    pending = [(0, 0)]
    while pending:
        at, depth = pending.pop()
        while at < len(instructions) and depths[at] is None:
            depths[at] = depth
            instruction = instructions[at]
            opcode = dis.opmap[instruction.name]
            arg = instruction.arg if opcode >= dis.HAVE_ARGUMENT else None
            if instruction.region is not None:
                region = instruction.region
                pending.append((region.target, region.depth + region.push_lasti + 1))
            if instruction.target is not None and instruction.name not in JUMPS_NEVER:
                pending.append((instruction.target, depth + dis.stack_effect(opcode, arg, jump=True)))
            if instruction.name in ("RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
                                    "JUMP_BACKWARD_NO_INTERRUPT"):
                break
            depth += dis.stack_effect(opcode, arg, jump=False)
            at += 1
    return depths
