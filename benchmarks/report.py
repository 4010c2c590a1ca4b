"""Printing of benchmark results: an aligned table for people, JSON for machines."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, torch and the named packages, to be stored beside every recorded number."""
    found = {"python": platform.python_version()}
    for package in ("torch", *packages):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers.

    >>> round(geometric_mean([2.0, 8.0]), 6)
    4.0
    """
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def cell(value: object) -> str:
    """One value as the table shows it: floats with three significant digits, `None` as a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under a title, with rich when it is installed and as plain aligned text when it is not.

    The first column is text, the others are right-aligned.
    """
    texts = [[cell(value) for value in row] for row in rows]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(row[i]) for row in [list(columns), *texts]) for i in range(len(columns))]
        print(title)
        for row in [list(columns), *texts]:
            first, *others = (f"{text:>{width}}" for text, width in zip(row, widths, strict=True))
            print("  ".join([first.strip().ljust(widths[0]), *others]))
        return
    console = Console()
    if not console.is_terminal:
        # Piped output keeps whole rows: a log is read with a pager, not wrapped to 80 columns.
        console = Console(width=200)
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", overflow="fold")
    for row in texts:
        table.add_row(*row)
    console.print(table)


def write_json(path: Path, payload: Mapping[str, Any]) -> None:
    """Write `payload` as stable, diffable JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(payload, indent=2, sort_keys=True) + "\n", encoding="utf-8")
