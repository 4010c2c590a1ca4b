"""Where the functions that carry out opcodes are registered."""

from __future__ import annotations

from collections.abc import Callable

from ...registry import Registry
from ..bytecode.instructions import Instruction
from ..frame import Frame
from ..values.base import Value

Handler = Callable[[Frame, Instruction], Value | None]
HANDLERS: Registry[str, Handler] = Registry("handler")
opcode = HANDLERS.register
"""Registers the handler of one or more opcodes."""
