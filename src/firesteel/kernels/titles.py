"""What kernels are called where people look for them, such as profilers: the operators in them and the user's lines.

    kernel sin, mul, cos, add (train.py:33)
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch.fx

from ..errors import UserFrame, is_own_file

if TYPE_CHECKING:
    from .ir import Kernel

MOST_OPERATORS = 6
MOST_LINES = 3
MOST_TEXT = 120


def function_name(kernel: Kernel) -> str:
    """What the function of a kernel is called where only names of functions are shown: ``k0_sin_mul_softmax``."""
    names = operators(kernel.origins)[:MOST_OPERATORS]
    return re.sub(r"\W", "_", "_".join([kernel.name, *(name.strip("_") for name in names)]))


def operators(origins: Sequence[Any]) -> list[str]:
    """The operators behind a kernel without namespaces and overloads, each once, in the order of the graph."""
    nodes = [node for node in origins if isinstance(node, torch.fx.Node)]
    in_order: Sequence[Any] = sorted(nodes) if len(nodes) == len(origins) else origins
    targets = [getattr(node, "target", node) for node in in_order]
    return list(dict.fromkeys(_short(target) for target in targets if target is not operator.getitem))


def title(origins: Sequence[Any]) -> str:
    """The name of a kernel with these origins.

    >>> title(["aten.sin.default", "aten.mul.Tensor", "aten.sin.default"])
    'kernel sin, mul'
    """
    names = operators(origins)
    if len(names) > MOST_OPERATORS:
        names = [*names[:MOST_OPERATORS], f"{len(names) - MOST_OPERATORS} more"]
    places = _lines([node for node in origins if isinstance(node, torch.fx.Node)])
    return f"kernel {', '.join(names)}".rstrip() + (f" ({places})" if places else "")


def _short(target: Any) -> str:
    """An operator without its namespace and overload."""
    parts = str(target).split(".")
    return parts[1] if len(parts) > 2 else parts[-1]


def place(node: torch.fx.Node) -> str:
    """The line of the program that an operator comes from, with its text, as far as they are known.

        train.py:33: return self.embedding(tokens)
    """
    frames = _own_frames(node)
    if not frames:
        return ""
    frame = frames[-1]
    return f"{os.path.basename(frame.filename)}:{frame.lineno}: {frame.source[:MOST_TEXT]}"


def _own_frames(node: torch.fx.Node) -> Sequence[UserFrame]:
    return [frame for frame in node.meta.get("user_frames", ())
            if not frame.in_torch and not is_own_file(frame.filename)]


def _lines(nodes: Sequence[torch.fx.Node]) -> str:
    """The lines of the program that the operators come from, those of the first file only."""
    places: dict[tuple[str, int], None] = {}
    for node in nodes:
        own = _own_frames(node)
        if own:
            places[(own[-1].filename, own[-1].lineno)] = None
    if not places:
        return ""
    file = next(iter(places))[0]
    lines = sorted(line for other, line in places if other == file)
    more = ", ..." if len(lines) > MOST_LINES or any(other != file for other, _ in places) else ""
    return f"{os.path.basename(file)}:{', '.join(map(str, lines[:MOST_LINES]))}{more}"
