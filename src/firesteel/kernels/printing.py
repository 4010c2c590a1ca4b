"""The loop IR as text, for logs, golden files and debugging.

Values print as nested calls; what is used several times in one value gets a line of its own:

    v0 = exp(load(x, 8*i0 + i1))
    out[8*i0 + i1]: f32 = div(v0, add(v0, 1.0))    for i0 < s0, i1 < 8
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from . import ir
from .ir import Axis, Buffer, BufferRef, Computation, ExternCall, Kernel, Place, Statement, Value
from .plan import Allocate, Free, KernelPlan, Launch, WriteBack

if TYPE_CHECKING:
    from .lowering.graph import LoweredGraph

_DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip
_LEAVES = frozenset({"const", "index", "local", "number"})


def dtype_name(dtype: torch.dtype) -> str:
    """
    >>> dtype_name(torch.float32), dtype_name(torch.bool), dtype_name(torch.complex64)
    ('f32', 'bool', 'complex64')
    """
    return _DTYPES.get(dtype) or str(dtype).removeprefix("torch.")


# ---------------------------------------------------------------------------------------------------------------------
# values


def print_value(value: Value, names: Mapping[Value, str] | None = None) -> str:
    """A value as nested calls; those in ``names`` by their names.

    >>> x = ir.load("x", 3, torch.float32)
    >>> print_value(ir.op("mul", x, ir.const(2, torch.float32)))
    'mul(load(x, 3), 2.0)'
    """
    texts: dict[Value, str] = {}
    names = names or {}
    for node in value.walk():
        texts[node] = names.get(node) or _print_node(node, [texts[arg] for arg in node.args])
    return _print_node(value, [texts[arg] for arg in value.args])


def _print_node(node: Value, args: Sequence[str]) -> str:
    match node.op:
        case "const":
            return repr(node.data) if node.dtype in (torch.float32, torch.bool, torch.int64) else _typed(node)
        case "index" | "number":
            return f"{node.op}({node.data})"
        case "local":
            return str(node.data)
        case "load":
            return f"load({', '.join(_place_parts(node.data, args))})"
        case "cast" | "bitcast":
            return f"{node.op}({args[0]}, {dtype_name(node.dtype)})"
    return f"{node.op}({', '.join(args)})"


def _typed(node: Value) -> str:
    return f"{dtype_name(node.dtype)}({node.data!r})"


def _place_parts(place: Place, args: Sequence[str]) -> list[str]:
    parts = [place.buffer, str(place.index)]
    parts += [f"{symbol.name}={text}" for symbol, text in zip(place.indirect, args, strict=False)]
    if place.masked:
        parts.append(f"mask={args[-1]}")
    return parts


def _shared(values: Iterable[Value]) -> tuple[list[str], dict[Value, str]]:
    """Lines for what is used more than once in some values, and the names given to it."""
    uses: dict[Value, int] = {}
    order: list[Value] = []
    for value in values:
        for node in value.walk():
            if node not in uses:
                order.append(node)
                uses[node] = 0
                for arg in node.args:
                    uses[arg] += 1
    names: dict[Value, str] = {}
    lines: list[str] = []
    for node in order:
        if uses[node] > 1 and node.op not in _LEAVES and not (node.op == "load" and not node.args):
            text = print_value(node, names)
            names[node] = f"v{len(names)}"
            lines.append(f"{names[node]} = {text}")
    return lines, names


def _values_text(values: Sequence[Value]) -> tuple[list[str], list[str]]:
    """Lines ahead, and the text of each value."""
    lines, names = _shared(values)
    return lines, [names.get(value) or print_value(value, names) for value in values]


# ---------------------------------------------------------------------------------------------------------------------
# computations and calls


def _axes_text(axes: Sequence[Axis]) -> str:
    return ", ".join([f"{axis.symbol.name} < {axis.size}" for axis in axes])


def _target_text(place: Place, args: Sequence[str]) -> str:
    buffer, index, *rest = _place_parts(place, args)
    return f"{buffer}[{', '.join([index, *rest])}]"


_MODES = {"set": "=", "add": "+=", "mul": "*=", "max": "max=", "min": "min="}


def print_computation(computation: Computation) -> str:
    """A computation, on one line if nothing in it is shared."""
    lines, (value, *args) = _values_text([computation.value, *computation.args])
    if computation.reduce is not None:
        value = f"{computation.reduce}({_axes_text(computation.reduce_axes)}) {value}"
    target = f"{_target_text(computation.place, args)}: {dtype_name(computation.dtype)}"
    over = f"    for {_axes_text(computation.axes)}" if computation.axes else ""
    return "\n".join([*lines, f"{target} {_MODES[computation.mode]} {value}{over}"])


def _argument(arg: Any) -> str:
    match arg:
        case BufferRef():
            return print_reference(arg)
        case list() | tuple():
            inner = ", ".join(map(_argument, arg))
            return f"[{inner}]" if isinstance(arg, list) else f"({inner})"
        case torch.fx.GraphModule():
            return "<graph>"
    return str(arg) if not isinstance(arg, str) else repr(arg)


def print_reference(ref: BufferRef) -> str:
    """A buffer by its name, a view of one with its layout."""
    if ref.shape is None:
        return ref.buffer
    layout = f"{_tuple(ref.shape)}, strides={_tuple(ref.strides or ())}, offset={ref.offset}"
    dtype = "" if ref.dtype is None else f", {dtype_name(ref.dtype)}"
    return f"view({ref.buffer}, {layout}{dtype})"


def _tuple(parts: Iterable[Any]) -> str:
    return f"({', '.join(map(str, parts))})"


def print_call(call: ExternCall) -> str:
    """A call of ATen."""
    args = [*map(_argument, call.args), *[f"{name}={_argument(arg)}" for name, arg in call.kwargs.items()]]
    results = ", ".join([name or "_" for name in call.outputs])
    into = f" -> {results}" if call.out else ""
    return f"{'' if call.out else f'{results} = '}{call.target}({', '.join(args)}){into}"


def print_buffer(buffer: Buffer) -> str:
    """The declaration of a buffer."""
    return f"{buffer.name}: {dtype_name(buffer.dtype)}{_tuple(buffer.shape)} strides {_tuple(buffer.strides)}"


def print_lowered(graph: LoweredGraph) -> str:
    """A lowered graph: its inputs, what is computed or called in order, its outputs."""
    lines = [f"input {_input_text(part)}" for part in graph.inputs]
    lines += [f"constant {print_buffer(graph.buffers[name])}" for name in graph.constants]
    lines += [f"{symbol.name} = {name}.{kind}({dim})" for symbol, (name, kind, dim) in graph.symbols.items()]
    for operation in graph.operations:
        text = print_computation(operation) if isinstance(operation, Computation) else print_call(operation)
        lines += text.split("\n")
    lines.append(f"return {', '.join(map(_argument, graph.outputs))}")
    return "\n".join(lines)


def _input_text(part: Any) -> str:
    return print_buffer(part) if isinstance(part, Buffer) else f"{part.name}: {part.kind}"


# ---------------------------------------------------------------------------------------------------------------------
# kernels and plans


def print_kernel(kernel: Kernel) -> str:
    """A kernel as nested loops."""
    buffers = [f"{buffer.name}: {dtype_name(buffer.dtype)}" for buffer in kernel.buffers]
    numbers = ", ".join([symbol.name for symbol in (*kernel.sizes, *kernel.numbers)])
    head = f"kernel {kernel.name}({', '.join(buffers)}{'; ' if numbers else ''}{numbers}):"
    body = [f"scratch {part.name}: {dtype_name(part.dtype)}[{part.size}]" for part in kernel.scratch]
    body += [line for statement in kernel.body for line in _statement(statement)]
    return "\n".join([head, *_indented(body or ["pass"])])


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _statement(statement: Statement) -> list[str]:
    match statement:
        case ir.Loop():
            words = "parallel for" if statement.parallel else "for"
            tile = f", tile {statement.tile}" if statement.tile else ""
            head = f"{words} {_axes_text([statement.axis])}{tile}:"
            return [head, *_indented(line for inner in statement.body for line in _statement(inner))]
        case ir.Assign():
            lines, (value,) = _values_text([statement.value])
            return [*lines, f"{statement.name} = {value}"]
        case ir.Reduce():
            lines, (value,) = _values_text([statement.value])
            head = f"{statement.name}: {dtype_name(statement.dtype)} = {statement.kind}({_axes_text(statement.axes)})"
            # What is shared inside is computed at every point that is reduced.
            return [f"{head} {value}"] if not lines else [f"{head}:", *_indented([*lines, value])]
        case ir.Scan():
            lines, (value, *args) = _values_text([statement.value, *statement.args])
            head = f"{_target_text(statement.place, args)} = {statement.kind}({_axes_text([statement.axis])})"
            return [f"{head} {value}"] if not lines else [f"{head}:", *_indented([*lines, value])]
        case ir.Store():
            lines, (value, *args) = _values_text([statement.value, *statement.args])
            return [*lines, f"{_target_text(statement.place, args)} {_MODES[statement.mode]} {value}"]
    raise AssertionError(f"unknown statement {statement!r}")


def print_plan(plan: KernelPlan, kernels: bool = True) -> str:
    """A plan: its kernels, each once, and the program around them."""
    lines: list[str] = []
    seen: set[str] = set()
    for step in plan.steps:
        if kernels and isinstance(step, Launch) and step.kernel.name not in seen:
            seen.add(step.kernel.name)
            lines += [*print_kernel(step.kernel).split("\n"), ""]
    lines += [f"input {_input_text(part)}" for part in plan.inputs]
    lines += [f"constant {print_buffer(plan.buffers[name])}" for name in plan.constants if name in plan.buffers]
    lines += [f"{symbol.name} = {name}.{kind}({dim})" for symbol, (name, kind, dim) in plan.symbols.items()]
    lines += [_step(step) for step in plan.steps]
    lines.append(f"return {', '.join(map(_argument, plan.outputs))}")
    return "\n".join(lines)


def _step(step: Any) -> str:
    match step:
        case Allocate():
            reuse = "" if step.reuse is None else f" in {step.reuse}"
            return f"allocate {print_buffer(step.buffer)}{reuse}"
        case Launch():
            numbers = ", ".join(map(str, (*step.sizes, *step.numbers)))
            return f"launch {step.kernel.name}({', '.join(step.buffers)}{'; ' if numbers else ''}{numbers})"
        case Free():
            return f"free {', '.join(step.buffers)}"
        case WriteBack():
            return f"write back {print_reference(step.source)} to {step.target}"
        case ExternCall():
            return print_call(step)
    return repr(step)
