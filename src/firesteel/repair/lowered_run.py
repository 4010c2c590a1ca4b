"""Runs lowered graphs on real tensors, all points of a computation at once, with torch's own operators.

What kernels must do, in the plainest form: it knows nothing of fusion, memory and machine code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..kernels import ir
from ..kernels.lowering.graph import LoweredGraph
from ..shapes import Const, Product, Sum, Symbol
from .aten_run import AtenRun

_TORCH: dict[str, Callable[..., Any]] = {
    "div": torch.true_divide, "neg": torch.neg, "atan2": torch.atan2, "mod_trunc": torch.fmod,
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "min": torch.minimum, "max": torch.maximum, "and": torch.bitwise_and, "or": torch.bitwise_or,
    "xor": torch.bitwise_xor, "shl": torch.bitwise_left_shift, "shr": torch.bitwise_right_shift,
    "not": torch.bitwise_not, "fma": lambda a, b, c: (a.double() * b.double() + c.double()).to(a.dtype),
}
_REDUCE: dict[str, Callable[..., Any]] = {
    "sum": torch.sum, "prod": torch.prod, "max": torch.amax, "min": torch.amin, "any": torch.any, "all": torch.all,
}


def torch_function(name: str) -> Callable[..., Any]:
    """Torch's own function for an operation of the loop IR."""
    function = _TORCH.get(name) or getattr(torch, name, None) or getattr(torch.special, name)
    assert callable(function)
    return function


