"""Special functions, parts of numbers, products with vectors and divisions of integers: as eager gives them."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel import config
from firesteel.backends import native
from firesteel.kernels.ir import ExternCall
from firesteel.kernels.options import Options
from firesteel.pipeline.compile import compile_graph

S = torch.special
NAN, INF = float("nan"), float("inf")
POINTS = torch.cat([
    torch.linspace(-30, 30, 601, dtype=torch.float64) + 1e-3, torch.logspace(-8, 2.5, 100, dtype=torch.float64),
    torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 8.0, -8.0, NAN], dtype=torch.float64),
])  # fmt: skip
FUNCTIONS = {
    "i0": torch.i0, "i0e": S.i0e, "i1": S.i1, "i1e": S.i1e, "k0": S.modified_bessel_k0, "k1": S.modified_bessel_k1,
    "scaled k0": S.scaled_modified_bessel_k0, "scaled k1": S.scaled_modified_bessel_k1, "j0": S.bessel_j0,
    "j1": S.bessel_j1, "y0": S.bessel_y0, "y1": S.bessel_y1, "spherical j0": S.spherical_bessel_j0, "erfcx": S.erfcx,
    "log_ndtr": S.log_ndtr, "trigamma": lambda x: torch.polygamma(1, x), "polygamma 2": lambda x: torch.polygamma(2, x),
    "polygamma 4": lambda x: torch.polygamma(4, x), "zeta": lambda x: S.zeta(x.abs() + 1.5, x.flip(0).abs() + 0.1),
    "zeta of negative": lambda x: S.zeta(3.0, x), "digamma": torch.digamma,
}  # fmt: skip
ROUGH = {"j0", "j1", "y0", "y1"}


@pytest.fixture(autouse=True)
def strict():
    fs.reset()
    with config.patch(raise_on_internal_error=True), torch.no_grad():
        torch.manual_seed(0)
        yield


def run(f, *args):
    """The compiled result, and the ATen operators that were called for it."""
    calls = []

    def backend(gm, examples):
        made = compile_graph(gm, examples, Options())
        calls.extend(str(step.target) for step in made.plan.steps if isinstance(step, ExternCall))
        return native.runner(made)

    return fs.compile(f, backend=backend, fullgraph=True)(*args), calls


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_in_single_precision(name):
    f, x = FUNCTIONS[name], POINTS.float()
    found, calls = run(f, x)
    exact, expected = f(x.double()), f(x)
    assert not calls
    assert torch.equal(found.isnan(), exact.isnan()) and torch.equal(found.isinf(), exact.float().isinf())
    finite = exact.float().isfinite()
    errors = [((y.double() - exact) / exact.abs().clamp(min=1e-30))[finite].abs() for y in (found, expected)]
    if name not in ROUGH:  # for those eager's own float64 is the less exact one
        assert (errors[0] <= 2 * errors[1].max() + 2.5e-7).all()
    wanted = expected if name == "trigamma" else exact.float()  # whose poles are a matter of rounding
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - ROUGH))
def test_functions_in_double_precision(name):
    f = FUNCTIONS[name]
    found, calls = run(f, POINTS)
    assert not calls
    torch.testing.assert_close(found, f(POINTS), equal_nan=True, rtol=1e-6 if "gamma" in name else 1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mantissas_and_exponents(dtype):
    tiny = torch.finfo(dtype).tiny
    numbers = [0.0, -0.0, 1.0, -1.0, 0.75, 3e5, tiny, -tiny / 4, tiny / 1024, 1e-38, INF, -INF, NAN]
    x = torch.tensor(numbers, dtype=dtype)
    (mantissa, exponent), calls = run(torch.frexp, x)
    expected = torch.frexp(x)
    assert not calls and torch.equal(exponent, expected[1])
    torch.testing.assert_close(mantissa, expected[0], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16])
def test_products_with_vectors(dtype):
    x, v, w = ((torch.randn(shape) * 4).to(dtype) for shape in ((7, 33), (33,), (33,)))
    found, calls = run(torch.dot, v, w)
    assert not calls
    torch.testing.assert_close(found, torch.dot(v, w))
    for matrix in (x, x.t().contiguous().t(), x[:, :33:1]):
        found, calls = run(torch.mv, matrix, v)
        assert dtype is torch.bfloat16 or not calls
        torch.testing.assert_close(found, torch.mv(matrix, v))
    if dtype.is_floating_point:
        nan = torch.full((7,), NAN, dtype=dtype)
        for base, beta in ((torch.ones(7, dtype=dtype), 2.0), (torch.ones(1, dtype=dtype), 0.5), (nan, 0)):
            f = lambda b, m, v, beta=beta: torch.addmv(b, m, v, beta=beta, alpha=3.0)  # noqa: E731
            torch.testing.assert_close(run(f, base, x, v)[0], f(base, x, v))


DIVISIONS = {
    "floor_divide": lambda x, y: x // y, "remainder": lambda x, y: x % y, "fmod": torch.fmod,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
@pytest.mark.parametrize("name", DIVISIONS)
def test_integers_divided_by_tensors(name, dtype):
    f = DIVISIONS[name]
    low = 0 if dtype is torch.uint8 else -100
    compiled = fs.compile(f, backend="native", fullgraph=True)
    for size in (1, 3, 37):  # with and without lanes that are left over
        x = torch.randint(low, 100, (2, size)).to(dtype)
        y = torch.randint(low, 100, (size,)).to(dtype)
        y[y == 0] = 7
        if dtype.is_signed:
            y[0] = -1
        result = compiled(x, y)
        assert torch.equal(result, f(x, y)) and result.dtype is dtype
        y[-1] = 0
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            f(x, y)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            compiled(x, y)
    assert torch.equal(compiled(x, torch.tensor(5)), f(x, torch.tensor(5)))


def test_nothing_is_divided_by_zero_where_there_is_nothing_to_divide():
    f = DIVISIONS["floor_divide"]
    x, y = torch.zeros(0, 3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)
    assert fs.compile(f, backend="native")(x, y).shape == f(x, y).shape == (0, 3)


def test_the_smallest_integer_is_not_trapped():
    x, y = torch.tensor([-(2**63), 5]), torch.tensor([-1, -1])
    assert fs.compile(DIVISIONS["remainder"], backend="native")(x, y).tolist() == [0, 0]
    assert fs.compile(DIVISIONS["floor_divide"], backend="native")(x, y).tolist() == [-(2**63), -5]


@pytest.mark.parametrize("f, args", [
    (lambda x, y: torch.as_strided_scatter(x, y, (2, 3), (4, 1), 1), (torch.randn(4, 4), torch.randn(2, 3))),
    (lambda x, y: torch.as_strided_scatter(x + 1, y * 2, (3,), (5,), 0), (torch.randn(4, 4), torch.randn(3))),
    (lambda x: x.unfold(0, 1, 1) + 1, (torch.tensor(2.0),)),
    (lambda a, b: torch.linspace(a, b, 7), (torch.tensor(-1.0), torch.tensor(2.5))),
    (lambda a: torch.linspace(a, 4.0, 1), (torch.tensor(-1.0),)),
    (lambda x: torch.nn.functional.max_unpool2d(*torch.nn.functional.max_pool2d(x, 2, return_indices=True), 2),
     (torch.randn(2, 3, 6, 6),)),
])  # fmt: skip
def test_without_calls(f, args):
    found, calls = run(f, *args)
    torch.testing.assert_close(found, f(*args))
    assert found.stride() == f(*args).stride() and all("_assert" in name or "check_" in name for name in calls)


@pytest.mark.parametrize("place", [-1, 36])
def test_places_outside_of_an_unpooled_tensor(place):
    def f(x, places):
        return torch.nn.functional.max_unpool2d(x, places, 2)

    x, places = torch.randn(1, 1, 3, 3), torch.arange(9).reshape(1, 1, 3, 3)
    torch.testing.assert_close(fs.compile(f, backend="native")(x, places), f(x, places))
    places[0, 0, 1, 1] = place
    with pytest.raises(RuntimeError, match="Found an invalid max index"):
        f(x, places)
    with pytest.raises(RuntimeError, match="Found an invalid max index"):
        fs.compile(f, backend="native")(x, places)
