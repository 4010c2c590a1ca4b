"""The functional graph: ATen operators without mutation, and what has to be done around them to act like the program.

    def f(x, scale):                      input x, scale
        y = x.t()                         mul = aten.mul.Tensor(x, scale)
        x.mul_(scale)                     add = aten.add.Tensor(mul, 1)
        return y, y + 1, y.size(0)        x becomes mul
                                          return view of x [4, 3] strides [1, 4], add, 4
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any

import torch
import torch.fx

from ..records import dataclass
from ..shapes import ShapeGuard
from ..torch_compat.graph_modules import LazyGraphModule


class Unsupported(Exception):
    """A graph that cannot be made functional, or a kernel that cannot be printed; what was captured can be run."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class SpentResults(Unsupported):
    """Results, by position, whose history a gradient inside of the program has used up: autograd says ``message``.

    ``positions`` has for each the inputs and the other such results that autograd gets to from it. ``traced`` is the
    graph with all of them detached, where tracing has come to it.
    """

    traced: FunctionalGraph | None = None

    def __init__(self, positions: dict[int, tuple[tuple[int, ...], tuple[int, ...]]], message: str) -> None:
        super().__init__(f"autograd refuses to differentiate a result: {message}")
        self.positions = positions
        self.message = message


def is_refusal(error: Exception) -> bool:
    """Whether it was torch that raised, for the operands of an operator while a graph was traced. The graph is not at
    fault, and when it runs as it was captured, eager raises in its own words, or does not."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    # Code in C++ has no frame of its own: what it raises comes out of the step that called it.
    in_a_step = raised_in == f"{__package__}.tracing" and isinstance(error, (RuntimeError, IndexError))
    return in_a_step or (isinstance(error, (RuntimeError, IndexError, ValueError, TypeError))
                         and raised_in.startswith("torch."))


@dataclass(frozen=True)
class Input:
    """One placeholder: a fake tensor, or a number that is a symbol."""

    name: str
    node: torch.fx.Node
    example: Any


@dataclass(frozen=True)
class ViewLayout:
    """How a result lies in the memory of its base. Numbers are ints or torch.SymInt; the offset counts from the base's
    first element, in elements of ``dtype``."""

    shape: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any
    dtype: torch.dtype

    def __str__(self) -> str:
        at = "" if type(self.offset) is int and self.offset == 0 else f" at {self.offset}"
        return f"[{', '.join(map(str, self.shape))}] strides [{', '.join(map(str, self.stride))}]{at}"


@dataclass(frozen=True)
class FreshTensor:
    """A tensor with memory of its own: the value of ``node``, with the layout of its ``meta["val"]``.

    With ``view`` the result is a view of that value. Several results of the same ``memory`` have the same ``node`` and
    are views of one tensor, as they are in eager; results of different memories never are.
    """

    node: torch.fx.Node
    view: ViewLayout | None = None
    memory: int = 0


@dataclass(frozen=True)
class InputAlias:
    """An input: the very object, or with ``view`` a view of it (of its contents after all changes)."""

    index: int
    view: ViewLayout | None = None


@dataclass(frozen=True)
class SameAs:
    """The same object as an earlier output."""

    index: int


@dataclass(frozen=True)
class Number:
    """A number that a node computes."""

    node: torch.fx.Node


@dataclass(frozen=True)
class Constant:
    """None, or a number known now."""

    value: Any


Output = FreshTensor | InputAlias | SameAs | Number | Constant


@dataclass(frozen=True)
class Mutation:
    """An input that the program changes in place, and the value that it has in the end.

    ``writes`` is how many changes autograd counts: none where it is changed through ``data``.
    """

    index: int
    node: torch.fx.Node
    writes: int = 1


@dataclass(frozen=True)
class DetachedBase:
    """What autograd takes for the base of a result that is a view of a detached tensor.

    A write to the one is a write to the other, but what was detached does not get the history that comes with it.
    """

    number: int
    """Equal for results that have the same base."""
    result: int | None
    """The position of the base among the results; None where it is none of them."""
    creation: Any
    """How the result came about as a view (`torch_compat.creation_of`)."""


@dataclass(frozen=True)
class StateChange:
    """A call that changes global state of torch (grad mode, autocast) for what runs after the graph."""

    function: Any
    args: tuple[Any, ...]


@dataclass
class FunctionalGraph:
    """A graph of ATen operators that change nothing, the inputs to be written to, and how results are made.

    Nodes are placeholders, ``call_function`` of operators, ``operator.getitem`` of operators' tuples, arithmetic on
    sizes, and ``get_attr`` for constants. Every node has ``meta["val"]``: a fake tensor with the strides of its value,
    or a number. Sizes are nodes, never symbols as arguments. ``as_strided`` is always applied to a tensor with storage
    of its own or to an input. The output node holds the nodes of all fresh results and changed inputs.
    """

    graph: torch.fx.Graph
    inputs: list[Input]
    outputs: list[Output]
    mutated: list[Mutation] = field(default_factory=list)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    """Tensors behind ``get_attr`` nodes."""
    state_changes: list[StateChange] = field(default_factory=list)
    """To be done when the graph has run, in this order."""
    guards: list[ShapeGuard] = field(default_factory=list)
    """Conditions on sizes that tracing relied on and that were not known before."""
    returns_tuple: bool = True
    creations: list[Any] = field(default_factory=list)
    """For each output how it came about as a view (`torch_compat.creation_of`), None where eager's is no view."""
    detached: dict[int, DetachedBase] = field(default_factory=dict)
    """Outputs, by position, that share memory with others or with an input and are views of something detached."""

    @functools.cached_property
    def module(self) -> torch.fx.GraphModule:
        """The graph as a module, for tools that want one. Its result are the values of the output node."""
        root = torch.nn.Module()
        for name, constant in self.constants.items():
            root.register_buffer(name, constant)
        return LazyGraphModule(root, self.graph, class_name="FunctionalGraph")

    def __str__(self) -> str:
        lines = [f"input {', '.join(f'{entry.name}: {describe(entry.example)}' for entry in self.inputs)}"]
        for node in self.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            lines.append(f"{node.name}: {describe(node.meta.get('val'))} = {_call(node)}")
            if hasattr(node.target, "bodies"):
                lines.extend(f"    {line}" for line in node.target.describe())
        lines += [f"{self.inputs[change.index].name} becomes {change.node.name}" for change in self.mutated]
        lines += [f"afterwards {change.function.__name__}{change.args}" for change in self.state_changes]
        lines.append(f"return {', '.join(self._result(output) for output in self.outputs)}")
        return "\n".join(lines)

    def _result(self, output: Output) -> str:
        if isinstance(output, Constant):
            return repr(output.value)
        if isinstance(output, SameAs):
            return f"output {output.index}"
        name = self.inputs[output.index].name if isinstance(output, InputAlias) else output.node.name
        view = None if isinstance(output, Number) else output.view
        return name if view is None else f"view of {name} {view}"


