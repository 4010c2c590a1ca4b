"""Gradients of gradients, second backward passes and batched gradients of compiled functions equal eager's."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs

pytestmark = pytest.mark.usefixtures("quick_collections")

BACKENDS = pytest.mark.parametrize("backend", ["aot_eager", "native"])


def leaf(*shape):
    return torch.linspace(0.5, 1.5, torch.Size(shape).numel()).reshape(shape).requires_grad_()


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 5 * x**2  # not the derivative, so that it shows who computes it


def in_place(x):
    h = x * 2
    h.mul_(x)
    h[0] = 3
    return h.sin().sum()


def bases(x):
    h = x.exp()
    return (h[0] * x[1]).sum() + (h.t() @ x).square().sum()


FUNCTIONS = {
    "elementwise": lambda x: (x.sin() * x).sum(),
    "products": lambda x: torch.tanh(x @ x.t()).sum(),
    "a function of its own": lambda x: (Cubed.apply(x) * x).sum(),
    "in place": in_place,
    "views": bases,
    "dropout": lambda x: (F.dropout(x, 0.5) * x).square().sum(),
    "detached": lambda x: (x * x.detach() * x).sum(),
    "normalised": lambda x: F.layer_norm(x, (3,)).pow(3).sum(),
}


def second(function, x):
    torch.manual_seed(0)
    (gradient,) = torch.autograd.grad(function(x), x, create_graph=True)
    torch.rand(3)  # the numbers drawn are those of the call
    return gradient, torch.autograd.grad(gradient.square().sum(), x)[0], torch.rand(())


@BACKENDS
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(name, backend):
    function = FUNCTIONS[name]
    compiled = fs.compile(lambda x: function(x), backend=backend)
    for _ in range(2):
        torch.testing.assert_close(second(compiled, leaf(2, 3)), second(function, leaf(2, 3)))


@BACKENDS
def test_third_derivatives_and_penalties(backend):
    def run(function):
        w, x = leaf(3, 3), leaf(2, 3)
        (gradient,) = torch.autograd.grad(function(x.exp(), w).sum(), x, create_graph=True)
        penalty = (gradient.norm(dim=1) - 1).square().mean()
        (again,) = torch.autograd.grad(penalty, x, create_graph=True)
        again.sum().backward()
        return gradient, penalty, w.grad, x.grad

    def layer(x, w):
        return torch.sigmoid(x @ w)

    torch.testing.assert_close(run(fs.compile(layer, backend=backend)), run(layer))


@BACKENDS
def test_changed_inputs(backend):
    """An input with a history that the graph changes, and buffers that it updates."""
    model = torch.nn.BatchNorm1d(3).double()

    def layer(h):
        h.mul_(h.detach() + 1)
        return model(h).sin()

    def run(function):
        model.reset_running_stats()
        x = leaf(4, 3).detach().double().requires_grad_()
        h = x * 2 + 1
        result = function(h)
        (gradient,) = torch.autograd.grad((result * h).sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), x), result, h, *(b.clone() for b in model.buffers())

    torch.testing.assert_close(run(fs.compile(layer, backend=backend)), run(layer))


@BACKENDS
def test_inputs_that_depend_on_each_other(backend):
    def both(a, b):
        return (a * b).sin()

    def run(function):
        x = leaf(3)
        (gradient,) = torch.autograd.grad(function(x, x.exp()).sum(), x, create_graph=True)
        return gradient, torch.autograd.grad(gradient.sum(), x)

    torch.testing.assert_close(run(fs.compile(both, backend=backend)), run(both))


@BACKENDS
def test_an_input_changed_since_is_an_error_unless_it_is_small(backend):
    x, y = leaf(3), torch.ones(2000, 3)
    compiled = fs.compile(lambda x, y: x.exp() * (y * 2), backend=backend)
    result = compiled(x, y)
    y.add_(1)
    torch.autograd.grad(result.sum(), x, retain_graph=True)
    with pytest.raises(RuntimeError, match="changed in place"):
        torch.autograd.grad(result.sum(), x, create_graph=True)
    y = torch.ones(2, 3)
    result = compiled(x, y)
    y.add_(1)
    (gradient,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    torch.testing.assert_close(gradient, 4 * x.exp())
    torch.testing.assert_close(torch.autograd.grad(gradient.sum(), x), (4 * x.exp(),))


@BACKENDS
def test_a_result_is_not_computed_again_from_an_input_changed_since(backend):
    x, y = leaf(3), torch.ones(2000, 3)
    middle = fs.compile(lambda x, y: x + y, backend=backend)(x, y)
    result = fs.compile(lambda t: t.exp(), backend=backend)(middle)
    del middle
    y.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        torch.autograd.grad(result.sum(), x, create_graph=True)


@BACKENDS
def test_jacobians_and_hessians(backend):
    def function(x):
        return x.sin() * x.sum()

    compiled = fs.compile(function, backend=backend)
    x = torch.linspace(0.5, 1.5, 3)
    for vectorize in (False, True):
        torch.testing.assert_close(
            torch.autograd.functional.jacobian(compiled, x, vectorize=vectorize),
            torch.autograd.functional.jacobian(function, x, vectorize=vectorize))
        torch.testing.assert_close(
            torch.autograd.functional.hessian(lambda x: compiled(x).sum(), x, vectorize=vectorize),
            torch.autograd.functional.hessian(lambda x: function(x).sum(), x, vectorize=vectorize))


RESULTS = {
    "x + 1": lambda x: (x + 1,),
    "x * 2": lambda x: (x * 2,),
    "sin": lambda x: (x.sin(),),
    "sharing an input": lambda x: (x * 2, x.sin(), x + 1),
    "sharing a value": lambda x: ((h := x.exp()) * 2, h + 1, x.cos()),
    "one behind the other": lambda x: (h := x.exp(), h.sin()),
}


def one_after_the_other(function, order, leafs):
    x = leaf(2, 3)
    results = function(x if leafs else x * 1)
    found = []
    for number in order:
        try:
            results[number % len(results)].sum().backward()
            found.append("ran")
        except RuntimeError as error:
            found.append(str(error)[:40])
    return found, x.grad


@BACKENDS
@pytest.mark.parametrize("name", RESULTS)
def test_backward_of_one_after_the_other(name, backend):
    function = RESULTS[name]
    compiled = fs.compile(lambda x: function(x), backend=backend)
    for order in ((0, 0), (0, 1, 2), (2, 1, 0), (1, 2, 1)):
        for leafs in (True, False):
            (found, gradient), (expected, same) = (
                one_after_the_other(each, order, leafs) for each in (compiled, function))
            assert found == expected
            torch.testing.assert_close(gradient, same)


@BACKENDS
def test_nothing_is_kept_longer_than_needed(backend):
    """After backward, and where an input becomes part of what was computed from it."""
    compiled = fs.compile(lambda h, y: h.exp() * y, backend=backend)
    gc.collect()
    gc.disable()
    try:
        x = leaf(3)
        h, y = x * 1, torch.ones(3)
        seen = weakref.ref(h)
        result = compiled(h, y)
        h += result
        y += result
        del h, result, y
        assert seen() is None
        result = compiled(h := x * 1, torch.ones(3))
        seen = weakref.ref(h)
        del h
        result.sum().backward()
        assert seen() is None
    finally:
        gc.enable()


@BACKENDS
def test_backward_inside(backend):
    def step(x, w):
        (w * w * x).sum().backward(retain_graph=True)
        return (x * x * w).sum(), x * 2

    def run(function):
        x, w = leaf(3), leaf(3)
        total, doubled = function(x, w)
        (gradient,) = torch.autograd.grad(total, x, create_graph=True)
        doubled.sum().backward()
        return gradient, torch.autograd.grad(gradient.square().sum(), [x, w]), x.grad, w.grad

    torch.testing.assert_close(run(fs.compile(step, backend=backend)), run(step))


@BACKENDS
def test_hooks_on_values_that_were_used_before(backend):
    def function(x, seen):
        h = x.exp()
        result = h.sin()
        h.register_hook(lambda gradient: seen.append(gradient) or gradient * 2)
        return result, h

    def run(function):
        x, seen = leaf(3), []
        result, _ = function(x, seen)
        result.sum().backward()
        return x.grad, seen

    torch.testing.assert_close(run(fs.compile(function, backend=backend)), run(function))


@BACKENDS
def test_hooks_of_inputs_that_get_no_gradient(backend):
    def both(x, y):
        return x.sin() * y, x.cos()

    def run(function):
        x, y, seen = leaf(3), leaf(3), []
        y.register_hook(lambda gradient: seen.append(gradient.clone()))
        function(x, y)[1].sum().backward()
        return x.grad, y.grad is None, seen

    assert str(run(fs.compile(both, backend=backend))) == str(run(both))


@BACKENDS
def test_views_made_without_grad_mode(backend):
    def views(x):
        with torch.no_grad():
            view = x[1:]
        return view.t(), x * 1

    def run(function):
        transposed, _ = function(leaf(2, 3))
        return transposed.requires_grad, transposed.sum().requires_grad

    assert run(fs.compile(views, backend=backend)) == run(views)


@BACKENDS
def test_hooks_of_results_that_get_no_gradient(backend):
    def run(fn):
        x, seen = leaf(2, 3), []
        a, b = fn(x)
        b.register_hook(lambda g: (seen.append(g.sum().item()), g * 2)[1])
        handle = b.register_hook(lambda g: seen.append("removed"))
        a.sum().backward(retain_graph=True)
        first = x.grad.clone()
        handle.remove()
        b.sum().backward()
        return first, x.grad, seen

    def fn(x):
        return x.sin() * x, x.exp()

    for a, b in zip(run(fn), run(fs.compile(fn, backend=backend)), strict=True):
        torch.testing.assert_close(a, b)


class Block(torch.nn.Module):
    def __init__(self, changes):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.full((3,), 0.5))
        self.changes = changes

    def forward(self, x):
        return x.mul_(2).relu() if self.changes else F.dropout(x + self.shift, 0.5)


@BACKENDS
@pytest.mark.parametrize("changes", [False, True])
def test_inputs_that_compiled_code_computed_are_not_kept(backend, changes):
    blocks = [fs.compile(Block(changes), backend=backend) for _ in range(3)]
    x = leaf(2, 3) * 1
    for block in blocks:
        x = block(x)
    held = [value for value in x.grad_fn.call.held if isinstance(value, torch.Tensor)]
    assert all(value is blocks[-1].shift for value in held)


@BACKENDS
@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_second_derivatives_through_inputs_that_are_gone(backend, changes, keep):
    def run(compile):
        torch.manual_seed(0)
        blocks = [compile(Block(changes and number % 2 == 1)) for number in range(4)]
        last = compile(lambda x: (x * x * x.exp()).sum())
        start = leaf(2, 3)
        x, kept = start * 1, []
        for block in blocks:
            x = block(x)
            kept += [x] if keep else []
        wanted = [start, blocks[0].shift, blocks[2].shift, *([kept[0]] if keep and not changes else [])]
        first = torch.autograd.grad(last(x), wanted, create_graph=True)
        return first, torch.autograd.grad(sum(g.square().sum() for g in first), wanted)

    for a, b in zip(run(lambda fn: fn), run(lambda fn: fs.compile(fn, backend=backend)), strict=True):
        torch.testing.assert_close(a, b)


@BACKENDS
def test_gradients_inside_of_inputs_that_get_none(backend):
    def fn(x, y):
        (inner,) = torch.autograd.grad(y.square().sum(), y, create_graph=True)
        return x.softmax(-1), inner.detach()

    def run(fn):
        x = leaf(2, 3)
        (first,) = torch.autograd.grad(fn(x, x * 2)[0].cos().sum(), x, create_graph=True)
        return first, torch.autograd.grad(first.square().sum(), x)

    for a, b in zip(run(fn), run(fs.compile(fn, backend=backend)), strict=True):
        torch.testing.assert_close(a, b)


@BACKENDS
@pytest.mark.parametrize("function", [lambda x: x.detach(), lambda x: x.data[1:]])
def test_detached_views_made_without_grad_mode(backend, function):
    x = leaf(2, 3)
    with torch.no_grad():
        result = fs.compile(function, backend=backend)(x)
    assert not result.requires_grad
    assert result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@BACKENDS
def test_hooks_of_a_result_that_is_computed_again(backend):
    def run(first, second):
        x = leaf(3)
        middle = first(x)
        middle.register_hook(lambda g: g * 2)
        result = second(middle)
        del middle
        (gradient,) = torch.autograd.grad(result.sum(), x, create_graph=True)
        return gradient, torch.autograd.grad(gradient.square().sum(), x)

    def second(t):
        return t.exp()

    compiled = [fs.compile(function, backend=backend) for function in (torch.sin, second)]
    torch.testing.assert_close(run(*compiled), run(torch.sin, second))


@BACKENDS
def test_a_function_makes_zeros_where_no_gradient_comes(backend):
    class Tripled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * 3

    class First(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    def run(function):
        x, y = leaf(3), leaf(3)
        First.apply(x, function(y)).sum().backward()
        return x.grad, y.grad

    compiled = fs.compile(lambda y: Tripled.apply(y.sin()), backend=backend)
    plain = run(lambda y: Tripled.apply(y.sin()))
    assert plain[1] is not None
    torch.testing.assert_close(run(compiled), plain)
