"""Every module that the torch wheel carries samples for, eager against compiled: forward and backward."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tests.conformance.comparing import copied, differences
from tests.conformance.gradients import tangent, tensors_of
from tests.conformance.torch_samples import load_op_db, spread
from torch.utils import _pytree as pytree

import firesteel as fs

FAILURES = Path(__file__).parent / "module_db_failures.txt"
MODES = ("train", "eval")


@dataclass
class Outcome:
    """What came of one module in one mode."""

    name: str
    mode: str
    samples: int = 0
    failures: list[str] = field(default_factory=list)


def modules() -> list[Any]:
    """The descriptions of modules that the torch wheel carries."""
    load_op_db()  # makes the test packages importable
    from torch.testing._internal.common_modules import module_db

    return list(module_db)


def samples_of(info: Any, mode: str, count: int) -> list[Any]:
    """Some ways to make and call a module."""
    torch.manual_seed(0)
    try:
        made = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=True, training=mode == "train"
        )
    except Exception:  # some need packages that are not here
        return []
    return spread([sample for sample in made if sample.forward_input is not None], count)


def observe(module: torch.nn.Module, function: Any, args: Any, kwargs: Any) -> Any:
    """Results, gradients of all inputs and parameters, and buffers; or the exception."""
    torch.manual_seed(3)
    try:
        result = function(*args, **kwargs)
        roots = [t for t in tensors_of(result) if t.requires_grad]
        if roots:
            torch.autograd.backward(roots, [tangent(root) for root in roots])
        leaves = [t for t in tensors_of((args, kwargs)) if t.requires_grad and t.is_leaf]
        gradients = [t.grad for t in (*leaves, *module.parameters())]
        return [t.detach() for t in tensors_of(result)], gradients, [b.clone() for b in module.buffers()]
    except Exception as error:
        return error


def run_module(info: Any, mode: str, count: int, backend: str = "native") -> Outcome:
    """Compare a module's samples."""
    outcome = Outcome(info.formatted_name, mode)
    for number, sample in enumerate(samples_of(info, mode, count)):
        make, given = sample.constructor_input, sample.forward_input
        seen = []
        for compiled in (False, True):
            torch.manual_seed(1)
            try:
                module = info.module_cls(*make.args, **make.kwargs).to(torch.float32).train(mode == "train")
            except Exception:
                break
            args, kwargs = copied(pytree.tree_map(_leaf, (given.args, given.kwargs)))
            fs.reset()
            function = fs.compile(module, backend=backend) if compiled else module
            with fs.config.patch(raise_on_internal_error=True):
                seen.append(observe(module, function, args, kwargs))
        if len(seen) == 2:
            outcome.samples += 1
            outcome.failures += [f"sample {number}: {line}" for line in differences(seen[0], seen[1], True)]
    return outcome


def _leaf(value: Any) -> Any:
    """Arguments that are results of operators become tensors of their own, so that they can be copied."""
    if isinstance(value, torch.Tensor) and not value.is_leaf:
        return value.detach().requires_grad_(value.requires_grad)
    return value


def known_failures(backend: str) -> dict[tuple[str, str], str]:
    """Modules that are known to fail under a backend, with the reason."""
    if not FAILURES.exists():
        return {}
    lines = [line.split(": ", 1) for line in FAILURES.read_text().splitlines() if line]
    return {(n.split()[1], n.split()[2]): reason for n, reason in lines if n.split()[0] == backend}
