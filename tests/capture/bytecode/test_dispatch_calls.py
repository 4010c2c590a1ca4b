"""Frames whose calls are redirected: the same results, and every callee seen."""

from __future__ import annotations

import argparse
import inspect
import json
import textwrap
import types

import pytest

from firesteel.capture.bytecode.dispatch_calls import dispatching


class Manager:
    def method(self, a, b=2):
        return a + b

    def itself(self):
        return self

    def none(self, *args):
        return args

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False


class Child(Manager):
    def method(self, a, b=2):
        return super().method(a, b=b) * 10


def add(*args, **kwargs):
    return sum(args) + sum(kwargs.values())


def redirected(function, choose):
    made = types.FunctionType(dispatching(function.__code__, choose), function.__globals__, function.__name__,
                              function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def leaves_blocks(x, obj):
    with obj.itself():
        with obj.itself() as entered:
            return entered.method(*x, **{"b": add(3, y=4)}), obj.none(None, None), len(obj.none(None, None, None))


def calls(x, y, obj):
    total = add(x, y if x > 1 else -y, z=3)
    total += obj.method(total, b=add(*[1, 2], **{"q": 5}))
    items = [add(i, 1) for i in range(3) if add(i)]
    with obj as entered:
        try:
            total += add(entered.method(1))
            int("x")
        except ValueError as error:
            total += len(str(error))
        finally:
            total = add(total)

    def inner(q=add(1)):
        return add(q)

    assert total, add(total)
    return total, items, inner(), sum(add(k) for k in items), {a: add(a) for a in items}


def test_results_and_callees():
    seen = []

    def choose(callee):
        seen.append(callee.__name__)
        return callee

    assert redirected(calls, choose)(1, 2, Manager()) == calls(1, 2, Manager())
    assert seen == ["add", "add", "method", "range", "add", "add", "add", "add", "add", "method", "add", "int", "str",
                    "len", "add", "add", "inner", "sum", "add", "add", "add", "add"]


def test_the_end_of_a_block_is_not_a_call_of_the_program():
    seen = []

    def choose(callee):
        seen.append(callee.__name__)
        return callee

    assert redirected(leaves_blocks, choose)([1], Manager()) == leaves_blocks([1], Manager())
    assert seen == ["itself", "itself", "add", "method", "none", "none", "len"]


def test_super_and_replaced_callees():
    method = redirected(Child.method, lambda callee: callee)
    assert method(Child(), 1, b=4) == 50
    doubled = redirected(calls, lambda callee: (lambda *a, **k: 2 * add(*a, **k)) if callee is add else callee)
    assert doubled(1, 2, Manager())[0] != calls(1, 2, Manager())[0]


def test_exceptions_keep_their_line():
    def fails(x):
        y = add(x)
        raise ValueError(y)

    with pytest.raises(ValueError) as caught:
        redirected(fails, lambda callee: callee)(3)
    assert caught.value.args == (3,)
    assert caught.traceback[-1].lineno + 1 == fails.__code__.co_firstlineno + 2


def test_generators():
    def numbers(n):
        for i in range(n):
            received = yield add(i)
            if received:
                yield add(received, 1)

    made = redirected(numbers, lambda callee: callee)(3)
    assert next(made) == 0 and made.send(5) == 6 and list(made) == [1, 2]


@pytest.mark.parametrize("module", [textwrap, argparse, inspect, json.decoder, json.encoder], ids=lambda m: m.__name__)
def test_library_code_assembles(module):
    functions = [f for f in vars(module).values() if isinstance(f, types.FunctionType)]
    for cls in [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]:
        functions.extend(f for f in vars(cls).values() if isinstance(f, types.FunctionType))
    assert functions
    for function in functions:
        dispatching(function.__code__, lambda callee: callee)


def test_library_code_runs():
    identity = lambda callee: callee
    assert redirected(inspect.cleandoc, identity)(" a\n   b\n  c") == inspect.cleandoc(" a\n   b\n  c")
    assert str(redirected(inspect.signature, identity)(add)) == "(*args, **kwargs)"
    assert redirected(textwrap.dedent, identity)("  a\n    b") == "a\n  b"
    wrap = redirected(textwrap.TextWrapper._wrap_chunks, identity)
    wrapper = textwrap.TextWrapper(20)
    assert wrap(wrapper, wrapper._split("some words that need several lines")) == \
        wrapper._wrap_chunks(wrapper._split("some words that need several lines"))
