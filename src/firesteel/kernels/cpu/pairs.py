"""Vectors of bfloat16 in pairs: the even elements first, then the odd ones.

Two neighbours in memory are one 32-bit number. As float32 the upper one is that number without its lower half, and the
lower one is the number shifted up: one instruction each, where widening elements in their order takes two, and
narrowing them again three. Nothing but loads and stores sees the order, so a loop can have it where all that it touches
along its lanes are bfloat16 elements one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ...shapes import Const, Symbol
from ..ir import Scan, Statement
from . import vectorising
from .indices import split
from .operands import Operand, type_of
from .scopes import Emitter

UPPER = -0x10000


def applies(body: Sequence[Statement], axis: Symbol, dtypes: Mapping[str, torch.dtype]) -> bool:
    """Whether a loop's lanes may stand in this order."""
    has_pair = False
    for place, _, _ in vectorising.accesses(body):
        if place.masked or place.indirect:
            return False
        parts = split(place.index, axis)
        if parts is None or not isinstance(parts[0], Const) or parts[0].value not in (0, 1):
            return False
        if parts[0].value:
            if dtypes.get(place.buffer) is not torch.bfloat16:
                return False
            has_pair = True
    if not has_pair or any(isinstance(statement, Scan) for statement in vectorising.statements(body)):
        return False
    return not any(node.op == "index" and axis in node.data.free_symbols for node in vectorising.nodes(body))


def order(lanes: int) -> list[int]:
    """Which element is in which lane.

    >>> order(6)
    [0, 2, 4, 1, 3, 5]
    """
    return [*range(0, lanes, 2), *range(1, lanes, 2)]


def widened(e: Emitter, loaded: Operand) -> Operand:
    """Elements in the order of memory, in pairs."""
    lanes = loaded.lanes
    words = e.instruction(f"bitcast {loaded.typed} to {type_of(torch.int32, lanes // 2)}", torch.int32, lanes // 2)
    even = e.binary("shl", words, e.constant(16, torch.int32, words.lanes))
    odd = e.binary("and", words, e.constant(UPPER, torch.int32, words.lanes))
    result = e.shuffle(loaded, None, order(lanes))
    result.single = e.join([e.convert("bitcast", half, torch.float32) for half in (even, odd)])
    result.single.rounded = result.single.short_nan = True
    return result


def narrowed(e: Emitter, value: Operand) -> Operand:
    """Elements in the order of memory again."""
    lanes = value.lanes
    if value.single is None:
        back = [lane // 2 + (lane % 2) * (lanes // 2) for lane in range(lanes)]
        return e.shuffle(value, None, back)
    even, odd = [e.convert("bitcast", half, torch.int32) for half in e.pieces(value.single, lanes // 2)]
    low = e.binary("lshr", even, e.constant(16, torch.int32, even.lanes))
    high = e.binary("and", odd, e.constant(UPPER, torch.int32, odd.lanes))
    return e.instruction(f"bitcast {low.type} {e.binary('or', low, high).text} to {value.type}", value.dtype, lanes)
