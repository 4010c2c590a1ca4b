"""The order in which arrays of NumPy lie in memory: ``order=`` of what makes and copies them, and what reads it."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import firesteel as fs

from .test_numpy import difference

WHOLE = np.arange(24.0).reshape(4, 6)
DEEP = np.arange(48.0).reshape(2, 4, 6)
ARRAYS = {
    "rows": WHOLE,
    "columns": np.asfortranarray(WHOLE),
    "strided": np.arange(96.0).reshape(8, 12)[::2, ::2],
    "a column": WHOLE[:, :1],
    "a row": WHOLE[:1],
    "one dimension": WHOLE[0],
    "every second": WHOLE.reshape(-1)[::2],
    "three": DEEP,
    "three by columns": np.asfortranarray(DEEP),
    "permuted": np.ascontiguousarray(DEEP.transpose(1, 2, 0)).transpose(2, 0, 1),
    "permuted with gaps": DEEP.transpose(2, 0, 1)[:, :, ::2],
    "broadcast": np.broadcast_to(WHOLE[:, :1], (4, 6)),
    "none": np.zeros((0, 3)),
    "no dimension": np.array(3.0),
}
COPIES = {
    "copy": lambda x, order: x.copy(order=order),
    "np.copy": lambda x, order: np.copy(x, order=order),
    "copy of a transposed one": lambda x, order: x.T.copy(order),
    "astype": lambda x, order: x.astype(np.float32, order=order),
    "astype the same": lambda x, order: x.astype(np.float64, order=order),
    "astype in place": lambda x, order: x.astype(np.float64, order=order, copy=False) is x,
    "array": lambda x, order: np.array(x, order=order),
    "array of another dtype": lambda x, order: np.array(x, np.float32, order=order),
    "array of rows": lambda x, order: np.array([x, x], order=order),
    "asarray": lambda x, order: np.asarray(x, order=order),
    "asarray is": lambda x, order: np.asarray(x, order=order) is x,
    "asarray of a transposed one": lambda x, order: np.asarray(x.T, order=order),
    "asarray of another dtype": lambda x, order: np.asarray(x, dtype=int, order=order),
    "zeros_like": lambda x, order: np.zeros_like(x, order=order),
    "ones_like": lambda x, order: np.ones_like(x.T, order=order),
    "full_like": lambda x, order: np.full_like(x, 2, order=order),
    "zeros_like of a shape": lambda x, order: np.zeros_like(x, order=order, shape=(3, 5)),
    "full_like of three": lambda x, order: np.full_like(x.T, 1.0, order=order, shape=(3, 5, 2)),
    "of a reversed one": lambda x, order: np.copy(x[::-1], order=order) if x.ndim else None,
    "of steps": lambda x, order: x[..., ::2].copy(order=order) if x.ndim else None,
}
READS = {
    "ravel": lambda x, order: x.copy(order="F").ravel(order=order),
    "np.ravel": lambda x, order: np.ravel(np.copy(x, order="F"), order),
    "ravel of a transposed one": lambda x, order: x.T.ravel(order),
    "ravel of an array": lambda x, order: x.ravel(order=order),
    "flatten": lambda x, order: x.astype(np.float32, order="F").flatten(order),
    "flatten of an array": lambda x, order: x.flatten(order),
    "reshape": lambda x, order: x.copy(order="F").reshape(-1, order=order),
    "reshape of a transposed one": lambda x, order: x.T.reshape(-1, len(x), order=order) if x.ndim else None,
    "tobytes": lambda x, order: x.copy(order="F").tobytes(order=order),
    "flags": lambda x, order: [x.copy(order=order).flags[name] for name in ("C", "F", "FNC")],
    "strides": lambda x, order: x.copy(order=order).strides,
    "strides of a view": lambda x, order: (x[None].strides, x[..., None].strides, x.T.strides),
    "flat": lambda x, order: [*np.array(x, order=order).T.flat],
}
MAKERS = {
    "zeros": lambda x: np.zeros((3, 1, 2), order="F") + x[0],
    "empty": lambda x: np.empty((3, 2), order="F").strides,
    "ones": lambda x: np.ones((3, 2), order="f"),
    "full": lambda x: np.full((3, 2), x[1], order="F"),
    "one column": lambda x: np.zeros((3, 1), order="F"),
    "asfortranarray": lambda x: np.asfortranarray(x.reshape(2, 3)),
    "asfortranarray of one": lambda x: np.asfortranarray(x) is x,
    "asfortranarray of a number": lambda x: np.asfortranarray(x[0]),
    "ascontiguousarray": lambda x: np.ascontiguousarray(x.reshape(2, 3).T),
    "compress": lambda x: np.compress([True, False, True], x.reshape(2, 3), axis=1),
    "compress a transposed one": lambda x: np.compress([True, False, True], x.reshape(2, 3).T, axis=0),
    "compress the method": lambda x: np.stack([x, x]).reshape(2, 2, 3).compress([0, 1], axis=1),
    "digitize": lambda x: np.digitize(x.reshape(2, 3).T, [0.5, 2.5]),
    "searchsorted": lambda x: np.searchsorted(x, x.reshape(2, 3).T),
}
LETTERS = ("C", "F", "A", "K", None)


def check(function, *args):
    """A function gives the same, in the same memory order, plain and compiled; it may be in several graphs."""
    try:
        plain = function(*args)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)[:20]):
            fs.compile(function, backend="eager")(*args)
        return
    for backend in ("eager", "native"):
        assert not difference(plain, fs.compile(function, backend=backend)(*args))


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("order", LETTERS)
def test_copies_lie_in_memory_as_numpy_lays_them_out(name, order):
    for kind, array in ARRAYS.items():
        given = array if kind == "broadcast" else copy.copy(array)
        check(COPIES[name], given, order)


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("order", LETTERS)
def test_what_reads_the_order_sees_that_of_numpy(name, order):
    for array in ARRAYS.values():
        if array.size:
            check(READS[name], array, order)


@pytest.mark.parametrize("name", MAKERS)
def test_new_arrays(name):
    check(MAKERS[name], np.arange(6.0))


def test_copies_in_an_order_are_part_of_the_graph():
    def program(x):
        by_columns = x.copy(order="F")
        return by_columns.ravel(order="A"), by_columns.reshape(-1, order="A"), np.asfortranarray(x).ravel("K")

    x = np.arange(6.0).reshape(2, 3)
    result = fs.compile(program, fullgraph=True)(x)
    assert not difference(program(x), result)
    flat = fs.compile(lambda x: x.T.ravel(order="K"), fullgraph=True)(x)
    assert np.shares_memory(flat, x) and not difference(x.T.ravel(order="K"), flat)


def test_orders_with_sizes_that_change():
    def program(x):
        return x.copy(order="F").ravel(order="A") * 2, np.copy(x.T, order="A"), np.compress(x[0] > 0, x, axis=1)

    compiled = fs.compile(program)
    for rows in range(2, 6):
        x = np.arange(3.0 * rows).reshape(rows, 3)
        assert not difference(program(x), compiled(x))
        by_columns = np.asfortranarray(x)
        assert not difference(program(by_columns), compiled(by_columns))
