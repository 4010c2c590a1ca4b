"""Plans as text and back: what is kept on disk of a compiled graph beside the machine code of its kernels.

The text is JSON. Reading it calls nothing that the text names other than operators of torch and functions of this
package. Kernels stand in it as the keys of their machine code, tensors of the program by the names that the graph has
for them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .. import torch_compat
from ..shapes import Const, Expr, Symbol
from ..shapes.expr import const, symbol
from ..shapes.parsing import parse
from .ir import Buffer, BufferRef, ExternCall, Kernel
from .plan import Allocate, Free, KernelPlan, Launch, Step, WriteBack

_ENUMS: dict[str, Any] = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}
_MODULES = ("math", "_operator", "firesteel.kernels.", "firesteel.torch_compat.")
"""Where functions that stand in plans come from; those of a package end with a dot."""


class NotStorable(Exception):
    """A plan holds something that has no text."""


Programs = tuple[Expr, Expr | None]
"""Of a GPU kernel: how many programs it has, and how far its indices reach where launches have to know that."""


class StoredPlan(NamedTuple):
    """What a text says."""

    plan: KernelPlan
    kernels: list[Kernel]
    """Without bodies."""
    keys: list[str]
    """Of the kernels' code."""
    programs: list[Programs]
    """Of a plan for a GPU, for each kernel."""


def plan_text(plan: KernelPlan, kernels: Sequence[Kernel], keys: Sequence[str], constants: Mapping[str, torch.Tensor],
              programs: Sequence[Programs] = ()) -> bytes:
    """The text of a plan; ``keys`` are those of the kernels' code, ``constants`` the graph's own tensors.

    Raises `NotStorable`.
    """
    writer = _Writer(constants, {id(kernel): number for number, kernel in enumerate(kernels)})
    return writer.plan(plan, kernels, keys, programs)


def read_plan(text: bytes, constants: Mapping[str, torch.Tensor], nodes: Mapping[str, Any] | None = None) -> StoredPlan:
    """A plan from its text, for a graph with these nodes. Any exception means that it is not usable."""
    return _Reader(json.loads(text), constants, nodes or {}).plan()


