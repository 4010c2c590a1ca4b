"""Every optimizer that the torch wheel carries samples for: three compiled steps give eager's parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tests.conformance.comparing import differences
from tests.conformance.torch_samples import load_op_db, spread

import firesteel as fs

FAILURES = Path(__file__).parent / "optim_db_failures.txt"
STEPS = 3
SIZES = ((4, 3), (5,), (2, 3, 2))


@dataclass
class Outcome:
    """What came of one configuration of an optimizer."""

    name: str
    failures: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)


def optimizers() -> list[Any]:
    """The descriptions of optimizers that the torch wheel carries."""
    load_op_db()  # makes the test packages importable
    from torch.testing._internal.common_optimizers import optim_db

    return list(optim_db)


def configurations(info: Any, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Named settings of an optimizer, plain and in its other implementations."""
    inputs = list(info.optim_inputs_func(device="cpu"))
    for sample in spread(inputs, count):
        named = ",".join(f"{key}={value}" for key, value in sample.kwargs.items()) or "default"
        for kind in ("forloop", *info.supported_impls):
            if kind == "fused" and "cpu" not in info.supports_fused_on:
                continue
            settings = dict(sample.kwargs)
            if sample.kwargs.get("differentiable") and kind != "forloop":
                continue
            if "foreach" in info.supported_impls:
                settings["foreach"] = kind == "foreach"
            if kind == "fused":
                settings["fused"] = True
            if settings.get("capturable"):
                continue  # for devices other than the CPU
            yield f"{info.name}({named};{kind})", settings


def parameters_of(info: Any) -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    # Muon is for matrices
    sizes = [size for size in SIZES if info.name != "Muon" or len(size) == 2]
    return [torch.nn.Parameter(torch.randn(size)) for size in sizes]


def steps(info: Any, settings: dict[str, Any], backend: str | None, events: list[Any]) -> Any:
    """Parameters and state after every step; or the exception."""
    from firesteel.events import Events
    from firesteel.runtime.compiler import COMPILERS

    parameters = parameters_of(info)
    seen: list[Any] = []
    try:
        settings = {k: torch.tensor(v) if k == "lr" and isinstance(v, torch.Tensor) else v for k, v in settings.items()}
        optimizer = info.optim_cls(parameters, **settings)
        step = optimizer.step
        if backend is not None:
            before = set(COMPILERS)
            step = fs.compile(optimizer.step, backend=backend)
            for compiler in set(COMPILERS) - before:
                compiler.events = Events()
                events.append(compiler.events)
        for number in range(STEPS):
            torch.manual_seed(10 + number)
            gradients = [torch.randn_like(parameter) for parameter in parameters]
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient if not info.only_supports_sparse_grads else gradient.to_sparse()
            step((lambda: _loss(parameters)) if info.step_requires_closure else None)
            state = [optimizer.state[parameter] for parameter in parameters if parameter in optimizer.state]
            seen.append([[p.detach().clone() for p in parameters], [_copied(entry) for entry in state]])
    except Exception as error:
        return error
    return seen


def _loss(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    for parameter in parameters:
        parameter.grad = None
    loss = torch.stack([(parameter**2).sum() for parameter in parameters]).sum()
    loss.backward()
    return loss


def _copied(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.detach().clone() if isinstance(value, torch.Tensor) else value
        for key, value in entry.items()
        if isinstance(value, (torch.Tensor, int, float))
    }


def run_configuration(info: Any, name: str, settings: dict[str, Any], backend: str = "native") -> Outcome:
    """Compare three steps."""
    outcome = Outcome(name)
    fs.reset()
    want = steps(info, settings, None, [])
    events: list[Any] = []
    with fs.config.patch(raise_on_internal_error=True):
        got = steps(info, settings, backend, events)
    outcome.failures = differences(want, got, True)
    outcome.breaks = [reason.reason for found in events for reason in found.break_reasons]
    return outcome


def known_failures(backend: str) -> dict[str, str]:
    """Configurations that are known to fail under a backend, with the reason."""
    if not FAILURES.exists():
        return {}
    lines = [line.split(": ", 1) for line in FAILURES.read_text().splitlines() if line]
    return {n.split(" ", 1)[1]: reason for n, reason in lines if n.split(" ", 1)[0] == backend}
