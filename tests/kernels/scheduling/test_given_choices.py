"""What scheduling is told from outside: computations to keep apart, and sizes as they are now."""

from __future__ import annotations

import torch

import firesteel as fs
from firesteel.functional import trace
from firesteel.functional.size_nodes import hints_of
from firesteel.kernels.lowering import lower
from firesteel.kernels.scheduling import schedule
from firesteel.kernels.scheduling.machines import GPU
from firesteel.repair.plan_run import run
from kernels.scheduling.programs import kernels


def test_what_is_kept_apart_has_kernels_of_its_own():
    def program(x):
        y = torch.softmax(x, -1)
        return y, (y * 2).sum(0), torch.sin(x) + 1

    x = torch.randn(4, 12)
    functional = trace(torch.fx.symbolic_trace(program), [x])
    [softmax] = [node for node in functional.graph.nodes if "softmax" in str(node.target)]
    whole = schedule(lower(functional.module), GPU)
    parted = schedule(lower(functional.module), GPU, {softmax})
    assert len(kernels(parted)) > len(kernels(whole))
    for kernel in kernels(parted):
        assert softmax not in kernel.origins or set(kernel.origins) == {softmax}
    torch.testing.assert_close(tuple(run(parted, [x])), program(x))


def test_symbols_as_they_are_now_decide_on_splitting():
    found = []

    def backend(module, examples):
        functional = trace(module, examples)
        hints = hints_of(functional)
        found.append([schedule(lower(functional.module), GPU, hints=given) for given in (hints, {})])
        return lambda *args: tuple(run(found[-1][0], args))

    x = torch.randn(300, 80, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(fs.compile(lambda x: x.sum(0), backend=backend, dynamic=True)(x), x.sum(0))
    [[with_hints, without]] = found
    assert len(kernels(with_hints)) == 2 and len(kernels(without)) == 1
