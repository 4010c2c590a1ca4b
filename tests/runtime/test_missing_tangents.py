"""Backward when gradients come for some results only: what no gradient reaches has none, as in eager."""

import pytest
import torch

import firesteel as fs
from firesteel.runtime import training


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
