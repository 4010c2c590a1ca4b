"""Every operator sample that the torch wheel carries, plain against compiled with the backend "eager"."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tests.fuzz.snapshot import TensorFact
from tests.torch_differential import TorchSnapshot, backpropagate, compile_observed, differences, tensors_in

import firesteel as fs

BREAKS = Path(__file__).parent / "op_db_breaks.txt"
# Results are memory that nobody has written to.
UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


@dataclass(frozen=True)
class Case:
    """One way to call one sample."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    compares_values: bool


@dataclass(frozen=True)
class Verdict:
    """What came of a case: differences, and the reasons of breaks."""

    name: str
    differences: list[str]
    breaks: list[str]


def variants(op: Any, sample: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The ways to call an operator, each as a Python function with the call inside."""
    function, method, inplace, operator = op.op, op.method_variant, op.inplace_variant, op.operator_variant

    def as_function(x: Any, *args: Any, **kwargs: Any) -> Any:
        return function(x, *args, **kwargs)

    yield "function", as_function
    if method is not None and isinstance(sample.input, torch.Tensor):

        def as_method(x: Any, *args: Any, **kwargs: Any) -> Any:
            return method(x, *args, **kwargs)

        yield "method", as_method
    if inplace is not None and isinstance(sample.input, torch.Tensor) and not sample.broadcasts_input:

        def in_place(x: Any, *args: Any, **kwargs: Any) -> Any:
            y = x.clone()
            return y, inplace(y, *args, **kwargs)

        yield "in place", in_place
    if operator is not None and isinstance(sample.input, torch.Tensor) and not sample.kwargs:

        def as_operator(x: Any, *args: Any) -> Any:
            return operator(x, *args)

        yield "operator", as_operator


def cases(op: Any, dtype: torch.dtype, limit: int) -> Iterator[Case]:
    """All cases of an operator's first samples."""
    grads = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    try:
        samples = list(zip(range(limit), op.sample_inputs("cpu", dtype, requires_grad=grads), strict=False))
    except Exception:  # some sample functions need packages that are not here
        return
    for number, sample in samples:
        for variant, function in variants(op, sample):
            yield Case(
                f"{op.formatted_name} {variant} {number}",
                function,
                (sample.input, *sample.args),
                sample.kwargs,
                op.name not in UNDEFINED,
            )


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """A deep copy that keeps aliasing and also works for layouts without storage."""
    if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_copied(item, memo) for item in value)
    if type(value) is dict:
        return {key: _copied(item, memo) for key, item in value.items()}
    return copy.deepcopy(value, memo)


def observe(function: Callable[..., Any], case: Case) -> Any:
    """The facts of one run on copies of the arguments."""
    args, kwargs = _copied((case.args, case.kwargs), {})
    torch.manual_seed(3)
    snapshot = TorchSnapshot()
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        snapshot.facts.append(("raised", (type(error), str(error))))
        return snapshot.facts
    if case.compares_values and any(t.requires_grad for t in tensors_in(result)):
        try:
            backpropagate(result)
        except Exception as error:
            snapshot.facts.append(("backward raised", (type(error), str(error))))
    snapshot.add("args", [*args, kwargs])
    snapshot.add("result", result)
    snapshot.add("random state", torch.get_rng_state())
    if not case.compares_values:
        for _, fact in snapshot.facts:
            if isinstance(fact, TensorFact):
                fact.values.zero_()
    return snapshot.facts


def run_case(case: Case) -> Verdict:
    """Compare one case."""
    fs.reset()
    expected = observe(case.function, case)
    compiled, events = compile_observed(case.function, fullgraph=False)
    with fs.config.patch(raise_on_internal_error=True):
        actual = observe(compiled, case)
    found = differences(expected, actual)
    if found and differences(expected, observe(case.function, case)):
        # eager does not repeat its own bits here, so neither can we
        found = differences(expected, actual, exact=False)
    if not events.entries:
        found.append(f"nothing was compiled: {[why for _, why in events.skipped]}")
    return Verdict(case.name, found, [reason.reason for reason in events.break_reasons])


def run_operator(op: Any, dtype: torch.dtype, limit: int) -> list[Verdict]:
    """Compare all cases of an operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [run_case(case) for case in cases(op, dtype, limit)]


def known_breaks() -> dict[str, str]:
    """Operators whose first sample breaks the graph, and why."""
    return dict(line.split(": ", 1) for line in BREAKS.read_text().splitlines())
