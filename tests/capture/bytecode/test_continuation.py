"""A continuation started at any instruction ends as the function does: result, exceptions, log, tracebacks."""

from __future__ import annotations

import argparse
import copy
import dis
import inspect
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import pytest

from firesteel.capture.bytecode import DecodedCode, decode, make_continuation
from firesteel.capture.bytecode.assemble import assemble
from firesteel.capture.bytecode.machine import CALLABLE_FIRST

from . import programs
from .transfer import Instrumented


def cases() -> list[Any]:
    found = [(function, args) for function, args in programs.PROGRAMS]
    found += [(method, None) for method in programs.METHODS]
    return [pytest.param(f, a, id=f"{number}-{f.__name__}") for number, (f, a) in enumerate(found)]


def arguments(args: tuple[Any, ...] | None, log: list[Any]) -> tuple[Any, ...]:
    return (programs.Derived(), log, 2) if args is None else (log, *copy.deepcopy(args))


def consume(generator: Any) -> list[Any]:
    """Drives a generator with sends and, once, an exception; gives everything that came out of it."""
    out: list[Any] = []
    step = 0
    try:
        out.append(next(generator))
        while True:
            step += 1
            out.append(generator.throw(KeyError("thrown")) if step == 2 else generator.send(step * 10))
    except StopIteration as stop:
        out.append(("returned", stop.value))
    return out


def chain(error: BaseException | None, ours: str) -> list[Any]:
    """What can be seen of an exception: it and its contexts, and the lines of the traceback in the program."""
    seen = []
    while error is not None:
        lines = []
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_name == ours:
                lines.append(trace.tb_lineno)
            trace = trace.tb_next
        seen.append((type(error), str(error), repr(error.__cause__), lines))
        error = error.__context__
    return seen


def body_start(decoded: DecodedCode) -> int:
    """The first instruction after those that set the frame up, during which a frame cannot be looked at."""
    prefix = ("COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR")
    index = 0
    while decoded.instructions[index].op in prefix:
        index += 1
    return index + (index > 0 and decoded.instructions[index - 1].op == "RETURN_GENERATOR")


def observe(call: Callable[..., Any], args: tuple[Any, ...] | None, name: str) -> tuple[Any, ...]:
    """Everything a call does that the tests compare."""
    log: list[Any] = []
    handled_by_caller = ValueError("handled by the caller")
    try:
        raise handled_by_caller
    except ValueError:
        try:
            result = call(*arguments(args, log))
            if isinstance(result, types.GeneratorType):
                result = consume(result)
            outcome: Any = (
                "value",
                [r() if isinstance(r, types.FunctionType) else r for r in result]
                if isinstance(result, tuple)
                else result,
            )
        except BaseException as error:
            outcome = ("error", chain(error, name))
        # Leaving the function must leave the caller's own handling as it was.
        intact = sys.exception() is handled_by_caller
    return outcome, log, intact


@pytest.mark.parametrize(("function", "args"), cases())
def test_continue_at_every_instruction(function: types.FunctionType, args: tuple[Any, ...] | None) -> None:
    expected = observe(function, args, function.__name__)
    decoded = decode(function.__code__)
    arrived = 0
    for index, depth in enumerate(decoded.depths):
        # Nothing may stand between SEND and its END_SEND, so the tests cannot stop there.
        if depth is None or index < body_start(decoded) or decoded.instructions[index].op == "END_SEND":
            continue
        instrumented = Instrumented(function, index)
        actual = observe(instrumented.run, args, function.__name__)
        assert actual == expected, f"at {decoded.instructions[index]}\n{decoded}"
        arrived += bool(instrumented.arrivals)
    assert arrived >= 5


@pytest.mark.parametrize(("function", "args"), cases())
def test_continue_before_the_frame_is_set_up(function: types.FunctionType, args: tuple[Any, ...] | None) -> None:
    expected = observe(function, args, function.__name__)
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    made = make_continuation(code, 0, code.co_varnames[:count], 0)
    rest = types.FunctionType(made, function.__globals__, function.__name__, None, function.__closure__)

    def call(*given: Any) -> Any:
        bound = inspect.signature(function).bind(*given)
        bound.apply_defaults()
        return rest(*(bound.arguments[name] for name in code.co_varnames[:count]))

    assert observe(call, args, function.__name__) == expected


