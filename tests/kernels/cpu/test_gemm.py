"""Our own matrix product against eager's: values, rounding, edges of tiles and blocks, threads, NaN and infinity."""

from __future__ import annotations

import ctypes
import mmap
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from firesteel.kernels.cpu import gemm, gemm_text, product
from firesteel.kernels.cpu.target import avx2, host
from firesteel.kernels.products.linear_library import mkl_is_slower

pytestmark = pytest.mark.skipif(not product.is_available(), reason="no vectors of 32 bytes")

TARGETS = [pytest.param(target, id=target.cpu) for target in dict.fromkeys([host(), avx2()])]

SIZES = [
    (1, 1, 1), (14, 32, 32), (13, 17, 31), (27, 192, 33), (6, 193, 16), (29, 385, 65), (100, 1000, 97),
    (15, 40, 800), (64, 768, 384),
]  # fmt: skip


@pytest.fixture(autouse=True)
def threads():
    torch.manual_seed(0)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def matrices(rows, depth, columns, transposed, bias, left_transposed=False):
    left = torch.randn(depth, rows).t() if left_transposed else torch.randn(rows, depth)
    right = torch.randn(columns, depth).t() if transposed else torch.randn(depth, columns)
    return left, right, torch.randn(columns) if bias else None


def computed(target, left, right, bias):
    """The result, written between numbers that must stay as they are."""
    rows, columns = left.shape[0], right.shape[1]
    around = torch.full((rows * columns + 64,), 7.0)
    out = around[32:-32].view(rows, columns)
    product.compute(product.machine_code(target), left, right, bias, out)
    assert bool((around[:32] == 7).all() and (around[-32:] == 7).all())
    return out


def eager(left, right, bias):
    return torch.mm(left, right) if bias is None else torch.addmm(bias, left, right)


def check(got, left, right, bias):
    exact = eager(left.double(), right.double(), None if bias is None else bias.double())
    ours, eagers = ((one.double() - exact).pow(2).mean().sqrt() for one in (got, eager(left, right, bias)))
    assert ours <= (1.5 if mkl_is_slower() else 3) * eagers + 1e-7  # elsewhere MKL adds up in another order


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_sizes(target, transposed, bias):
    for number, size in enumerate(SIZES):
        torch.set_num_threads(1 + number % 3)
        for left_transposed in (False, True):
            given = matrices(*size, transposed, bias, left_transposed)
            check(computed(target, *given), *given)


@pytest.mark.parametrize("target", TARGETS)
def test_every_height_of_tiles(target):
    for rows in range(1, 2 * gemm_text.shape_of(target).rows + 1):
        for left_transposed in (False, True):
            given = matrices(rows, 21, 40, True, True, left_transposed)
            check(computed(target, *given), *given)


@pytest.mark.parametrize("depth", [gemm_text.LONGEST + 1, gemm_text.DEEPEST + 1, 2 * gemm_text.DEEPEST, 3000])
def test_rounding_of_long_sums(depth):
    given = matrices(40, depth, gemm.WIDEST + 33, True, False)
    check(computed(host(), *given), *given)


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_around_the_matrices_are_not_used(target):
    left = torch.full((50, 90), float("nan"))
    left[3:43, 5:75] = torch.randn(40, 70)
    right = torch.full((90, 90), float("nan"))
    right[2:72, 4:57] = torch.randn(70, 53)
    for w in (right[2:72, 4:57], right[2:72, 4:57].t().contiguous().t()):
        for x in (left[3:43, 5:75], left.t().contiguous().t()[3:43, 5:75]):
            check(computed(target, x, w, None), x, w, None)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transposed", [False, True])
def test_nan_and_infinity(target, transposed):
    left, right, bias = matrices(30, 400, 70, transposed, True)
    left[3, 7], left[5, 399], left[20, 0] = float("nan"), float("inf"), -float("inf")
    right[9, 69], right[0, 2], bias[60] = float("inf"), 0.0, float("nan")
    got, expected = computed(target, left, right, bias), eager(left, right, bias)
    assert torch.equal(got.isnan(), expected.isnan()) and torch.equal(got.isinf(), expected.isinf())
    torch.testing.assert_close(got, expected, equal_nan=True, rtol=1e-4, atol=1e-4)


def test_results_do_not_depend_on_threads():
    given = matrices(70, 500, 130, True, True)
    torch.set_num_threads(1)
    alone = computed(host(), *given)
    for count in (2, 3, 4, 7, 12):
        torch.set_num_threads(count)
        assert torch.equal(computed(host(), *given), alone)


def test_nothing_is_read_behind_the_matrices():
    """The last numbers lie right in front of memory that may not be read."""
    page = mmap.PAGESIZE
    for rows, depth, columns in ((30, 25, 41), (14, 16, 32)):
        for turned in (False, True):
            left, right, _ = matrices(rows, depth, columns, turned, False, turned)
            at_end = [_before_forbidden_memory(one, page) for one in (left, right)]
            assert torch.equal(computed(host(), *at_end, None), computed(host(), left, right, None))


def _before_forbidden_memory(matrix, page):
    size = -(-matrix.numel() * 4 // page) * page
    memory = mmap.mmap(-1, size + page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + size), ctypes.c_size_t(page), 0) == 0
    flat = torch.frombuffer(memory, dtype=torch.float32, count=matrix.numel(), offset=size - matrix.numel() * 4)
    return flat.as_strided(matrix.shape, matrix.stride()).copy_(matrix)


def test_several_callers_at_once():
    given = [matrices(64, 256, 300, bool(number % 2), True) for number in range(4)]
    expected = [product.product(*one) for one in given]
    with ThreadPoolExecutor(4) as pool:
        for got, one in zip(pool.map(lambda one: product.product(*one), given * 4), expected * 4, strict=True):
            assert torch.equal(got, one)


@pytest.mark.parametrize("given", [
    (torch.randn(8, 16), torch.randn(16, 8)),
    (torch.randn(300, 600)[:, ::2], torch.randn(300, 300)),
    (torch.randn(300, 300), torch.randn(300, 600)[:, ::2]),
    (torch.randn(300, 300), torch.randn(300, 300), torch.randn(1).expand(300)),
    (torch.randn(0, 300), torch.randn(300, 300)),
    (torch.randn(300, 0), torch.randn(0, 300), torch.randn(300)),
])  # fmt: skip
def test_what_the_code_does_not_take_goes_to_aten(given, monkeypatch):
    monkeypatch.setattr(product, "compute", None)
    bias = given[2] if len(given) == 3 else None
    expected = eager(*given[:2], bias)
    assert torch.equal(product.product(*given), expected)
    out = torch.empty(expected.shape)
    product.product_into(*given, out=out)
    assert torch.equal(out, expected)


def test_code_is_the_same_for_all_sizes():
    before = product.machine_code.cache_info().misses
    for size in ((300, 300, 300), (257, 400, 333)):
        given = matrices(*size, True, True)
        check(product.product(*given), *given)
    assert product.machine_code.cache_info().misses - before <= 1
