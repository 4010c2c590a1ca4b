"""What autograd and the user can tell of compiled functions: requires_grad, layouts of gradients, views, hooks."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import firesteel as fs
from firesteel import config

BACKENDS = pytest.mark.parametrize("backend", ["aot_eager", "native"])


@pytest.fixture(autouse=True)
def strict():
    with config.patch(raise_on_internal_error=True):
        yield


def written_before_it_has_a_history(x, w):
    torch.add(x, 1, out=x)  # refused for tensors that require grad
    x.copy_(w * 2)
    return x.sin()


def begins_to_require_grad(x, w):
    x.requires_grad_()
    return x * w


def begins_to_require_grad_alone(x, w):
    x.requires_grad_()
    return w.detach() * 2


def loses_its_history(x, w):
    x = (x + w).detach_() if x.requires_grad else x.detach_()
    return x * w


@BACKENDS
@pytest.mark.parametrize("function", [
    written_before_it_has_a_history, begins_to_require_grad, begins_to_require_grad_alone, loses_its_history])
def test_requires_grad_changes_while_the_function_runs(function, backend):
    found = []
    for called in (function, fs.compile(function, backend=backend)):
        x, w = torch.arange(3.0), torch.ones(3, requires_grad=True)
        result = called(x, w)
        if result.requires_grad:
            result.sum().backward()
        found.append((result.detach(), x.detach(), x.requires_grad, x.is_leaf, result.requires_grad, w.grad,
                      x.grad if x.is_leaf else None))
    torch.testing.assert_close(found[1], found[0])


@BACKENDS
def test_an_input_with_a_history_is_detached(backend):
    def detach(x, w):
        x.detach_()
        return x * w

    w = torch.ones(3, requires_grad=True)
    x = w * 2
    fs.compile(detach, backend=backend)(x, w)
    assert not x.requires_grad and x.is_leaf


def shifted(x, w):
    return x.t() + 1


def both(x, w):
    return x + w


def transposed(x, w):
    return x.t()


def scaled(x, w):
    return (x.t() * w.t()) * 2


def joined(x, w):
    return torch.cat([x, w])


GRADIENTS = {
    "like the result": torch.ones_like,
    "by rows": lambda result: torch.ones(result.shape),
    "expanded": lambda result: torch.ones(()).expand(result.shape),
}


@BACKENDS
@pytest.mark.parametrize("kind", GRADIENTS)
@pytest.mark.parametrize("function", [shifted, both, transposed, scaled, joined])
def test_gradients_have_the_strides_of_eager(function, kind, backend):
    found = []
    for called in (function, fs.compile(function, backend=backend)):
        torch.manual_seed(0)
        x, w = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
        result = called(x, w)
        gradients = torch.autograd.grad(result, [x, w], GRADIENTS[kind](result), allow_unused=True)
        found.append([(None, None) if each is None else (each, each.stride()) for each in gradients])
    torch.testing.assert_close(found[1], found[0])


@BACKENDS
def test_one_of_several_views_must_not_be_changed_in_place(backend):
    def rows(x):
        y = x * 2
        first, second = y.unbind()
        return first, second, y

    for called in (rows, fs.compile(rows, backend=backend)):
        first, second, y = called(torch.ones(2, 3, requires_grad=True))
        y.add_(1)
        with pytest.raises(RuntimeError, match="Output 1 of Unbind.* is a view and its base"):
            second * 2


@BACKENDS
def test_views_have_the_operators_of_eager(backend):
    def views(x):
        y = x * 2
        return y, y.t(), y[0], y[:, 1:].view(-1, 1), y.view_as(y)

    x = torch.randn(4, 2, requires_grad=True)
    expected, found = views(x), fs.compile(views, backend=backend)(x)
    names = [type(value.grad_fn).__name__ for value in expected[1:4]]
    assert [type(value.grad_fn).__name__ for value in found[1:4]] == names
    assert found[4] is not found[0] and found[4]._base is found[0]
    torch.testing.assert_close(found, expected)


@BACKENDS
def test_an_index_that_is_not_there_is_an_error_without_a_use(backend):
    def function(x, w, index):
        x[index].sum()
        return w * 3

    compiled = fs.compile(function, backend=backend)
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    compiled(x, w, torch.tensor([2]))
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        compiled(x, w, torch.tensor([7]))


def test_a_size_that_is_found_to_be_constant():
    """Whether ``t[1:]`` is one row only matters for the gradient."""
    def function(t, x):
        result = torch.relu(torch.relu(t))
        t.add_((torch.full((x.shape[0], x.shape[0], 4), 0.5) * t.mean())[1])
        t[1:] += 1
        t[:, 1] = t[:, 0] * 0.5
        return result

    compiled = fs.compile(function, backend="native")
    for size in (3, 2, 5, 2):
        found = []
        for called in (function, compiled):
            torch.manual_seed(0)
            w, x = torch.randn(size, 4, requires_grad=True), torch.randn(size, 4)
            t = w * 1
            found.append(torch.autograd.grad((called(t, x) + t * t).sum(), w))
        torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_hooks_on_saved_tensors_see_no_tensors_of_the_capture(backend):
    kinds = []

    def pack(tensor):
        kinds.append(type(tensor))
        return tensor

    compiled = fs.compile(lambda x: (x * 2).sin(), backend=backend)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        compiled(torch.ones(3, requires_grad=True))
    assert kinds and set(kinds) == {torch.Tensor}


def block(x, w):
    return torch.tanh(torch.relu(x @ w) @ w.t()) @ w


def saved_bytes(function, *args):
    seen = {}

    def pack(tensor):
        seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(*args)
    return sum(seen.values()), result


@BACKENDS
def test_checkpoints_keep_what_they_keep_in_eager(backend):
    def function(x, w):
        for _ in range(3):
            x = checkpoint(block, x, w, use_reentrant=False)
        return x

    x, w = torch.randn(16, 8, requires_grad=True), (torch.randn(8, 8) * 0.2).requires_grad_()
    count, result = saved_bytes(fs.compile(function, backend=backend), x, w)
    assert count == w.nbytes + 3 * x.nbytes  # the inputs of the regions
    expected = torch.autograd.grad(function(x, w).sum(), [x, w])
    torch.testing.assert_close(torch.autograd.grad(result.sum(), [x, w]), expected, rtol=1e-4, atol=1e-4)


@BACKENDS
def test_checkpoints_are_honoured_in_graphs_that_are_not_compiled(backend):
    def function(x, w):
        y = checkpoint(block, x, w, use_reentrant=False)
        leaf = w.detach().requires_grad_()  # a leaf that is made in the graph
        return y.cos() * 2, leaf * 3

    x, w = torch.randn(16, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    count, _ = saved_bytes(fs.compile(function, backend=backend), x, w)
    assert count == saved_bytes(function, x, w)[0]
