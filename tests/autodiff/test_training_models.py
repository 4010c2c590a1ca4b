"""Whole models in training: losses, gradients and buffers are eager's over several steps."""

from __future__ import annotations

import copy
import importlib.util

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from tests.models import zoo
from torch import nn

import firesteel as fs
from firesteel import config


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = [part.view(batch, length, 2, 8).transpose(1, 2) for part in parts]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        return x + F.dropout(F.gelu(self.out(mixed)), 0.1, self.training)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(8, 12, batch_first=True), nn.Linear(12, 3)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, i):
        return self.out(torch.tanh(self.embedding(i)))


def convolutional():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5))


MODELS = {
    "convolutional": (convolutional, lambda: torch.randn(2, 3, 8, 8)),
    "attention": (lambda: nn.Sequential(Attention(), Attention()), lambda: torch.randn(2, 6, 16)),
    "recurrent": (Recurrent, lambda: torch.randn(3, 5, 8)),
    "tied": (Tied, lambda: torch.randint(0, 20, (3, 4))),
}


@pytest.mark.parametrize("name", MODELS)
def test_small_models(name):
    make, batch = MODELS[name]
    torch.manual_seed(0)
    model, x = make(), batch()
    assert_same_steps(model, fs.compile(twin := copy.deepcopy(model), backend="native"), twin, (x,), {}, 3)


@pytest.mark.parametrize("name", ["transformers/gpt2"])
def test_models(name):
    if importlib.util.find_spec(name.split("/")[0]) is None:
        pytest.skip("not installed")
    model, args, kwargs = zoo.build(name)
    model.train()
    twin = copy.deepcopy(model)
    assert_same_steps(model, fs.compile(twin, backend="native"), twin, args, kwargs, 2)


def assert_same_steps(model, compiled, twin, args, kwargs, steps):
    pairs = list(zip(model.parameters(), twin.parameters(), strict=True))
    buffers = list(zip(model.buffers(), twin.buffers(), strict=True))
    optimizers = [torch.optim.SGD(m.parameters(), 0.05) for m in (model, twin)]
    with config.patch(raise_on_internal_error=True):
        for step in range(steps):
            losses = []
            for function, optimizer in zip((model, compiled), optimizers, strict=True):
                torch.manual_seed(step)
                optimizer.zero_grad()
                found = [t for t in pytree.tree_leaves(function(*args, **kwargs))
                         if isinstance(t, torch.Tensor) and t.requires_grad]
                losses.append(found[0].square().mean())
                losses[-1].backward()
            torch.testing.assert_close(losses[1], losses[0])
            for a, b in pairs:
                assert (a.grad is None) == (b.grad is None)
                if a.grad is not None:
                    torch.testing.assert_close(b.grad, a.grad, rtol=1e-4, atol=1e-6)
                    assert a.grad.stride() == b.grad.stride()
            for a, b in buffers:
                torch.testing.assert_close(b, a)
            for optimizer in optimizers:
                optimizer.step()
