"""Which variables a continuation needs. That none is missing, the continuation tests show by passing no others."""

from __future__ import annotations

import sys
import types

import pytest

from firesteel.capture.bytecode import cells_at, decode, handled_slots, live_locals


def position(function: types.FunctionType, op: str, argval: object = None, nth: int = 0) -> int:
    found = [
        i.index for i in decode(function.__code__).instructions if i.op == op and (argval is None or i.argval == argval)
    ]
    return found[nth]


def live(function: types.FunctionType, index: int) -> set[str]:
    return set(live_locals(decode(function.__code__), index))


def test_dead_after_last_use() -> None:
    def f(a, b):
        c = a + b
        d = c * 2
        return d

    assert live(f, 0) == {"a", "b"}
    assert live(f, position(f, "STORE_FAST", "c")) == set()
    assert live(f, position(f, "LOAD_FAST", "c")) == {"c"}


def test_loop_carries_variables() -> None:
    def f(xs, scale):
        total = 0
        for x in xs:
            total = total + x * scale
        return total

    assert live(f, position(f, "FOR_ITER")) == {"total", "scale"}
    assert live(f, position(f, "STORE_FAST", "x")) == {"total", "scale"}


def test_handler_reads() -> None:
    def f(a, b):
        x = b
        try:
            x = a()
            x = x()
        except ValueError:
            return x
        return 1

    # The call may raise before its result is stored, so that the old value is returned.
    assert "x" in live(f, position(f, "STORE_FAST", "x", 1))
    assert live(f, position(f, "LOAD_CONST", 1)) == set()


def test_delete_counts_as_read() -> None:
    def f(a):
        b = a
        del b

    assert live(f, position(f, "DELETE_FAST")) == {"b"}


def test_cell_written_later_is_needed() -> None:
    def f(a):
        count = 0
        get = lambda: count
        a(get)
        count = 1

    assert "count" in live(f, position(f, "STORE_DEREF", "count", 1))
    assert cells_at(decode(f.__code__), position(f, "STORE_DEREF", "count", 1)) == {"count"}
    assert cells_at(decode(f.__code__), 0) == set()


def test_frame_readers_keep_everything() -> None:
    def f(a, b):
        c = 1
        return locals()

    assert live(f, position(f, "RETURN_VALUE")) == {"a", "b", "c"}


def test_zero_argument_super_keeps_self() -> None:
    class A:
        def f(self, x):
            return x + super().__hash__()

    assert "self" in live(A.f, position(A.f, "RETURN_VALUE"))


def test_free_variables_are_not_locals() -> None:
    free = 1

    def f(a):
        return a + free

    assert live(f, position(f, "LOAD_DEREF")) == set()
    assert live(f, position(f, "LOAD_FAST")) == {"a"}


def test_handled_slots() -> None:
    def f(log):
        try:
            log.first()
        except ValueError:
            try:
                log.second()
            except KeyError:
                log.third()
        return log.fourth()

    decoded = decode(f.__code__)
    assert handled_slots(decoded, position(f, "LOAD_METHOD", "first")) == {}
    assert handled_slots(decoded, position(f, "LOAD_METHOD", "second")) == {0: 0}
    inner = handled_slots(decoded, position(f, "LOAD_METHOD", "third"))
    assert list(inner) == [0, 1]
    assert handled_slots(decoded, position(f, "LOAD_METHOD", "fourth")) == {}
    # The way out of the outer handler: COPY 3 (the saved exception); POP_EXCEPT; RERAISE 1.
    out = position(f, "RERAISE", 1, -1)
    assert handled_slots(decoded, out - 1) == {0: 0, 3: 0}
    assert handled_slots(decoded, out) == {}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="comprehensions are functions of their own before 3.12")
def test_comprehension_takes_the_cell_away() -> None:
    def f(xs):
        x = 1
        fs = [lambda: x for x in xs]
        return fs, x

    decoded = decode(f.__code__)
    clear = position(f, "LOAD_FAST_AND_CLEAR", "x")
    assert cells_at(decoded, clear) == {"x"}
    assert cells_at(decoded, clear + 1) == set()
    assert cells_at(decoded, position(f, "FOR_ITER")) == {"x"}
