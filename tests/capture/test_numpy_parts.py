"""NumPy in compiled functions: parts of matrices, methods of ufuncs, grids and blocks, beside NumPy itself."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import firesteel as fs

from .test_numpy import difference

RNG = np.random.default_rng(0)
TALL, WIDE, SQUARE = RNG.standard_normal((5, 3)), RNG.standard_normal((3, 5)), RNG.standard_normal((4, 4))
BATCH = RNG.standard_normal((2, 4, 3))
VECTOR, WHOLE, PLACES = RNG.standard_normal(7), RNG.integers(-9, 99, (4, 6)), np.array([0, 2, 2, -1, 0])
MATRICES = [TALL, WIDE, SQUARE, BATCH, TALL.astype(np.float32), WHOLE, TALL + 1j * TALL[::-1], TALL.T, TALL[::-1]]

OF_MATRICES = {
    "svd": lambda m: np.linalg.svd(m),
    "thin svd": lambda m: np.linalg.svd(m, full_matrices=False),
    "singular values": lambda m: np.linalg.svd(m, compute_uv=False),
    "qr": lambda m: np.linalg.qr(m),
    "complete qr": lambda m: np.linalg.qr(m, mode="complete"),
    "r": lambda m: np.linalg.qr(m, mode="r"),
    "pinv": lambda m: np.linalg.pinv(m),
    "pinv of few": lambda m: np.linalg.pinv(m, 0.5),
    "names": lambda m: (np.linalg.svd(m).S * 2, np.linalg.qr(m).R + 1),
}
OTHERS = {
    "eigh": (lambda m: np.linalg.eigh(m @ m.T), SQUARE),
    "eigh of the upper half": (lambda m: np.linalg.eigh(m, "U").eigenvectors * 2, SQUARE),
    "polyfit": (lambda y: np.polyfit(np.arange(7.0), y, 2), VECTOR),
    "polyfit of columns": (lambda y: np.polyfit(np.arange(5), y, 1), TALL),
    "fitted": (lambda y: np.polyval(np.polyfit(np.arange(7.0), y, 3), np.arange(7.0)) - y, VECTOR),
    "xor": (lambda i: np.bitwise_xor.reduce(i), WHOLE),
    "or along": (lambda i: np.bitwise_or.reduce(i, axis=1), WHOLE),
    "and of all": (lambda i: np.bitwise_and.reduce(i, axis=None), WHOLE),
    "and kept": (lambda i: np.bitwise_and.reduce(i, axis=-1, keepdims=True), WHOLE.T),
    "xor of bytes": (lambda i: np.bitwise_xor.reduce(i.astype(np.uint8), axis=(0, 1)), WHOLE),
    "xor of truths": (lambda i: np.bitwise_xor.reduce(i > 3), WHOLE),
    "or of one": (lambda i: np.bitwise_or.reduce(i[:1]), WHOLE),
    "reduceat": (lambda v: np.add.reduceat(v, [0, 3, 1, 6]), VECTOR),
    "maximum.reduceat": (lambda v: np.maximum.reduceat(v, (2, 2, 5)), VECTOR),
    "c_": (lambda v: np.c_[v, v * 2], VECTOR),
    "r_": (lambda v: np.r_[v, 1.5, v[:2]], VECTOR),
    "r_ of ranges": (lambda v: np.r_[0:3, v[:2], 0:1:5j], VECTOR),
    "c_ of matrices": (lambda m: np.c_[m, m[:, :1]], TALL),
    "mgrid": (lambda v: np.mgrid[0:3, 0:2] * v[0], VECTOR),
    "ogrid": (lambda v: [part * v[0] for part in np.ogrid[0:3, 1:2:3j]], VECTOR),
    "block": (lambda m: np.block([[m, m * 2], [m[:1], m[1:2]]]), TALL),
    "rank": (lambda m: np.linalg.matrix_rank(m), TALL),
    "ranks": (lambda m: np.linalg.matrix_rank(m * np.array([1.0, 1.0, 0.0])), BATCH),
    "piecewise": (lambda v: np.piecewise(v, [v < 0, v > 1], [-1.0, 1.0, 7.0]), VECTOR),
    "partition": (lambda m: np.partition(m, 2).sum(), VECTOR),
    "partition along": (lambda m: np.partition(m, (1, 3), axis=0)[1], TALL),
}
REFUSED = {
    "eigh of no square": (lambda m: np.linalg.eigh(m), TALL),
    "svd of a vector": (lambda m: np.linalg.svd(m), VECTOR),
    "polyfit of other lengths": (lambda y: np.polyfit(np.arange(3.0), y, 1), VECTOR),
    "reduceat outside": (lambda v: np.add.reduceat(v, [0, 9]), VECTOR),
    "svd of what is no number": (lambda m: np.linalg.svd(m / 0), SQUARE),
}


def check(function, given, fullgraph=True):
    plain = function(copy.deepcopy(given))
    for backend in ("eager", "native"):
        compiled = fs.compile(function, backend=backend, fullgraph=fullgraph)(copy.deepcopy(given))
        assert type(plain) is type(compiled)
        ours, theirs = ([*part] if isinstance(part, (tuple, list)) else [part] for part in (plain, compiled))
        for one, two in zip(ours, theirs, strict=True):
            assert not difference(one, two)


@pytest.mark.parametrize("place", range(len(MATRICES)))
@pytest.mark.parametrize("name", OF_MATRICES)
def test_parts_of_matrices(name, place):
    check(OF_MATRICES[name], MATRICES[place])


@pytest.mark.parametrize("name", OTHERS)
def test_captured(name):
    check(*OTHERS[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_numpy_refuses(name):
    function, given = REFUSED[name]
    with np.errstate(all="ignore"):
        with pytest.raises(Exception) as plain:
            function(given)
        with pytest.raises(type(plain.value)):
            fs.compile(function)(given)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8])
def test_at(dtype):
    def added(z, places):
        np.add.at(z, places, 1)
        np.add.at(z, [1, 1], z[:2])
        np.subtract.at(z, places, z[:5])
        return z * 2

    def of_rows(z, places):
        z = z.reshape(3, 3)
        np.add.at(z, np.array([0, 2, 0]), np.ones(3, dtype=z.dtype))
        return z

    for function in (added, of_rows):
        given, taken = np.arange(9).astype(dtype), np.arange(9).astype(dtype)
        plain = function(given, PLACES)
        compiled = fs.compile(function, fullgraph=True, backend="native")(taken, PLACES)
        assert not difference(plain, compiled) and not difference(given, taken)
    with pytest.raises(IndexError):
        fs.compile(added)(np.zeros(9, dtype), np.array([3, 40, 1, 2, 3]))


def test_at_of_numbers_that_do_not_fit():
    def function(z):
        np.add.at(z, [0, 1], 1.5)
        return z

    assert not difference(function(np.arange(3)), fs.compile(function)(np.arange(3)))


@pytest.mark.parametrize("right", [False, True])
def test_digitize_with_edges_from_data(right):
    def function(x, edges):
        return np.digitize(x, edges, right)

    compiled = fs.compile(function, fullgraph=True, backend="native")
    x = np.array([[-2.0, -0.5, 0.0, 0.5], [1.0, 3.0, np.nan, 2.0]])
    for edges in ([0.0, 1.0, 2.0], [1.0, 0.0, -3.0], [0.0, 0.0, 2.0], [2.0, 2.0, 2.0], [2.0, 2.0, 0.0],
                  [0.0, np.nan, 1.0], [0.0, 1.0, np.nan], [np.nan, 1.0, 0.0], [1.0, 0.0, np.nan]):
        assert not difference(function(x, np.array(edges)), compiled(x, np.array(edges)))
    for wrong in ([0.0, 2.0, 1.0], [2.0, 1.0, 3.0]):
        with pytest.raises(ValueError, match="monotonically"):
            compiled(x, np.array(wrong))
    assert not difference(np.digitize(0.5, np.array([0, 1])), fs.compile(function)(0.5, np.array([0, 1])))


def test_assertions_on_elements_are_part_of_the_graph() -> None:
    def checked(x):
        if not (isinstance(x, np.ndarray) and x.min() >= 0 and x.max() <= 10):  # what assert is
            raise AssertionError(f"largest is {x.max()}")
        return x * 2

    compiled = fs.compile(checked, fullgraph=True)
    assert (compiled(np.arange(4)) == np.arange(4) * 2).all()
    with pytest.raises(AssertionError, match="largest is 19"):
        compiled(np.arange(20))
    with pytest.raises(AssertionError, match="largest is 2"):
        compiled(np.arange(4) - 1)
    assert (compiled(np.arange(3)) == np.arange(3) * 2).all()


def test_all_and_any_of_elements_are_one_operation() -> None:
    def checked(x):
        if not (all(0 <= x) and all(x < 10)):
            raise ValueError("outside")
        return x * 2

    compiled = fs.compile(checked, fullgraph=True)
    for x in (np.arange(4), np.arange(7), torch.arange(5), np.array([], dtype=int)):
        assert compiled(x).tolist() == checked(x).tolist()
    for x in (np.arange(20), torch.arange(3) - 1):
        with pytest.raises(ValueError, match="outside"):
            compiled(x)

    def asked(x):
        return all(x), any(x), all(x > 0)

    answers = fs.compile(asked, backend="eager")
    for x in (torch.tensor([1.0, 0.0]), torch.tensor([np.nan, 2]), torch.zeros(3), np.array([0.0, 2.0]), np.array([]),
              torch.ones(2, 1)):
        assert answers(x) == asked(x) and [type(answer) for answer in answers(x)] == [bool] * 3
