"""C++ autograd, autocast and inference mode see fake tensors as they see real ones."""

import pytest
import torch
import torch.nn.functional as F
from tests.fake.tensor_meta import describe
from torch.utils import _pytree as pytree

from firesteel.fake import FakeMode, FakeTensor


def leaf(*shape):
    return torch.ones(shape, requires_grad=True)


def in_no_grad(x, w):
    with torch.no_grad():
        y = x * w
    return y, y * x, y.view(-1)


def in_enable_grad(x, w):
    with torch.no_grad(), torch.enable_grad():
        return x * w


def in_inference_mode(x, w):
    with torch.inference_mode():
        y = F.linear(x, w).reshape(-1)
        z = y.view(2, -1)
        z.add_(1)
        z.transpose_(0, 1)
        return y, z, F.layer_norm(x, (3,)), x.detach()[0], torch.zeros(2)


def out_of_inference_mode(x, w):
    with torch.inference_mode():
        y, z = torch.zeros(2, 3), x.detach()
    y.add_(1).unsqueeze_(0)
    return y, y.view(-1), z.view(-1), z.is_inference(), y + 1


def in_autocast(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        y = F.linear(x, w)
        return y, y.softmax(-1), x @ w, x + y


def view_chain(x, w):
    y = x * 1
    z = y.view(-1)
    z.mul_(2)
    return y, z, y._base is None, z._base is y, y._version, z._version


def chunks(x, w):
    return (x * w).chunk(3, 1)


def detached(x, w):
    y = (x * w).detach()
    y.requires_grad_()
    return y, y.view(-1)


def in_place_on_leaf(x, w):
    x.add_(1)


def in_place_on_leaf_view(x, w):
    x.view(-1).mul_(2)


def in_place_under_no_grad(x, w):
    with torch.no_grad():
        x.add_(1)
    return x, x._version


def gradients(x, w):
    loss = F.cross_entropy(F.gelu(F.linear(x, w)), torch.tensor([0, 1])) + x.std()
    return torch.autograd.grad(loss, (x, w))


def backward(x, w):
    (x * w).sum().backward()
    return x.grad, w.grad


def function(x, w):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (saved,) = ctx.saved_tensors
            return grad * saved

    y = Double.apply(x)
    return y, torch.autograd.grad(y.sum(), x)[0], type(y.grad_fn).__name__


def grad_fn_names(x, w):
    return [type(t.grad_fn).__name__ for t in (x + w, x.t(), x.view(-1), F.linear(x, w), x.sum(), x.relu())]


PROGRAMS = [
    in_no_grad,
    in_enable_grad,
    in_inference_mode,
    out_of_inference_mode,
    in_autocast,
    view_chain,
    chunks,
    detached,
    in_place_on_leaf,
    in_place_on_leaf_view,
    in_place_under_no_grad,
    gradients,
    backward,
    function,
    grad_fn_names,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same_as_eager(program):
    def outcome(run, x, w):
        try:
            return run(program, (x, w))
        except RuntimeError as error:
            return str(error)

    mode = FakeMode()
    x, w = leaf(2, 3), leaf(2, 3)
    if program in (in_autocast, in_inference_mode, gradients, grad_fn_names):
        x, w = leaf(2, 3), leaf(3, 3)
    if program is in_autocast or program is grad_fn_names:
        x = leaf(3, 3)
    fake = outcome(mode.run, mode.from_real(x), mode.from_real(w))
    real = outcome(lambda fn, args: fn(*args), x, w)
    real_leaves, fake_leaves = pytree.tree_leaves(real), pytree.tree_leaves(fake)
    assert len(real_leaves) == len(fake_leaves) > 0
    for r, f in zip(real_leaves, fake_leaves):
        if isinstance(r, torch.Tensor):
            assert type(f) is FakeTensor
            assert describe(f) == describe(r)
        else:
            assert f == r


def test_module_forward_and_backward():
    mode = FakeMode()
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(128, 10),
    )  # fmt: skip
    real = {n: t for n, t in (*model.named_parameters(), *model.named_buffers())}
    fakes = {n: mode.from_real(t) for n, t in real.items()}
    counter = model[1].num_batches_tracked.clone()
    with mode:
        y = torch.func.functional_call(model, fakes, (torch.ones(2, 3, 8, 8),))
        y.sum().backward()
    assert y.shape == (2, 10) and y.requires_grad and not y.is_leaf
    for name, t in model.named_parameters():
        assert fakes[name].grad.shape == t.shape and t.grad is None
    assert torch.equal(model[1].num_batches_tracked, counter)
    before = {name: t._version for name, t in model.named_buffers()}
    model(torch.ones(2, 3, 8, 8))
    for name, t in model.named_buffers():
        assert fakes[name]._version == t._version - before[name]
