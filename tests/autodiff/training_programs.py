"""Programs with gradients, run eagerly and compiled on copies of the arguments: everything must be equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import firesteel as fs
from firesteel import config
from functional.programs import _shared


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in tensors(item)] if isinstance(value, (tuple, list)) else []


class World:
    """Arguments of a program, what it returned, and the leaves that get gradients."""

    def __init__(self, make: Callable[[], Sequence[Any]], program: Callable[..., Any], seed: int) -> None:
        torch.manual_seed(seed)
        made = make()
        self.leaves = [t for t in tensors(made) if t.requires_grad and t.is_leaf]
        self.args = made[1] if isinstance(made, dict) else made
        torch.manual_seed(seed + 1)
        self.results = program(*self.args)

    def backward(self, which: Sequence[int] | None, strided: bool) -> None:
        outputs = [t for t in tensors((self.results, self.args)) if t.requires_grad and t.grad_fn is not None]
        outputs = [t for i, t in enumerate(outputs) if not any(t is other for other in outputs[:i])]
        if which is not None:
            outputs = [outputs[i] for i in which if i < len(outputs)]
        torch.manual_seed(7)
        weights = [torch.randn(t.shape, dtype=t.dtype) for t in outputs]
        if strided:
            weights = [w.mT.contiguous().mT if w.dim() > 1 else w for w in weights]
        if outputs:
            torch.autograd.backward(outputs, weights)


def assert_same_training(
    program: Callable[..., Any], make: Callable[[], Sequence[Any]], *, backend: str = "aot_eager", seed: int = 0,
    which: Sequence[int] | None = None, strided: bool = False, dynamic: bool | None = None, calls: int = 2,
    fullgraph: bool = True,
) -> None:
    """Results, changed arguments, gradients, strides, aliases and ``requires_grad``, over several calls."""
    with config.patch(raise_on_internal_error=True):
        compiled = fs.compile(program, backend=backend, fullgraph=fullgraph, dynamic=dynamic)
        for call in range(calls):
            expected, actual = World(make, program, seed + call), World(make, compiled, seed + call)
            assert_equal(expected, actual)
            expected.backward(which, strided)
            actual.backward(which, strided)
            for number, (a, b) in enumerate(zip(expected.leaves, actual.leaves, strict=True)):
                assert (a.grad is None) == (b.grad is None), f"gradient {number}: {a.grad} and {b.grad}"
                if a.grad is not None:
                    torch.testing.assert_close(b.grad, a.grad, equal_nan=True)
                    assert a.grad.stride() == b.grad.stride(), number


def assert_equal(expected: World, actual: World) -> None:
    left, right = tensors((expected.results, expected.args)), tensors((actual.results, actual.args))
    assert len(left) == len(right)
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        torch.testing.assert_close(b.detach(), a.detach(), equal_nan=True)
        assert a.stride() == b.stride(), i
        assert a.requires_grad == b.requires_grad, i
        assert a.is_leaf == b.is_leaf, i
    for i in range(len(left)):
        for j in range(i):
            assert (left[i] is left[j]) == (right[i] is right[j]), (i, j)
            assert _shared(left[i], left[j]) == _shared(right[i], right[j]), (i, j)
