"""Graphs are taken apart behind results that others are computed from, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import firesteel as fs
from firesteel.backends.stages import compile_in_stages

GRAPHS = {
    "one from another": (lambda x: (a := x.sin(), a.exp()), 2),
    "three in a row": (lambda x: (a := x.sin(), b := a.exp(), b + a), 3),
    "nothing to do with each other": (lambda x: (x.sin(), x.exp()), None),
    "only a view": (lambda x: (a := x.sin(), a.view(-1)), None),
    "detached between": (lambda x: (a := x.sin(), a.detach() * x), None),
    "a gradient that flows through both": (
        lambda x: (a := x.sin(), torch.autograd.grad(a.exp().sum(), x, create_graph=True)[0]), None),
    "too many": (lambda x: (a := x.sin(), b := a.sin(), c := b.sin(), d := c.sin(), e := d.sin(), f := e.sin(),
                            g := f.sin(), h := g.sin(), i := h.sin(), i.sin()), None),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_parts(name: str) -> None:
    function, expected = GRAPHS[name]
    parts: list[int | None] = []

    def backend(gm: torch.fx.GraphModule, examples: Any) -> Callable[..., Any]:
        stages = compile_in_stages(gm, lambda module, _: module.forward)
        parts.append(None if stages is None else len(stages.stages))
        return stages or gm.forward

    x = torch.linspace(0, 1, 6).view(2, 3).requires_grad_()
    results = fs.compile(function, backend=backend)(x)
    assert parts == [expected]
    for result, plain in zip(results, function(x), strict=True):
        assert torch.equal(result, plain)


def test_numbers_are_made_again_in_each_part() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = x.shape[0] * 2
        a = torch.cat([x, x]) * rows
        return a, a.exp().sum() / rows

    compiled = fs.compile(f, dynamic=True)
    for rows in (2, 3):
        x = torch.linspace(0, 1, 3 * rows).view(rows, 3).requires_grad_()
        a, b = compiled(x)
        plain_a, plain_b = f(x)
        torch.testing.assert_close(torch.autograd.grad(b, a), torch.autograd.grad(plain_b, plain_a))
