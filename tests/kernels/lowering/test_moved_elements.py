"""Rolled tensors, slices with steps that are written, reshaped permutations: what vectors read where it lies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import firesteel as fs

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool]


def numbers(shape, dtype=torch.float64):
    count = int(np.prod(shape))
    if dtype is torch.bool:
        return (torch.arange(count) % 3 == 0).reshape(shape)
    return (torch.arange(count) % 113).reshape(shape).to(dtype)


def assert_like_eager(function, *args, **options):
    given, taken = [arg.clone() for arg in args], [arg.clone() for arg in args]
    expected = function(*given)
    with fs.config.patch(verify=True, raise_on_internal_error=True):
        actual = fs.compile(function, backend="native", fullgraph=True, **options)(*taken)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(taken, given, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (7,), (0,), (64,), (5, 33), (3, 4, 17), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("shift", [0, 1, 3, -2, 8, 100, -33])
def test_rolls(shape, shift, dtype):
    x = numbers(shape, dtype)
    assert_like_eager(lambda x: torch.roll(x, shift), x)
    assert_like_eager(lambda x: torch.roll(x, shift, -1), x)
    assert_like_eager(lambda x: torch.roll(x, (shift, 1 - shift), (-1, 0)), x)


def test_rolls_in_expressions():
    x = numbers((9, 37))

    def neighbours(x):
        board = (x % 2).to(torch.int64)
        return sum(torch.roll(torch.roll(board, i, 0), j, 1) for i, j in itertools.product((-1, 0, 1), (-1, 0, 2)))

    assert_like_eager(neighbours, x)
    assert_like_eager(lambda x: torch.roll(x.t() * 2, 5, 1).sum(0), x)
    assert_like_eager(lambda x: torch.roll(torch.roll(x, 3, 1), -3, 1) + x, x)
    assert_like_eager(lambda x: torch.roll(x[:, ::2], 2, 1) * x[:, 1:20], x)
    assert_like_eager(neighbours, x, dynamic=True)


SLICES = [(None, None, 2), (1, None, 2), (None, None, 3), (2, -1, 3), (1, 30, 4), (None, 1, 2), (5, 5, 2), (3, 100, 7),
          (None, 4, 1), (4, 8, 1), (36, None, 2)]


@pytest.mark.parametrize("dtype", DTYPES[:5])
@pytest.mark.parametrize("bounds", SLICES, ids=str)
@pytest.mark.parametrize("size", [37, 64, 3])
def test_slices_written_in_steps(bounds, size, dtype):
    part = slice(*bounds)

    def changed(x):
        y = x.clone()
        y[part] *= 2
        return y

    def replaced(x):
        y = x * 1
        y[part] = x[part] + 1
        y[part] += 1
        return y

    def of_rows(x):
        y = x.reshape(1, -1).repeat(3, 1)
        y[:, part] -= 3
        y[::2] *= 2
        return y

    def by_others(x):
        y = x.clone()
        y[part] = torch.arange(len(range(size)[part]), dtype=dtype)
        return y[part].flip(0) + y[part]

    def in_place(x):
        x[part] *= 2
        x[1::2] += x[: x.shape[0] - 1: 2]
        return x.clone()

    x = numbers(size, dtype)
    functions = [changed, replaced, of_rows, by_others] + [in_place] * (size % 2)
    for function in functions:
        assert_like_eager(function, x)


def test_slices_that_overlap():
    def function(x):
        y = x.clone()
        y[::2] *= 2
        y[1::2] += y[::2][: y[1::2].shape[0]]
        y[::3] = y[::3] * y[: y[::3].shape[0]]
        y[2:20] = y[1:19].clone()
        return y

    for size in (21, 40, 101):
        assert_like_eager(function, numbers(size))


def test_a_step_that_another_mask_is_not_about():
    """Under the mask of one slice a quotient is without rest, in what is computed for another it is not."""
    def function(x):
        y = x.clone()
        y[1::2] = x.repeat_interleave(2)[: y[1::2].shape[0]] + y[1::2]
        z = y.clone()
        z[::2] = y.repeat_interleave(2)[::4][: z[::2].shape[0]]
        return z + x.reshape(-1, 1).expand(-1, 2).reshape(-1)[: x.shape[0]]

    for size in (16, 33, 50):
        assert_like_eager(function, numbers(size))


def test_every_access_is_checked():
    with fs.config.patch(check_bounds=True):
        x = numbers((6, 35))
        assert_like_eager(lambda x: torch.roll(x, (2, -1), (1, 0)), x)

        def function(x):
            y = x.clone()
            y[:, 1::3] *= 2
            y[:4] = 1
            return y

        assert_like_eager(function, x)
        assert_like_eager(lambda x: x.permute(1, 0).reshape(-1) * 2, numbers((32, 17)))


@pytest.mark.parametrize("shape", [(4, 2, 16), (3, 5, 32), (2, 3, 17), (6, 1, 48), (1, 7, 16)], ids=str)
def test_reshaped_permutations(shape):
    x = numbers(shape)
    assert_like_eager(lambda x: x.permute(1, 0, 2).reshape(-1) * 2, x)
    assert_like_eager(lambda x: x.permute(0, 2, 1).reshape(shape[0], -1) + 1, x)
    assert_like_eager(lambda x: (x.permute(1, 0, 2).reshape(-1) * 2).sum(), x)
    assert_like_eager(lambda x: x.permute(1, 0, 2).reshape(-1).argmax(), x)
    assert_like_eager(lambda x: x.permute(1, 0, 2).reshape(-1).cumsum(0), x)
    assert_like_eager(lambda x: x[:, :1].permute(1, 0, 2).reshape(-1).view(-1, 8).sum(1), numbers((4, 2, 16)))


def test_means_of_every_second_element():
    for size in (10, 1001, 200_003):
        x = torch.rand(size, dtype=torch.float64)

        def function(x):
            return ((x[::2][: x.shape[0] // 2] ** 2 + x[1::2] ** 2) <= 1).to(torch.float64).mean()

        torch.testing.assert_close(fs.compile(function, backend="native")(x), function(x))


def test_rolled_parts_without_elements_keep_the_strides_that_they_have():
    def fn(x, n, m):
        return torch.roll(x.contiguous()[:, n : n // 2], len(x) * m, 1)  # guards say where there is nothing

    compiled = fs.compile(fn, backend="native", dynamic=True)
    for n in (0, 4, -1):
        x = numbers((1, 6), torch.float32).expand(4, 6)
        assert compiled(x, n, 7).stride() == fn(x, n, 7).stride()