class Evaluation(AtenRun):
    """One run of a lowered graph."""

    def __init__(self, graph: LoweredGraph, inputs: Sequence[Any]) -> None:
        super().__init__(graph.inputs, inputs, graph.constants, graph.symbols)
        self.graph = graph

    def run(self) -> list[Any]:
        """The results."""
        for operation in self.graph.operations:
            if isinstance(operation, ir.ExternCall):
                self.call(operation)
            else:
                self.compute(operation)
        return [self.tensor(part) if isinstance(part, ir.BufferRef) else part for part in self.graph.outputs]

    def buffer(self, name: str) -> Any:
        """The memory of a buffer, which is made when it is first written."""
        if name not in self.tensors:
            about = self.graph.buffers[name]
            shape, strides = ([self.number(n) for n in numbers] for numbers in (about.shape, about.strides))
            made = torch.empty_strided(shape, strides, dtype=about.dtype)
            self.tensors[name] = made.fill_(1) if made.numel() else made
        return self.tensors[name]

    # Values

    def compute(self, computation: ir.Computation) -> None:
        """Fill a buffer."""
        axes = (*computation.axes, *computation.reduce_axes)
        sizes = [self.number(axis.size) for axis in axes]
        grid: dict[Any, Any] = {}
        for k, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
            grid[axis.symbol] = torch.arange(size).view([-1 if j == k else 1 for j in range(len(axes))])
        value = self.value(computation.value, grid).expand(sizes)
        kept = len(computation.axes)
        dims = tuple(range(kept, len(axes)))
        target = self.buffer(computation.buffer)
        if computation.reduce in ("argmax", "argmin"):
            flat = value.reshape(*sizes[:kept], math.prod(sizes[kept:]))
            value = getattr(torch, computation.reduce)(flat, -1)
        elif computation.reduce in _REDUCE:
            if computation.reduce == "prod":
                for _ in dims:
                    value = value.prod(-1, dtype=value.dtype)
            else:
                extra = {"dtype": value.dtype} if computation.reduce == "sum" else {}
                value = _REDUCE[computation.reduce](value, dims, **extra)
        elif computation.reduce is not None:
            scan = getattr(torch, computation.reduce)(value, -1)
            value = scan if isinstance(scan, torch.Tensor) else scan[0]
        if dims and computation.reduce not in ir.SCANS:
            grid = {axis.symbol: grid[axis.symbol].view(grid[axis.symbol].shape[:kept]) for axis in computation.axes}
        indirect = dict(zip(computation.place.indirect, computation.args, strict=False))
        where = {**grid, **{symbol: self.value(behind, grid) for symbol, behind in indirect.items()}}
        shape = list(value.shape)
        index = torch.as_tensor(self.index(computation.place.index, where)).expand(shape).reshape(-1)
        value = value.to(computation.dtype).reshape(-1)
        if computation.place.masked:
            mask = self.value(computation.args[-1], grid).expand(shape).reshape(-1)
            index, value = index[mask], value[mask]
        flat, start = self.flat(target)
        index = index + start
        if computation.mode == "set":
            flat[index] = value
        elif computation.mode == "add":
            flat.index_add_(0, index, value)
        else:
            kind = {"mul": "prod", "max": "amax", "min": "amin"}[computation.mode]
            flat.index_reduce_(0, index, value, kind)

    @staticmethod
    def flat(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
        """All of a tensor's memory, and where in it the tensor starts."""
        count = tensor.untyped_storage().nbytes() // tensor.dtype.itemsize
        return tensor.as_strided((count,), (1,), 0), int(tensor.storage_offset())

    def value(self, value: ir.Value, grid: dict[Any, Any]) -> Any:
        """A value at all points."""
        found: dict[int, Any] = {}
        for node in value.walk():
            found[id(node)] = self.node(node, [found[id(arg)] for arg in node.args], grid)
        return found[id(value)]

    def node(self, node: ir.Value, args: list[Any], grid: dict[Any, Any]) -> Any:
        """An operation at all points."""
        match node.op:
            case "const":
                return torch.tensor(node.data, dtype=node.dtype)
            case "index":
                return torch.as_tensor(self.index(node.data, grid))
            case "number":
                return torch.tensor(self.number(node.data), dtype=torch.float64)
            case "cast":
                return args[0].to(node.dtype)
            case "bitcast":
                return args[0].view(node.dtype)
            case "checked":
                assert torch.all(args[1]), node.data
                return args[0]
            case "load":
                place = node.data
                where = {**grid, **dict(zip(place.indirect, args, strict=False))}
                index = torch.as_tensor(self.index(place.index, where))
                mask = args[-1] if place.masked else torch.tensor(True)
                shape = torch.broadcast_shapes(index.shape, mask.shape)
                index, mask = index.expand(shape), mask.expand(shape)
                flat, start = self.flat(self.tensors[place.buffer])
                safe = torch.where(mask, index + start, 0)
                if not flat.numel():
                    return torch.zeros(shape, dtype=flat.dtype)
                return torch.where(mask, flat[safe], torch.zeros((), dtype=flat.dtype))
        result = torch_function(node.op)(*args)
        assert result.dtype == node.dtype, f"{node.op} gave {result.dtype}"
        return result

    def index(self, expr: Any, grid: dict[Any, Any]) -> Any:
        """An index at all points."""
        if isinstance(expr, Const):
            return expr.value
        if isinstance(expr, Symbol):
            return grid[expr] if expr in grid else self.sizes[expr]
        if isinstance(expr, Sum):
            return expr.const + sum(c * self.index(m, grid) for m, c in expr.terms)
        if isinstance(expr, Product):
            return math.prod(self.index(b, grid) ** e for b, e in expr.factors)
        if not (expr.free_symbols & grid.keys()):
            return expr.evaluate(self.sizes)
        operands = [torch.as_tensor(self.index(operand, grid)) for operand in expr.operands]
        if expr.op == "ifelse":
            return torch.where(*operands)
        if expr.op in ("ge0", "eq0", "ne0"):
            return getattr(torch, expr.op[:2])(operands[0], 0)
        function: Any = {"floordiv": torch.floor_divide, "mod": torch.remainder, "min": torch.minimum,
                    "max": torch.maximum, "mul": torch.mul}[expr.op]
        result = operands[0]
        for operand in operands[1:]:
            result = function(result, operand)
        return result


def run(graph: LoweredGraph, inputs: Sequence[Any]) -> list[Any]:
    """The results of a lowered graph."""
    return Evaluation(graph, inputs).run()
