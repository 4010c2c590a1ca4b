"""NumPy in compiled functions: one graph, and NumPy's own values, dtypes, types and memory."""

from __future__ import annotations

import copy
import itertools
import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import firesteel as fs

from .numpy_programs import PROGRAMS, arguments

# What data decides on in Python's branches.
BROKEN = {"weighted"}


def difference(plain: Any, compiled: Any) -> str:
    """What a program can tell apart between two results; empty when it cannot tell them apart."""
    if type(plain) is not type(compiled):
        return f"{type(plain).__name__} became {type(compiled).__name__}"
    if isinstance(plain, (tuple, list)):
        if len(plain) != len(compiled):
            return "lengths differ"
        return next(filter(None, map(difference, plain, compiled)), "")
    if isinstance(plain, dict):
        return difference([*plain.items()], [*compiled.items()])
    if isinstance(plain, torch.Tensor):
        return difference(plain.numpy(), compiled.numpy())
    if isinstance(plain, (np.ndarray, np.generic)):
        if plain.dtype != compiled.dtype or plain.shape != compiled.shape:
            return f"{plain.dtype}{plain.shape} became {compiled.dtype}{compiled.shape}"
        if isinstance(plain, np.ndarray) and plain.size and plain.strides != compiled.strides:
            return f"strides {plain.strides} became {compiled.strides}"
        if isinstance(plain, np.ndarray) and plain.flags.writeable != compiled.flags.writeable:
            return "one of them is read-only"
        if plain.dtype.char == "g":
            return "" if np.allclose(plain, compiled) else f"{plain} became {compiled}"
        if plain.dtype.kind in "fc":
            plain, compiled = (np.ascontiguousarray(one).reshape(one.shape) for one in (plain, compiled))
            torch.testing.assert_close(torch.tensor(compiled), torch.tensor(plain), equal_nan=True)
            return ""
        return "" if np.array_equal(plain, compiled) else f"{plain} became {compiled}"
    if isinstance(plain, float):
        return "" if plain == pytest.approx(compiled, rel=1e-12, nan_ok=True) else f"{plain} became {compiled}"
    return "" if plain == compiled else f"{plain} became {compiled}"


def check(function: Any, *args: Any, whole: bool = True, backend: str = "eager", calls: int = 1) -> Any:
    """Run a function plain and compiled, in one graph if it is `whole`; results and arguments are the same."""
    compiled = fs.compile(function, backend=backend, fullgraph=whole)
    result = None
    for _ in range(calls):
        given, taken = copy.deepcopy(args), copy.deepcopy(args)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = function(*given)
        result = compiled(*taken)
        assert difference(plain, result) == ""
        assert difference(list(given), list(taken)) == ""
    return result


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_one_graph_with_numpys_results(name: str) -> None:
    function = PROGRAMS[name].function
    check(function, *arguments(function), whole=name not in BROKEN)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "game_of_life", "heat_step", "in_place", "standardised",
                                  "logistic_step", "k_means_step", "views_of_views", "mandelbrot"])
def test_programs_in_kernels(name: str) -> None:
    function = PROGRAMS[name].function
    check(function, *arguments(function), backend="native", calls=2)


