"""Programs in NumPy, of every kind that its documentation shows: what compiled code must give in values and types.

A program's parameters say by their names what it is given (`arguments`): ``x`` and ``y`` are vectors, ``p`` one of
positive numbers, ``m`` and ``w`` matrices, ``r`` a vector as long as their rows, ``t`` an array of three dimensions,
``sq`` a small square matrix, ``v`` a short vector, ``i`` and ``j`` integers, ``n`` narrow ones that are indices too,
``k`` a matrix of integers, ``u`` bytes, ``b`` and ``d`` truth values, ``f`` narrow floats, ``g`` a matrix of them,
``c`` complex numbers, ``s`` a scalar.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """A function; `timed` where it works on large arrays."""

    name: str
    function: Callable[..., Any]
    timed: bool


PROGRAMS: dict[str, Program] = {}


def program(function: Callable[..., Any], *, timed: bool = True) -> Callable[..., Any]:
    """Registers a program."""
    PROGRAMS[function.__name__] = Program(function.__name__, function, timed)
    return function


def small(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a program that works on little data, or whose result has another size."""
    return program(function, timed=False)


def arguments(function: Callable[..., Any], size: int = 24, seed: int = 0) -> list[Any]:
    """What a program is given, with `size` elements in each large array."""
    rng = np.random.default_rng(seed)
    rows = 4 if size < 100 else 1 << (size.bit_length() // 2)
    shape = (rows, size // rows)
    makers: dict[str, Callable[[], Any]] = {
        "x": lambda: rng.standard_normal(size), "y": lambda: rng.standard_normal(size),
        "p": lambda: rng.uniform(0.1, 2.0, size), "m": lambda: rng.standard_normal(shape),
        "w": lambda: rng.standard_normal(shape), "sq": lambda: rng.standard_normal((6, 6)) + 6 * np.eye(6),
        "v": lambda: rng.standard_normal(6), "r": lambda: rng.standard_normal(shape[1]),
        "i": lambda: rng.integers(-9, 9, size), "j": lambda: rng.integers(1, 9, size),
        "k": lambda: rng.integers(0, 9, shape), "n": lambda: rng.integers(0, 24, size).astype(np.int32),
        "b": lambda: rng.random(size) < 0.5, "d": lambda: rng.random(size) < 0.5,
        "f": lambda: rng.standard_normal(size).astype(np.float32),
        "g": lambda: rng.standard_normal(shape).astype(np.float32),
        "c": lambda: rng.standard_normal(size) + 1j * rng.standard_normal(size),
        "u": lambda: rng.integers(0, 255, size).astype(np.uint8), "s": lambda: np.float64(1.5),
        "t": lambda: rng.standard_normal((rows, 2, size // rows // 2)),
    }
    return [makers[name]() for name in inspect.signature(function).parameters]


# One program a line: its name and parameters, and what it returns, or statements. Those with a dash are small: they
# work on few elements, or only on views.
LINES = """
# Making arrays
- zeros_and_ones(x): np.zeros((2, 3)), np.ones(4, dtype=np.int32), np.full((2, 2), 7.5), x[:1]
- ranges(x): np.arange(5), np.arange(2, 9, 3), np.arange(0.0, 1.0, 0.25), np.arange(6.0)
- spaced(x): np.linspace(0.0, 1.0, 11), np.linspace(-1, 1, 5, endpoint=False), np.logspace(0, 2, 3)
- identity_matrices(v): np.eye(3), np.eye(3, 4, k=1), np.identity(2), np.diag(v), np.tri(3)
like_others(m): np.zeros_like(m), np.ones_like(m, dtype=np.int64), np.full_like(m, 2.5)
- from_lists(v): np.array([1, 2, 3]), np.array([[1.0, 2], [3, 4]]), np.asarray([True, False]), np.array(5)
of_arrays(x, y): np.array([x, y])
- mesh(v): np.meshgrid(v, v * 2), np.meshgrid(v, v, indexing="ij")
- index_grids(v): np.indices((2, 3)), np.tril_indices(3), np.triu_indices(3, k=1)
copies(x): y = x.copy(); y[0] = 5.0; return y, np.copy(x)
converted(x, i): x.astype(np.float32), i.astype(float), x.astype(int), i.astype(bool)
- vandermonde(v): np.vander(v, 3), np.vander(v, 3, increasing=True)
# Ufuncs
arithmetic(x, y): x + y, x - y, x * y, x / (y * y + 1)
one_expression(x, y): (x * y + 2.0) / (np.abs(x) + 1.0) - np.maximum(x, y)
trigonometry(x): np.sin(x) ** 2 + np.cos(x) ** 2, np.tan(x), np.arctan(x)
inverse_trigonometry(p): np.arcsin(p / 3), np.arccos(p / 3), np.arctan2(p, 1.5)
hyperbolic(x): np.tanh(x), np.sinh(x), np.cosh(x), np.arcsinh(x)
exponentials(x): np.exp(x), np.exp2(x), np.expm1(x)
logarithms(p): np.log(p), np.log2(p), np.log10(p), np.log1p(p)
powers(p): p ** 2, p ** 0.5, p ** 3, 2.0 ** p, np.power(p, 1.5)
roots(p): np.sqrt(p), np.cbrt(p), np.reciprocal(p), np.square(p)
rounding(x): np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.round(x, 2)
signs(x): np.sign(x), np.abs(x), -x, np.copysign(x, -1.0), np.signbit(x)
extremes(x, y): np.maximum(x, y), np.minimum(x, 0.0), np.fmax(x, y), np.fmin(y, x)
special_tests(x): z = x / np.where(x > 1, 0.0, 1.0); return np.isnan(z), np.isinf(z), np.isfinite(z)
two_arguments(x, y): np.hypot(x, y), np.logaddexp(x, y), np.heaviside(x, 0.5)
comparisons(x, y): x < y, x <= 0, x == y, x != y, x >= y, 0.5 > x
logic(b, d): b & d, b | d, b ^ d, ~b, np.logical_and(b, d), np.logical_not(b)
logic_of_numbers(x, i): np.logical_and(x, i), np.logical_or(x > 0, i), np.logical_xor(i, 1)
degrees(x): np.deg2rad(x), np.rad2deg(x), np.radians(x), np.degrees(x)
floor_and_remainder(x, p): x // p, x % p, np.fmod(x, p), np.divmod(x, p)
parts_of_floats(x): np.modf(x), np.frexp(x)
into_out(x, y): z = np.empty_like(x); np.multiply(x, y, out=z); np.add(z, 1.0, out=z); return z
where_argument(x, b): z = np.zeros_like(x); np.exp(x, out=z, where=b); return z
ufunc_methods(m): np.add.reduce(m), np.multiply.reduce(m, axis=1), np.add.accumulate(m, axis=1)
- outer_of_ufuncs(v): np.add.outer(v, v), np.multiply.outer(v, v), np.subtract.outer(v, v)
narrow_floats(f): f * 2.5 + 1, np.exp(f), f / 3, f ** 2
promotion(f, i, x): f + i, f * x, i / 2, i * 2.5, f + 1j
complex_numbers(c): c * c, np.abs(c), c.real, c.imag, np.conj(c), np.angle(c)
complex_exponential(x): np.exp(1j * x)
# Integers and truth values
integers(i, j): i + j, i - j, i * j, i // j, i % j, i ** 2
bits(i, j): i & j, i | j, i ^ j, ~i, i << 2, i >> 1
small_integers(u): u + u, u * 2, u // 3, u + np.uint8(200), np.sum(u)
integers_with_floats(i): i / 3, i * 0.5, i + 1.5, np.sqrt(np.abs(i)), i.mean()
greatest_divisors(j): np.gcd(j, 6), np.lcm(j, 4)
truth_arithmetic(b, d): b + d, b * d, b.sum(), b + 1, b * 2.5, np.mean(b)
division_by_zero_of_integers(i): i // (i * 0), i % (i - i)
mixed_widths(n, i): n + i, n * np.int16(2), n / n.size, n.sum(), n.prod(dtype=np.int64) * 0
parity(i): i % 2 == 0, (i % 2).astype(bool), np.where(i % 2 == 0, i // 2, 3 * i + 1)
# Broadcasting
rows_and_columns(m, r): m + r, m * r[None, :], m - m.mean(axis=1, keepdims=True)
standardised(m): (m - m.mean(axis=0)) / (m.std(axis=0) + 1e-8)
- distances(v): np.abs(v[:, None] - v[None, :]), np.sqrt(((v[:, None] - v) ** 2))
- broadcast_views(r): np.broadcast_to(r, (3, r.size)), np.broadcast_to(1.5, (2, 2))
broadcast_several(x, s): a, b = np.broadcast_arrays(x, s); return a + b
outer_products(v, r): np.outer(v, r), v[:, np.newaxis] * r
# Reductions
sums(m): m.sum(), m.sum(axis=0), m.sum(axis=1, keepdims=True), np.sum(m, axis=(0, 1)), np.sum(m, dtype=np.float32)
means(m): m.mean(), m.mean(axis=0), np.mean(m, axis=-1, keepdims=True)
deviations(m): m.std(), m.var(axis=0), np.std(m, axis=1, ddof=1), np.var(m, ddof=1)
- products(p): (p[:20] * 0.9).prod(), np.prod(p[:8])
largest(m): m.max(), m.min(axis=0), np.max(m, axis=1), np.ptp(m), np.min(m, axis=1, keepdims=True)
places_of_extremes(m): m.argmax(), np.argmin(m), np.argmax(m, axis=0), m.argmin(axis=1)
all_and_any(b, x): b.all(), b.any(), np.all(x > -100), np.any(x > 100)
all_and_any_of_rows(m): (m > 0).all(axis=0), (m > 0).any(axis=1)
counts(m, b): np.count_nonzero(b), np.count_nonzero(m > 0, axis=0), (m > 1).sum()
sums_where(x, b): np.sum(x, where=b), np.mean(x, where=b), np.max(x, where=b, initial=-9.0)
without_missing(x, b): z = np.where(b, np.nan, x); return np.nansum(z), np.nanmean(z), np.nanmax(z), np.nanstd(z)
norms(m): np.linalg.norm(m), np.linalg.norm(m, axis=1), np.linalg.norm(m[0], ord=1)
narrow_sums(g): g.sum(), g.mean(axis=0), g.std(), g.max(axis=1)
into_reduction(m): z = np.zeros(m.shape[1]); np.sum(m, axis=0, out=z); return z
weighted(x, p): np.average(x, weights=p), np.average(x)
totals_of_three_dimensions(t): t.sum(axis=(0, 2)), t.mean(axis=1), t.max(axis=(1, 2))
# Running totals and differences
running_totals(x): np.cumsum(x), x.cumsum()
running_totals_of_rows(m): np.cumsum(m, axis=0), np.cumsum(m, axis=1)
- running_products(p): np.cumprod(p[:16]), np.cumprod(p[:16].reshape(4, 4), axis=1)
differences(x, m): np.diff(x), np.diff(x, n=2), np.diff(m, axis=0)
running_extremes(x): np.maximum.accumulate(x), np.minimum.accumulate(x)
integral(x, p): np.trapezoid(p), np.trapezoid(x, dx=0.5)
slopes(x): np.gradient(x)
moving_average(x): s = np.cumsum(x); return (s[4:] - s[:-4]) / 4
# Indexing
- basic_views(m): m[0], m[:, 1], m[1:3, ::2], m[-1, -1], m[..., 0]
backwards(x): x[::-1], x[::-2], np.flip(x) * 2
backwards_in_both(m): m[::-1, ::-1], np.flipud(m), np.fliplr(m) + 1
by_lists(m): m[[0, 2]], m[:, [1, 0]], m[[0, 1], [1, 2]]
by_arrays(x, n): x[n], x[n % 5] * 2
by_masks(x): x[x > 0], x[(x > -1) & (x < 1)]
rows_by_masks(m): m[m[:, 0] > 0], m[m > 1].sum()
- new_dimensions(x): x[:, None].shape, x[None, :, None], np.expand_dims(x, 0), np.squeeze(x[None])
taken(x, n): np.take(x, n), np.take(x, 3), x.take([0, 2])
taken_along(m): np.take_along_axis(m, np.argsort(m, axis=1), axis=1)
- chosen_by_data(m): m[np.argmax(m[:, 0])], m[0, np.argmin(m[0])]
places(x): np.nonzero(x > 0)[0], np.argwhere(x > 1), np.flatnonzero(x < 0)
written_slices(x): y = x.copy(); y[:4] = 0.0; y[4:8] += 1.0; y[::2] *= 2.0; return y
written_masks(x): y = x.copy(); y[y < 0] = 0.0; return y
written_indices(m): z = m.copy(); z[[0, 1]] = 5.0; z[:, 0] = z[:, 1]; return z
one_hot(n): z = np.zeros((n.size, 3)); z[np.arange(n.size), n % 3] = 1.0; return z
permuted(x): p = np.argsort(x, kind="stable"); q = np.empty_like(p); q[p] = np.arange(p.size); return x[p], q
- elements(v): v[0], v[-1], float(v[1]), v[2].item(), v[:2].tolist()
- views_of_views(m): v = m[1:, ::2].T; v[0] = 1.0; return m, v
histogram_by_counting(n): np.bincount(n), np.bincount(n, minlength=40)
# Choosing
where_else(x, y): np.where(x > y, x, y), np.where(x > 0, 1, -1), np.where(x > 0, x, 0)
selected(x): np.select([x < -1, x > 1], [x * 2, x * 3], default=0.0)
clipped(x, i): np.clip(x, -1, 1), x.clip(0), np.clip(i, 0, 5), np.clip(x, None, 0.5)
cleaned(x, b): np.nan_to_num(np.where(b, np.nan, x)), np.nan_to_num(np.where(b, np.inf, x), posinf=9.0)
triangles(m): np.tril(m), np.triu(m, k=1)
interpolated(x): np.interp(x, np.array([-1.0, 0.0, 2.0]), np.array([0.0, 1.0, 4.0]))
binned(x): np.digitize(x, [-1.0, 0.0, 1.0]), np.searchsorted(np.array([-1.0, 0.0, 1.0]), x)
put_where(x, b): y = x.copy(); np.putmask(y, b, 0.0); np.copyto(y, 9.0, where=x > 2); return y
# Shapes
reshaped(m): m.reshape(-1), m.reshape(2, -1), m.ravel(), m.flatten(), m.T.reshape(-1)
- transposed(m, t): m.T, m.transpose(), t.transpose(1, 0, 2), np.swapaxes(t, 0, 2), np.moveaxis(t, 0, -1)
joined(x, y): np.concatenate([x, y]), np.stack([x, y]), np.stack([x, y], axis=1), np.hstack([x, y])
joined_matrices(m, w): np.vstack([m, w]), np.concatenate([m, w], axis=1), np.dstack([m, w])
columns(x, y): np.column_stack([x, y]), np.append(x, y)
split_up(x, m): np.split(x, 4), np.array_split(x, 5), np.hsplit(m, 2), np.vsplit(m, 2)
repeated(x, v): np.repeat(x, 2), np.tile(v, 3), np.tile(v, (2, 2)), np.repeat(v.reshape(2, 3), 2, axis=1)
rolled(x, m): np.roll(x, 3), np.roll(m, 1, axis=0), np.roll(m, -2, axis=1)
padded(x, m): np.pad(x, 2), np.pad(m, ((1, 0), (0, 2))), np.pad(x[:10], 3, mode="edge")
turned(m): np.rot90(m), np.rot90(m, 2), np.rot90(m, 3)
column_order(m): z = m.T; return z + 1, z * z.sum(axis=0), np.exp(z), z.copy()
- at_least(v): np.atleast_1d(3.0), np.atleast_2d(v), np.atleast_3d(v)
- diagonals(sq): np.diagonal(sq), np.diag(sq), np.trace(sq), np.diag(sq, k=1)
three_dimensions(t): t.reshape(t.shape[0], -1).sum(axis=1), t[:, 0] - t[:, 1]
# Linear algebra
matrix_products(m, w): m @ w.T[:, :4], np.dot(m, w[0]), m.T[:4] @ w
dot_products(x, y): x @ y, np.dot(x, y), np.vdot(x, y), np.inner(x, y)
einsums(m, w): np.einsum("ij,ij->i", m, w), np.einsum("ij,ij->", m, w), np.einsum("ij,j->i", m, w[0])
- solved(sq, v): np.linalg.solve(sq, v), np.linalg.inv(sq), np.linalg.det(sq)
- symmetric(sq): a = sq @ sq.T; return np.linalg.cholesky(a), np.linalg.eigvalsh(a)
- more_products(v, sq): np.kron(v, v), np.tensordot(sq, sq, axes=1), np.cross(v[:3], v[3:])
- matrix_powers(sq): np.linalg.matrix_power(sq, 3), np.linalg.matrix_power(sq, 1)
similarity(m): n = m / np.linalg.norm(m, axis=1, keepdims=True); return n[:8] @ n.T
convolved(x): np.convolve(x, np.array([0.25, 0.5, 0.25]), mode="same"), np.convolve(x, [1.0, -1.0])
- polynomials(v): np.polyval([1.0, -2.0, 3.0], v), np.polyder(np.array([1.0, 2.0, 3.0]))
horner(x): ((1.5 * x - 2.0) * x + 0.5) * x + 3.0
spectrum(x): np.abs(np.fft.rfft(x)), np.fft.fft(x).real, np.fft.fftfreq(8, 0.5)
filtered(x): z = np.fft.rfft(x); z[4:] = 0; return np.fft.irfft(z, n=x.size)
# Sorting, sets, statistics
sorted_values(x, i): np.sort(x), np.sort(i)[::-1], x[np.argsort(x)]
sorted_rows(m): z = m.copy(); z.sort(axis=1); return z, np.sort(m, axis=0), np.argsort(m, axis=1)
distinct(n): np.unique(n), np.unique(n, return_counts=True), np.unique(n % 3)
- set_functions(n): np.union1d(n, [1, 2, 99]), np.intersect1d(n, [1, 2, 3]), np.setdiff1d(n, [1, 2])
- membership(n, x): np.isin(n, [3, 4]), np.unique(x)
medians(x, m): np.median(x), np.median(m, axis=0)
percentiles(x): np.percentile(x, 90), np.percentile(x, [25, 50, 75]), np.quantile(x, 0.1)
covariance(x, y): np.cov(x, y), np.corrcoef(x, y)
close(x): np.isclose(x, x + 1e-9), np.allclose(x, x + 1e-9), np.array_equal(x, x)
histogram(x): np.histogram(x, bins=8)
z_scores(x): (x - np.mean(x)) / np.std(x), np.abs(x - np.median(x)) > 2
# Scalars and Python
scalars(x, s): x.sum() * 2, s * 3, x.mean() + s, np.float32(x[0]), np.sqrt(s)
python_numbers(x): float(x.sum()), int(np.floor(x[0])), x.sum().item(), len(x), x.size, x.ndim
- attributes(m): m.shape, m.dtype, m.itemsize, m.nbytes, m.strides, m.T.shape
scalar_results(x, y): np.maximum(x.max(), y.max()), x.min() < y.min(), abs(x.sum()), -x.mean(), round(2.567, 1)
in_place(x, y): x += y; x *= 2.0; x[0] = -1.0; return x
in_place_integers(i): i += 1; i *= 2; i //= 3; i |= 1; return i
in_containers(x, y): {"sum": x + y, "pair": (x * 2, [y])}
# Whole programs
gelu(x): 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))
monte_carlo_pi(p): inside = (p[::2] / 2) ** 2 + (p[1::2] / 2) ** 2 <= 1.0; return 4 * inside.mean()
faq_example(m, w): np.sum(m[:8, :, None] * w[:8, None, :8], axis=(-2, -1))
relative_error(x, y): np.abs(x - y).max() / np.abs(y).max(), np.sqrt(np.mean((x - y) ** 2))
"""


def _read(lines: str) -> None:
    for number, line in enumerate(lines.splitlines()):
        if not line or line.startswith("#"):
            continue
        title, _, body = line.removeprefix("- ").partition("): ")
        statements = body if "; return " in body else f"return {body}"
        text = f"def {title}):\n    {statements}\n"
        filename = f"<NumPy program {number}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        namespace: dict[str, Any] = {"np": np, "__name__": __name__}
        exec(compile(text, filename, "exec"), namespace)
        function = namespace[title.partition("(")[0]]
        small(function) if line.startswith("- ") else program(function)


_read(LINES)


@program
def loop_of_steps(x):
    for step in range(4):
        x = x + 0.1 * np.sin(x) * step
    return x


@small
def loop_over_rows(m):
    total = np.zeros(m.shape[1])
    for row in m[:4]:
        total += row * row
    return total


@program
def softmax(m):
    shifted = np.exp(m - m.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


@program
def layer_norm(m, r):
    mean, var = m.mean(-1, keepdims=True), m.var(-1, keepdims=True)
    return (m - mean) / np.sqrt(var + 1e-5) * r + 0.5


@program
def logistic_step(m, r, b):
    labels = b[:m.shape[0]]
    predicted = 1 / (1 + np.exp(-(m @ r)))
    gradient = m.T @ (predicted - labels) / m.shape[0]
    return r - 0.1 * gradient, -np.mean(labels * np.log(predicted) + ~labels * np.log(1 - predicted))


@program
def k_means_step(x):
    points = x.reshape(-1, 2)
    centers = points[:3]
    nearest = ((points[:, None] - centers[None]) ** 2).sum(-1).argmin(1)
    return np.stack([points[nearest == at].mean(axis=0) for at in range(3)]), nearest


@program
def game_of_life(k):
    board = (k > 5).astype(np.int64)
    near = sum(np.roll(np.roll(board, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return ((near == 3) | ((board == 1) & (near == 2))).astype(np.int64)


@program
def mandelbrot(x, y):
    c = x + 1j * y
    z = np.zeros_like(c)
    inside = np.zeros(c.shape, dtype=np.int64)
    for _ in range(6):
        z = np.where(np.abs(z) < 2, z * z + c, z)
        inside += np.abs(z) < 2
    return inside


@program
def black_scholes(p):
    strike, rate, volatility, years = 1.0, 0.05, 0.2, 1.0
    d1 = (np.log(p / strike) + (rate + volatility ** 2 / 2) * years) / (volatility * np.sqrt(years))
    d2 = d1 - volatility * np.sqrt(years)
    def cdf(z): return 0.5 * (1 + np.tanh(0.7978845608 * (z + 0.044715 * z ** 3)))
    return p * cdf(d1) - strike * np.exp(-rate * years) * cdf(d2)


@program
def heat_step(m):
    z = m.copy()
    z[1:-1, 1:-1] += 0.1 * (m[2:, 1:-1] + m[:-2, 1:-1] + m[1:-1, 2:] + m[1:-1, :-2] - 4 * m[1:-1, 1:-1])
    return z


@program
def haversine(x, y):
    one, two = np.radians(x), np.radians(y)
    a = np.sin((two - one) / 2) ** 2 + np.cos(one) * np.cos(two) * np.sin(one / 2) ** 2
    return 6371 * 2 * np.arcsin(np.sqrt(np.clip(a, 0, 1)))


@program
def power_iteration(sq):
    z = np.ones(sq.shape[0])
    for _ in range(5):
        z = sq @ z
        z = z / np.linalg.norm(z)
    return z, z @ sq @ z


@program
def grey_picture(t):
    weights = np.array([0.7, 0.3])
    grey = np.einsum("ijk,j->ik", t, weights)
    return ((grey - grey.min()) / (grey.max() - grey.min()) * 255).astype(np.uint8)


@program
def adam_step(x, y, p):
    first, second = 0.9 * x + 0.1 * y, 0.999 * p + 0.001 * y * y
    return x - 0.01 * (first / (1 - 0.9)) / (np.sqrt(second / (1 - 0.999)) + 1e-8), first, second
