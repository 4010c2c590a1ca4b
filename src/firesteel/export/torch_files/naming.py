"""The names of a program's symbols in torch's files, where the beginning of a name says what it is.

    batch, s0 (sizes of inputs)     s0, s1          floats that are inputs     zf0
    u3 (numbers from data)          u0              floats from data           zuf0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...shapes import Expr, Symbol, relations
from ...shapes.expr import Scalar, const, symbol


def renaming(symbols: Iterable[Symbol], hints: Mapping[Symbol, Scalar]) -> dict[Expr, Expr]:
    """What stands for each symbol. A bool from data is a number that is 1."""
    counts: dict[str, int] = {}
    renamed: dict[Expr, Expr] = {}
    for old in symbols:
        backed = old in hints
        prefix = {"float": "zf" if backed else "zuf"}.get(old.kind, "s" if backed else "u")
        number = counts[prefix] = counts.get(prefix, -1) + 1
        new: Expr = symbol(f"{prefix}{number}", "float" if old.kind == "float" else "int")
        renamed[old] = relations.eq(new, const(1)) if old.kind == "bool" else new
    return renamed
