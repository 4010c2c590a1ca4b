"""Which of a model's ATen calls run inside captured graphs, how many graphs, how many breaks.

A model is compiled with a backend that runs the graph as it is and marks its run for the profiler; calls into ATen
outside such marks were not captured. A dispatch mode around the call would count too, but torch.compile runs everything
eagerly under one.

Coverage is not the share of eager's own calls that are found again in the graphs: some models of transformers take
other branches while they are compiled (Mamba another scan, BERT no test of its mask), and for four of them
torch.compile's single, unbroken graph would get only 58% to 98%.
"""

from __future__ import annotations

import functools
import json
import random
import time
import traceback
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy
import torch
import torch.utils._pytree
from tests.models import zoo
from tests.models.equality import assert_same

RECORD = Path(__file__).resolve().parent / "torch_compile_breaks.json"
"""What torch.compile did when last measured, so that tests compare without paying for torch.compile."""

MARK = "captured_graph"
MINIMUM_COVERAGE = 0.99
SAVING = ("aten::detach", "aten::clone")
"""How buffers are copied before a graph that changes them and may raise: no operators of the model."""


@dataclass(frozen=True)
class Measurement:
    """What one side did with one model. `error` is set, and the rest is meaningless, when the side failed."""

    model: str
    side: str
    graphs: int = 0
    breaks: int = 0
    reasons: list[str] = field(default_factory=list)
    second_call_graphs: int = 0
    """Graphs compiled by a second, equal call: not zero means a needless recompilation."""
    calls_inside: int = 0
    calls_outside: int = 0
    eager_calls: int = 0
    first_call_s: float = 0.0
    error: str | None = None

    @property
    def coverage(self) -> float:
        """The share of ATen calls that ran inside captured graphs.

        Of the compiled call's or of eager's calls, whichever are fewer: what a graph does beyond eager must not dilute
        the calls outside.
        """
        total = min(self.calls_inside + self.calls_outside, self.eager_calls)
        return max(0.0, 1 - self.calls_outside / total) if total else 0.0


# ------------------------------------------------------------------------------------------------- counting ATen calls


class CountingBackend:
    """A backend that runs each graph as it is, counts the graphs, and marks every run for the profiler."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)

        def run(*inputs: Any) -> Any:
            with torch.profiler.record_function(MARK):
                return gm.forward(*inputs)

        return run


def count_aten_calls(call: Callable[[], object], ignored: Container[str] = ()) -> tuple[int, int]:
    """Run `call` and count the ATen calls that Python makes, inside and outside of captured graphs.

    A call that ATen makes while it runs another one is not counted: the graph decided only the outer one. Nor are those
    outside that are `ignored`.

    >>> count_aten_calls(lambda: torch.ones(2) + 1)
    (0, 2)
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    inside = outside = 0
    for event in profile.events():
        if not event.name.startswith("aten::"):
            continue
        ancestors = list(_ancestors(event))
        if any(name.startswith("aten::") for name in ancestors):
            continue
        if MARK in ancestors:
            inside += 1
        elif event.name not in ignored:
            outside += 1
    return inside, outside


def _ancestors(event: Any) -> Iterator[str]:
    while event.cpu_parent is not None:
        event = event.cpu_parent
        yield event.name


# ------------------------------------------------------------------------------------------------------------ measuring


def measure(name: str, side: str, build: Callable[[], zoo.Example] | None = None,
            training: bool = False) -> Measurement:
    """Compile and call one model in this process, a model of the zoo unless `build` makes another. Failures of the side
    become `Measurement.error`. In `training` the model is in training mode, and gradients are compared too."""
    subject = _Subject(name, build or functools.partial(zoo.build, name), training)
    module, args, kwargs = subject.build()
    expected = subject.outcome(module, lambda: module(*args, **kwargs))
    eager_calls = sum(count_aten_calls(lambda: subject.call(lambda: module(*args, **kwargs))))
    try:
        measure_side = _measure_firesteel if side == "firesteel" else _measure_torch
        return measure_side(subject, expected, eager_calls)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).strip().splitlines() or [""]
        message = f"{type(error).__name__}: {text[0]} ({Path(place.filename).name}:{place.lineno})"
        return Measurement(model=name, side=side, eager_calls=eager_calls, error=message)


