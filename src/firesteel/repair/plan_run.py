"""Runs kernel plans on real tensors, point by point and slowly, in exactly the order that the kernels say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..kernels import ir
from ..kernels.plan import Allocate, Free, KernelPlan, Launch, WriteBack
from .aten_run import AtenRun
from .lowered_run import torch_function


def _float(function: Callable[..., float]) -> Callable[..., float]:
    def safe(*args: float) -> float:
        try:
            return function(*args)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return safe


def _div(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if not a or a != a else math.copysign(math.inf, a) * math.copysign(1, b)


def _largest(a: float, b: float) -> float:
    return a if a != a or a > b else b


def _smallest(a: float, b: float) -> float:
    return a if a != a or a < b else b


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": _div,
    "max": _largest, "min": _smallest, "pow": _float(lambda a, b: a**b), "neg": lambda a: -a, "abs": abs,
    "sqrt": _float(math.sqrt), "rsqrt": lambda a: _div(1.0, math.sqrt(a)), "reciprocal": lambda a: _div(1.0, a),
    "exp": _float(math.exp), "log": lambda a: math.log(a) if a > 0 else -math.inf, "log1p": math.log1p,
    "sin": math.sin, "cos": math.cos, "tanh": math.tanh, "erf": math.erf, "floor": math.floor,
    "sigmoid": lambda a: 1 / (1 + math.exp(-a)), "expm1": _float(math.expm1),
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "isnan": lambda a: a != a,
    "isinf": lambda a: abs(a) == math.inf,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "div_floor": lambda a, b: a // b,
    "not": lambda a: not a if isinstance(a, bool) else ~a, "remainder": lambda a, b: a % b,
    "where": lambda c, a, b: a if c else b, "sign": lambda a: (a > 0) - (a < 0),
}  # fmt: skip
COMBINE: dict[str, Callable[..., Any]] = {
    "sum": OPERATIONS["add"], "prod": OPERATIONS["mul"], "max": _largest, "min": _smallest,
    "any": lambda a, b: a or b, "all": lambda a, b: a and b, "xor": OPERATIONS["xor"],
    "add": OPERATIONS["add"], "mul": OPERATIONS["mul"], "cumsum": OPERATIONS["add"], "cumprod": OPERATIONS["mul"],
}  # fmt: skip


def _start(kind: str, dtype: torch.dtype) -> Any:
    if kind in ("max", "min"):
        if dtype.is_floating_point:
            return -math.inf if kind == "max" else math.inf
        if dtype is torch.bool:
            return kind == "min"
        limits = torch.iinfo(dtype)
        return limits.min if kind == "max" else limits.max
    return {"sum": 0, "prod": 1, "any": False, "all": True, "xor": 0, "cumsum": 0, "cumprod": 1}[kind]


class KernelRun:
    """One launch. ``memory`` is flat: a list of numbers for each parameter."""

    def __init__(self, kernel: ir.Kernel, memory: dict[str, list[Any]], sizes: Sequence[int],
                 numbers: Sequence[float]) -> None:
        self.kernel, self.memory = kernel, memory
        self.env: dict[Any, Any] = dict(zip(kernel.sizes, sizes, strict=True))
        self.numbers: dict[Any, Any] = dict(zip(kernel.numbers, numbers, strict=True))
        self.locals: dict[str, Any] = {}
        self.scratch = {scratch.name: scratch for scratch in kernel.scratch}
        self.dtypes = {buffer.name: buffer.dtype for buffer in kernel.buffers}
        self.dtypes.update({scratch.name: scratch.dtype for scratch in kernel.scratch})
        self.new_row()

    def new_row(self) -> None:
        """Scratch memory of the next iteration."""
        for scratch in self.scratch.values():
            names = {symbol: self.env[symbol] for symbol in scratch.size.free_symbols}
            self.memory[scratch.name] = ["unset"] * int(scratch.size.evaluate(names))

    def run(self) -> Any:
        """Run it."""
        self.body(self.kernel.body)

    def size(self, axis: ir.Axis) -> int:
        """How far a loop runs."""
        return int(axis.size.evaluate(self.env))

    def body(self, statements: Sequence[ir.Statement]) -> None:
        """Run statements."""
        for statement in statements:
            match statement:
                case ir.Loop():
                    order = range(self.size(statement.axis))
                    # Iterations of a parallel loop come in any order.
                    for i in reversed(order) if statement.parallel else order:
                        self.env[statement.axis.symbol] = i
                        if statement.parallel:
                            self.new_row()
                        self.body(statement.body)
                case ir.Assign():
                    self.locals[statement.name] = self.value(statement.value)
                case ir.Reduce():
                    self.locals[statement.name] = self.reduce(statement)
                case ir.Scan():
                    self.scan(statement)
                case ir.Store():
                    self.store(statement.place, statement.args, self.value(statement.value), statement.mode)

    def reduce(self, reduce: ir.Reduce) -> Any:
        """A reduction at one point."""
        result: Any = None
        best: Any = None
        if reduce.kind not in ("argmax", "argmin"):
            result = _start(reduce.kind, reduce.dtype)
        for position, point in enumerate(itertools.product(*[range(self.size(axis)) for axis in reduce.axes])):
            self.env.update(zip([axis.symbol for axis in reduce.axes], point, strict=True))
            value = self.value(reduce.value)
            if reduce.kind in ("argmax", "argmin"):
                better = best is None or (value > best if reduce.kind == "argmax" else value < best)
                if better:
                    result, best = position, value
            else:
                result = COMBINE[reduce.kind](result, value)
        return result

    def scan(self, scan: ir.Scan) -> None:
        """A scan along one row."""
        running: Any = None
        for i in range(self.size(scan.axis)):
            self.env[scan.axis.symbol] = i
            value = self.value(scan.value)
            running = value if running is None else COMBINE[scan.kind](running, value)
            self.store(scan.place, scan.args, running, "set")

    def store(self, place: ir.Place, args: Sequence[ir.Value], value: Any, mode: str) -> None:
        """Write one element."""
        env = self.env | dict(zip(place.indirect, [self.value(arg) for arg in args], strict=False))
        if place.masked and not self.value(args[-1]):
            return
        memory = self.memory[place.buffer]
        index = int(place.index.evaluate(env))
        assert 0 <= index < len(memory), f"{place.buffer}[{index}] of {len(memory)}"
        dtype = self.dtypes[place.buffer]
        if mode != "set":
            assert memory[index] != "unset"
            value = COMBINE[mode](memory[index], value)
        memory[index] = ir.const(value, dtype).data

    def value(self, value: ir.Value) -> Any:
        """A value at one point."""
        found: dict[int, Any] = {}
        # A masked load must not be touched where its mask is false, so operands are found when they are needed.

        def get(node: ir.Value) -> Any:
            if id(node) not in found:
                found[id(node)] = self.node(node, get)
            return found[id(node)]

        return get(value)

    def node(self, node: ir.Value, get: Callable[[ir.Value], Any]) -> Any:
        """An operation at one point."""
        match node.op:
            case "const":
                return node.data
            case "index":
                return node.data.evaluate(self.env)
            case "number":
                return node.data.evaluate(self.numbers)
            case "local":
                return self.locals[node.data]
            case "cast":
                value = get(node.args[0])
                return ir.const(value, node.dtype).data
            case "load":
                place = node.data
                if place.masked and not get(node.args[-1]):
                    return ir.const(0, node.dtype).data
                env = self.env | dict(zip(place.indirect, [get(arg) for arg in node.args], strict=False))
                memory = self.memory[place.buffer]
                index = int(place.index.evaluate(env))
                assert 0 <= index < len(memory), f"{place.buffer}[{index}] of {len(memory)}"
                assert memory[index] != "unset", f"{place.buffer}[{index}] is not set"
                return memory[index]
            case "where":
                return get(node.args[1]) if get(node.args[0]) else get(node.args[2])
        operands = [get(arg) for arg in node.args]
        function = OPERATIONS.get(node.op)
        if function is None:
            given = [torch.tensor(value, dtype=arg.dtype) for value, arg in zip(operands, node.args, strict=True)]
            return torch_function(node.op)(*given).item()
        return ir.const(function(*operands), node.dtype).data


class PlanRun(AtenRun):
    """A whole plan."""

    def __init__(self, plan: KernelPlan, inputs: Sequence[Any],
                 launch: Callable[[Launch, list[torch.Tensor], list[Any], list[Any]], None] | None = None) -> None:
        """``launch`` runs kernels instead of going through them point by point: it gets tensors, sizes, numbers."""
        super().__init__(plan.inputs, inputs, plan.constants, plan.symbols)
        self.native = launch
        self.plan = plan

    def run(self) -> Any:
        """Run it."""
        for step in self.plan.steps:
            match step:
                case Allocate():
                    self.allocate(step)
                case Launch():
                    self.launch(step)
                case Free():
                    for name in step.buffers:
                        del self.tensors[name]
                case WriteBack():
                    self.tensors[step.target].copy_(self.tensor(step.source))
                case ir.ExternCall():
                    self.call(step)
        return [self.tensor(part) if isinstance(part, ir.BufferRef) else part for part in self.plan.outputs]

    def allocate(self, step: Allocate) -> None:
        """Make a buffer."""
        buffer = step.buffer
        shape, strides = ([self.number(n) for n in numbers] for numbers in (buffer.shape, buffer.strides))
        if step.reuse is None:
            self.tensors[buffer.name] = torch.empty_strided(shape, strides, dtype=buffer.dtype).fill_(77)
            return
        old = self.tensors[step.reuse]
        fresh = torch.empty(0, dtype=buffer.dtype).set_(old.untyped_storage(), 0, shape, strides)
        self.tensors[buffer.name] = fresh

    def launch(self, step: Launch) -> None:
        """Run a kernel."""
        if self.native is not None:
            self.native(step, [self.tensors[name] for name in step.buffers], [self.number(n) for n in step.sizes],
                        [self.number(n) for n in step.numbers])
            return
        # Numbers live in lists, one for each storage, so that buffers in one memory see each other.
        memory: dict[str, list[Any]] = {}
        shared: dict[Any, list[Any]] = {}
        kernel = step.kernel
        for parameter, name in zip(kernel.buffers, step.buffers, strict=True):
            tensor = self.tensors[name]
            key = tensor.untyped_storage().data_ptr(), tensor.dtype
            if tensor.numel() == 0:
                memory[parameter.name] = []
                continue
            if key not in shared:
                shared[key] = _flat(tensor).tolist()
            assert tensor.storage_offset() == 0
            memory[parameter.name] = shared[key]
        sizes = [self.number(size) for size in step.sizes]
        KernelRun(kernel, memory, sizes, [self.number(n) for n in step.numbers]).run()
        for parameter, name in zip(kernel.buffers, step.buffers, strict=True):
            if parameter.name in kernel.writes and self.tensors[name].numel():
                flat = _flat(self.tensors[name])
                flat.copy_(torch.tensor(memory[parameter.name], dtype=flat.dtype))


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    count = tensor.untyped_storage().nbytes() // tensor.dtype.itemsize
    return torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage(), 0, (count,), (1,))


def run(plan: KernelPlan, inputs: Sequence[Any]) -> list[Any]:
    """The results of a plan."""
    return PlanRun(plan, inputs).run()
