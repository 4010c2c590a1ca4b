"""Sources as syntax trees: each file is parsed once for all the tests that read it."""

from __future__ import annotations

import ast
import functools
import gc
from pathlib import Path


def nodes_of(path: Path) -> list[ast.AST]:
    """Everything in a file, as `ast.walk` lists it; a file that has changed is read anew."""
    return _nodes_of(path, path.stat().st_mtime_ns)


@functools.cache
def _nodes_of(path: Path, changed: int) -> list[ast.AST]:
    collecting = gc.isenabled()
    gc.disable()  # trees are large, and all of them stay
    try:
        return list(ast.walk(ast.parse(path.read_text())))
    finally:
        if collecting:
            gc.enable()


def forget() -> None:
    """Let all trees go."""
    _nodes_of.cache_clear()
