"""LLVM IR that lies in ``.ll`` files of this package, beside the modules that use it.

``<NAME>`` in a file stands for what its module fills in: an offset, the address of a function, another file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PLACE = re.compile(r"<(\w+)>")


def filled(file: str, values: Mapping[str, object]) -> str:
    """The text of an ``.ll`` file, named by its path in the package, with values in the place of their ``<KEY>``."""
    with open(os.path.join(_PACKAGE, file), encoding="utf-8") as opened:
        return _PLACE.sub(lambda place: str(values[place[1]]), opened.read())


def address(number: int) -> str:
    """An address of this process as a pointer in LLVM IR."""
    return f"inttoptr (i64 {number} to ptr)"
