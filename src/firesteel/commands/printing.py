"""How commands print: rich in a terminal, plain text elsewhere."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from firesteel.errors import FiresteelError, is_own_file


def show(value: Any) -> None:
    """Print something that rich can draw."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(value)
    else:
        print(value)


def show_error(error: BaseException) -> None:
    """Print an error of the program under a command: one of firesteel's as a message, all others with the traceback
    from the program's first frame on."""
    if isinstance(error, FiresteelError):
        print(f"firesteel: {error}", file=sys.stderr)
    else:
        shown = error.__traceback__
        while shown is not None and is_own_file(shown.tb_frame.f_code.co_filename):
            shown = shown.tb_next
        traceback.print_exception(error.with_traceback(shown or error.__traceback__))