class _Writer:
    def __init__(self, constants: Mapping[str, torch.Tensor], kernels: Mapping[int, int]) -> None:
        self.constants = constants
        self.kernels = kernels
        self.symbols: dict[str, Symbol] = {}
        self.buffers: dict[Buffer, int] = {}
        self.checked: dict[Expr, str] = {}

    def plan(self, plan: KernelPlan, kernels: Sequence[Kernel], keys: Sequence[str],
             programs: Sequence[Programs]) -> bytes:
        parts = {
            "kernels": [[kernel.name, key, [self.buffer(buffer) for buffer in kernel.buffers],
                         [self.expr(size) for size in kernel.sizes], [self.expr(number) for number in kernel.numbers]]
                        for kernel, key in zip(kernels, keys, strict=True)],
            "inputs": [[self.buffer(item)] if isinstance(item, Buffer) else self.expr(item) for item in plan.inputs],
            "origins": [[self.expr(name), *where] for name, where in plan.symbols.items()],
            "steps": [self.step(step) for step in plan.steps],
            "outputs": [self.value(output) for output in plan.outputs],
            "known": [[name, self.buffer(buffer)] for name, buffer in plan.buffers.items()],
            "constants": [[name, self.constant(tensor)] for name, tensor in plan.constants.items()],
            "programs": [[self.expr(count), None if extent is None else self.expr(extent)]
                         for count, extent in programs],
        }
        parts["buffers"] = [
            [buffer.name, str(buffer.dtype)[6:], self.exprs(buffer.shape), self.exprs(buffer.strides), buffer.kind,
             str(buffer.device)] for buffer in self.buffers
        ]  # fmt: skip
        parts["symbols"] = [[name, named.kind] for name, named in self.symbols.items()]
        return json.dumps(parts, separators=(",", ":")).encode()

    def constant(self, tensor: Any) -> str:
        for name, known in self.constants.items():
            if known is tensor:
                return name
        raise NotStorable("a tensor that is not the graph's own")

    def buffer(self, buffer: Buffer) -> int:
        return self.buffers.setdefault(buffer, len(self.buffers))

    def exprs(self, exprs: Sequence[Expr] | None) -> Any:
        return None if exprs is None else [self.expr(expr) for expr in exprs]

    def expr(self, expr: Expr) -> Any:
        if isinstance(expr, Const):
            return [float(expr.value).hex()] if isinstance(expr.value, float) else expr.value
        text = self.checked.get(expr)
        if text is None:
            for used in expr.free_symbols:
                if self.symbols.setdefault(used.name, used) is not used:
                    raise NotStorable("two symbols of one name")
            text = str(expr)
            if parse(text, self.symbols) is not expr:
                raise NotStorable(f"the expression {text}")
            self.checked[expr] = text
        return text

    def step(self, step: Step) -> list[Any]:
        match step:
            case Allocate(buffer, reuse):
                return ["allocate", self.buffer(buffer), reuse]
            case Launch(kernel, buffers, sizes, numbers):
                origins = [getattr(node, "name", str(node)) for node in step.origins]
                return ["launch", self.kernels[id(kernel)], list(buffers), self.exprs(sizes), self.exprs(numbers),
                        origins]
            case ExternCall():
                kwargs = [[name, self.value(value)] for name, value in step.kwargs.items()]
                return ["call", self.function(step.target), self.value(step.args), kwargs, list(step.outputs), step.out]
            case Free(buffers):
                return ["free", list(buffers)]
            case WriteBack(target, source):
                return ["write", target, self.value(source)]

    def function(self, target: Any) -> list[str]:
        if isinstance(target, torch_compat.OpOverload):
            described = ["operator", torch_compat.operator_name(target)]
        else:
            described = ["function", getattr(target, "__module__", "") or "", getattr(target, "__qualname__", "")]
        if _find_function(described) is not target:
            raise NotStorable(f"a call of {target}")
        return described

    def value(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return ["float", value.hex()]
        if isinstance(value, Expr):
            return ["expr", self.expr(value)]
        if isinstance(value, BufferRef):
            offset = None if value.offset is None else self.expr(value.offset)
            dtype = None if value.dtype is None else str(value.dtype)[6:]
            return ["buffer", value.buffer, self.exprs(value.shape), self.exprs(value.strides), offset, dtype]
        if isinstance(value, tuple):
            return ["tuple", *map(self.value, value)]
        if isinstance(value, list):
            return ["list", *map(self.value, value)]
        if isinstance(value, slice):
            return ["slice", self.value(value.start), self.value(value.stop), self.value(value.step)]
        if isinstance(value, torch.device):
            return ["device", str(value)]
        for name, kind in _ENUMS.items():
            if isinstance(value, kind):
                return [name, str(value)[6:]]
        raise NotStorable(f"an argument of type {type(value).__name__}")


class _Reader:
    def __init__(self, parts: Mapping[str, Any], constants: Mapping[str, torch.Tensor],
                 nodes: Mapping[str, Any]) -> None:
        self.parts = parts
        self.nodes = nodes
        self.constants = constants
        self.symbols = {name: symbol(name, kind) for name, kind in parts["symbols"]}
        self.texts: dict[str, Expr] = dict(self.symbols)
        self.devices: dict[str, torch.device] = {}
        self.functions: dict[tuple[str, ...], Any] = {}
        self.buffers = [self.buffer(*given) for given in parts["buffers"]]
        self.kernels = [
            Kernel(name, [self.buffers[number] for number in buffers], [self.symbol(size) for size in sizes], [],
                   numbers=[self.symbol(number) for number in numbers])
            for name, _, buffers, sizes, numbers in parts["kernels"]
        ]  # fmt: skip

    def plan(self) -> StoredPlan:
        parts = self.parts
        plan = KernelPlan(
            [self.buffers[item[0]] if isinstance(item, list) else self.symbol(item) for item in parts["inputs"]],
            {self.symbol(name): (buffer, kind, dim) for name, buffer, kind, dim in parts["origins"]},
            [self.step(*given) for given in parts["steps"]],
            [self.value(output) for output in parts["outputs"]],
            {name: self.buffers[number] for name, number in parts["known"]},
            {name: self.constants[origin] for name, origin in parts["constants"]},
        )
        programs = [(self.expr(count), None if extent is None else self.expr(extent))
                    for count, extent in parts["programs"]]
        return StoredPlan(plan, self.kernels, [str(given[1]) for given in parts["kernels"]], programs)

    def buffer(self, name: str, dtype: str, shape: Any, strides: Any, kind: str, device: str) -> Buffer:
        if device not in self.devices:
            self.devices[device] = torch.device(device)
        return Buffer(name, _enum("dtype", dtype), self.some(shape), self.some(strides), kind, self.devices[device])

    def symbol(self, name: str) -> Symbol:
        return self.symbols[name]

    def some(self, given: Sequence[Any]) -> tuple[Expr, ...]:
        return tuple([self.expr(item) for item in given])

    def exprs(self, given: Sequence[Any] | None) -> tuple[Expr, ...] | None:
        return None if given is None else self.some(given)

    def expr(self, given: Any) -> Expr:
        if isinstance(given, int):
            return const(given)
        if isinstance(given, list):
            return const(float.fromhex(given[0]))
        expr = self.texts.get(given)
        if expr is None:
            expr = self.texts[given] = parse(given, self.symbols)
        return expr

    def step(self, kind: str, *given: Any) -> Step:
        if kind == "launch":
            number, buffers, sizes, numbers, names = given
            origins = tuple([self.nodes.get(name, name) for name in names])
            return Launch(self.kernels[number], tuple(buffers), self.some(sizes), self.some(numbers), origins)
        if kind == "allocate":
            return Allocate(self.buffers[given[0]], given[1])
        if kind == "free":
            return Free(tuple(given[0]))
        if kind == "write":
            return WriteBack(given[0], self.value(given[1]))
        if kind != "call":
            raise ValueError(kind)
        function, args, kwargs, outputs, out = given
        known = tuple(function)
        if known not in self.functions:
            self.functions[known] = _find_function(function)
        target = self.functions[known]
        if target is None:
            raise ValueError(function)
        return ExternCall(target, self.value(args), {name: self.value(value) for name, value in kwargs},
                          tuple(outputs), out)

    def value(self, given: Any) -> Any:
        if not isinstance(given, list):
            return given
        kind, rest = given[0], given[1:]
        match kind:
            case "buffer":
                buffer, shape, strides, offset, dtype = rest
                return BufferRef(buffer, self.exprs(shape), self.exprs(strides),
                                 None if offset is None else self.expr(offset),
                                 None if dtype is None else _enum("dtype", dtype))
            case "expr":
                return self.expr(rest[0])
            case "tuple":
                return tuple([self.value(item) for item in rest])
            case "list":
                return [self.value(item) for item in rest]
            case "slice":
                return slice(*map(self.value, rest))
            case "float":
                return float.fromhex(rest[0])
            case "device":
                return torch.device(rest[0])
            case _:
                return _enum(kind, rest[0])


def _enum(kind: str, name: str) -> Any:
    value = getattr(torch, name)
    if not isinstance(value, _ENUMS[kind]):
        raise ValueError(name)
    return value


def _find_function(given: Sequence[str]) -> Any:
    """The operator or function of that name; None when there is none that may stand in a plan."""
    if given[0] == "operator":
        parts = given[1].split(".")
        return torch_compat.find_operator(*parts) if len(parts) == 3 else None
    _, module, name = given
    if not any(module.startswith(known) if known.endswith(".") else module == known for known in _MODULES):
        return None
    return getattr(sys.modules.get(module), name, None)