_SHORT = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.bool: "bool",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8",
}


def needed_for(results: Iterable[torch.fx.Node], sources: Callable[[torch.fx.Node], list[torch.fx.Node]] | None = None,
               ) -> set[torch.fx.Node]:
    """All nodes that results depend on, with these; ``sources`` says what one depends on, all its inputs otherwise."""
    needed: set[torch.fx.Node] = set()
    open_nodes = list(results)
    while open_nodes:
        node = open_nodes.pop()
        if node not in needed:
            needed.add(node)
            open_nodes.extend(node.all_input_nodes if sources is None else sources(node))
    return needed


def describe(value: Any) -> str:
    """A value's type, short: ``f32[2, 3]``, with strides where they are not contiguous."""
    if isinstance(value, torch.Tensor):
        shape, stride = tuple(value.shape), tuple(value.stride())
        text = f"{_SHORT.get(value.dtype, str(value.dtype)[6:])}[{', '.join(map(str, shape))}]"
        if all(type(number) is int for number in (*shape, *stride)) and not value.is_contiguous():
            text += f"/[{', '.join(map(str, stride))}]"
        return text
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(describe, value))})"
    return str(value) if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) else repr(value)


def _call(node: torch.fx.Node) -> str:
    if node.op == "get_attr":
        return f"constant {node.target}"
    target: Any = node.target
    name = str(target) if "." in str(target) and " " not in str(target) else getattr(target, "__name__", str(target))
    parts = [_argument(value) for value in node.args]
    parts += [f"{key}={_argument(value)}" for key, value in node.kwargs.items()]
    return f"{name}({', '.join(parts)})"


def _argument(value: Any) -> str:
    if isinstance(value, torch.fx.Node):
        return value.name
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_argument, value))}]"
    return repr(value)
