"""One function per normalised opcode (see `bytecode.instructions` for their meaning).

A handler returns None to go on, or the Value with which the frame returns. The modules register their handlers when
they are imported, which happens here.
"""

from __future__ import annotations

from ..opcode_handlers import HANDLERS

HANDLERS.load()
