"""Every operator sample that the torch wheel carries, eager against compiled by the native backend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tests.conformance.comparing import AMBIGUOUS, UNDEFINED, Pair, accuracy, copied, differences, memory_of, run
from tests.conformance.torch_samples import samples_of
from torch.utils import _pytree as pytree

import firesteel as fs

FAILURES = Path(__file__).parent / "native_op_db_failures.txt"
DTYPES = ("float32", "float64", "bfloat16", "int64", "bool")


class Recording:
    """The native backend, noting what is called in ATen and what is not compiled at all."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.uncompiled: list[str] = []
        self.graphs = 0

    def __call__(self, gm: Any, example_inputs: Sequence[Any]) -> Any:
        from firesteel.backends.native import runner, unsupported_reason
        from firesteel.functional import Unsupported
        from firesteel.kernels.ir import ExternCall
        from firesteel.kernels.options import make_options
        from firesteel.pipeline.compile import compile_graph

        self.graphs += 1
        try:
            reason = unsupported_reason(example_inputs)
            if reason is not None:
                raise Unsupported(reason)
            made = compile_graph(gm, example_inputs, make_options())
        except Unsupported as error:
            self.uncompiled.append(error.reason)
            return gm.forward
        reasons = {fallback.operator: fallback.reason for fallback in made.lowered.fallbacks}
        for step in made.plan.steps:
            if isinstance(step, ExternCall) and isinstance(step.target, torch._ops.OpOverload):
                name = str(step.target)
                self.calls.append(f"{name}: {reasons.get(name, 'by choice')}")
        return runner(made)


def run_pair(op: Any, dtype: torch.dtype, count: int) -> Pair:
    """Compare an operator's samples in one dtype."""
    from firesteel.events import Events
    from firesteel.runtime.compiler import COMPILERS

    pair = Pair(op.formatted_name, str(dtype).removeprefix("torch."))
    values = op.name not in UNDEFINED
    function = op.op

    def program(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    for number, sample in samples_of(op, dtype, count):
        given = ((sample.input, *sample.args), sample.kwargs)
        try:
            first, second, third = copied(given), copied(given), copied(given)
        except Exception:
            continue
        fs.reset()
        want = run(function, *first)
        backend = Recording()
        before = set(COMPILERS)
        compiled = fs.compile(program, backend=backend)
        (compiler,) = set(COMPILERS) - before
        compiler.events = Events()
        with fs.config.patch(raise_on_internal_error=True):
            got = run(compiled, *second)
        pair.samples += 1
        pair.breaks += [reason.reason for reason in compiler.events.break_reasons]
        pair.calls += backend.calls
        pair.uncompiled += backend.uncompiled
        found = differences(want, got, values and op.name not in AMBIGUOUS)
        tensors = [[t for t in pytree.tree_leaves(side) if isinstance(t, torch.Tensor)] for side in (first, second)]
        found += [f"argument after the call: {line}" for line in differences(tensors[0], tensors[1], True)]
        if not found and not isinstance(want, Exception):
            for left, right in zip(pytree.tree_leaves(want), pytree.tree_leaves(got), strict=True):
                if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
                    shared = memory_of(left, tensors[0]), memory_of(right, tensors[1])
                    if shared[0] != shared[1]:
                        found.append(f"memory: shared with argument {shared[1]}, eager {shared[0]}")
            if not found and values and dtype in (torch.float32, torch.bfloat16):
                note = accuracy(function, *third, want, got)
                if note:
                    pair.less_accurate.append(f"sample {number}: {note}")
        if found and isinstance(want, torch.Tensor):
            # what eager does not repeat cannot be compared
            again = run(function, *third)
            if differences(want, again, values):
                continue
        pair.failures += [f"sample {number}: {line}" for line in found]
    return pair


def known_failures() -> dict[tuple[str, str], str]:
    """Pairs that are known to fail, with the reason."""
    lines = [line.split(": ", 1) for line in FAILURES.read_text().splitlines() if line]
    return {(name.split()[0], name.split()[1]): reason for name, reason in lines}
