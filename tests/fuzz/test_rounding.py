"""What counts as rounding: as much as eager with other rounding differs from itself, and no more."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F

from .harness import COMPILERS, check
from .program import Program
from .rounding import OtherRounding, is_rounding

NEARLY_EQUAL = torch.linspace(0, 1, 8) + 30000


def runs(function, x):
    found = []
    for seed in range(3):
        with OtherRounding(seed):
            found.append(function(x))
    return found


def test_a_norm_of_nearly_equal_numbers_is_rounding_errors():
    def norm(x):
        return F.layer_norm(x + 0.1, (8,))

    plain, others = norm(NEARLY_EQUAL), runs(norm, NEARLY_EQUAL)
    assert is_rounding(plain, norm(NEARLY_EQUAL.double()).float(), others)
    assert not is_rounding(plain, plain + 20, others)


def test_gradients_of_a_norm_of_equal_numbers_are_rounding_errors():
    """They are differences of numbers that are as large as one over the deviation of a row."""
    start = torch.linspace(0.5, 1.5, 45).reshape(9, 5)

    def gradient(x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(F.layer_norm(x, (5,)), x, start.to(x.dtype))[0]

    def rows(deviation):
        return torch.ones(9, 5) + deviation * torch.linspace(-1, 1, 5)

    equal, other = rows(0.0), rows(1.0)
    plain, others = gradient(equal), runs(gradient, equal)
    assert is_rounding(plain, plain + 6e-5, others)
    assert not is_rounding(plain, plain + 2e-3, others)
    assert not is_rounding(gradient(other), gradient(other) + 2e-5, runs(gradient, other))


def test_other_numbers_are_not():
    x = torch.linspace(0, 1, 8)
    assert not is_rounding(x.exp(), x.exp() + 1e-4, runs(torch.exp, x))


def test_numbers_read_from_tensors_may_be_rounding_errors(monkeypatch):
    """A sum that is nearly nothing, of parts that are not; and one that is too far from it."""
    source = "import torch\ndef make():\n    x = torch.linspace(-100, 100, 64)\n" \
        "    return lambda x: (x * 0.37).sum().item(), [((x,), {})], lambda index: None, dict\n"

    def by(wrong):
        @contextlib.contextmanager
        def compiler(backend):
            yield lambda function: lambda x: function(x) + wrong

        return compiler

    for wrong, found in ((2e-5, False), (1e-2, True)):
        monkeypatch.setitem(COMPILERS, "wrong", by(wrong))
        assert bool(check(Program(-1, source), "wrong").differences) == found


def test_wrong_gradients_are_found(monkeypatch):
    source = "import torch\ndef make():\n    x = torch.ones(3, requires_grad=True)\n" \
        "    return lambda x: (x.exp() + 1).log(), [((x,), {})], lambda index: None, dict\n"
    program = Program(-1, source)
    assert check(program, "none").differences == []

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * 1.0001

    @contextlib.contextmanager
    def compiler(backend):
        yield lambda function: lambda x: Wrong.apply(function(x))

    monkeypatch.setitem(COMPILERS, "wrong", compiler)
    assert check(program, "wrong").differences != []
