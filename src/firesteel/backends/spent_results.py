"""Results whose history the program itself has used up, which most training steps return.

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        loss.backward()                     # frees what the history had saved
        optimizer.step()
        return loss

In eager `loss` requires grad, and says that its graph was freed as soon as somebody asks for gradients. The graph is
compiled with such results detached, and they get a history that does nothing but that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from firesteel.logs import log
from firesteel.torch_compat.graph_modules import LazyGraphModule

if TYPE_CHECKING:
    from firesteel.functional import FunctionalGraph, SpentResults

    Compile = Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]


def compile_detached(
    gm: GraphModule, example_inputs: Sequence[Any], spent: SpentResults, compile_one: Compile,
    compile_traced: Callable[[FunctionalGraph], Callable[..., Any]]
) -> Callable[..., Any]:
    """The graph, compiled without the history of its spent results: by ``compile_traced`` where tracing has come to
    that graph already, else by ``compile_one``, which also says what to do where it cannot be compiled."""
    if spent.traced is not None:
        try:
            return _Spent(compile_traced(spent.traced), spent)
        except Exception as error:
            log("fallbacks", "%s is traced again with results detached: %s", type(gm).__name__, error)
    detached = _detached(gm, list(spent.positions))
    return _Spent(compile_one(detached, example_inputs), spent)


class _Spent:
    """Calls the compiled graph, and gives the results a history."""

    def __init__(self, run: Callable[..., Any], spent: SpentResults) -> None:
        self.run = run
        self.message = spent.message
        # Who gets to another result gets to all that is behind that one, so it has more behind it.
        self.positions = sorted(spent.positions.items(), key=lambda item: (len(item[1][1]), item[0]))

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        results = list(self.run(*inputs))
        with torch.enable_grad():
            detached: dict[int, torch.Tensor] = {}
            for at, (grown, others) in self.positions:
                result = results[at]
                if id(result) not in detached:
                    behind = [inputs[index] for index in grown]
                    behind += [results[other] for other in others]
                    detached[id(result)] = _Refusing.apply(self.message, result, *behind)  # type: ignore[no-untyped-call]
                results[at] = detached[id(result)]
        return tuple(results)

    def prepare_backward(self) -> None:
        """Compile backward before it runs."""
        if hasattr(self.run, "prepare_backward"):
            self.run.prepare_backward()


class _Refusing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, message: str, result: torch.Tensor, *leaves: torch.Tensor) -> torch.Tensor:
        ctx.message = message
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(ctx.message)


def _detached(gm: GraphModule, positions: Sequence[int]) -> GraphModule:
    graph = torch.fx.Graph()
    values: dict[torch.fx.Node, Any] = {}
    returned = graph.graph_copy(gm.graph, values)
    assert isinstance(returned, (tuple, list))
    copies: dict[Any, torch.fx.Node] = {}
    results = list(returned)
    for at in positions:
        if results[at] not in copies:
            copies[results[at]] = graph.call_method("detach", (results[at],))
            example = results[at].meta.get("example_value")
            if isinstance(example, torch.Tensor):
                copies[results[at]].meta["example_value"] = example.detach()
        results[at] = copies[results[at]]
    graph.output(tuple(results))
    return LazyGraphModule(gm, graph, type(gm).__name__)