def test_assembling_changes_nothing() -> None:
    """A whole module through the assembler: same opcodes, positions and exception table where nothing was split."""
    split = ("LOAD_GLOBAL", "RETURN_CONST", "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP", "LOAD_FAST_LOAD_FAST",
             "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
             *(("COMPARE_OP",) if CALLABLE_FIRST else ()))
    compared = 0
    with open(argparse.__file__, encoding="utf-8") as file:
        pending = [compile(file.read(), argparse.__file__, "exec", dont_inherit=True)]
    while pending:
        code = pending.pop()
        pending.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
        made = assemble(code, decode(code).machine.instructions)
        if not any(i.opname in split for i in dis.get_instructions(code)):
            expected = bytearray(code.co_code)
            for i in dis.get_instructions(code):
                if i.opname == "LOAD_FAST_BORROW":
                    expected[i.offset] = dis.opmap["LOAD_FAST"]
            assert made.co_code == bytes(expected)
            assert list(made.co_positions()) == list(code.co_positions())
            assert made.co_exceptiontable == code.co_exceptiontable
            compared += 1
        before = [(i.op, i.argval, i.positions, i.handler) for i in decode(code).instructions]
        assert [(i.op, i.argval, i.positions, i.handler) for i in decode(made).instructions] == before
    assert compared > 20


def test_long_code() -> None:
    """Arguments and jumps that need prefixes."""
    count = 300
    lines = ["def f(n):", " for i in range(n):", "  if i == 1:"]
    lines += [f"   v{k} = i + {k}" for k in range(count)]
    lines += ["  else:", "   continue"]
    lines += [" return [" + ",".join(f"v{k}" for k in range(count)) + "]"]
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    f = namespace["f"]
    decoded = decode(f.__code__)
    step = next(i for i in decoded.instructions if i.op == "FOR_ITER")
    names = [f"v{k}" for k in range(count)]
    made = make_continuation(f.__code__, step.index, names, 1)
    assert types.FunctionType(made, {})(iter([0, 1, 2]), *names) == [1 + k for k in range(count)]
    assert types.FunctionType(made, {})(iter([]), *names) == names


def test_more_parameters_than_variables() -> None:
    def f(a):
        get = lambda: a
        return [a, 1, 2, 3, 4, a, get(), a]

    build = next(i for i in decode(f.__code__).instructions if i.op == "CALL")
    made = make_continuation(f.__code__, build.index, ["a"], 8, null_slots=frozenset({6 + CALLABLE_FIRST}))
    callee = [lambda: "called", None] if CALLABLE_FIRST else [None, lambda: "called"]
    assert types.FunctionType(made, {})(*range(6), *callee, types.CellType("cell")) == [
        *range(6),
        "called",
        "cell",
    ]


def test_name_and_lines() -> None:
    def f(a):
        b = a
        return b.missing

    load = next(i for i in decode(f.__code__).instructions if i.op == "LOAD_ATTR")
    made = make_continuation(f.__code__, load.index, [], 1)
    assert made.co_filename == f.__code__.co_filename
    with pytest.raises(AttributeError) as caught:
        types.FunctionType(made, {})(5)
    entry = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (entry.name, entry.lineno) == ("f", f.__code__.co_firstlineno + 2)
    assert make_continuation(f.__code__, load.index, [], 1) is made


def test_wrong_use_is_refused() -> None:
    def f(a):
        return a.b

    load = next(i for i in decode(f.__code__).instructions if i.op == "LOAD_ATTR")
    with pytest.raises(ValueError, match="1 slots"):
        make_continuation(f.__code__, load.index, [], 0)
    with pytest.raises(ValueError, match="not different variables"):
        make_continuation(f.__code__, load.index, ["nothing"], 1)
    with pytest.raises(ValueError, match="not different variables"):
        make_continuation(f.__code__, load.index, ["a", "a"], 1)


def test_variable_left_out_is_unbound() -> None:
    def f(a):
        return a

    rest = types.FunctionType(make_continuation(f.__code__, 0, [], 0), {})
    with pytest.raises(UnboundLocalError):
        rest()
