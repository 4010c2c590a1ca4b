"""What ``torch.compiler.config`` names: ``dynamic_sources``, ``static_sources``, ``dynamic_values``.

An entry is a name such as ``L['x']`` or ``L['self'].cache``, or a regular expression for the beginning of one, and may
end in ``:0`` for one dimension of a tensor.
"""

from __future__ import annotations

import functools
import re

from ..records import dataclass
from ..torch_compat import compiler_setting


def torch_name(name: str) -> str:
    """What torch's compiler calls a value that is here called by its parameter.

    >>> torch_name("table['a'].weight")
    "L['table']['a'].weight"
    """
    parameter, rest = re.fullmatch(r"(\w*)(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"L['{parameter}']{rest}"


@dataclass(frozen=True)
class NamedSources:
    """A list of names."""

    entries: tuple[tuple[str, int | None], ...]

    def covers(self, name: str, dim: int | None = None) -> bool:
        """Whether a number, or a dimension of a tensor, is named."""
        if not self.entries:
            return False
        theirs = torch_name(name)
        return any((only is None or dim is None or only == dim) and _names(pattern, theirs)
                   for pattern, only in self.entries)


def _names(pattern: str, name: str) -> bool:
    if pattern == name:
        return True
    try:
        return re.match(pattern, name) is not None
    except re.error:
        return False


@functools.cache
def _read(text: str) -> NamedSources:
    entries: list[tuple[str, int | None]] = []
    for entry in filter(None, map(str.strip, text.split(","))):
        match = re.fullmatch(r"(.*):(\d+)", entry)
        entries.append((match[1], int(match[2])) if match else (entry, None))
    return NamedSources(tuple(entries))


NOTHING = NamedSources(())


def named_dynamic() -> NamedSources:
    """What is to be a symbol from the first compilation on."""
    given = [compiler_setting(name) for name in ("dynamic_sources", "unbacked_sources")]
    return _read(",".join(filter(None, given))) if any(given) else NOTHING


def named_static() -> NamedSources:
    """What is never to be a symbol."""
    given = compiler_setting("static_sources")
    return _read(given) if given else NOTHING


def dynamic_values() -> frozenset[int]:
    """Sizes and numbers that are symbols wherever they occur."""
    given = compiler_setting("dynamic_values")
    return frozenset(int(value) for value in given.split(",") if value.strip().lstrip("-").isdigit()) if given \
        else frozenset()
