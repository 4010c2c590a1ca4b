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


class Pair:
    """A class that users register as a container."""

    def __init__(self, left, right, name="pair"):
        self.left, self.right, self.name = left, right, name


torch.utils._pytree.register_pytree_node(
    Pair, lambda pair: ([pair.left, pair.right], pair.name), lambda items, name: Pair(*items, name),
    serialized_type_name="test_subgraphs.Pair")


class Containers(torch.nn.Module):
    """Registered classes as operands, as what loops carry, and as results."""

    def forward(self, x):
        pair = Pair(x, x * 2, "first")
        chosen = fs.cond(x.sum() > 0, lambda p: Pair(p.left + p.right, p.left * 1),
                         lambda p: Pair(p.left * 2, p.right + 1), (pair,))
        looped, = fs.while_loop(lambda p: p.left.sum() < 10, lambda p: (Pair(p.left + 1, p.right * 2, p.name),),
                                (pair,))
        last, rows = fs.scan(lambda c, row: (Pair(c.left + row, c.right * 2), row * 2),
                             Pair(torch.zeros(()), torch.ones(())), x)
        mapped = fs.map(lambda p: p.left * p.right, pair)
        return chosen.left + chosen.right + looped.left + looped.right + last.left + last.right + rows + mapped


@BOTH
def test_registered_containers(strict):
    check(Containers(), [(torch.ones(3),), (-torch.rand(3),)], strict=strict)
    compiled = fs.compile(Containers(), fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(3)), Containers()(torch.ones(3)))


class Repeated(torch.nn.Module):
    def forward(self, x):
        return fs.while_loop(lambda a, b: a.sum() < 10, lambda a, b: (a + x, b * 1), (x, x))[0]


@BOTH
def test_operands_that_functions_use_besides(strict):
    check(Repeated(), [(torch.ones(3),), (torch.full((3,), 2.0),)], strict=strict)


class Prefixes(torch.nn.Module):
    def forward(self, x):
        return fs.associative_scan(lambda a, b: a * b, x, 0)


@BOTH
def test_associative_scan_of_any_length(strict):
    sizes = {"x": {0: Dim("n", min=2, max=100)}}
    program = export(Prefixes(), (torch.rand(8, 2),), dynamic_shapes=sizes, strict=strict)
    for count in (2, 3, 11):
        x = torch.rand(count, 2)
        torch.testing.assert_close(program.module()(x), Prefixes()(x))
