"""What a program asks to know whether it is being captured."""

from __future__ import annotations


def is_compiling() -> bool:
    """True in code that is being captured, False in plain Python."""
    return False
