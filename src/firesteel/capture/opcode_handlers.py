"""The table of functions that carry out opcodes on a frame; the modules of `opcodes` fill it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Optional

from ..registry import Registry

if TYPE_CHECKING:
    from .bytecode.instructions import Instruction
    from .frame import Frame
    from .values.base import Value

Handler = Callable[["Frame", "Instruction"], Optional["Value"]]
HANDLERS: Registry[str, Handler] = Registry("handler", f"{__package__}.opcodes")
opcode = HANDLERS.register
"""Registers the handler of one or more opcodes."""
