"""Backward when gradients come for some results only: what no gradient reaches has none, as in eager."""

import pytest
import torch

import firesteel as fs
from firesteel.pipeline import training


def program(x, y, z):
    a = torch.tanh(x * y)
    return a * 2, (y.exp() + z).sin(), z.view(-1)


def gradients(function, chosen):
    torch.manual_seed(0)
    inputs = [torch.randn(3, 4, requires_grad=True) for _ in range(3)]
    results = function(*inputs)
    sum(results[at].square().sum() for at in chosen).backward()
    return [each.grad for each in inputs]


@pytest.mark.parametrize("with_zeros", [False, True])
@pytest.mark.parametrize("chosen", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
def test_some_results(chosen, with_zeros, monkeypatch):
    if with_zeros:  # as where no backward can be made for these gradients alone
        monkeypatch.setattr(training, "part_again", lambda joint, parted: None)
    fs.reset()
    with fs.config.patch(raise_on_internal_error=True):
        found = gradients(fs.compile(program, backend="native", fullgraph=True), chosen)
    for ours, eager in zip(found, gradients(program, chosen), strict=True):
        assert (ours is None) == (eager is None)
        if eager is not None:
            torch.testing.assert_close(ours, eager)


def test_what_is_not_needed_may_have_changed():
    """The product needs the first input, which is changed behind it; the other result does not."""
    def changing(x, y, w):
        x += x @ w
        return y.exp(), x

    def run(function):
        torch.manual_seed(0)
        y, w = torch.randn(3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
        result, other = function(torch.randn(3, 3), y, w)
        result.sum().backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            other.sum().backward()
        return [y.grad, w.grad]

    fs.reset()
    found, expected = run(fs.compile(changing, backend="native", fullgraph=True)), run(changing)
    torch.testing.assert_close(found[0], expected[0])
    assert found[1] is None and expected[1] is None


def check_backwards(function, order, count, **options):
    """Backward of one result after the other, without keeping anything, from inputs that have histories."""
    def run(function):
        torch.manual_seed(0)
        leaves = [torch.randn(3, 4, requires_grad=True) for _ in range(count)]
        results = function(*[leaf.exp() for leaf in leaves])
        found = []
        for at in order:
            results[at].sum().backward()
            found.append([None if leaf.grad is None else leaf.grad.clone() for leaf in leaves])
        return [result.detach() for result in results], [result.requires_grad for result in results], found

    fs.reset()
    expected = run(function)
    with fs.config.patch(raise_on_internal_error=True):
        compiled = fs.compile(function, backend="native", fullgraph=True, **options)
        for _ in range(2):
            torch.testing.assert_close(run(compiled), expected)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1,), (0, 2)])
def test_results_that_have_nothing_to_do_with_each_other(order):
    def separate(x, y, z, w):
        x = x.sin()
        return (x * w).sum(1), y.exp() * y, z.t().tanh() + x.detach().t(), (y * z).detach()

    check_backwards(separate, order, 4)
    check_backwards(separate, order, 4, dynamic=True)


def test_one_result_of_a_part_only():
    """The first two results belong together, and gradients come for one of them."""
    def program(x, y):
        a = x.sin()
        return a * 2, (a + 1).exp(), y.t().cos()

    for order in ((0, 2), (1, 2), (2, 0)):
        check_backwards(program, order, 2)


@pytest.mark.parametrize("with_zeros", [False, True])
def test_one_result_of_a_part_with_zeros_for_the_other(with_zeros, monkeypatch):
    def program(x, y, z):
        a = x.sin()
        return a * y, a.exp(), z.cos()

    if with_zeros:
        monkeypatch.setattr(training, "part_again", lambda joint, parted: None)
    for order in ((0, 2), (1, 2), (2, 1)):
        check_backwards(program, order, 3)


def test_parts_save_what_they_need_only():
    """What one part has saved is freed by its own backward, and may be changed when only the other is wanted."""
    def program(x, y, scale):
        return x * scale, (y * y).sin()

    def run(function):
        torch.manual_seed(0)
        x, y = (torch.randn(3, requires_grad=True) for _ in range(2))
        scale = torch.randn(3)
        first, second = function(x, y, scale)
        scale.zero_()
        second.sum().backward()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            first.sum().backward()
        return [x.grad, y.grad]

    fs.reset()
    found, expected = run(fs.compile(program, backend="native", fullgraph=True)), run(program)
    assert found[0] is None and expected[0] is None
    torch.testing.assert_close(found[1], expected[1])


def test_histories_that_no_gradient_reaches():
    """Behind the break the changed input is looked at for its dtype only: its history is not walked through."""
    def program(x, y, w):
        x += x @ w
        fs.graph_break()
        return y.exp() + x.new_ones(3)

    def run(function):
        torch.manual_seed(0)
        y, w = torch.randn(3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
        function(torch.randn(3, 3), y, w).sum().backward()
        return y.grad, w.grad

    fs.reset()
    found, expected = run(fs.compile(program, backend="native")), run(program)
    torch.testing.assert_close(found[0], expected[0])
    assert found[1] is None and expected[1] is None


def test_a_result_that_no_gradient_flows_back_from():
    class Stop(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return None

    def program(x, y, z):
        return Stop.apply(x), y.sin(), z.exp()

    for order in ((1, 2), (0,), (2, 1)):
        check_backwards(program, order, 3)
