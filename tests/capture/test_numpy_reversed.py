"""Views of reversed arrays, whose strides are negative: what is written into them reaches the array they look at."""

from __future__ import annotations

import numpy as np
import pytest

import firesteel as fs

REVERSED = {
    "one dimension": ((12,), lambda x: x[::-1]),
    "steps": ((12,), lambda x: x[::-2]),
    "a part": ((12,), lambda x: x[7:1:-1]),
    "rows": ((4, 6), lambda x: x[::-1]),
    "columns": ((4, 6), lambda x: x[:, ::-1]),
    "both": ((4, 6), lambda x: np.flip(x)),
    "turned by a quarter": ((4, 6), lambda x: np.rot90(x)),
    "turned by a half": ((4, 6), lambda x: np.rot90(x, 2)),
    "transposed": ((4, 6), lambda x: np.flip(x).T),
    "one row": ((4, 6), lambda x: x[:1][::-1]),
    "two of three": ((2, 3, 4), lambda x: x[:, ::-1, ::-1]),
    "the middle of three": ((2, 3, 4), lambda x: x[:, ::-1]),
}
VIEWS = {
    "reshape(-1)": lambda y: y.reshape(-1),
    "np.reshape": lambda y: np.reshape(y, (-1, 2)),
    "reshape by columns": lambda y: y.reshape(-1, 2, order="F"),
    "reshape to its shape": lambda y: y.reshape(y.shape),
    "one more dimension": lambda y: y.reshape((*y.shape, 1)),
    "last dimension split": lambda y: y.reshape((*y.shape[:-1], -1, 2)),
    "reshape and slice": lambda y: y.reshape(-1)[2:5:2],
    "reshape and reverse": lambda y: y.reshape(2, -1)[:, ::-1].reshape(-1),
    "ravel": lambda y: y.ravel(),
    "ravel by columns": lambda y: y.ravel(order="F"),
    "einsum": lambda y: np.einsum("...i->...i", y),
    "squeeze": lambda y: np.squeeze(y),
    "atleast_3d": lambda y: np.atleast_3d(y),
    "split": lambda y: np.array_split(y, 2)[1],
}


def outcome(function, shape):
    x = np.arange(1.0, np.prod(shape) + 1).reshape(shape)
    y, z = function(x)
    return x.tolist(), y.tolist(), y.strides, np.shares_memory(x, y), z.tolist()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", REVERSED)
def test_writes_reach_the_array_of_a_reversed_view(kind, view):
    shape, reverse = REVERSED[kind]

    def written(x):
        y = VIEWS[view](reverse(x))
        y += 100
        y[..., 0] = -1
        return y, x * 2

    def own(x):
        base = x + 1
        y = VIEWS[view](reverse(base))
        y *= 2
        return y, base

    for function in (written, own):
        try:
            expected = outcome(function, shape)
        except ValueError:  # an odd number of elements in pairs
            continue
        assert outcome(fs.compile(function), shape) == expected


def test_reshaped_views_of_sizes_that_vary():
    def f(x):
        y = np.flip(x).reshape(-1)
        y[0] = 99
        z = x[:, ::-1].reshape(2, -1)
        z += 1
        return y, z

    compiled = fs.compile(f, dynamic=True)
    for size in (3, 5, 4):
        assert outcome(compiled, (2, size)) == outcome(f, (2, size))


def test_reshaped_and_reversed_is_one_graph():
    def f(x):
        y = x[::-1].reshape(3, 2)
        y[0] = 7
        return y, x.sum()

    assert outcome(fs.compile(f, fullgraph=True), (6,)) == outcome(f, (6,))
