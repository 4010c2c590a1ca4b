"""Control flow in exported programs: graphs in graphs, what they take from around, gradients, decompositions."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.export import Dim, ExportError, export

BOTH = pytest.mark.parametrize("strict", [True, False], ids=["strict", "nonstrict"])


def check(model, calls, *, strict, **options):
    """A program and its functional forms against eager: results and gradients of inputs and parameters."""
    program = export(model, calls[0], strict=strict, **options)
    for made in (program, program.run_decompositions({}), program.run_decompositions()):
        made.validate()
        module = made.module()
        for args in calls:
            gradients = []
            for called in (module, model):
                inputs = [arg.clone().requires_grad_(arg.is_floating_point()) for arg in args]
                model.zero_grad()
                result = called(*inputs)
                if result.requires_grad:
                    result.sum().backward()
                # a branch that is not taken gives its parameters no gradient, or one of zeros
                gradients.append([result, *(torch.zeros_like(value) if value.grad is None else value.grad.clone()
                                            for value in (*inputs, *model.parameters()))])
            torch.testing.assert_close(*gradients)
    return program


class Closing(torch.nn.Module):
    """Branches that use parameters, constants and tensors from around, and sizes."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.scale = torch.tensor(3.0)

    def forward(self, x, y):
        z = y * 2

        def yes(x):
            return self.lin(x) + z * self.scale

        def no(x):
            return x * x.shape[0] - z

        return fs.cond(x.sum() > 0, yes, no, (x,))


@BOTH
def test_branches_use_what_is_around(strict):
    x = torch.randn(3, 4).abs()
    other = torch.randn(5, 4).abs()
    check(Closing(), [(x, x), (-x, x), (other, other), (-other, other)], strict=strict,
          dynamic_shapes={"x": {0: Dim("n")}, "y": {0: Dim("n")}})


class Nested(torch.nn.Module):
    def forward(self, x):
        def inner(x):
            return fs.cond(x.max() > 2, lambda x: x.sin(), lambda x: x.cos(), (x * 2,))

        return fs.cond(x.sum() > 0, inner, lambda x: x - 1, (x,))


@BOTH
def test_nested(strict):
    x = torch.tensor([1.0, 3.0])
    program = check(Nested(), [(x,), (x / 3,), (-x,)], strict=strict)
    assert isinstance(program.graph_module.true_graph_0.true_graph_0, torch.fx.GraphModule)


class Loop(torch.nn.Module):
    def forward(self, x):
        def more(count, x):
            return count < 4

        def step(count, x):
            return count + 1, x * 1.5

        return fs.while_loop(more, step, (torch.tensor(0), x))[1]


@BOTH
def test_while_loop(strict):
    x = torch.randn(3)
    program = export(Loop(), (x,), strict=strict)
    for made in (program, program.run_decompositions({})):
        torch.testing.assert_close(made.module()(x), Loop()(x))


class Scanned(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3))

    def forward(self, xs):
        carry, ys = fs.scan(lambda carry, x: (carry + x * self.weight, carry * x), torch.zeros(3), xs)
        return carry.sum() + ys.sum()


@BOTH
def test_scan(strict):
    check(Scanned(), [(torch.randn(4, 3),)], strict=strict)


class Mapped(torch.nn.Module):
    def forward(self, xs, y):
        return fs.map(lambda x, y: x.sin() * y, xs, y)


@BOTH
def test_map(strict):
    check(Mapped(), [(torch.randn(5, 3), torch.randn(3))], strict=strict)


class Unequal(torch.nn.Module):
    def forward(self, x):
        return fs.cond(x.sum() > 0, lambda x: x, lambda x: x[:1] * 2, (x * 1,))


@BOTH
def test_unequal_branches(strict):
    with pytest.raises((ExportError, fs.errors.FiresteelError, RuntimeError)):
        export(Unequal(), (torch.randn(3),), strict=strict)


def test_compiled():
    program = export(Nested(), (torch.tensor([1.0, 3.0]),))
    compiled = fs.compile(program.module())
    for x in (torch.tensor([1.0, 3.0]), torch.tensor([0.1, 0.2]), torch.tensor([-1.0, 0.0])):
        torch.testing.assert_close(compiled(x), Nested()(x))
