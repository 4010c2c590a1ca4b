"""The operations of captured graphs that stand for ``torch.func``: each owns the graph of the function it transforms.

    vmap(f)(x)            vectorised(f_graph, (x, ...), (0, ...), (0,), "error")
    grad(f)(x)            gradient, value = differentiated(f_graph, (x, ...), 1)
    out, back = vjp(f, x) out, pullback = pulled_back(f_graph, (x, ...), 1, 1)
    back(v)               (gradient,) = pullback_of(pullback, (v,))
    jvp(f, (x,), (t,))    out, tangent = pushed_forward(f_graph, (x, ...), (t,), 1)

They work on tensors with data and without: when a graph is traced, what is recorded are the operators below them, and
autograd sees these. The graphs take all tensors that their functions use: first those that are differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake.functions import find_function, is_described
from ..torch_compat import transforms

Results = tuple[Any, ...]


def vectorised(graph: Callable[..., Any], operands: Sequence[Any], in_dims: Sequence[int | None],
               out_dims: Sequence[int | None], randomness: str = "error") -> Results:
    """The results of a graph for all slices of its operands at once."""
    run = transforms.vectorise(_body(graph, operands), in_dims, out_dims, randomness)
    return _with_symbols(lambda: run(*operands), operands)


def differentiated(graph: Callable[..., Any], operands: Sequence[Any], count: int) -> Results:
    """Gradients of a graph's first result with respect to its first ``count`` operands, then all its results."""
    def run() -> Results:
        with transforms.gradient_level() as level, torch.enable_grad():
            inputs, results = _run_at_level(graph, operands, count, level)
            of_inputs = gradients(results[:1], inputs, None, retain_graph=False, create_graph=True)
            return tuple([transforms.unwrap_from_level(each, level) for each in (*of_inputs, *results)])

    return _with_symbols(run, operands)


class Pullback:
    """Gradients for given gradients of results; what ``torch.func.vjp`` returns as a function."""

    def __init__(self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
        self.outputs = outputs
        self.inputs = inputs

    def __call__(self, cotangents: Sequence[torch.Tensor], retain_graph: bool, create_graph: bool | None) -> Results:
        create = torch.is_grad_enabled() if create_graph is None else create_graph
        computed = gradients(self.outputs, self.inputs, cotangents, retain_graph, create)
        # what is given back as it was would be taken for something that was changed in place
        return tuple([each.view_as(each) if any(each is given for given in cotangents) else each for each in computed])


def pulled_back(graph: Callable[..., Any], operands: Sequence[Any], count: int, outputs: int) -> Results:
    """All results of a graph, then the `Pullback` from its first ``outputs`` to its first ``count`` operands."""
    def run() -> Results:
        with transforms.gradient_level() as level, torch.enable_grad():
            inputs, results = _run_at_level(graph, operands, count, level)
            outside = [transforms.unwrap_from_level(result, level) for result in results]
        return *outside, Pullback(results[:outputs], inputs)

    return _with_symbols(run, operands)


def pullback_of(pullback: Pullback, cotangents: Sequence[torch.Tensor], retain_graph: bool = True,
                create_graph: bool | None = None) -> Results:
    """What a pullback gives for these gradients of results."""
    return _with_symbols(lambda: pullback(cotangents, retain_graph, create_graph), cotangents)


def pushed_forward(graph: Callable[..., Any], operands: Sequence[Any], tangents: Sequence[torch.Tensor],
                   outputs: int) -> Results:
    """All results of a graph, then the tangents of the first ``outputs``, for tangents of its first operands."""
    count = len(tangents)

    def function(*primals: torch.Tensor) -> tuple[Results, Results]:
        results = _body(graph, operands)(*primals, *operands[count:])
        return tuple(results[:outputs]), tuple(results[outputs:])

    def run() -> Results:
        results, pushed, others = transforms.push_forward(function, operands[:count], tangents)
        return *results, *others, *pushed

    return _with_symbols(run, [*operands, *tangents])


def gradients(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor],
              cotangents: Sequence[torch.Tensor] | None, retain_graph: bool, create_graph: bool) -> Results:
    """Gradients as transforms have them: zeros where nothing depends on an input."""
    depending = [at for at, output in enumerate(outputs) if output.requires_grad]
    if not depending:
        return tuple([torch.zeros_like(x) for x in inputs])
    given = None if cotangents is None else [cotangents[at] for at in depending]
    computed = torch.autograd.grad([outputs[at] for at in depending], list(inputs), given, retain_graph=retain_graph,
                                   create_graph=create_graph, allow_unused=True)
    return tuple([torch.zeros_like(x) if gradient is None else gradient
                  for gradient, x in zip(computed, inputs, strict=True)])


def _run_at_level(graph: Callable[..., Any], operands: Sequence[Any], count: int, level: int) -> \
        tuple[list[torch.Tensor], Results]:
    """The first ``count`` operands as leaves of a level, and what a graph makes of all of them."""
    inputs = [transforms.wrap_for_level(operand, level) for operand in operands[:count]]
    for x in inputs:
        transforms.require_gradient(x)
    return inputs, tuple(_body(graph, operands)(*inputs, *operands[count:]))


class _SymbolicBody(torch.fx.Interpreter):
    """Runs a graph with Python in the place of functions that C++ takes apart in ways that need plain sizes."""

    def __call__(self, *args: Any) -> Any:
        """What ``run`` returns; that begins a progress bar, whose first one in a process starts a thread."""
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            self.env[node] = self.run_node(node)
        return self.env[node]

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = torch_compat.name_in_torch(target)
        rule = _dropout if name == "dropout" else find_function(name, args, kwargs=kwargs)
        return super().call_function(target if rule is None or is_described(name) else rule, args, kwargs)


def _dropout(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    if not training or p == 0 or inplace:
        return torch.nn.functional.dropout(x, p, training, inplace)
    if p == 1:
        return x * 0
    if transforms.batches_first():  # in which order numbers are drawn depends on how they lie in memory
        noise = torch.bernoulli(torch.empty((), dtype=x.dtype, device=x.device).expand(x.shape), 1 - p)
    else:
        noise = torch.empty_like(x, memory_format=torch.contiguous_format).bernoulli_(1 - p)
    return x * noise.div_(1 - p)


def _body(graph: Callable[..., Any], operands: Sequence[Any]) -> Callable[..., Any]:
    if not isinstance(graph, torch.fx.GraphModule):
        return graph
    if _symbolic(operands):
        return _SymbolicBody(graph)
    return graph.forward  # calling the module would print errors that are expected


def _symbolic(operands: Sequence[Any]) -> bool:
    return any(isinstance(x, torch.Tensor) and torch_compat.has_symbolic_layout(x) for x in operands)


def _with_symbols(run: Callable[[], Results], operands: Sequence[Any]) -> Results:
    """Run a transform. In some versions of torch those take linear layers and products apart in C++ that reads plain
    sizes; the same in Python takes symbols."""
    if _symbolic(operands) and not torch_compat.functorch_active():
        with torch_compat.python_dispatcher():
            return run()
    return run()
