"""Convolution networks on a GPU against eager: layouts, gradients, running statistics, pooling."""

from __future__ import annotations

import copy
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import firesteel as fs
from firesteel.passes.image_layouts import image_layouts

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
layouts = sys.modules[image_layouts.__module__]


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Channels last for small convolutions too, without rounding in the library."""
    fs.reset()
    torch.manual_seed(0)
    monkeypatch.setattr(layouts, "LEAST_WORK", 1)
    monkeypatch.setattr(layouts, "MANY_CHANNELS", 1)
    monkeypatch.setattr(layouts, "_may_round", lambda: True)
    with fs.config.patch(raise_on_internal_error=True), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first, self.norm = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.second, self.last = nn.Conv2d(outputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        return F.silu(self.last(self.second(F.silu(self.norm(self.first(x))))) + self.short(x))


class Net(nn.Module):
    """Smooth, so that rounding cannot turn a decision: maxima are tested by themselves."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 7, 2, 3), nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2))
        self.head, self.up = nn.Linear(32, 10), nn.ConvTranspose2d(32, 16, 2, 2)

    def forward(self, x):
        y = self.blocks(F.avg_pool2d(F.silu(self.norm(self.stem(x))), 3, 2, 1))
        return self.head(y.mean((2, 3))), self.up(y), y.flatten(1)


def images(**kwargs):
    return torch.randn(4, 3, 64, 64, device="cuda", **kwargs)


def step(model, x, train, results=slice(None)):
    """Results, gradients and buffers of a step."""
    if not train:
        with torch.no_grad():
            return list(model(x))
    x = x.clone().requires_grad_()
    out = model(x)
    sum(part.float().square().mean() for part in out[results]).backward()
    return [*(part.detach() for part in out), x.grad, *(p.grad for p in model.parameters()), *model.buffers()]


def compare(model, x, train, results=slice(None), **kwargs):
    """Compiled gives eager's layouts, and an error against double precision of at most twice eager's."""
    other, wide = copy.deepcopy(model), copy.deepcopy(model).double()
    compiled = fs.compile(model, backend="native", **kwargs)
    for _ in range(3):
        for each in (model, other, wide):
            each.zero_grad()
        x = torch.empty_like(x).normal_()
        found = [step(each, given, train, results) for each, given in ((compiled, x), (other, x), (wide, x.double()))]
        for ours, eager, reference in zip(*found, strict=True):
            if eager is None:
                assert ours is None
                continue
            assert ours.dtype is eager.dtype and ours.stride() == eager.stride()
            if not ours.is_floating_point():
                assert torch.equal(ours, eager)
                continue
            error, allowed = ((one.double() - reference.double()).norm() for one in (ours, eager))
            assert error <= 2 * allowed + 2e-6 * reference.double().norm() + 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_networks(dtype, train, last):
    model, x = Net().to("cuda", dtype).train(train), images(dtype=dtype)
    if last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    compare(model, x, train)


class Separable(nn.Module):
    """Convolutions in groups, with biases, between others."""

    def __init__(self, groups):
        super().__init__()
        self.stem, self.wide = nn.Conv2d(3, 32, 3, 2, 1), nn.Conv2d(32, 64, 1)
        self.each = nn.ModuleList([nn.Conv2d(64, 64, kernel, stride, kernel // 2, groups=groups)
                                   for kernel, stride in ((3, 1), (5, 2), (7, 1))])
        self.squeeze, self.norm = nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64)

    def forward(self, x):
        y = F.silu(self.norm(self.wide(F.silu(self.stem(x)))))
        for each in self.each:
            y = F.silu(each(y))
            y = y * self.squeeze(y.mean((2, 3), keepdim=True)).sigmoid()
        return y, y.mean((2, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("groups", [64, 8])
def test_convolutions_in_groups(dtype, train, groups):
    compare(Separable(groups).to("cuda", dtype).train(train), images(dtype=dtype), train)


@pytest.mark.parametrize("kwargs", [{"mode": "reduce-overhead"}, {"dynamic": True}], ids=["recorded", "dynamic"])
def test_training_otherwise(kwargs):
    compare(Net().cuda().train(), images(), True, **kwargs)


def test_frozen_weights():
    compare(Net().cuda().eval(), images(), False, options={"freeze": True})


def test_gradients_of_some_results():
    compare(Net().cuda().train(), images(), True, slice(1))


@pytest.mark.parametrize("kernel, stride, padding, ceil_mode", [(3, 2, 1, False), (2, 2, 0, True), (5, 3, 2, False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradient_of_maxima(kernel, stride, padding, ceil_mode, dtype):
    def pooled(x):
        return F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil_mode)

    x = torch.randint(-3, 3, (2, 5, 17, 19), device="cuda").to(dtype)
    mine, theirs = (x.clone().requires_grad_() for _ in range(2))
    out, want = fs.compile(pooled, backend="native")(mine), pooled(theirs)
    grad = torch.randn_like(want)
    out.backward(grad)
    want.backward(grad)
    assert torch.equal(out, want) and torch.equal(mine.grad, theirs.grad)
