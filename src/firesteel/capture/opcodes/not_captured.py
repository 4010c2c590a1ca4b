"""Opcodes that capture knows and leaves to Python."""

from __future__ import annotations

from ..bytecode.instructions import Instruction
from ..frame import Frame
from ..opcode_handlers import opcode
from ..signals import GraphBreak


@opcode("CALL_INTRINSIC_1", "CALL_INTRINSIC_2", "PRINT_EXPR", "IMPORT_STAR", "MATCH_CLASS_EX",
        "BEFORE_ASYNC_WITH", "GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "ASYNC_GEN_WRAP",
        "CHECK_EG_MATCH", "PREP_RERAISE_STAR", "BUILD_INTERPOLATION", "BUILD_TEMPLATE")
def not_captured(frame: Frame, inst: Instruction) -> None:
    raise GraphBreak(f"{inst.op.lower().replace('_', ' ')} is not captured")
