"""What tools that quantise or lower programs read of nodes: the function that was called, and the node before.

A call of ``nn.Linear`` leaves in the ``meta`` of its node:

    torch_fn            ("linear_1", "builtin_function_or_method.linear")
    source_fn_stack     [("linear_1", torch.nn.Linear)]        the module's class for layers of torch.nn
    from_node           [NodeSource(linear)]                   after run_decompositions, and in program.module()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch.fx
from torch.fx.traceback import NodeSource, NodeSourceAction

STACK = "nn_module_stack"


def described(name: str, function: Any, modules: Sequence[torch.nn.Module]) -> dict[str, Any]:
    """The metadata of a call of a function, or of a method by its name, inside of modules."""
    text = f"method_descriptor.{function}" if isinstance(function, str) else \
        f"{type(function).__name__}.{getattr(function, '__name__', function)}"
    is_layer = bool(modules) and type(modules[-1]).__module__.startswith("torch.nn.modules.")
    return {"torch_fn": (name, text), "source_fn_stack": [(name, type(modules[-1]) if is_layer else function)]}


class Calls:
    """The functions of torch that a program calls, numbered by name."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, function: Any, modules: Sequence[torch.nn.Module]) -> dict[str, Any]:
        """The metadata of one more call."""
        name = str(getattr(function, "__name__", function))
        self._numbers[name] = self._numbers.get(name, 0) + 1
        return described(f"{name}_{self._numbers[name]}", function, modules)


@contextmanager
def following(nodes: Sequence[torch.fx.Node], made: torch.fx.Graph) -> Iterator[dict[torch.fx.Node, torch.fx.Node]]:
    """While a graph is traced into another: afterwards the result says which node each new one was traced from.

    A traced node keeps the module stack of its origin, the object itself. So each node is given one of its own.
    """
    origins: dict[int, torch.fx.Node] = {}
    without = []
    for node in nodes:
        if STACK not in node.meta:
            without.append(node)
        node.meta[STACK] = stack = dict(node.meta.get(STACK, ()))
        origins[id(stack)] = node
    result: dict[torch.fx.Node, torch.fx.Node] = {}
    try:
        yield result
    finally:
        for node in made.nodes:
            origin = origins.get(id(node.meta.get(STACK)))
            if origin is not None:
                result[node] = origin
                if not node.meta[STACK]:
                    del node.meta[STACK]
        for node in without:
            del node.meta[STACK]


def note_origin(node: torch.fx.Node, origin: torch.fx.Node, where: str) -> None:
    """Let a node say which one of an earlier graph it was made from."""
    node.meta["from_node"] = [NodeSource(origin, where, NodeSourceAction.CREATE)]
