"""Graph modules that write their Python code when somebody asks for it.

A `torch.fx.GraphModule` prints and compiles its graph as soon as it is made, which takes as long as fusing it. The code
of most graphs here is never run: their backend makes something else of the graph.

>>> graph = torch.fx.symbolic_trace(lambda x: x + 1).graph
>>> module = LazyGraphModule(torch.nn.Module(), graph)
>>> module.is_written, module(1), module.is_written
(False, 2, True)
"""

from __future__ import annotations

import re
import types
from typing import Any

import torch
import torch.fx

TORCH_NAME = re.compile(r"\btorch(?:\.\w+)+")
_WRITTEN = ("_code", "_lineno_map", "_prologue_start")


def code_of(module: torch.fx.GraphModule) -> str:
    """The code of a graph and of the graphs that its operations own, as text."""
    parts = [module.code]
    for name, part in module.named_modules():
        if name and isinstance(part, torch.fx.GraphModule):
            parts.append(f"# {name}\n{part.code.strip()}\n")
    return "\n".join(parts)


def calling_code(graph: torch.fx.Graph) -> Any:
    """What a graph's code does with its arguments and its results, for ``set_codegen`` of another graph."""
    return graph._codegen


class _Bound:
    """A namespace of torch with the functions that a graph calls, as they were when it was made."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def _bind_functions(module: torch.fx.GraphModule) -> None:
    """Make a graph's code call the functions of its nodes. It calls torch's by name, and names may be given others."""
    names = {}
    for node in module.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, (types.FunctionType, types.BuiltinFunctionType)):
            name = torch.fx.node._get_qualified_name(node.target)
            if name.startswith("torch."):
                names[name] = node.target
    table = getattr(type(module).forward, "__globals__", {})
    if not names or table.get("torch") is not torch:
        return
    root: Any = _Bound(torch)
    for name in {*TORCH_NAME.findall(module.code), *names}:
        *spaces, last = name.split(".")[1:]
        here: Any = root
        original: Any = torch
        for space in spaces:
            original = getattr(original, space, None)
            if not isinstance(original, types.ModuleType):
                break
            here = here.__dict__.setdefault(space, _Bound(original))
        else:
            function = names.get(name, getattr(original, last, None))
            if function is not None and not isinstance(function, types.ModuleType):
                here.__dict__[last] = function
    table["torch"] = root


class LazyGraphModule(torch.fx.GraphModule):
    """A graph module whose code is written on first use. Everything else is as in its base class."""

    def recompile(self) -> Any:
        """Write the code anew; while the module is being made, leave that for later."""
        if "_is_written" in self.__dict__:
            self.__dict__["_is_written"] = True
            written = super().recompile()
            _bind_functions(self)
            return written
        self.__dict__["_is_written"] = False
        return None

    @property
    def is_written(self) -> bool:
        """Whether the graph has become Python code."""
        return bool(self.__dict__["_is_written"])

    @property
    def forward(self) -> Any:  # type: ignore[override]
        """The function of the graph. Writing it puts it into the module's own class, where it hides this property."""
        self.recompile()
        return self.forward

    def __getattr__(self, name: str) -> Any:
        if name in _WRITTEN and not self.__dict__.get("_is_written", True):
            self.recompile()
            return self.__dict__[name]
        return super().__getattr__(name)

    def __reduce__(self) -> Any:
        self.recompile()  # the base class takes the attributes before it writes the code
        return super().__reduce__()

    def __reduce_package__(self, exporter: Any) -> Any:
        self.recompile()
        return super().__reduce_package__(exporter)
