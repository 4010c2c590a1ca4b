"""The normal form: the same on every Python where the compiler does the same, and consistent everywhere."""

from __future__ import annotations

import argparse
import asyncio.tasks
import contextlib
import dataclasses
import gc
import sys
import types
import typing
import weakref
from collections.abc import Iterator

import pytest

from firesteel.capture.bytecode import Instruction, decode, stack_effect
from firesteel.capture.bytecode.instructions import EXIT_HAS_RECEIVER, JUMPS, TERMINATORS

from . import programs

pytestmark = pytest.mark.usefixtures("quick_collections")


def listing(function: types.FunctionType) -> list[str]:
    return [str(i).split(maxsplit=1)[1] for i in decode(function.__code__).instructions]


def all_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_codes(constant)


def module_codes(module: types.ModuleType) -> Iterator[types.CodeType]:
    with open(module.__file__, encoding="utf-8") as file:
        yield from all_codes(compile(file.read(), module.__file__, "exec", dont_inherit=True))


MODULES = [argparse, asyncio.tasks, contextlib, dataclasses, typing, programs]


PRINT = ["LOAD_GLOBAL 'print'", "PUSH_NULL"] if sys.version_info >= (3, 13) else ["PUSH_NULL", "LOAD_GLOBAL 'print'"]


def test_calls() -> None:
    def f(a, b):
        return len(a.pop(b, key=1), *b)

    def g(a, b):
        return a.pop(b, key=print(a))

    assert listing(g) == [
        "LOAD_FAST 'a'",
        "LOAD_METHOD 'pop'",
        "LOAD_FAST 'b'",
        *PRINT,
        "LOAD_FAST 'a'",
        "CALL (1, ())",
        "CALL (2, ('key',))",
        "RETURN_VALUE",
    ]
    assert "CALL_FUNCTION_EX False" in listing(f)


def test_operators_and_constants() -> None:
    def f(a, b):
        a += b
        c = a < b, a is not b, a in b, a**b, +a
        return None

    ops = listing(f)
    for op in [
        "BINARY_OP '+='",
        "BINARY_OP '**'",
        "COMPARE_OP '<'",
        "IS_OP True",
        "CONTAINS_OP False",
        "UNARY_POSITIVE",
        "BUILD_TUPLE 5",
    ]:
        assert op in ops
    assert ops[-2:] == ["LOAD_CONST", "RETURN_VALUE"]


def test_loop() -> None:
    def f(xs):
        for x in xs:
            print(x)
        return xs

    assert listing(f) == [
        "LOAD_FAST 'xs'",
        "GET_ITER",
        "FOR_ITER 10",
        "STORE_FAST 'x'",
        *PRINT,
        "LOAD_FAST 'x'",
        "CALL (1, ())",
        "POP_TOP",
        "JUMP 2",
        "LOAD_FAST 'xs'",
        "RETURN_VALUE",
    ]
    decoded = decode(f.__code__)
    assert decoded.depths[2] == 1
    assert decoded.depths[3] == 2
    assert decoded.depths[10] == 0
    assert decoded.instructions[3].lineno == f.__code__.co_firstlineno + 1


def test_short_circuit_is_one_form() -> None:
    def f(a, b):
        return a and b

    assert listing(f) == [
        "LOAD_FAST 'a'",
        "COPY 1",
        "POP_JUMP_IF_FALSE 5",
        "POP_TOP",
        "LOAD_FAST 'b'",
        "RETURN_VALUE",
    ]


def test_yield_from_is_one_form() -> None:
    def f(xs):
        return (yield from xs)

    decoded = decode(f.__code__)
    send = next(i for i in decoded.instructions if i.op == "SEND")
    target = decoded.instructions[send.argval]
    assert target.op == "RETURN_VALUE"
    assert decoded.depths[target.index] == 1


def test_handlers() -> None:
    def f(a):
        with a:
            return a.b

    decoded = decode(f.__code__)
    load = next(i for i in decoded.instructions if i.op == "LOAD_ATTR")
    assert load.handler is not None
    slots = 1 + EXIT_HAS_RECEIVER
    assert (load.handler.depth, load.handler.push_lasti) == (slots, True)
    assert decoded.instructions[load.handler.target].op == "PUSH_EXC_INFO"
    assert decoded.depths[load.handler.target] == slots + 2
    assert decoded.instructions[0].handler is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="opcodes of 3.12")
def test_opcodes_of_312() -> None:
    class Sub(dict):
        def f(self, xs):
            super().get(xs)
            return super(Sub, self).x, xs[self:2], [x for x in xs]

    ops = listing(Sub.f)
    assert "LOAD_SUPER_ATTR ('get', True, False)" in ops
    assert "LOAD_SUPER_ATTR ('x', False, True)" in ops
    assert "BINARY_SLICE" in ops
    assert "LOAD_FAST_AND_CLEAR 'x'" in ops


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_decodes_whole_modules(module: types.ModuleType) -> None:
    """Depths agree wherever paths meet (decode checks it) and never exceed what the compiler reserved."""
    count = 0
    for code in module_codes(module):
        decoded = decode(code)
        deepest = max(depth for depth in decoded.depths if depth is not None)
        # One more: an instruction that is split here passes through a state that the original does not have.
        assert deepest <= code.co_stacksize + 1
        for instruction in decoded.instructions:
            assert instruction.index == decoded.instructions.index(instruction, instruction.index)
            if decoded.depths[instruction.index] is not None:
                check(decoded.depths, instruction)
        count += 1
    assert count > 10


def check(depths: list[int | None], instruction: Instruction) -> None:
    depth = depths[instruction.index]
    if instruction.op in JUMPS:
        assert depths[instruction.argval] == depth + stack_effect(instruction, jump=True)
    if instruction.op not in TERMINATORS:
        assert depths[instruction.index + 1] == depth + stack_effect(instruction, jump=False)
    assert depth + stack_effect(instruction, jump=False) >= 0


def test_decoded_once_and_forgotten_with_the_code() -> None:
    namespace: dict[str, types.FunctionType] = {}
    exec("def f(a): return a", namespace)
    f = namespace.pop("f")
    decoded = decode(f.__code__)
    assert decode(f.__code__) is decoded
    # An equal code object is another one: it may come from another file.
    other = f.__code__.replace(co_filename="elsewhere")
    assert other == f.__code__
    assert decode(other) is not decoded
    gone = weakref.ref(decoded)
    del decoded, f, namespace
    gc.collect()
    assert gone() is None
