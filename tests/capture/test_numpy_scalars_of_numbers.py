"""np.min and np.max of Python integers that change: integers of NumPy's that no tensor holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import firesteel as fs

X = torch.arange(40.0)


def shown(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    return type(value), value.tolist() if isinstance(value, (torch.Tensor, np.ndarray, np.generic)) else value


USES: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "itself": lambda k, x: (k, [k], {1: k}[1]),
    "sums": lambda k, x: (k + 1, 1 + k, k - 2, k * 3, -k, abs(k), k // 2, k % 3, k / 2, k - 1.5),
    "comparisons": lambda k, x: (k > 7, k == 7, k != 7, 7 <= k, k < np.int64(9)),
    "branches": lambda k, x: (x + 1 if k > 7 else x - 1, not k, bool(k), k and 1),
    "numbers": lambda k, x: (int(k), float(k), round(k), k.item()),
    "slices": lambda k, x: (x[k:], x[: k - 1], x[k % 3], [1, 2, 3][k % 3], list(range(k % 4))),
    "tensors": lambda k, x: (x.sum() * k, torch.full((2,), k), x.view(4, -1) + k),
    "arrays": lambda k, x: (np.arange(3) * k, np.array([k, 1]), np.arange(3, dtype=np.int8) + k),
    "scalars": lambda k, x: (np.int64(3) + k, k + np.int64(3), np.float32(2) * k, np.maximum(k, 4)),
    "texts": lambda k, x: (str(k), repr(k), f"{k:d}", "%d" % k),
    "kinds": lambda k, x: (isinstance(k, int), type(k) is np.int64, k.dtype == np.int64, k.shape),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_uses(use: str, backend: str) -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        return USES[use](np.max([2, np.min([30, int(round(n / 3))]) - 1]), x)

    compiled = fs.compile(f, backend=backend)
    for n in (10, 11, 14, 33, 60, 62, 400):
        assert shown(compiled(X, n)) == shown(f(X, n))


def test_slices_do_not_compile_again() -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        return x[np.max([0, int(round(n / 3.006)) - 2]) :] * 2

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    for n in range(30, 100, 7):
        assert torch.equal(compiled(X, n), f(X, n))
    assert len(compiled._firesteel_unit.entries) <= 2


def test_states_of_broken_loops_do_not_compile_again() -> None:
    def loop(x: torch.Tensor, steps: int) -> Any:
        state, hits = 0, 0
        for n in range(steps):
            x = x + 1
            fs.graph_break()
            asked = np.min([100, int(round(100 * n / 37))])
            if asked > state:
                hits += 1
            state = asked
        return x, hits, state

    compiled = fs.compile(loop, backend="eager")
    assert shown(compiled(X, 37)) == shown(loop(X, 37))
    unit = compiled._firesteel_unit
    assert all(len(part.entries) <= 5 and part.given_up is None for part in (unit, *unit.continuations.values()))
