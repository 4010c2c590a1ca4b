"""Bytecode: one instruction form for all supported Pythons, liveness, and functions that start in mid-code."""

from .continuation import make_continuation
from .frame_state import cells_at, handled_slots
from .instructions import DecodedCode, Instruction, decode, stack_effect
from .liveness import live_locals
