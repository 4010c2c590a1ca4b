"""Operands that do not fit together: eager's error, with fixed and with varying sizes; those that do stay in one
graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs

INDEX = torch.tensor([0, 2, 1])


def put_rows(y: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = y * 1
    y[i] = v
    return y


def put_columns(y: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = y * 1
    y[:, i] = v
    return y


def put_places(y: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = y * 1
    y[i, i] = v
    return y


def put_in_slice(y: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = y * 1
    y[1:4][i] = v
    return y


def put_masked(y: torch.Tensor, mask: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = y * 1
    y[mask] = v
    return y


ZEROS, ONES = torch.zeros, torch.ones
# a function, operands that fit, operands that do not
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "rows": (put_rows, (ZEROS(5), INDEX, ONES(3)), (ZEROS(5), INDEX, ONES(2))),
    "too_many": (put_rows, (ZEROS(5), INDEX, ONES(1)), (ZEROS(5), INDEX, ONES(5))),
    "far_too_few": (put_rows, (ZEROS(5), INDEX, ONES(3)), (ZEROS(5), ZEROS(1 << 20).long(), ONES(2))),
    "broadcast": (put_rows, (ZEROS(5, 4), INDEX, ONES(4)), (ZEROS(5, 4), INDEX, ONES(2))),
    "columns": (put_columns, (ZEROS(2, 5), INDEX, ONES(2, 3)), (ZEROS(2, 5), INDEX, ONES(2, 2))),
    "places": (put_places, (ZEROS(5, 4), INDEX, ONES(3)), (ZEROS(5, 4), INDEX, ONES(2))),
    "in_slice": (put_in_slice, (ZEROS(5), INDEX, ONES(3)), (ZEROS(5), INDEX, ONES(2))),
    "masked": (put_masked, (ZEROS(3), INDEX > 0, ONES(1)), (ZEROS(3), ONES(4) > 0, ONES(1))),
    "masked_by_nothing": (put_masked, (ZEROS(3), INDEX > 0, ONES(1)), (ZEROS(3), INDEX > 0, ONES(0))),
    "dtype": (put_rows, (ZEROS(5), INDEX, ONES(3)), (ZEROS(5), INDEX, ONES(3, dtype=torch.bfloat16))),
    "accumulate": (lambda y, i, v: y.index_put((i,), v, accumulate=True),
                   (ZEROS(5), INDEX, ONES(3)), (ZEROS(5), INDEX, ONES(2))),
    "put": (lambda y, i, v: y.put(i, v), (ZEROS(5), INDEX, ONES(3)), (ZEROS(5), INDEX, ONES(2))),
    "put_into_nothing": (lambda y, i, v: y.put(i, v.requires_grad_()) * 2, (ZEROS(5), INDEX, ONES(3)),
                         (ZEROS(0), INDEX, ONES(3))),
    "index_reduce": (lambda y, i, v: y.index_reduce(0, i, v, "amax"),
                     (ZEROS(5), INDEX, ONES(3)), (ZEROS(5), INDEX, ONES(2))),
    "index_add": (lambda y, i, v: y.index_add(0, i, v), (ZEROS(3, 2), INDEX, ONES(3, 2)),
                  (ZEROS(3, 2), INDEX, ONES(3, 1))),
    "index_copy": (lambda y, i, v: y.index_copy(0, i, v), (ZEROS(3, 2), INDEX, ONES(3, 2)),
                   (ZEROS(3, 2), INDEX.int(), ONES(3, 2))),
    "index_fill": (lambda y, i: y.index_fill(0, i, 1.0), (ZEROS(3), INDEX), (ZEROS(3), INDEX.int())),
    "select_scatter": (lambda y, v: y.select_scatter(v, 0, 0) * 1, (ZEROS(2, 5), ONES(5)), (ZEROS(2, 5), ONES(2))),
    "diagonal_scatter": (lambda y, v: y.diagonal_scatter(v) * 1, (ZEROS(3, 4), ONES(3)), (ZEROS(3), ONES(2))),
    "slice_scatter": (lambda y, v: y.slice_scatter(v, 0, 0, 2) * 1, (ZEROS(3), ONES(2)), (ZEROS(3), ONES(9))),
    "addmv": (torch.addmv, (ONES(2), ONES(2, 3), ONES(3)), (ONES(2), ONES(1, 3), ONES(3))),
    "targets": (F.cross_entropy, (ONES(3, 4), INDEX), (ONES(3, 4), INDEX.int())),
    "targets_of_images": (F.nll_loss, (ONES(3, 4, 1, 2), INDEX[:, None, None].expand(3, 1, 2)),
                          (ONES(3, 4, 1, 2), INDEX[:, None, None].expand(3, 1, 9))),
    "probabilities": (F.binary_cross_entropy, (ONES(1, 2), ONES(1, 2)), (ONES(1, 2), ONES(1, 2).double())),
    "weights": (F.binary_cross_entropy, (ONES(1, 2), ONES(1, 2), ONES(1, 2)), (ONES(1, 2), ONES(1, 2), ONES(5, 2))),
    "margins": (F.soft_margin_loss, (ONES(5, 2), ONES(5, 2)), (ONES(1, 2), ONES(5, 2))),
    "beta": (lambda x, beta: F.smooth_l1_loss(x, x, beta=beta), (ONES(2), 1.0), (ONES(2), -1.0)),
    "approximate": (lambda x, how: F.gelu(x, approximate=how), (ONES(2), "tanh"), (ONES(2), "fast")),
    "attention": (lambda q, m: F.scaled_dot_product_attention(q, q, q, m), (ONES(1, 2, 3, 4), ONES(2, 3, 3)),
                  (ONES(1, 2, 3, 4), ONES(2, 2, 3, 3))),
    "pooled_integers": (lambda x: F.max_pool1d(x, 2), (ONES(1, 2, 4),), (ONES(1, 2, 4).long(),)),
    "parameters": (lambda x, w: F.group_norm(x, 2, w), (ONES(3, 4, 2), ONES(4)), (ONES(3, 4, 2).double(), ONES(4))),
    "images": (lambda x, w: (F.conv2d(x, w), x + 1)[1], (ONES(1, 2, 4, 4), ONES(1, 2, 3, 3)),
               (ONES(1, 2, 4, 4).double(), ONES(1, 2, 3, 3))),
    "masks_as_images": (lambda x, w: (F.conv_transpose1d(x, w), x * 1)[1], (ONES(1, 2, 4), ONES(2, 1, 3)),
                        (ONES(1, 2, 4) > 0, ONES(2, 1, 3) > 0)),
    "dimensions": (lambda x: x.amax(-1), (ONES(2, 1),), (ONES([1] * 65),)),
    "out": (lambda x, out: torch.complex(x, x, out=out) + 0, (ONES(2), ZEROS(2, dtype=torch.complex64)),
            (ONES(2).double(), ZEROS(2, dtype=torch.complex64))),
    "in_place": (lambda x, y: (x + 0).addcmul_(y, y), (ONES(2), ONES(2)), (ONES(2), ONES(2, dtype=torch.complex64))),
}  # fmt: skip


@pytest.mark.parametrize(("name", "dynamic"), [(name, (None, True)[at % 2]) for at, name in enumerate(CALLS)])
def test_eager_raises(name: str, dynamic: bool | None) -> None:
    function, good, bad = CALLS[name]
    with pytest.raises(Exception) as expected:  # noqa: PT011
        function(*bad)
    graphs = fs.explain(function)(*good).graph_count
    compiled = fs.compile(function, backend="native", dynamic=dynamic)
    torch.testing.assert_close(compiled(*good), function(*good))
    with pytest.raises(type(expected.value)) as raised:
        compiled(*bad)
    assert str(raised.value) == str(expected.value)
    assert graphs == 1
