"""Programs written for ``torch.compile`` run unchanged: torch's own names are answered by firesteel.

>>> import torch, firesteel as fs
>>> with fs.installed():
...     f = torch.compile(lambda x: x * 2 + 1)
>>> f(torch.ones(2))
tensor([3., 3.])
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .installing import install, is_installed, uninstall

__all__ = ["install", "installed", "is_installed", "uninstall"]


@contextmanager
def installed(*, export: bool = False) -> Iterator[None]:
    """Inside of the block, torch's names are answered by firesteel; see `install`. What was compiled in it stays
    compiled by firesteel."""
    before = is_installed()
    install(export=export)
    try:
        yield
    finally:
        if not before:
            uninstall()
