"""Where the functions that carry out opcodes are registered."""

from __future__ import annotations

from collections.abc import Callable

from ..bytecode.instructions import Instruction
from ..frame import Frame
from ..values.base import Value

Handler = Callable[[Frame, Instruction], Value | None]
HANDLERS: dict[str, Handler] = {}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Register the handler of one or more opcodes."""
    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register
