"""What integers that kernels compute can be at least and at most: indices that are in range need no check."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from ..ir import Value

Bounds = tuple[float, float]

_FAR = 2**31
"""Sums of numbers nearer to 0 do not overflow."""


def bounds_of(value: Value, stored: Mapping[str, Bounds]) -> Bounds:
    """The least and the most that an integer can be, by how it is computed; infinite where that says nothing.

    ``stored`` are the bounds of what is in buffers.

    >>> from .. import ir
    >>> x = ir.load("x", 0, torch.int64)
    >>> bounds_of(ir.op("add", ir.op("min", ir.op("max", x, ir.const(0, x.dtype)), ir.const(5, x.dtype)),
    ...                 ir.const(1, x.dtype)), {})
    (1, 6)
    """
    memo: dict[Value, Bounds] = {}
    for node in value.walk():
        memo[node] = _bounds(node, [memo[arg] for arg in node.args], stored)
    return memo[value]


def _bounds(value: Value, args: list[Bounds], stored: Mapping[str, Bounds]) -> Bounds:
    match value.op, args:
        case "load", _ if value.data.buffer in stored and not value.data.masked:
            return stored[value.data.buffer]
        case "const", _ if not value.dtype.is_floating_point:
            return int(value.data), int(value.data)
        case ("min", [(a, b), (c, d)]):
            return min(a, c), min(b, d)
        case ("max", [(a, b), (c, d)]):
            return max(a, c), max(b, d)
        case ("where", [_, (a, b), (c, d)]):
            return min(a, c), max(b, d)
        case ("add", [(a, b), (c, d)]) if max(map(abs, (a, b, c, d))) < _FAR:
            return a + c, b + d
        case ("sub", [(a, b), (c, d)]) if max(map(abs, (a, b, c, d))) < _FAR:
            return a - d, b - c
        case ("cast", [(a, b)]) if not value.args[0].dtype.is_floating_point and value.dtype is torch.int64:
            return a, b
    if value.dtype is torch.bool:
        return 0, 1
    if value.dtype in (torch.uint8, torch.int8, torch.int16):
        return torch.iinfo(value.dtype).min, torch.iinfo(value.dtype).max
    return -math.inf, math.inf
