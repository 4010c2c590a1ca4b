"""Results whose history a gradient inside of the program has used up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs


def training_step(returns: Callable[..., Any]) -> Callable[..., Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        out = model(x)
        loss = F.mse_loss(out, y)
        loss.backward()
        optimizer.step()
        return returns(loss, out, model[0].weight)

    return step


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
@pytest.mark.parametrize("returns", [
    lambda loss, out, weight: loss,
    lambda loss, out, weight: (loss, out),
    lambda loss, out, weight: {"loss": loss, "again": loss, "kept": out.detach()},
    lambda loss, out, weight: (loss, weight.sum()),
], ids=["loss", "loss and output", "dictionary", "loss and something new"])  # fmt: skip
def test_training_steps_may_return_their_loss(returns: Callable[..., Any], backend: str) -> None:
    plain, compiled = training_step(returns), fs.compile(training_step(returns), backend=backend, fullgraph=True)
    x, y = torch.ones(5, 3), torch.zeros(5, 2)
    for _ in range(3):
        expected, found = plain(x, y), compiled(x, y)
        torch.testing.assert_close(found, expected)
    flat = [value for value in torch.utils._pytree.tree_leaves(found) if value.requires_grad]
    assert [value.requires_grad for value in torch.utils._pytree.tree_leaves(expected)] == [
        value.requires_grad for value in torch.utils._pytree.tree_leaves(found)]
    assert flat[0].grad_fn.name() == "_RefusingBackward", "the graph ran operator by operator"
    with pytest.raises(RuntimeError, match="a second time"):
        flat[0].sum().backward()
    if isinstance(found, dict):
        assert found["loss"] is found["again"]
    if isinstance(found, tuple) and found[1].dim() == 0:
        found[1].backward()  # has a history of its own


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
def test_what_a_spent_result_has_nothing_to_do_with(backend: str) -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        out = x.sin().exp()
        loss = (out * out).sum()
        loss.backward()
        return loss, out, y * 2

    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    for run in (step, fs.compile(step, backend=backend)):
        loss, out, other = run(x, y)
        assert torch.autograd.grad(loss, y, allow_unused=True) == (None,)
        for behind in (x, out):
            with pytest.raises(RuntimeError, match="a second time"):
                torch.autograd.grad(loss, behind, allow_unused=True)
