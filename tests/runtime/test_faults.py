"""Who is at fault where compiled code fails: firesteel, a backend of the program, an operator of the program."""

from __future__ import annotations

import warnings

import pytest
import torch

import firesteel as fs
from firesteel.errors import AccuracyError, WrongFakeKernel


@torch.library.custom_op("faults::lie", mutates_args=())
def lie(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0, keepdim=True)


@lie.register_fake
def wrong_size(x):
    return torch.empty_like(x)


def called(f):
    with warnings.catch_warnings(record=True) as caught, fs.config.patch(raise_on_internal_error=False):
        warnings.simplefilter("always")
        f(torch.ones(2, 3))
    (warning,) = [one for one in caught if issubclass(one.category, fs.errors.FiresteelWarning)]
    return str(warning.message)


def test_a_wrong_fake_kernel_is_named():
    text = called(fs.compile(lambda x: lie(x.sin()).cos(), tier="wait"))
    assert "faults.lie.default has a wrong fake kernel" in text and "please report" not in text
    assert "faults.lie.default returned torch.float32 (1, 3), and its fake kernel says torch.float32 (2, 3)" in text
    assert f"wrong_size ({__file__}:{wrong_size.__code__.co_firstlineno})" in text
    with pytest.raises(WrongFakeKernel):
        fs.check(lambda x: lie(x.sin()).cos())(torch.ones(2, 3))


def test_what_a_backend_of_the_program_returned():
    def failing(graph, examples):
        def run(*inputs):
            raise RuntimeError("late")
        return run

    text = called(fs.compile(lambda x: x.sin(), backend=failing))
    assert "What the backend 'failing' returned failed" in text and "please report" not in text


def test_wrong_results_of_a_backend_of_the_program():
    def wrong(graph, examples):
        return lambda *inputs: tuple(result * 2 for result in graph.forward(*inputs))

    with pytest.raises(AccuracyError, match="made by the backend 'wrong', which is not firesteel's"):
        fs.check(lambda x: x.sin(), backend=wrong)(torch.ones(2))
    assert "fault is in firesteel" in str(AccuracyError("reason"))
