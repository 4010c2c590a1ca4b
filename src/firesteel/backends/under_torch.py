"""Graphs from torch's own front end: ``torch.compile(f, backend="firesteel")``.

Its placeholders carry fake tensors and symbolic integers of torch's system. They are made anew in ours: a symbol for
each symbol, or for each expression that ours cannot read. torch's guards hold when the graph is called, but conditions
that our tracing relies on besides are not among them, so they are checked here, and inputs for which one fails are
compiled for their own sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from firesteel import shapes, torch_compat
from firesteel.fake.tensor import new_fake
from firesteel.logs import log
from firesteel.shapes import Expr, Symbol, print_python
from firesteel.shapes.symnode import make_symint

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from firesteel.kernels.options import Options

MOST_VERSIONS = 8
"""How many versions of one graph there may be before it runs operator by operator."""


@dataclass
class _Inputs:
    """Example inputs in our system, and where the symbols in them come from."""

    env: shapes.ShapeEnv = field(default_factory=shapes.ShapeEnv)
    examples: list[Any] = field(default_factory=list)
    symbols: dict[str, Symbol] = field(default_factory=dict)
    sources: dict[Symbol, str] = field(default_factory=dict)
    """Python expressions over the list ``inputs``."""

    def number(self, value: Any, source: str) -> Any:
        """A size, stride or number of torch's system."""
        if not isinstance(value, torch.SymInt):
            return value
        text = str(value.node.expr)
        hint = value.node.hint
        if hint is None:
            raise TypeError(f"{text} has no value to compile for")
        try:
            expr: Expr = shapes.parse(text, list(self.symbols.values()))
        except shapes.ParseError:
            expr = self.symbols.get(text) or self.symbol(text, int(hint), source)
        if isinstance(expr, Symbol):
            self.sources.setdefault(expr, source)
        return make_symint(self.env, expr)

    def symbol(self, text: str, hint: int, source: str) -> Symbol:
        name = text if text.isidentifier() else self.env.reserve_name("torch")
        symbol = self.env.new_symbol(hint, source, name=name, lower=min(hint, 2))
        self.symbols[text] = symbol
        self.sources[symbol] = source
        return symbol

    def tensor(self, example: torch.Tensor, position: int) -> torch.Tensor:
        at = f"inputs[{position}]"
        sizes = [self.number(size, f"{at}.shape[{dim}]") for dim, size in enumerate(example.shape)]
        strides = [self.number(stride, f"{at}.stride({dim})") for dim, stride in enumerate(example.stride())]
        fake = new_fake(sizes, strides, example.dtype, example.device)
        return fake.requires_grad_() if example.requires_grad else fake


def convert(example_inputs: Sequence[Any]) -> _Inputs:
    """Example inputs of torch's system in ours."""
    inputs = _Inputs()
    for position, example in enumerate(example_inputs):
        # Numbers come first: most symbols are inputs themselves.
        if isinstance(example, torch.SymInt):
            inputs.number(example, f"inputs[{position}]")
    for position, example in enumerate(example_inputs):
        if isinstance(example, torch.Tensor):
            inputs.examples.append(inputs.tensor(example, position))
        else:
            inputs.examples.append(inputs.number(example, f"inputs[{position}]"))
    return inputs


def compile_for_torch(gm: GraphModule, example_inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """What runs in place of a graph of torch's front end."""
    storages = [torch_compat.storage_address(t) for t in example_inputs if isinstance(t, torch.Tensor)]
    if len(set(storages)) != len(storages):
        log("fallbacks", "%s runs operator by operator: its inputs share memory", type(gm).__name__)
        return gm.forward
    run, check = _version(gm, _described(gm, example_inputs), options)
    if check is None:
        return run
    return _Versions(gm, options, [(check, run)])


def _described(gm: GraphModule, example_inputs: Sequence[Any]) -> list[Any]:
    """The inputs as torch traced them, with symbolic sizes; the examples are real tensors."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    return [node.meta.get("example_value", example)
            for node, example in zip(placeholders, example_inputs, strict=True)]


def _version(gm: GraphModule, example_inputs: Sequence[Any], options: Options) -> tuple[Callable[..., Any], Any]:
    """A compiled graph, and a function that tells for which inputs it holds; None if for all that torch passes."""
    from firesteel.backends.native import compile_or_run_eagerly

    inputs = convert(example_inputs)
    run = compile_or_run_eagerly(gm, inputs.examples, options)
    conditions = [print_python(guard.expr, inputs.sources) for guard in inputs.env.guards]
    if not conditions:
        return run, None
    return run, eval(f"lambda *inputs: {' and '.join(f'({text})' for text in conditions)}")


@dataclass
class _Versions:
    """A graph compiled several times, for inputs that differ in what our tracing relied on."""

    gm: GraphModule
    options: Options
    compiled: list[tuple[Callable[..., bool], Callable[..., Any]]]

    def __call__(self, *inputs: Any) -> Any:
        for check, run in self.compiled:
            if check(*inputs):
                return run(*inputs)
        if len(self.compiled) >= MOST_VERSIONS:
            return self.gm.forward(*inputs)
        run, _ = _version(self.gm, inputs, self.options)
        layout = _layout(inputs)
        self.compiled.append((lambda *given: _layout(given) == layout, run))
        return run(*inputs)


def _layout(inputs: Sequence[Any]) -> list[Any]:
    return [(value.shape, value.stride()) if isinstance(value, torch.Tensor) else value for value in inputs]
