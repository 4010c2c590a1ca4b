"""``torch._higher_order_ops.out_dtype`` inside of compiled functions."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops import out_dtype

import firesteel as fs

aten = torch.ops.aten
NUMBERS = torch.arange(-12, 12, dtype=torch.int8).view(4, 6)
HALVES = (torch.arange(24.0).view(4, 6) / 8 + 0.5).half()
WHOLE = {
    "mm_of_bytes": (lambda x: out_dtype(aten.mm.default, torch.int32, x, x.T), NUMBERS),
    "mm_of_halves": (lambda x: out_dtype(aten.mm.default, torch.float32, x, x.T) + 1, HALVES),
    "linear": (lambda x: out_dtype(aten.linear.default, torch.int32, x, x), NUMBERS),
    "mul": (lambda x: out_dtype(aten.mul.Tensor, torch.int32, x, x), NUMBERS),
    "mul_by_a_number": (lambda x: out_dtype(aten.mul.Scalar, torch.int32, x, 300), NUMBERS),
    "div_of_integers": (lambda x: out_dtype(aten.div.Tensor, torch.int32, x, x * 0 + 2), NUMBERS),
    "convolution": (lambda x: out_dtype(aten.convolution.default, torch.float32, x[None, None], x[None, None, :2, :2],
                                        x[:1, 0], [1, 1], [0, 0], [1, 1], False, [0, 0], 1), HALVES),
    "no_bias": (lambda x: out_dtype(aten.conv2d.default, torch.float32, x[None, None], x[None, None, :2, :2], None,
                                    [1, 1]), HALVES),
    "narrower": (lambda x: out_dtype(aten.mul.Tensor, torch.float16, x.float(), x.float()), HALVES),
}
BROKEN = {
    "number_of_another_kind": (lambda x: out_dtype(aten.mul.Scalar, torch.int32, x, 1.5), NUMBERS),
    "no_dimension": (lambda x: out_dtype(aten.mul.Tensor, torch.float32, x, x[0, 0]), HALVES),
    "differentiated": (lambda x: out_dtype(aten.mul.Tensor, torch.float32, x, x), HALVES.float().requires_grad_()),
    "refused": (lambda x: out_dtype(aten.add.Tensor, torch.float32, x, x), HALVES),
}


def outcome(function, x):
    try:
        result = function(x)
    except ValueError as error:
        return str(error)
    return result.detach(), result.requires_grad


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", [*WHOLE, *BROKEN])
def test_out_dtype(name, backend):
    function, x = {**WHOLE, **BROKEN}[name]
    expected, found = outcome(function, x), outcome(fs.compile(function, fullgraph=name in WHOLE, backend=backend), x)
    assert (type(found), found[1:]) == (type(expected), expected[1:])
    if isinstance(expected, tuple):
        torch.testing.assert_close(found[0], expected[0])
