"""What a frame holds at an instruction, as far as the code alone says it: cells, and what handlers keep on the stack.

Three facts decide how a frame can be rebuilt in mid-code:

- whether a cell variable's slot holds a cell object there, or still (or again, in an inlined comprehension of 3.12) a
  plain value or nothing: `cells_at`;
- which stack slots hold the *previous* handled exception, pushed by PUSH_EXC_INFO and waiting for its POP_EXCEPT:
  `handled_slots`. While such a slot is there, the frame handles an exception, which itself need not be on the stack;
- which stack slots hold the lasti that a handler pushed: `lasti_slots`. In 3.14 that is no Python object.
"""

from __future__ import annotations

import dataclasses
from typing import cast

from .instructions import JUMPS, TERMINATORS, DecodedCode, Instruction, stack_effect

# These never raise, so what they do does not reach their handler. It matters for POP_EXCEPT and what surrounds it,
# where the handled exception changes although the instructions stay inside one region.
_NEVER_RAISE = frozenset(
    {
        "COPY",
        "JUMP",
        "LOAD_CONST",
        "LOAD_FAST_AND_CLEAR",
        "MAKE_CELL",
        "POP_EXCEPT",
        "PUSH_EXC_INFO",
        "PUSH_NULL",
        "RETURN_GENERATOR",
        "SWAP",
    }
)


def cells_at(decoded: DecodedCode, index: int) -> frozenset[str]:
    """Cell variables of the code itself whose slot holds a cell object before instruction `index`."""
    return _state(decoded, index).cells


def handled_slots(decoded: DecodedCode, index: int) -> dict[int, int]:
    """Stack slots (0 is the bottom) that save a previous handled exception before instruction `index`.

    Each is given with the lowest slot that saves the same one: itself, or where it is a copy, the original. In the
    order of the dict, later handlers are inside earlier ones.
    """
    state = _state(decoded, index)
    originals: dict[int, int] = {}
    slots: dict[int, int] = {}
    for slot, tag in enumerate(state.tags):
        if tag is not None and tag in state.active:
            slots[slot] = originals.setdefault(tag, slot)
    return slots


def lasti_slots(decoded: DecodedCode, index: int) -> frozenset[int]:
    """Stack slots (0 is the bottom) with the lasti that a handler pushed, before instruction `index`."""
    return frozenset(slot for slot, tag in enumerate(_state(decoded, index).tags) if tag == _LASTI)


_LASTI = -1


@dataclasses.dataclass(frozen=True, slots=True)
class _State:
    """Before an instruction: who pushed each stack slot (the PUSH_EXC_INFO's index, _LASTI, or None for anything
    else), and which of those handle."""

    tags: tuple[int | None, ...]
    active: frozenset[int]
    cells: frozenset[str]


def _state(decoded: DecodedCode, index: int) -> _State:
    states = decoded.facts.get("frame_state")
    if states is None:
        states = decoded.facts["frame_state"] = _solve(decoded)
    state = cast("list[_State | None]", states)[index]
    if state is None:
        raise ValueError(f"control never reaches instruction {index}")
    return state


def _solve(decoded: DecodedCode) -> list[_State | None]:
    instructions = decoded.instructions
    cell_names = frozenset(decoded.code.co_cellvars)
    states: list[_State | None] = [None] * len(instructions)
    pending: list[int] = []

    def reach(index: int, state: _State) -> None:
        known = states[index]
        if known is not None:
            tags = tuple(a if a == b else None for a, b in zip(known.tags, state.tags, strict=True))
            state = _State(tags, known.active & state.active, known.cells & state.cells)
        if state != known:
            states[index] = state
            pending.append(index)

    reach(0, _State((), frozenset(), frozenset()))
    while pending:
        index = pending.pop()
        instruction = instructions[index]
        before = states[index]
        assert before is not None
        handler = instruction.handler
        if handler is not None and instruction.op not in _NEVER_RAISE:
            kept = (*before.tags[: handler.depth], *((_LASTI,) if handler.push_lasti else ()), None)
            reach(handler.target, _State(kept, before.active.intersection(kept), before.cells))
        if instruction.op in JUMPS:
            reach(cast(int, instruction.argval), _after(instruction, before, cell_names, jump=True))
        if instruction.op not in TERMINATORS:
            reach(index + 1, _after(instruction, before, cell_names, jump=False))
    return states


def _after(instruction: Instruction, before: _State, cell_names: frozenset[str], jump: bool) -> _State:
    tags, active, cells = before.tags, before.active, before.cells
    op, argval = instruction.op, instruction.argval
    if op == "COPY":
        tags = (*tags, tags[-cast(int, argval)])
    elif op == "SWAP":
        changed = list(tags)
        changed[-1], changed[-cast(int, argval)] = changed[-cast(int, argval)], changed[-1]
        tags = tuple(changed)
    elif op == "PUSH_EXC_INFO":
        tags = (*tags[:-1], instruction.index, None)
        active = active | {instruction.index}
    elif op == "POP_EXCEPT":
        active = active - {tags[-1]}
        tags = tags[:-1]
    else:
        effect = stack_effect(instruction, jump)
        # Whatever is under the values that an instruction replaces is never a saved exception, so that it is enough to
        # cut or extend at the top.
        tags = tags[: len(tags) + effect] if effect <= 0 else tags + (None,) * effect
        if isinstance(argval, str) and argval in cell_names:
            if op in ("MAKE_CELL", "STORE_FAST"):
                cells = cells | {argval}
            elif op == "LOAD_FAST_AND_CLEAR":
                cells = cells - {argval}
    return _State(tags, active, cells)
