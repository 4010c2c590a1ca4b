"""Gradients of every operator sample that the torch wheel carries, eager against compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.fx
from tests.conformance.comparing import AMBIGUOUS, UNDEFINED, Pair, copied, differences
from tests.conformance.torch_samples import operators, spread
from torch.utils import _pytree as pytree

import firesteel as fs

FAILURES = Path(__file__).parent / "gradient_failures.txt"
DTYPES = ("float32", "float64")
BACKENDS = ("native", "aot_eager")


def samples_of(op: Any, dtype: torch.dtype, count: int) -> list[tuple[int, Any]]:
    """Numbered samples with something to differentiate, spread over all of them."""
    try:
        found = list(zip(range(200), op.sample_inputs("cpu", dtype, requires_grad=True), strict=False))
    except Exception:  # some sample functions need packages that are not here
        return []
    wanted = [(number, sample) for number, sample in found if leaves_of(arguments(sample))]
    return spread(wanted, count)


def arguments(sample: Any) -> Any:
    return (sample.input, *sample.args), sample.kwargs


def tensors_of(value: Any) -> list[torch.Tensor]:
    return [part for part in pytree.tree_leaves(value) if isinstance(part, torch.Tensor)]


def leaves_of(value: Any) -> list[torch.Tensor]:
    """The tensors that gradients are wanted for, each once."""
    return list({id(t): t for t in tensors_of(value) if t.requires_grad}.values())


def tangent(result: torch.Tensor) -> torch.Tensor:
    """A gradient of a result that tells its elements apart, in the result's own layout."""
    weights = torch.arange(result.numel(), dtype=torch.float64).reshape(result.shape) % 7
    return torch.empty_like(result).copy_((weights - 3) / 4 + 0.1)


def differentiate(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The results and the gradients of all arguments, or the exception."""
    torch.manual_seed(3)
    try:
        results = function(*args, **kwargs)
        roots = [t for t in tensors_of(results) if t.requires_grad]
        leaves = leaves_of((args, kwargs))
        gradients: Sequence[Any] = ()
        if roots and leaves:
            gradients = torch.autograd.grad(roots, leaves, [tangent(root) for root in roots], allow_unused=True)
        return [t.detach() for t in tensors_of(results)], list(gradients)
    except Exception as error:
        return error


def widened(value: Any) -> Any:
    """The same arguments in double precision."""
    if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
        return value.detach().double().requires_grad_(value.requires_grad)
    return torch.float64 if value is torch.float32 else value


def less_accurate(function: Any, given: Any, want: Any, got: Any) -> str | None:
    """Whether a gradient's error against float64 is more than twice eager's, with two last places to spare."""
    exact = differentiate(function, *pytree.tree_map(widened, given))
    if isinstance(exact, Exception):
        return None
    for true, eager, ours in zip(exact[1], want[1], got[1], strict=False):
        if true is None or eager is None or not eager.numel() or eager.dtype is not torch.float32:
            continue
        error, own = ((true - part.double()).abs().nan_to_num(0, 0, 0).max().item() for part in (eager, ours))
        size = true.abs().nan_to_num(0, 0, 0).max().item()
        if own > 2 * error + 2 * torch.finfo(torch.float32).eps * size:
            return f"error {own:.3g}, eager {error:.3g}, at values up to {size:.3g}"
    return None


def run_pair(op: Any, dtype: torch.dtype, count: int, backend: str = "native", fallbacks: bool = True) -> Pair:
    """Compare the gradients of an operator's samples in one dtype; with ``fallbacks`` look for calls of ATen too."""
    pair = Pair(op.formatted_name, str(dtype).removeprefix("torch."))
    function = op.op

    def program(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    for number, sample in samples_of(op, dtype, count):
        given = arguments(sample)
        try:
            first, second, third = copied(given), copied(given), copied(given)
        except Exception:
            continue
        fs.reset()
        want = differentiate(function, *first)
        with fs.config.patch(raise_on_internal_error=True):
            got = differentiate(fs.compile(program, backend=backend), *second)
        pair.samples += 1
        found = differences(want, got, op.name not in UNDEFINED and op.name not in AMBIGUOUS)
        if found and not isinstance(want, Exception) and differences(want, differentiate(function, *third), True):
            continue  # what eager does not repeat cannot be compared
        if not found and not isinstance(want, Exception) and op.name not in AMBIGUOUS + UNDEFINED:
            note = less_accurate(function, copied(given), want, got)
            if note:
                pair.less_accurate.append(f"sample {number}: {note}")
        pair.failures += [f"sample {number}: {line}" for line in found]
        if fallbacks and not isinstance(want, Exception):
            calls, reason = backward_calls(function, given)
            pair.calls += calls
            pair.uncompiled += [reason] if reason else []
    return pair


# ---------------------------------------------------------------------------------------------------------------------
# what backward calls


def joint_module(function: Callable[..., Any], given: Any) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """A graph of forward and backward as one call, and its inputs."""
    flat, tree = pytree.tree_flatten(given)
    places = [k for k, part in enumerate(flat) if isinstance(part, torch.Tensor)]

    def joint(*tensors: torch.Tensor) -> Any:
        parts = list(flat)
        for place, tensor in zip(places, tensors, strict=True):
            parts[place] = tensor
        args, kwargs = pytree.tree_unflatten(parts, tree)
        roots = [t for t in tensors_of(function(*args, **kwargs)) if t.requires_grad]
        leaves = [t for t in tensors if t.requires_grad]
        recorder: Any = torch.utils._python_dispatch._get_current_dispatch_mode()
        if recorder is not None:
            recorder.origin = {"backward": True}
        return torch.autograd.grad(roots, leaves, [tangent(root) for root in roots], allow_unused=True) if roots else ()

    graph = torch.fx.Graph()
    inputs = [graph.placeholder(f"x{k}") for k in range(len(places))]
    graph.output(graph.call_function(joint, tuple(inputs)))
    return torch.fx.GraphModule({}, graph), [flat[k] for k in places]


def backward_calls(function: Callable[..., Any], given: Any) -> tuple[list[str], str]:
    """The operators of ATen that a compiled backward calls, with reasons; or why there is no compiled backward."""
    from firesteel.backends.native import unsupported_reason
    from firesteel.functional import Unsupported
    from firesteel.kernels.ir import ExternCall
    from firesteel.kernels.options import make_options
    from firesteel.pipeline.compile import compile_graph

    module, inputs = joint_module(function, given)
    try:
        reason = unsupported_reason(inputs)
        if reason is not None:
            return [], reason
        made = compile_graph(module, inputs, make_options())
    except Unsupported as error:
        return [], error.reason.splitlines()[0]
    except Exception as error:
        return [], f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    reasons = {fallback.operator: fallback.reason for fallback in made.lowered.fallbacks}
    calls = []
    for step in made.plan.steps:
        if isinstance(step, ExternCall) and isinstance(step.target, torch._ops.OpOverload):
            if any(node.meta.get("backward") for node in step.origins):
                calls.append(f"{step.target}: {reasons.get(str(step.target), 'by choice')}")
    return calls, ""


def differentiable(only: str = "") -> list[Any]:
    """The operators that have gradients."""
    return [op for op in operators(only) if op.supports_autograd]


def known_failures(backend: str) -> dict[tuple[str, str], str]:
    """Pairs that are known to fail under a backend, with the reason."""
    if not FAILURES.exists():
        return {}
    lines = [line.split(": ", 1) for line in FAILURES.read_text().splitlines() if line]
    parts = [(name.split(), reason) for name, reason in lines]
    return {(words[1], words[2]): reason for words, reason in parts if words[0] == backend}
