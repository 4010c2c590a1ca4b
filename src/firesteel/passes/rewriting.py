"""What passes share: making nodes with their fake results, replacing nodes also where they are results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake.mode import dispatch
from ..functional.cleanup import clean_up, separate_results
from ..functional.graph import FreshTensor, FunctionalGraph, Number, Output
from ..shapes.symnode import expr_of

ATEN = torch.ops.aten


class Rewriter:
    """Changes a functional graph, node by node; `finish` tidies up when something has been changed."""

    def __init__(self, functional: FunctionalGraph) -> None:
        self.functional = functional
        self.graph = functional.graph
        self.results: dict[torch.fx.Node, torch.fx.Node] = {}
        """What results are now, by what they were."""
        self.changed = False
        self._origin: dict[str, Any] = {}

    @contextmanager
    def before(self, node: torch.fx.Node) -> Iterator[None]:
        """Nodes made inside stand in front of ``node`` and come from the same place in the program."""
        self._origin = {key: node.meta[key] for key in ("user_frames", "stack_trace") if key in node.meta}
        with self.graph.inserting_before(node):
            yield

    def call(self, target: Any, *args: Any, val: Any = None, name: str | None = None, **kwargs: Any) -> torch.fx.Node:
        """A new node; its fake result is computed unless it is given."""
        node = self.graph.create_node("call_function", target, args, kwargs, name)
        node.meta.update(self._origin)
        node.meta["val"] = fake_result(target, args, kwargs) if val is None else val
        self.changed = True
        return node

    def replace(self, old: torch.fx.Node, new: torch.fx.Node) -> None:
        """Use ``new`` wherever ``old`` was used, results included."""
        old.replace_all_uses_with(new)
        self.results[old] = new
        self.changed = True

    def finish(self) -> FunctionalGraph:
        """The changed graph: equal nodes once, no dead ones, results separate tensors where they are so in eager."""
        if not self.changed:
            return self.functional
        functional = self.functional
        if self.results:
            outputs: list[Output] = []
            for output in functional.outputs:
                if isinstance(output, (FreshTensor, Number)):
                    output = replace(output, node=self._now(output.node))
                outputs.append(output)
            functional.outputs = outputs
            functional.mutated = [replace(change, node=self._now(change.node)) for change in functional.mutated]
        clean_up(functional)
        if not hasattr(functional, "backward_nodes"):  # where forward and backward are one, parting does that
            separate_results(functional)
        functional.__dict__.pop("module", None)
        return functional

    def _now(self, node: torch.fx.Node) -> torch.fx.Node:
        while node in self.results:
            node = self.results[node]
        return node


def fake_result(target: Any, args: Any, kwargs: Any, value: Callable[[torch.fx.Node], Any] | None = None) -> Any:
    """The fake result of an operator on the fake results of nodes, or on what ``value`` says that they are."""
    values, named = substituted((tuple(args), dict(kwargs)), value or _recorded)
    if not isinstance(target, torch_compat.OpOverload):
        return target(*values, **named)
    return dispatch(None, target, values, named)


def _recorded(node: torch.fx.Node) -> Any:
    return node.meta["val"]


def substituted(argument: Any, value: Callable[[torch.fx.Node], Any]) -> Any:
    """An argument with nodes replaced, in plain tuples, lists and dicts."""
    if isinstance(argument, torch.fx.Node):
        return value(argument)
    if isinstance(argument, tuple):
        return tuple([substituted(item, value) for item in argument])
    if isinstance(argument, list):
        return [substituted(item, value) for item in argument]
    if isinstance(argument, dict):
        return {name: substituted(item, value) for name, item in argument.items()}
    return argument


def is_call(node: Any, *targets: Any) -> bool:
    """Whether something is a node that calls one of these operators."""
    if not isinstance(node, torch.fx.Node) or node.op != "call_function":
        return False
    called = node.target
    for target in targets:  # noqa: SIM110 (passes ask this of every node, and a generator costs as much as the rest)
        if called is target:
            return True
    return False


def same_layout(old: Any, new: Any) -> bool:
    """Whether two fake tensors agree in dtype, device, sizes and strides, as far as can be told."""
    return old.dtype is new.dtype and old.device == new.device and same_sizes(old, new) \
        and same_numbers(old.stride(), new.stride())


def is_dense_bias(bias: torch.fx.Node | None) -> bool:
    """Whether oneDNN's operators may get this bias: they read it as if its elements lay side by side."""
    return bias is None or bias.meta["val"].is_contiguous()


def same_sizes(old: Any, new: Any) -> bool:
    """Whether two fake tensors are known to have equal sizes."""
    return same_numbers(old.shape, new.shape)


def same_numbers(old: Any, new: Any) -> bool:
    return len(old) == len(new) and all(expr_of(a) is expr_of(b) for a, b in zip(old, new, strict=True))


def size_hint(value: Any) -> int:
    """The number of elements, with symbols taken as they were when the program was captured."""
    total = 1
    for size in value.shape:
        total *= number_hint(size)
    return total


def number_hint(size: Any) -> int:
    """A size as it was when the program was captured; a large one where that is not known."""
    if isinstance(size, int):
        return size
    hint = size.node.hint
    return 1024 if hint is None else int(hint)
