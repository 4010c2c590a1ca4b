"""Settings of torch's that programs change inside: the dtype of new tensors, kernels of attention."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import firesteel as fs
from capture.differential import check


@pytest.fixture(autouse=True)
def as_before():
    yield
    torch.set_default_dtype(torch.float32)


def test_the_dtype_of_new_tensors():
    def function(x):
        torch.set_default_dtype(torch.float64)
        y = torch.ones(2)
        torch.set_default_dtype(torch.float32)
        return y, torch.ones(2), torch.get_default_dtype(), x + 1

    check(function)
    result = fs.compile(function, fullgraph=True)(torch.ones(2))
    assert [result[0].dtype, result[1].dtype, result[2]] == [torch.float64, torch.float32, torch.float32]


def test_a_setting_that_stays():
    def function(x):
        torch.set_default_dtype(torch.float64)
        return x + torch.ones(2)

    for backend in ("eager", "native"):
        torch.set_default_dtype(torch.float32)
        assert fs.compile(function, fullgraph=True, backend=backend)(torch.ones(2)).dtype is torch.float64
        assert torch.get_default_dtype() is torch.float64


def test_a_setting_is_put_back_when_capture_breaks_off():
    def function(x):
        torch.set_default_dtype(torch.float64)
        fs.graph_break()
        y = x + torch.ones(2)
        torch.set_default_dtype(torch.float32)
        return y

    check(function, lambda: (torch.ones(2),), fullgraph=False, entries=None)
    with pytest.raises(fs.errors.GraphBreakError):
        fs.compile(function, fullgraph=True)(torch.ones(2))
    assert torch.get_default_dtype() is torch.float32


def test_the_precision_of_products():
    def function(x):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        y = x @ x.t()
        torch.set_float32_matmul_precision(before)
        return y, before, torch.get_float32_matmul_precision()

    check(function)


@pytest.mark.parametrize("backends", [SDPBackend.MATH, [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]], ids=str)
def test_kernels_of_attention(backends):
    def function(q):
        with sdpa_kernel(backends, set_priority=isinstance(backends, list)):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    compiled = fs.compile(function, fullgraph=True)
    for length in (4, 5, 6):
        q = torch.randn(1, 2, length, 8)
        torch.testing.assert_close(compiled(q), function(q))
    assert torch.backends.cuda.flash_sdp_enabled()
