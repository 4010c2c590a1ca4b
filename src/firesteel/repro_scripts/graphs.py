"""A captured graph as the source of a Python function, one line an operation.

    def f(x, weight):
        mm = torch.mm(x, weight)
        relu = mm.relu()
        return (relu,)
"""

from __future__ import annotations

import ast
import functools
import importlib
import operator
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from .completions import operators_called
from .values import Unwritable, Values, constant_source

_INFIX = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
          operator.mod: "%", operator.pow: "**", operator.matmul: "@", operator.and_: "&", operator.or_: "|",
          operator.xor: "^", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
          operator.eq: "==", operator.ne: "!="}


class GraphSource:
    """The source of a graph, and of the graphs that its operations own, which become functions before it."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.functions: list[str] = []
        self.operators: set[str] = set()
        """Those that are not torch's own, as ``space::name``."""

    def function(self, module: torch.fx.GraphModule, name: str = "f") -> list[str]:
        """The function of a graph; `functions` gets the lines of it and of those before it."""
        names: dict[torch.fx.Node, str] = {}
        parameters: list[str] = []
        body: list[str] = []
        taken: set[str] = {"torch", "fs", "f"}
        for node in module.graph.nodes:
            if node.op == "output":
                body.append(f"return {self.argument(node.args[0], names)}")
                continue
            names[node] = _name(node.name, taken)
            if node.op == "placeholder":
                parameters.append(names[node])
            elif node.op == "get_attr":
                body.append(f"{names[node]} = {self.attribute(module, str(node.target))}")
            else:
                body.append(f"{names[node]} = {self.call(node, names)}")
        lines = [f"def {name}({', '.join(parameters)}):", *[f"    {line}" for line in body]]
        self.functions += [*lines, ""]
        return parameters

    def attribute(self, module: torch.fx.GraphModule, target: str) -> str:
        """A constant of a graph, or a graph inside of it."""
        value: Any = functools.reduce(getattr, target.split("."), module)
        if isinstance(value, torch.fx.GraphModule):
            name = self.values.fresh(target)
            self.function(value, name)
            return name
        return self.values.write(value, target)

    def call(self, node: torch.fx.Node, names: dict[torch.fx.Node, str]) -> str:
        """An operation."""
        args = [self.argument(arg, names) for arg in node.args]
        keywords = [f"{key}={self.argument(arg, names)}" for key, arg in node.kwargs.items()]
        target: Any = node.target
        if node.op == "call_method":
            return f"{args[0]}.{target}({', '.join([*args[1:], *keywords])})"
        if not keywords and len(args) == 2:
            if target in _INFIX and not args[0].startswith("-"):
                return f"{args[0]} {_INFIX[target]} {args[1]}"
            if target is operator.getitem:
                return f"{args[0]}[{args[1]}]"
            if target is getattr and isinstance(node.args[1], str):
                return f"{args[0]}.{node.args[1]}"
        if target is operator.neg:
            return f"-{args[0]}"
        return f"{self.target(target)}({', '.join([*args, *keywords])})"

    def target(self, target: Any) -> str:
        """The name of a function."""
        if isinstance(target, torch_compat.OpOverload) or _is_packet(target):
            self.operators |= set(operators_called(ast.parse(f"torch.ops.{target}")))
            return f"torch.ops.{target}"
        module = getattr(target, "__module__", None)
        qualified = str(getattr(target, "__qualname__", getattr(target, "__name__", "")))
        for place in (torch, torch.nn.functional, torch.Tensor, torch.special, torch.linalg, torch.fft):
            short = qualified.rpartition(".")[2]
            if getattr(place, short, None) is target:
                where = "torch.Tensor" if place is torch.Tensor else place.__name__
                return f"{where}.{short}"
        for name, known in vars(torch.nn.functional).items():
            if known is target:  # made by a function, as max_pool2d is
                return f"torch.nn.functional.{name}"
        if module in ("builtins", None) and not qualified:
            raise Unwritable(f"an operation is {target!r}")
        if module == "builtins":
            return qualified
        if module == "_operator":
            module = "operator"
        try:
            found = functools.reduce(getattr, qualified.split("."), importlib.import_module(str(module)))
        except (ImportError, AttributeError):
            found = None
        if found is not target:
            raise Unwritable(f"an operation is {target!r}, which cannot be imported")
        self.values.imports[str(module)] = None
        return f"{module}.{qualified}"

    def argument(self, value: Any, names: dict[torch.fx.Node, str]) -> str:
        """An argument of an operation."""
        if isinstance(value, torch.fx.Node):
            return names[value]
        if isinstance(value, (list, tuple)):
            parts = [self.argument(part, names) for part in value]
            if type(value) is tuple:
                return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
            return f"[{', '.join(parts)}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key!r}: {self.argument(part, names)}' for key, part in value.items())}}}"
        if isinstance(value, slice):
            return f"slice({', '.join(self.argument(part, names) for part in (value.start, value.stop, value.step))})"
        text = constant_source(value)
        if text is not None:
            if "math." in text:
                self.values.imports["math"] = None
            return text
        if callable(value) and not isinstance(value, torch.nn.Module):
            return self.target(value)
        return self.values.write(value, "constant")


def _is_packet(target: Any) -> bool:
    """Whether it is all overloads of an operator, as ``torch.ops.aten.add``."""
    space, _, name = str(target).partition(".")
    return name.isidentifier() and space.isidentifier() and getattr(getattr(torch.ops, space), name, None) is target


def _name(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name
