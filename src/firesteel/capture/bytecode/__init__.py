"""Bytecode: one instruction form for all supported Pythons, liveness, and functions that start in mid-code."""

from .continuation import make_continuation, raise_at
from .frame_state import cells_at, handled_slots
from .instructions import DecodedCode, ExceptionHandler, Instruction, decode, stack_effect
from .liveness import live_locals

__all__ = [
    "DecodedCode",
    "ExceptionHandler",
    "Instruction",
    "cells_at",
    "decode",
    "handled_slots",
    "live_locals",
    "make_continuation",
    "raise_at",
    "stack_effect",
]