def test_sizes_that_change_are_symbols() -> None:
    graphs = []

    def keep(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    def program(x: Any, y: Any) -> Any:
        return (x * 2 + y).sum(axis=0), np.concatenate([x, y]), x[1:].mean(), x.reshape(-1)[::-1]

    compiled = fs.compile(program, backend=keep)
    for rows in (3, 4, 5, 9):
        x, y = np.random.rand(rows, 6), np.random.rand(rows, 6)
        assert difference(program(x, y), compiled(x, y)) == ""
    assert len(graphs) == 2


def test_results_share_memory_where_numpys_do() -> None:
    def program(x: Any) -> Any:
        return x, x[1:], x.T, x.reshape(-1), x[::-1], x + 0, np.asarray(x), x.copy(), x[0].real

    x = np.arange(6.0).reshape(2, 3)
    plain, compiled = program(x), fs.compile(program, backend="eager", fullgraph=True)(x)
    for one, two in zip(plain, compiled, strict=True):
        assert np.shares_memory(x, one) == np.shares_memory(x, two)
        assert (one.base is x) == (two.base is x)
    assert compiled[0] is x and compiled[6] is x


def test_views_of_results_share_their_memory() -> None:
    def program(x: Any) -> Any:
        y = x * 2
        return y, y.T, y[::-1]

    y, turned, reversed_ = fs.compile(program, backend="native", fullgraph=True)(np.ones((2, 3)))
    y[0, 0] = 9.0
    assert turned[0, 0] == 9.0 and reversed_[1, 0] == 9.0


def test_writes_reach_the_callers_arrays() -> None:
    def program(x: Any, y: Any) -> Any:
        x[1:] += y[:-1]
        x[::-1][0] = 7.0
        np.add(x, 1.0, out=y)
        y[y > 3] = 0.0
        return x.sum()

    check(program, np.arange(4.0), np.ones(4))
    check(program, np.arange(4.0), np.ones(4), backend="native")


def test_arrays_in_one_memory() -> None:
    def program(x: Any, y: Any) -> Any:
        x += 1.0
        return y * 2

    for backend in ("eager", "native"):
        compiled = fs.compile(program, backend=backend)
        memory = np.zeros(6)
        assert compiled(np.ones(4), np.ones(4)).tolist() == [2.0] * 4
        assert compiled(memory[:4], memory[2:]).tolist() == [2.0, 2.0, 0.0, 0.0]


@pytest.mark.parametrize("make", [
    lambda: np.arange(4)[::-1], lambda: np.arange(4).astype(">i8"), lambda: np.array([1, "a"], dtype=object),
    lambda: np.arange(4, dtype=np.longdouble), lambda: np.frombuffer(bytes(33), dtype=np.float64, offset=1)[:4],
    lambda: np.arange(4).view(np.recarray), lambda: np.arange(4, dtype="m8[s]"),
    lambda: np.arange(4).astype(np.longlong),
], ids=["reversed", "byte order", "objects", "wide", "unaligned", "subclass", "times", "longlong"])
def test_arrays_that_are_no_tensors_stay_numpys(make: Any) -> None:
    def program(x: Any) -> Any:
        return x[:2], x.shape, x[1:].copy()

    check(program, make(), whole=False)
    compiled = fs.compile(program, backend="eager")
    for array in (np.arange(4), make(), np.arange(4)):
        assert [type(one) for one in compiled(array)] == [type(one) for one in program(array)]


def test_read_only_arrays() -> None:
    x = np.arange(4.0)
    x.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = fs.compile(lambda x: (x * 2, x[1:]), backend="eager", fullgraph=True)(x)
    assert result[0].tolist() == [0.0, 2.0, 4.0, 6.0] and not result[1].flags.writeable

    def write(x: Any) -> None:
        x[0] = 1.0

    with pytest.raises(ValueError, match="read-only"):
        fs.compile(write, backend="eager")(x)


def test_promotion_is_that_of_nep_50() -> None:
    def program(x: Any, f: Any, i: Any, u: Any, b: Any, s: Any) -> Any:
        return (f + 1.5, f * s, f + i, u + 1, u / 2, i * 2.0, b + 1, b * 1.5, np.float32(3) + f, np.float64(3) + f,
                u + np.int16(3), np.sum(u), np.sum(b), np.mean(f), f + np.pi, x + True, i ** 2, u - u, i + 1j)

    check(program, np.ones(3), np.ones(3, np.float32), np.arange(3, dtype=np.int32), np.arange(3, dtype=np.uint8),
          np.array([True, False, True]), np.float64(2.5))


def test_what_numpy_raises_is_raised() -> None:
    def program(kind: str, x: Any, u: Any) -> Any:
        try:
            if kind == "bounds":
                return u + 300
            if kind == "shapes":
                return x + x[:2]
            if kind == "index":
                return x[7]
            if kind == "places":
                y = np.zeros((3, 3))
                y[np.array([0, 1, 2]), u + np.array([0, 0, 1])] = x
                return y
            if kind == "power":
                return u.astype(int) ** -1
            return np.bitwise_and(x, x)
        except (ValueError, OverflowError, IndexError, TypeError) as error:
            return type(error).__name__, str(error)

    for kind in ("bounds", "shapes", "index", "places", "power", "types"):
        check(program, kind, np.ones(3), np.arange(3, dtype=np.uint8), whole=False)


def test_errors_that_shall_raise_do() -> None:
    def program(x: Any) -> Any:
        return 1.0 / x

    compiled = fs.compile(program, backend="eager")
    zeros = np.zeros(3)
    assert np.isinf(compiled(zeros)).all()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        compiled(zeros)


def test_tensors_and_arrays() -> None:
    def program(x: torch.Tensor, a: Any) -> Any:
        y = x.numpy() * 2
        z = torch.from_numpy(y + a)
        return z + x, np.asarray(x).sum(), torch.as_tensor(a) * 2, torch.tensor(a), x * np.float64(2.0), x.sum().item()

    check(program, torch.arange(3.0, dtype=torch.float64), np.ones(3))

    def share(x: torch.Tensor, a: Any) -> Any:
        x.numpy()[0] = 5.0
        torch.from_numpy(a).mul_(2)
        return torch.from_numpy(a), x.numpy()

    x, a = torch.zeros(3), np.ones(2)
    tensor, array = fs.compile(share, backend="eager", fullgraph=True)(x, a)
    assert x[0] == 5.0 and a.tolist() == [2.0, 2.0]
    tensor[0], array[1] = 9.0, 8.0
    assert a[0] == 9.0 and x[1] == 8.0


def test_scalars_that_change_are_inputs() -> None:
    graphs = []

    def keep(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    def program(x: Any, scale: Any, count: Any) -> Any:
        return x * scale + count, scale * 2, np.sqrt(scale), count // 2

    compiled = fs.compile(program, backend=keep)
    for number in (1, 4, 7, 9, 100):
        args = np.ones(3, np.float32), np.float64(number / 2), np.int64(number)
        assert difference(program(*args), compiled(*args)) == ""
    assert len(graphs) == 2


def test_numbers_are_drawn_in_the_order_of_the_program() -> None:
    rng, own = np.random.default_rng(), random.Random()

    def arrays(x: Any) -> Any:
        made = np.random.default_rng(3)
        return (x + np.random.rand(3), np.random.randn(), np.random.randint(5), rng.integers(10), rng.random(),
                rng.normal(size=(2, 2)), made.random(2), rng.permutation(4), np.random.choice(5, size=2))

    def numbers(x: Any) -> Any:
        return x * random.random() + random.uniform(1, 2), random.randint(1, 6), own.random(), own.uniform(-1, 1)

    def drop(x: Any) -> Any:
        for layer in range(4):
            if random.uniform(0, 1) < 0.5:
                continue
            x = x * 2 + layer
        return x

    for program, x, whole in ((arrays, np.ones(3), True), (numbers, torch.ones(3), True), (numbers, np.ones(3), True),
                              (drop, torch.ones(3), False)):
        results = []
        for function in (program, fs.compile(program, backend="eager", fullgraph=whole)):
            np.random.seed(0)
            random.seed(0)
            own.seed(1)
            rng.bit_generator.state = np.random.default_rng(5).bit_generator.state
            results.append([function(x) for _ in range(3)])
            results[-1].append((random.random(), own.random(), np.random.rand(), rng.random()))
        assert difference(*results) == ""


def test_generators_go_back_when_a_graph_raises() -> None:
    def program(x: Any, i: Any) -> Any:
        scale = np.random.rand()
        return x[i] * scale

    x = np.ones(3)
    results: list[Any] = []
    for function in (program, fs.compile(program, backend="eager")):
        np.random.seed(0)
        results.append([function(x, np.array([0, 1]))])
        with pytest.raises(IndexError, match="out of bounds"):
            function(x, np.array([0, 7]))
        results[-1].append(np.random.rand())
    assert difference(*results) == ""


def test_it_can_be_switched_off() -> None:
    before = fs.config.trace_numpy
    fs.config.trace_numpy = False
    try:
        with pytest.raises(fs.errors.GraphBreakError):
            fs.compile(lambda x: np.sin(x), backend="eager", fullgraph=True)(np.ones(3))
    finally:
        fs.config.trace_numpy = before


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
def test_arrays_on_the_gpu() -> None:
    def numpy_fn(x: Any, y: Any) -> Any:
        return np.sum(x[:, :, None] * y[:, None, :], axis=(-2, -1))

    x, y = np.random.randn(1024, 64), np.random.randn(1024, 64)
    compiled = fs.compile(numpy_fn, fullgraph=True)
    with torch.device("cuda"):
        assert difference(numpy_fn(x, y), compiled(x, y)) == ""
    assert difference(numpy_fn(x, y), compiled(x, y)) == ""


@needs_gpu
def test_tensors_of_the_gpu_as_arrays() -> None:
    @fs.compile(fullgraph=True)
    def numpy_fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, b = x.numpy(), y.numpy()
        return torch.from_numpy(np.sum(a[:, :, None] * b[:, None, :], axis=(-2, -1)))

    x, y = torch.randn(1024, 64, device="cuda"), torch.randn(1024, 64, device="cuda")
    with torch.device("cuda"):
        result = numpy_fn(x, y)
    assert result.is_cuda
    torch.testing.assert_close(result, (x[:, :, None] * y[:, None, :]).sum((-2, -1)))


@needs_gpu
@pytest.mark.parametrize("name", sorted(PROGRAMS)[::6])
def test_programs_on_the_gpu(name: str) -> None:
    function = PROGRAMS[name].function
    given, taken = arguments(function), arguments(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = function(*given)
    with torch.device("cuda"):
        result = fs.compile(function)(*taken)
    assert difference(plain, result) == ""
    assert difference(given, taken) == ""


def rows_of_columns(x: Any) -> Any:
    copied = np.ascontiguousarray(x.T)
    copied[0, 0] = 99
    same = np.ascontiguousarray(x)
    same[1, 1] = 98
    return copied, [np.ascontiguousarray(one) for one in (x[0, 0], x[:, ::-1])], np.ascontiguousarray(x.T, np.float32)


def real_conjugates(x: Any) -> Any:
    conjugated = x.conj()
    conjugated[0] = -1
    return conjugated, conjugated is x, (x > 1).conj(), x[0, 0].conj(), (x * 1j).conj()


def members_of_broadcasts(x: Any) -> Any:
    one, two = np.broadcast_arrays(x, x + 1)
    one[0] = 7
    wide, row = np.broadcast_arrays(x, x[:1] * 1)
    wide[1] = 8
    return one, two, wide, row * 2, np.imag(x), x.imag


def put_by_truths(x: Any) -> Any:
    flat = x.reshape(-1)
    np.put(flat, x[0] > 1, [5.0, 5.0, 7.0])
    return x


# Each is one graph.
SAME_AS_NUMPY = {
    "ascontiguousarray": rows_of_columns,
    "conj": real_conjugates,
    "broadcast_arrays": members_of_broadcasts,
    "numbers in lists": lambda x: [np.array([x.astype(kind)[1, 0], 1]) + 255 for kind in ("f4", "i4", "u1", "f2")] + [
        np.array([[x[0, 0].astype("f4"), True], [x[0, 1].astype("f4"), False]])],
    "angle": lambda x: (np.angle(x > 1), np.angle(x.astype("i1")), np.angle(x, True)),
    "dot": lambda x: (np.dot(3, x.astype("f4")), np.dot(x.astype("i4"), 2.5), np.dot(x.astype("u1")[0, 0], 3)),
    "searchsorted": lambda x: np.searchsorted(x[0], np.array(2.5)),
    "take": lambda x: (np.take(x, x[0] > 1), x.take(x > 1, axis=0), np.take(x, True), np.take(x, -1, axis=1)),
    "take_along_axis": lambda x: (np.take_along_axis(x, np.argsort(-x, axis=1), 1), np.take_along_axis(
        x, np.array([[-1], [0]]) + x[:1, :1].astype(int), 1), np.take_along_axis(x, (x[0] / 2).astype(int), None)),
    "put": put_by_truths,
    "kept dimensions": lambda x: [reduce(x.T, axis=dim, keepdims=True) for reduce in (np.min, np.sum, np.mean, np.std)
                                  for dim in (0, 1)],
    "argwhere": lambda x: (np.argwhere(x > 1), np.nonzero(x > 1), np.argwhere(x[0])),
}


def masked_by_another_shape(x: Any) -> Any:
    x[np.array([True]) & (x[0, :1] < 9)] = 2
    return x


def scalar_into_tensor(x: Any) -> Any:
    tensor = torch.zeros(3)
    tensor[np.int64(1)] = np.float32(3)
    return tensor, x


def element_of_integers(x: Any) -> Any:
    whole = np.zeros(2, int)
    whole[0] = x[0, 0] / x[0, 0]
    return whole


# Each of these NumPy itself runs.
LEFT_TO_NUMPY = {
    "a mask of another shape": masked_by_another_shape,
    "indices along an axis that are none": lambda x: np.take_along_axis(x, x > 1, 1),
    "indices along an axis that are too large": lambda x: np.take_along_axis(x, x.astype(int), 1),
    "a scalar into a tensor": scalar_into_tensor,
    "NaN into integers": element_of_integers,
    "NaN in a list of integers": lambda x: np.array([x[0, 0] / x[0, 0], 1], int),
    "repeated": lambda x: (x.astype(int)[1, 0] * [1, 2], (1, 2) * x.astype(int)[0, 2]),
    "repeated by a float": lambda x: x[0, 0] * [1, 2],
    "no axes": lambda x: (np.sum(x, axis=()), x.mean(axis=()), x.max(axis=()), np.any(x, axis=(), keepdims=True)),
    "a list of axes": lambda x: np.sum(x, axis=[0, 1]),
    "cross": lambda x: np.cross(x > 1, x > 2),
    "quantiles": lambda x: (np.quantile(x.astype("f4"), [.1, .5], axis=0), np.percentile(x.astype("f2"), 30)),
    "quantiles of truths": lambda x: np.percentile(x > 1, 30),
    "by columns": lambda x: np.array(x, dtype=int, order="F"),
    "no copy": lambda x: np.array(x, dtype=int, copy=False),
    "a number into truths": lambda x: np.copyto(x > 1, 3),
    "real parts of numbers": lambda x: (np.real(1j), np.imag(2), x + 1),
    "a sum into integers": lambda x: np.sum(x, axis=0, out=np.zeros(3, int)),
    "a sum into a larger array": lambda x: np.sum(x, axis=0, out=np.zeros((2, 3))),
    "a product into integers": lambda x: np.dot(x, x.T, out=np.zeros((2, 2), int)),
}


@pytest.mark.parametrize("name", [*SAME_AS_NUMPY, *LEFT_TO_NUMPY])
def test_rare_calls_are_numpys(name: str) -> None:
    def program(x: Any) -> Any:
        try:
            return {**SAME_AS_NUMPY, **LEFT_TO_NUMPY}[name](x)
        except (IndexError, TypeError, ValueError) as error:
            return type(error).__name__, str(error)

    check(SAME_AS_NUMPY.get(name, program), np.arange(6.0).reshape(2, 3), whole=name in SAME_AS_NUMPY)


@pytest.mark.parametrize("kind", [None, "stable", "heapsort"])
def test_equal_elements_are_sorted_as_numpy_sorts_them(kind):
    """Without a stable kind, the order of equal elements is NumPy's own affair, and depends on their number."""
    def f(a, m):
        return (np.argsort(a, kind=kind), np.argsort(m, axis=0, kind=kind), np.sort(m, axis=0, kind=kind),
                a[np.argsort(-a, kind=kind)], np.lexsort((a, -a)), np.median(m, axis=1), np.quantile(m, 0.3))

    rng = np.random.default_rng(0)
    a, m = rng.integers(0, 9, 5000), rng.integers(0, 4, (40, 50)) * 0.5
    m[3, 4], m[5, 6] = np.nan, -0.0
    for compiled in (fs.compile(f, fullgraph=True), fs.compile(f, fullgraph=True, dynamic=True)):
        for part in (slice(None), slice(0, 30)):
            for one, two in zip(f(a[part], m[part]), compiled(a[part], m[part]), strict=True):
                assert type(one) is type(two) and one.dtype == two.dtype
                np.testing.assert_array_equal(one, two)
                assert one.strides == two.strides


def test_exported_programs_sort_with_operators_of_torch():
    class Module(torch.nn.Module):
        def forward(self, x):
            return torch.from_numpy(np.sort(x.numpy())), torch.from_numpy(np.argsort(x.numpy()))

    program = fs.export.export(Module(), (torch.randn(5),))
    assert "numpy_" not in str(program.graph)
    x = torch.randn(5)
    assert torch.equal(program.module()(x)[0], x.sort()[0])


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_convolutions(mode, count):
    """Elements outside are not there: what is infinite in one array meets no zeros of the other."""
    def f(a, v, n):
        return np.convolve(a, v, mode), np.convolve(v, a, mode), np.convolve(n, n[:count], mode)

    a, v, n = np.arange(50.0), np.arange(1.0, count + 1), np.arange(60)
    a[20] = v[-1] = np.inf
    for compiled in (fs.compile(f, fullgraph=True), fs.compile(f, fullgraph=True, backend="eager")):
        for one, two in zip(f(a, v, n), compiled(a, v, n), strict=True):
            assert one.dtype == two.dtype
            np.testing.assert_allclose(one, two)


def outcome(function: Any, *args: Any) -> Any:
    """What a function returns, or the exception that it raises, as a value."""
    try:
        with np.errstate(all="ignore"):
            return function(*args)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return type(error).__name__, str(error)


def check_outcomes(function: Any, *calls: Any, backend: str = "eager") -> None:
    """Plain and compiled, a function has the same outcomes, and no failure of the compiler's is warned about."""
    compiled = fs.compile(function, backend=backend)
    for args in calls:
        given, taken = copy.deepcopy(args), copy.deepcopy(args)
        plain = outcome(function, *given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", fs.errors.FiresteelWarning)
            result = outcome(compiled, *taken)
        assert difference(plain, result) == "", args
        assert difference(list(given), list(taken)) == "", args


BESIDE_NUMBERS = {
    "sum": lambda x, k: x + k, "quotient": lambda x, k: x / k, "compared": lambda x, k: x < k,
    "where": lambda x, k: np.where(x > 1, x, k), "clip": lambda x, k: np.clip(x, None, k),
    "initial": lambda x, k: (np.sum(x, initial=k), np.max(x, initial=k, where=x > 1), np.prod(x, initial=k)),
    "full_like": lambda x, k: np.full_like(x, k), "fill": lambda x, k: x.fill(k),
    "element": lambda x, k: x.__setitem__(0, k), "putmask": lambda x, k: np.putmask(x, x > 1, k),
    "put_along_axis": lambda x, k: np.put_along_axis(x, np.array([-1]), k, 0),
    "diagonal": lambda x, k: np.fill_diagonal(np.outer(x, x), k),
    "arange": lambda x, k: np.arange(k, k + 2, dtype=x.dtype),
    "list": lambda x, k: np.array([k, 1], x.dtype), "scalar": lambda x, k: x.dtype.type(k),
    "choose": lambda x, k: np.choose(x.astype(int) % 2, [x, k]), "isclose": lambda x, k: np.isclose(x, k),
    "nan_to_num": lambda x, k: np.nan_to_num(x, nan=k),
}


@pytest.mark.parametrize("kind", ["int8", "uint16", "uint64", "int32", "float16", "float32"])
@pytest.mark.parametrize("name", BESIDE_NUMBERS)
def test_numbers_that_vary_fit_the_dtypes_beside_them(name: str, kind: str) -> None:
    calls = [(np.array([1, 2, 3], kind), number) for number in (3, 4, 5, 300, -2, 70000, 2**40)]
    check_outcomes(BESIDE_NUMBERS[name], *calls)


def test_numbers_are_rounded_to_the_dtype_beside_them() -> None:
    def program(x: Any, k: float) -> Any:
        return x * 70000, x / 70000, x * k, k / x, np.sinc(x), np.cbrt(x), x % 0.3, np.var(x), np.isclose(x, x + k)

    for kind in ("float16", "float32"):
        for backend in ("eager", "native"):
            check_outcomes(program, *((np.array([0.5, 60000, -2.25, 1e-6], kind), k) for k in (1e-4, 0.1, 7e4, 1e300)),
                           backend=backend)


SAME_VALUES: dict[str, tuple[Any, ...]] = {
    "heaviside": (lambda x: np.heaviside(x, 0.5), np.array([np.nan, 1.0, 0.0])),
    "gcd": (lambda x: (np.gcd(x, 6), np.lcm(x, x), np.lcm(x, 7)), np.array([-128, 4, 0, 100], np.int8)),
    "gcd of wide integers": (lambda x: (np.gcd(x, 6), np.lcm(x, 7)), np.array([-2**63, 2**62, 0])),
    "vdot": (lambda x: (np.vdot(x > 1, x > 1), np.vdot(x > 9, x > 9), np.vdot(x * 1j, x)), np.array([1.0, 2.0, 3.0])),
    "infinite complex": (lambda x, y: (x + y, y - x, x - y, x + 1, 1 - x, x + np.inf), np.array([1j, np.inf], "F"),
                         np.array([np.inf, -np.inf], "f")),
    "complex zeros": (lambda x: (x ** x, x ** 0, x ** 3, x ** 1.5, 2 / x, np.reciprocal(x)), np.array([0, 1j, 2])),
    "complex NaN": (lambda x: (x + complex(np.inf, np.nan), np.array([complex(0, np.inf), 1]) * x), np.array([1j, 2])),
    "a filling array": (lambda x: x.fill(np.ones(1)), np.zeros(2)),
    "an unsafe mask": (lambda x, y: np.putmask(x, x >= 0, y), np.zeros(2, np.int32), np.array([1.5, 2.5])),
    "an accumulated number": (lambda x: np.add.accumulate(x), np.array(3.5)),
    "no copy of a tensor": (lambda x: np.array(x, copy=False), torch.ones(2)),
    "products of unequal sizes": (lambda x: np.dot(x, x.T), np.ones((4, 1, 2))),
    "convolved matrices": (lambda x: np.convolve(x, x), np.ones((2, 2))),
    "diag": (lambda x: np.diag(x), np.ones((2, 2, 2))),
    "vander": (lambda x: np.vander(x), np.ones((2, 2))),
    "places along an axis": (lambda x: np.put_along_axis(x, np.array([[-1]]), 5.0, 0), np.ones((2, 3))),
    "inverse transforms": (lambda x: (np.fft.ifft(x), np.fft.ihfft(x), np.fft.ifft2(x)), np.arange(6.0).reshape(2, 3)),
    "transforms of nothing": (lambda x: np.fft.fft(x), np.zeros((0, 3))),
}


@pytest.mark.parametrize("name", SAME_VALUES)
def test_values_and_errors_are_numpys(name: str) -> None:
    function, *args = SAME_VALUES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_outcomes(function, tuple(args))


def test_of_zeros_of_both_signs_the_second_is_the_larger() -> None:
    compiled = fs.compile(lambda x: (np.maximum(x, 0), np.minimum(x, 0)), backend="eager")
    assert not np.signbit(compiled(np.array([-0.0]))).any()


OF_RARE_DTYPES = {
    "argmax": lambda x: (x.argmax(), x.argmin(axis=1)), "max": lambda x: (x.max(axis=0), np.max(x, initial=3)),
    "nonzero": np.nonzero, "clip": lambda x: (x.clip(min=1), np.clip(x, x, 100)), "choose": lambda x: np.choose(
        x.astype(np.int64) % 2, [x, x + 1]), "reduce": lambda x: np.maximum.reduce(x, axis=-1),
    "delete": lambda x: np.delete(x, 0, axis=0), "reversed": lambda x: (x[::-1].copy(), x[:, ::-1] + 1),
    "write reversed": lambda x: x[::-1].__setitem__(slice(None), 1), "setdiff1d": lambda x: np.setdiff1d(x, x[0]),
    "isin": lambda x: np.isin(x, x[0]), "searchsorted": lambda x: np.searchsorted(np.sort(x[0]), x[1]),
    "put_along_axis": lambda x: np.put_along_axis(x, np.array([[0]]), 1, 0), "vander": lambda x: np.vander(x[0], 3),
    "mask": lambda x: x.__setitem__(x > 1, x[x > 1] * 2), "lexsort": lambda x: np.lexsort((x[0],)),
    "arange": lambda x: np.arange(3, dtype=x.dtype), "cumsum": lambda x: (np.cumsum(x, axis=0), x.cumprod()),
    "product": lambda x: (x @ x.T, np.einsum("ij,kj->ik", x, x)), "bits": lambda x: (x & 3, x << 1, ~x),
    "changed first": lambda x: (x.__iadd__(1), x.argmax())[1],
}


@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64", "complex64", "complex128", "float16", "bool"])
@pytest.mark.parametrize("name", OF_RARE_DTYPES)
def test_what_torch_has_no_kernels_for_numpy_computes(name: str, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_outcomes(OF_RARE_DTYPES[name], *((np.arange(6).reshape(2, 3).astype(kind, order=order),)
                                               for order in "CF"))


def test_the_break_says_what_torch_lacks() -> None:
    with pytest.raises(fs.errors.GraphBreakError, match="UInt32"):
        fs.compile(lambda x: x.argmax(), backend="eager", fullgraph=True)(np.ones(3, np.uint32))


LAYOUTS: dict[str, Any] = {
    "columns": np.asfortranarray, "broadcast": lambda a: np.broadcast_to(a[:1], a.shape), "column": lambda a: a[:, :1],
    "turned column": lambda a: np.asfortranarray(a)[:, 1:2], "empty": lambda a: a[:0],
    "turned": lambda a: np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0),
    "turned with a single row": lambda a: np.arange(8.0).reshape(2, 1, 4).transpose(2, 1, 0),
}
OF_LAYOUTS = {
    "interp": lambda x: np.interp(x, np.array([0.0, 1.0]), np.array([0.0, 1.0])),
    "isclose": lambda x: (np.isclose(x, 1), np.isclose(1, x)), "outer": lambda x: (np.add.outer(x, x), np.outer(x, x)),
    "delete": lambda x: (np.delete(x, 0, axis=0), np.delete(x, slice(0, 1), axis=1)),
    "delete several": lambda x: np.delete(x, [0, 1], axis=0), "copy": lambda x: (np.copy(x), x.copy(), x[::-1].copy()),
    "astype": lambda x: (x.astype(np.float32), np.array(x, np.float32), np.zeros_like(x), np.nan_to_num(x)),
    "subscripts": lambda x: (x[:, [0]], x[[0]], x[[0, 0]], x[None, [0]]),
    "same arrays": lambda x: (np.broadcast_arrays(x, 3)[0] is x, np.ascontiguousarray(x) is x, np.asarray(x) is x),
    "elementwise": lambda x: (x + 1, -x, x[None] * 2, np.clip(x, 1, 2), x > 1, np.where(x > 1, x, 0), np.modf(x)),
    "round": lambda x: (np.round(x, 1), x.imag), "joined": lambda x: (np.concatenate([x, x]), np.stack([x, x], -1)),
    "triangles": lambda x: (np.tril(x), np.triu(x, 1)),
    "medians": lambda x: (np.median(x, axis=0), np.median(x, axis=0, keepdims=True), np.median(x, keepdims=True)),
    "without NaN": lambda x: (np.nanmax(x, axis=1), np.nanstd(x, axis=0, keepdims=True)),
    "accumulated": lambda x: np.maximum.accumulate(x, axis=0), "einsum": lambda x: np.einsum("...i,...i->...i", x, x),
    "norm": lambda x: np.linalg.norm(x, axis=0), "transforms": lambda x: (np.fft.fft(x, axis=0), np.fft.fft(x * 1j)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OF_LAYOUTS)
def test_results_lie_in_memory_as_numpys(name: str, layout: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = LAYOUTS[layout](np.arange(12.0).reshape(3, 4) % 5)
        plain, compiled = (outcome(one, x) for one in (OF_LAYOUTS[name], fs.compile(OF_LAYOUTS[name], backend="eager")))
    assert difference(plain, compiled) == ""


def test_tensors_of_arrays_without_dimensions() -> None:
    def program(x: Any, y: Any) -> Any:
        torch.asarray(x).add_(1)
        torch.as_tensor(y).add_(1)
        return x, y

    check(program, np.array(2.5), np.array(2.5))


def test_long_doubles_stay_numpys() -> None:
    def summed(x: Any) -> Any:
        return torch.full((2,), x.sum()), torch.full((2,), np.longdouble(3))

    def scaled(x: Any, y: Any, scale: Any) -> Any:
        return x * scale, y * scale, float(scale)

    check_outcomes(summed, (np.arange(3, dtype=np.longdouble),))
    check_outcomes(scaled, *((torch.ones(2), np.ones(2, np.float32), np.longdouble(k)) for k in (1, 2, 3)))


@pytest.mark.parametrize("window", [np.hanning, np.hamming, np.blackman, np.bartlett])
def test_windows(window):
    def f(x):
        return x * window(16), window(M=1), window(0)

    x = np.arange(16.0)
    for one, two in zip(fs.compile(f, fullgraph=True)(x), f(x), strict=True):
        np.testing.assert_array_equal(one, two)
        assert one.dtype == two.dtype


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_cube_roots(dtype):
    rng = np.random.default_rng(0)
    limit = {np.float64: 300, np.float32: 36, np.float16: 3}[dtype]
    x = (rng.standard_normal(2001) * 10.0 ** rng.uniform(-limit, limit, 2001)).astype(dtype)
    with np.errstate(all="ignore"):
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, 27, -8, 1, 1e-45], dtype=dtype)
    for given in (x, special):
        plain, compiled = np.cbrt(given), fs.compile(lambda x: np.cbrt(x), fullgraph=True)(given)
        assert compiled.dtype == plain.dtype
        np.testing.assert_array_max_ulp(compiled[np.isfinite(plain)], plain[np.isfinite(plain)], 2)
        np.testing.assert_array_equal(compiled[~np.isfinite(plain)], plain[~np.isfinite(plain)])
        np.testing.assert_array_equal(np.signbit(compiled), np.signbit(plain))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.complex128])
@pytest.mark.parametrize("shape, axis", [((16,), -1), ((15,), 0), ((4, 6), 0), ((1,), 0), ((3, 5, 2), 1)])
@pytest.mark.parametrize("name", ["rfft", "irfft"])
def test_transforms_of_real_numbers(name, shape, axis, dtype):
    """They are NumPy's own: equal in every bit, or refused by both."""
    x = (np.random.default_rng(0).standard_normal(shape) * 5).astype(dtype)
    for n, norm in itertools.product((None, 1, 4, 20), (None, "ortho", "forward")):
        def function(x, n=n, norm=norm):
            return getattr(np.fft, name)(x, n, axis, norm)

        try:
            plain = function(x)
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error)):
                fs.compile(function)(x)
            continue
        compiled = fs.compile(function)(x)
        assert compiled.dtype == plain.dtype and compiled.strides == plain.strides
        np.testing.assert_allclose(compiled, plain, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-6)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_what_is_written_over_itself_is_read_first(backend: str) -> None:
    def shift(a: Any, square: Any) -> Any:
        a[1:] = a[:-1]
        square[:] = square.T
        square[:, :2] = square[:, 1:]
        return a

    def arrays() -> Any:
        return np.arange(40.0)[::2], np.arange(36.0).reshape(6, 6)[::2, ::2]

    expected, mine = arrays(), arrays()
    shift(*expected)
    fs.compile(shift, backend=backend, fullgraph=True)(*mine)
    for plain, compiled in zip(expected, mine, strict=True):
        np.testing.assert_array_equal(compiled, plain)
