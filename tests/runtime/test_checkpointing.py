"""Compiled modules in `torch.utils.checkpoint`, which runs them again in backward and stops that with an exception."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import firesteel as fs

pytestmark = pytest.mark.usefixtures("quick_collections")


def net():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8), torch.nn.Sigmoid())


@pytest.mark.parametrize("backend", ["native", "aot_eager", "eager"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients(backend, reentrant):
    model = net()
    eager = copy.deepcopy(model)
    compiled = fs.compile(model, backend=backend)
    with fs.config.patch(raise_on_internal_error=True):
        for _ in range(3):
            x = torch.randn(4, 8)
            found = []
            for run in (compiled, eager):
                start = x.clone().requires_grad_()
                y = checkpoint(run, checkpoint(run, start, use_reentrant=reentrant), use_reentrant=reentrant)
                y.square().mean().backward()
                found.append((y, start.grad))
            torch.testing.assert_close(found[0], found[1])
            for p, q in zip(model.parameters(), eager.parameters(), strict=True):
                torch.testing.assert_close(p.grad, q.grad)


def test_nothing_waits_for_the_garbage_collector():
    """Tensors of the second run are free when backward is done."""
    model = net()
    compiled = fs.compile(model, backend="native")

    def step():
        checkpoint(compiled, torch.randn(4, 8), use_reentrant=False).square().mean().backward()

    for _ in range(3):
        step()
    gc.collect()
    gc.disable()
    try:
        before = sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())
        for _ in range(3):
            step()
        after = sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())
    finally:
        gc.enable()
    assert after == before