@dataclass(frozen=True)
class _Subject:
    """What is measured: a model and whether it is trained."""

    name: str
    make: Callable[[], zoo.Example]
    training: bool = False

    def build(self) -> zoo.Example:
        """A fresh copy of the model, and the arguments of one call."""
        module, args, kwargs = self.make()
        return module.train(self.training), args, kwargs

    def call(self, run: Callable[[], object]) -> object:
        """What `run` returns, from the same random numbers each time."""
        random.seed(0)
        numpy.random.seed(0)  # layers are dropped by its numbers, in VITS for example
        torch.manual_seed(0)
        with torch.set_grad_enabled(self.training):
            return run()

    def outcome(self, module: torch.nn.Module, run: Callable[[], object]) -> object:
        """What is compared: the results of a call, in training with the gradients of a loss made of all of them."""
        output = self.call(run)
        if not self.training:
            return output
        losses = [leaf.float().square().mean() for leaf in _tensors(output) if leaf.requires_grad and leaf.numel()]
        module.zero_grad()
        torch.stack(losses).sum().backward()
        return output, {name: parameter.grad for name, parameter in module.named_parameters()}


def _tensors(output: object) -> list[torch.Tensor]:
    """The floating point tensors in what a model returns; not those of caches and other objects."""
    leaves = torch.utils._pytree.tree_leaves(dict(output) if isinstance(output, Mapping) else output)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


@dataclass(frozen=True)
class _Calls:
    graphs: int
    second_call_graphs: int
    calls_inside: int
    calls_outside: int
    first_call_s: float


def _call_twice(compile_: Callable[..., Any], subject: _Subject, expected: object) -> _Calls:
    """Compile a fresh copy of the model; a cold call, then a warm one under the profiler, both equal to eager's. Where
    that compiles again (a model that fills a cache in its first call), the next one is counted."""
    module, args, kwargs = subject.build()
    backend = CountingBackend()
    compiled = compile_(module, backend=backend)
    start = time.perf_counter()
    first = subject.outcome(module, lambda: compiled(*args, **kwargs))
    seconds = time.perf_counter() - start
    graphs = len(backend.graphs)
    assert_same(first, expected)
    counts: list[tuple[int, int]] = []
    outputs: list[object] = []

    def counted() -> object:
        ignored = SAVING if subject.training else ()
        counts.append(count_aten_calls(lambda: outputs.append(compiled(*args, **kwargs)), ignored))
        return outputs[-1]

    second = subject.outcome(module, counted)
    if not subject.training:  # running statistics have changed
        assert_same(second, expected)
    again = len(backend.graphs) - graphs
    if again:
        subject.outcome(module, counted)
    return _Calls(graphs, again, *counts[-1], seconds)


def _measure_firesteel(subject: _Subject, expected: object, eager_calls: int) -> Measurement:
    import firesteel as fs

    with fs.config.patch(raise_on_internal_error=True):
        fs.reset()
        calls = _call_twice(fs.compile, subject, expected)
        fs.reset()
        module, args, kwargs = subject.build()
        explanation = subject.call(lambda: fs.explain(module)(*args, **kwargs))
        assert isinstance(explanation, fs.debug.explain.Explanation)
        fs.reset()
    return Measurement(
        model=subject.name,
        side="firesteel",
        breaks=explanation.graph_break_count,
        reasons=[str(reason) for reason in explanation.break_reasons],
        eager_calls=eager_calls,
        **asdict(calls),
    )


def _measure_torch(subject: _Subject, expected: object, eager_calls: int) -> Measurement:
    import torch._dynamo
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    calls = _call_twice(torch.compile, subject, expected)
    # The counter holds the number of breaks per reason. A frame that was given up as a whole is not in it, yet is one
    # break at least, as torch's own log says: without it a model that runs uncompiled would count as unbroken.
    broken = dict(counters["graph_break"])
    given_up = counters["frames"]["total"] - counters["frames"]["ok"]
    if given_up:
        broken |= counters["unimplemented"]
    return Measurement(
        model=subject.name,
        side="torch",
        breaks=sum(counters["graph_break"].values()) + given_up,
        reasons=[reason.strip().splitlines()[0] for reason, number in broken.items() for _ in range(number)],
        eager_calls=eager_calls,
        **asdict(calls),
    )


# ------------------------------------------------------------------------------------------------------------ recording


def recorded_breaks() -> dict[str, dict[str, Any]]:
    """What torch.compile did with each model when `--record` last ran: `graphs`, `breaks`, `coverage`, `error`…"""
    payload = json.loads(RECORD.read_text(encoding="utf-8"))
    recorded: dict[str, dict[str, Any]] = payload["models"]
    return recorded
