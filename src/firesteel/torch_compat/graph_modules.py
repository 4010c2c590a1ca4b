"""Graph modules that write their Python code when somebody asks for it.

A `torch.fx.GraphModule` prints and compiles its graph as soon as it is made, which takes as long as fusing it. The code
of most graphs here is never run: their backend makes something else of the graph.

>>> graph = torch.fx.symbolic_trace(lambda x: x + 1).graph
>>> module = LazyGraphModule(torch.nn.Module(), graph)
>>> module.is_written, module(1), module.is_written
(False, 2, True)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

_WRITTEN = ("_code", "_lineno_map", "_prologue_start")


def code_of(module: torch.fx.GraphModule) -> str:
    """The code of a graph and of the graphs that its operations own, as text."""
    parts = [module.code]
    for name, part in module.named_modules():
        if name and isinstance(part, torch.fx.GraphModule):
            parts.append(f"# {name}\n{part.code.strip()}\n")
    return "\n".join(parts)


class LazyGraphModule(torch.fx.GraphModule):
    """A graph module whose code is written on first use. Everything else is as in its base class."""

    def recompile(self) -> Any:
        """Write the code anew; while the module is being made, leave that for later."""
        if "_is_written" in self.__dict__:
            self.__dict__["_is_written"] = True
            return super().recompile()
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
