"""Symbolic graphs for backends that are built on torch's own AOTAutograd.

Those trace a graph once more, with fake tensors and symbols of torch, and look for a mode and an environment of torch
among the example inputs. So these are made anew in its system, with a symbol of torch for each of ours. What torch
relies on besides is checked in every call, and inputs for which it does not hold are compiled anew. Numbers that data
decides are found by torch itself, while it traces.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..fake import FakeTensor
from ..logs import log
from ..shapes import Expr, Symbol, print_python
from ..shapes.symnode import expr_of
from ..torch_compat.torch_symbols import TorchSymbols

if TYPE_CHECKING:
    from torch.fx import GraphModule

MOST_VERSIONS = 8
"""How many versions of one graph there may be before it runs operator by operator."""
AOT = "torch._functorch.aot_autograd"
Backend = Callable[..., Any]
Version = tuple[Callable[[Sequence[Any]], bool] | None, Callable[..., Any]]
"""For which inputs it holds (None: for all), and what runs."""


def needs_torchs_symbols(gm: GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether a graph has symbols, AOTAutograd is there to meet them, and torch can have the inputs."""
    if AOT not in sys.modules:
        return False
    tensors = [value for value in example_inputs if isinstance(value, torch.Tensor)]
    if any(isinstance(value, torch.SymFloat) for value in example_inputs) or \
            not all(type(tensor) is FakeTensor for tensor in tensors) or \
            len({torch_compat.storage_address(tensor) for tensor in tensors}) < len(tensors):
        return False
    values = [*example_inputs, *(node.meta.get("example_value") for node in gm.graph.nodes)]
    return any(isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)) for value in values
               for number in ((*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)))


def with_torchs_symbols(backend: Backend, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """What a backend makes of a graph, with torch's symbols where it cannot work with ours. Whether it is built on
    AOTAutograd it does not say: only one that fails is called again."""
    try:
        return backend(gm, example_inputs)  # type: ignore[no-any-return]
    except Exception as error:
        log("fallbacks", "%s is given torch's own symbols: %s: %s", type(gm).__name__, type(error).__name__, error)
        try:
            return compile_under_aot(backend, gm, example_inputs)
        except Exception as again:
            log("fallbacks", "%s: %s: %s", type(gm).__name__, type(again).__name__, again)
            raise error from None


def compile_under_aot(backend: Backend, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """What a backend makes of a graph whose sizes are symbols."""
    versions = _Versions(backend, gm, example_inputs)
    holds, run = versions.compiled[0]
    return run if holds is None else versions


class _Versions:
    """A graph compiled for one range of sizes after the other."""

    def __init__(self, backend: Backend, gm: GraphModule, example_inputs: Sequence[Any]) -> None:
        self.backend = backend
        self.gm = gm
        self.examples = list(example_inputs)
        hints = {symbol: _hint(symbol, value) for value in _numbers(example_inputs)
                 for symbol in expr_of(value).free_symbols}
        self.compiled = [self._compile_for(hints)]

    def __call__(self, *inputs: Any) -> Any:
        for holds, run in self.compiled:
            if holds is None or holds(inputs):
                return run(*inputs)
        if len(self.compiled) >= MOST_VERSIONS:
            return self.gm.forward(*inputs)
        sizes: dict[Symbol, int] = {}
        for example, value in zip(self.examples, inputs, strict=True):
            pairs = zip(example.shape, value.shape, strict=True) if isinstance(value, torch.Tensor) else [(example,
                                                                                                           value)]
            for size, number in pairs:
                if isinstance(size, torch.SymInt) and isinstance(expr := expr_of(size), Symbol):
                    sizes[expr] = int(number)
        self.compiled.append(self._compile_for(sizes))
        return self.compiled[-1][1](*inputs)

    def _compile_for(self, hints: dict[Symbol, int]) -> Version:
        world = TorchSymbols()
        names = {symbol: symbol.name for symbol in hints}
        numbers = {symbol.name: world.symbol(symbol.name, hint) for symbol, hint in hints.items()}

        def number(value: Any) -> Any:
            if not isinstance(value, torch.SymInt):
                return value
            text = print_python(expr_of(value), names)
            return eval(text, {"max": torch.sym_max, "min": torch.sym_min, **numbers})

        examples = [world.tensor([number(size) for size in value.shape], [number(step) for step in value.stride()],
                                 value.dtype, value.device, value.requires_grad)
                    if isinstance(value, torch.Tensor) else number(value) for value in self.examples]
        with world.tracing():
            run = self.backend(self.gm, examples)
        return world.conditions(examples), run


def _numbers(example_inputs: Sequence[Any]) -> list[torch.SymInt]:
    """All symbolic numbers of example inputs."""
    return [number for value in example_inputs
            for number in ((*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,))
            if isinstance(number, torch.SymInt)]


def _hint(symbol: Expr, value: Any) -> int:
    """The number that a symbol stands for in the call that is compiled."""
    return int(value.node.shape_env.env.hints[symbol])
