"""Native guards on sizes: arithmetic as Python does it, tensors with free sizes, and numbers handed to the entry."""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
import types

import pytest
import torch

import firesteel as fs
from firesteel import config, shapes, torch_compat
from firesteel.capture.guards import Guard
from firesteel.capture.native_guards.lowering import GuardLowering
from firesteel.capture.native_guards.upgrade import REFUSAL, Prologue, Upgrade, refusal, split
from firesteel.capture.source import LocalSource, SizeSource, StrideSource
from firesteel.native import checker as native_checker
from firesteel.native.checker import self_test
from firesteel.native.objects import NativeUnavailable
from firesteel.native.program import Op, Program
from firesteel.runtime.explain_miss import first_failure
from firesteel.shapes import Call, Const, Product, ShapeGuard, Sum, Symbol
from firesteel.shapes.checker_rows import OnlyInPython

pytestmark = pytest.mark.usefixtures("quick_collections")

A, B, C = (shapes.symbol(name) for name in ("a", "b", "c"))
SYMBOLS = (A, B, C)
LARGE = (0, 1, -1, 2, 7, 1 << 31, -(1 << 31), (1 << 32) + 1, 1 << 62, (1 << 63) - 1, -(1 << 63), 1 << 63, -(1 << 70))


# Arithmetic


def checker(condition):
    """The native check of a condition on the ints a, b and c."""
    sources = {symbol: LocalSource(symbol.name) for symbol in SYMBOLS}
    low = GuardLowering(native_checker.checker(), ["a", "b", "c"], (1, 1, 1), sources)
    low.guard(ShapeGuard(condition))
    return native_checker.checker().function(low.program, [], [])


def random_number(rng, depth):
    kind = rng.choice(["symbol", "symbol", "constant"] if depth == 0 else ["sum", "sum", "product", "div", "mod", "min",
                                                                          "max", "abs", "choice", "symbol"])
    if kind == "symbol":
        return rng.choice(SYMBOLS)
    if kind == "constant":
        return shapes.const(rng.randint(-9, 9))
    left, right = random_number(rng, depth - 1), random_number(rng, depth - 1)
    match kind:
        case "sum":
            return left * rng.randint(-4, 4) + right * rng.randint(-4, 4) + rng.randint(-9, 9)
        case "product":
            return left * right
        case "div":
            return divided(left, right)
        case "mod":
            return divided(left, right, remainder=True)
        case "min":
            return shapes.minimum(left, right)
        case "max":
            return shapes.maximum(left, right)
        case "abs":
            return abs(left)
    return shapes.if_else(random_condition(rng, depth - 1), left, right)


def divided(left, right, remainder=False):
    try:
        return left % right if remainder else left // right
    except ZeroDivisionError:  # of constants
        return left


def random_condition(rng, depth):
    kind = rng.choice(["eq", "ne", "ge", "lt"] if depth <= 0 else ["eq", "ne", "ge", "lt", "and", "or", "not", "same"])
    if kind in ("and", "or", "not", "same"):
        left, right = random_condition(rng, depth - 1), random_condition(rng, depth - 1)
        if kind == "not":
            return shapes.not_(left)
        return {"and": shapes.and_, "or": shapes.or_, "same": shapes.eq}[kind](left, right)
    left, right = random_number(rng, max(depth, 0)), random_number(rng, max(depth, 0))
    return {"eq": shapes.eq, "ne": shapes.ne, "ge": shapes.ge, "lt": shapes.lt}[kind](left, right)


def every_value(expr, values):
    """The values of all subexpressions, also of those that Python would not look at; may divide by zero."""
    found = [value for arg in expr.args for value in every_value(arg, values)]
    return [*found, expr.evaluate(values)]


def test_conditions_are_decided_as_python_does():
    rng = random.Random(5)
    accepted = refused = 0
    for _ in range(400):
        condition = random_condition(rng, 2)
        native = checker(condition)
        for _ in range(12):
            values = {symbol: rng.randint(-12, 12) for symbol in SYMBOLS}
            try:
                every_value(condition, values)
                expected = bool(condition.evaluate(values))
            except ZeroDivisionError:
                expected = False  # left to Python
            found = native(*(values[symbol] for symbol in SYMBOLS))
            assert (found is not None) == expected, (condition, values)
            accepted, refused = accepted + expected, refused + (not expected)
    assert min(accepted, refused) > 1000


def test_what_does_not_fit_is_never_accepted_wrongly():
    rng = random.Random(6)
    accepted = overflowed = 0
    for _ in range(300):
        condition = random_condition(rng, 2)
        native = checker(condition)
        for _ in range(12):
            values = {symbol: rng.choice(LARGE) for symbol in SYMBOLS}
            try:
                wide = any(not -(1 << 60) < value < 1 << 60 for value in every_value(condition, values))
                expected = bool(condition.evaluate(values))
            except ZeroDivisionError:
                expected, wide = False, False
            found = native(*(values[symbol] for symbol in SYMBOLS)) is not None
            assert expected or not found, (condition, values)
            # a sum adds up in steps, so close to the limits it may be refused although it fits
            assert found or wide or not expected, (condition, values)
            accepted, overflowed = accepted + found, overflowed + (expected and not found)
    assert accepted > 300 and overflowed > 100


def test_division_rounds_down_for_all_signs():
    for operation, op in ((A // B, "floordiv"), (A % B, "mod")):
        assert isinstance(operation, Call) and operation.op == op
        native = checker(shapes.eq(operation, C))
        assert native(-(1 << 63), -1, 0) is None  # the quotient needs 65 bits
        for a in (-9, -8, -1, 0, 1, 8, 9, (1 << 63) - 1, 1 - (1 << 63)):
            for b in (-4, -1, 1, 4, 0):
                if b == 0:
                    assert native(a, b, 0) is None
                    continue
                right = a // b if op == "floordiv" else a % b
                assert native(a, b, right) is not None
                assert native(a, b, right + 1 if right < 1 << 60 else right - 1) is None


@pytest.mark.parametrize("condition", [
    shapes.gt(A / B, 0.5), shapes.eq(A ** 20, B), shapes.eq(shapes.arithmetic.lshift(A, B), C),
    shapes.eq(shapes.symbol("unknown"), A),
    shapes.eq(A + (1 << 64), B), shapes.ge(A * (1 << 64), B * 3), shapes.gt(shapes.symbol("x", "float"), 1.0),
])
def test_other_conditions_stay_python_and_leave_nothing_behind(condition):
    sources = {symbol: LocalSource(symbol.name) for symbol in SYMBOLS}
    low = GuardLowering(native_checker.checker(), ["a", "b", "c"], (1, 1, 1), sources)
    low.guard(ShapeGuard(shapes.eq(A * B, C)))
    before = list(low.program.rows), low.program.registers, dict(low.expressions.known)
    with pytest.raises(OnlyInPython):
        low.guard(ShapeGuard(shapes.and_(shapes.ge(A + B, C), condition)))
    assert (low.program.rows, low.program.registers, low.expressions.known) == before
    native = native_checker.checker().function(low.program, [], [])
    assert native(2, 3, 6) is not None and native(2, 3, 5) is None


def test_shared_parts_are_computed_once():
    sources = {symbol: LocalSource(symbol.name) for symbol in SYMBOLS}
    low = GuardLowering(native_checker.checker(), ["a", "b", "c"], (1, 1, 1), sources)
    low.guard(ShapeGuard(shapes.eq(A * B, C)))
    rows = len(low.program.rows)
    low.guard(ShapeGuard(shapes.ge(A * B, 5)))
    assert [row[0] for row in low.program.rows[rows:]] == [Op.AT_LEAST]


def test_only_exact_ints_are_numbers():
    class Number(int):
        pass

    native = checker(shapes.ge(A, 1))
    assert native(1, 0, 0) is not None and native(10**6, 0, 0) is not None
    for other in (True, Number(3), 3.0, "3", None, torch.tensor(3), 1 << 64, -(1 << 64), 0):
        assert native(other, 0, 0) is None
    assert sys.exc_info() == (None, None, None)


def test_a_wrong_row_is_noticed(monkeypatch):
    original, kind = native_checker.source, type(native_checker.checker())

    def rounding_like_c(tensors):
        text = original(tensors)
        assert "sub i64 %floordiv_q, %floordiv_one" in text
        return text.replace("sub i64 %floordiv_q, %floordiv_one", "sub i64 %floordiv_q, 0")

    monkeypatch.setattr(native_checker, "source", rounding_like_c)
    with pytest.raises(NativeUnavailable, match="sample [0-9]+ refused"):
        self_test(kind(None))


# Tensors


STATE = Guard(None, "global state", "{k[0]}() == 0", (torch_compat.function_stack_length,))


def tensor_guard(t, free=(), free_strides=()):
    """The guard of a tensor some of whose sizes and strides may be anything."""
    parts = ["type({0}) is {k[0]}", f"{{0}}.dim() == {t.dim()}"]
    parts += [f"{{0}}.size({d}) == {t.size(d)}" for d in range(t.dim()) if d not in free]
    parts += ["{0}.dtype is {k[1]}"]
    parts += [f"{{0}}.stride({d}) == {t.stride(d)}" for d in range(t.dim()) if d not in free_strides]
    parts += [f"{{0}}.requires_grad is {t.requires_grad}", "{0}.device == {k[2]}", "{k[3]}({0}) == {k[4]}"]
    keys = torch_compat.dispatch_keys
    return Guard(LocalSource("x"), "tensor", " and ".join(parts), (type(t), t.dtype, t.device, keys, keys(t)))


def in_python(guard, x):
    scope = {f"k{i}": constant for i, constant in enumerate(guard.constants)}
    names = iter(scope)
    try:
        return bool(eval(guard.code(lambda source: "x", lambda obj: next(names)), {**scope, "x": x}))
    except Exception:
        return False


TENSORS = [torch.ones(shape) for shape in ((4, 3, 2), (5, 3, 2), (4, 4, 2), (4, 3), (4, 3, 2, 1), (), (0, 3, 2))]
TENSORS += [torch.ones(4, 2, 3).transpose(1, 2), torch.ones(2, 3, 4).permute(2, 1, 0), torch.ones(4, 3, 2).int(),
            torch.ones(4, 3, 2, requires_grad=True), torch.ones(9, 3, 2), torch.ones(9, 3, 2).to("meta"), None, 3,
            torch.ones(4, 6, 2)[:, ::2], torch.ones(8, 3, 2)[::2], torch.ones(1, 3, 2).expand(6, 3, 2)]


@pytest.mark.parametrize("free, free_strides", [
    ((), ()), ((0,), ()), ((0, 1), ()), ((0, 1), (0,)), ((0, 1, 2), (0, 1)), ((0, 1, 2), (0, 1, 2)), ((), (0,)),
])
def test_free_sizes_and_strides(free, free_strides):
    first = TENSORS[0]
    guard = tensor_guard(first, free, free_strides)
    low = GuardLowering(native_checker.checker(), ["x"], (first,))
    low.guard(STATE)
    low.guard(guard)
    native = native_checker.checker().function(low.program, [], [])
    answers = [native(t) is not None for t in TENSORS]
    assert answers == [in_python(guard, t) for t in TENSORS]
    assert answers[0] and any(answers[1:]) == bool(free or free_strides)


def test_sizes_of_unchecked_tensors_are_not_read():
    x = torch.ones(3)
    low = GuardLowering(native_checker.checker(), ["x"], (x,), {A: SizeSource(LocalSource("x"), 0)})
    with pytest.raises(OnlyInPython):
        low.guard(ShapeGuard(shapes.ge(A, 2)))
    assert low.program.rows == []
    low.guard(STATE)
    low.guard(tensor_guard(x, (0,)))
    with pytest.raises(OnlyInPython):
        low.source(SizeSource(LocalSource("x"), 1))
    low.guard(ShapeGuard(shapes.ge(A, 2)))


# Entries


def entry(condition, free, body, inputs=(), first=None, others=(), calls_itself=False):
    """An entry for a matrix x and an int n: s = x.size(0), t = x.size(1), r = x.stride(0)."""
    x = first if first is not None else torch.ones(4, 6)
    base = LocalSource("x")
    sources = {"_fs_s0": SizeSource(base, 0), "_fs_s1": SizeSource(base, 1), "_fs_s2": StrideSource(base, 0)}
    symbols = {A: sources["_fs_s0"], B: sources["_fs_s1"], C: sources["_fs_s2"], N: LocalSource("n")}
    names = {A: "_fs_s0", B: "_fs_s1", C: "_fs_s2", N: "n"}
    namespace = {"_fs_miss": "miss", "_fs_refused": refusal("miss"), "graph": lambda *args: args}
    origins = {}
    guards = [STATE, tensor_guard(x, free, (0,)), Guard(LocalSource("n"), "type", "type({0}) is int")]
    lines = []

    def constant(obj):
        name = f"_fs_k{len(namespace)}"
        namespace[name] = obj
        return name

    def add(line, origin):
        lines.append(line)
        origins[line] = origin

    for name, source in sources.items():  # before the guards, to see that the order does not matter
        add(f"{name} = {source.code('x', constant)}", source)
    for guard in guards:
        add(f"if not ({guard.code(lambda source: source.variable, constant)}): return _fs_miss", guard)
    for part in condition:
        add(f"if not ({shapes.print_python(part, names)}): return _fs_miss", ShapeGuard(part))
    lines.extend(others)
    call = [f"_fs_g = graph({', '.join(inputs)})"]

    def compile_lines(new):
        text = "\n".join(["def entry(x, n):", *("    " + line for line in [*new, body])])
        scope = {}
        exec(compile(text, "<entry>", "exec"), scope)
        return scope["entry"].__code__

    start = ["try:", *("    " + line for line in lines), REFUSAL,
             "if _fs_warm is not None: _fs_warm(x, n)", *call]
    made = types.FunctionType(compile_lines(start), namespace)
    prologue = Prologue(["x", "n"], lines, origins, call, "graph", list(inputs), [body], compile_lines, symbols,
                        ["x", "n"] if calls_itself else None)
    namespace["_fs_warm"] = None
    plain = types.FunctionType(made.__code__, dict(namespace))
    upgrade = Upgrade(prologue, namespace, 1, made)
    namespace["_fs_warm"] = upgrade.hit
    return made, plain, upgrade


N = shapes.symbol("n")
CONDITIONS = [shapes.ge(A, 2), shapes.ge(B, 2), shapes.eq(C, B), shapes.eq(A % 2, 0), shapes.ge(A * B, N)]


@pytest.mark.parametrize("calls_itself", [False, True])
@pytest.mark.parametrize("inputs", [("x",), ("x", "n", "_fs_s0", "_fs_s1", "x", "n", "_fs_s2", "_fs_s0", "x")])
def test_an_entry_with_numbers_from_sizes(inputs, calls_itself):
    body = "return _fs_g, _fs_s0 * 1000 + _fs_s1, n"
    with config.patch(raise_on_internal_error=True):
        made, plain, upgrade = entry(CONDITIONS, (0, 1), body, inputs, calls_itself=calls_itself)
        made(torch.ones(4, 6), 3)
    assert ("_fs_python(x, n)" in upgrade.text) is calls_itself
    assert upgrade.native is not None and upgrade.kept_in_python == []
    calls = [(torch.ones(shape), n) for shape in ((4, 6), (8, 300), (400, 5), (3, 6), (1, 6), (4, 1), (4,), (0, 4))
             for n in (3, 24, 25, 1 << 70, -(1 << 70), True, 2.0, None)]
    calls += [(torch.ones(6, 4).t(), 3), (torch.ones(8, 6)[::2], 3), (torch.ones(4, 6).int(), 3), (None, 3)]
    accepted = 0
    for x, n in calls:
        result, expected = made(x, n), plain(x, n)
        assert result == expected if expected == "miss" else same(result, expected)
        accepted += expected != "miss"
    assert accepted > 6


def same(left, right):
    """Whether two nested tuples hold the same tensors and equal numbers of the same types."""
    if type(left) is tuple:
        return type(right) is tuple and len(left) == len(right) and all(map(same, left, right))
    return left is right if isinstance(left, torch.Tensor) else (type(left), left) == (type(right), right)


def test_lines_that_stay_python_get_numbers():
    others = ["if not (math.sqrt(_fs_s1) < 10): return _fs_miss", "_fs_s7 = _fs_s0 + 1"]
    body = "return _fs_s7"
    made, plain, upgrade = entry(CONDITIONS, (0, 1), body, ("x",), others=["import math", *others])
    made(torch.ones(4, 6), 3)
    assert upgrade.kept_in_python == ["import math", *others]
    for shape in ((4, 6), (6, 7), (4, 101), (5, 6)):
        assert made(torch.ones(shape), 3) == plain(torch.ones(shape), 3)
    assert made(torch.ones(4, 6), 3) == 5 and made(torch.ones(4, 101), 3) == "miss"


def test_sizes_of_inputs_whose_guard_stays_python_are_read_in_python():
    class Labelled(torch.Tensor):
        pass

    first = torch.ones(4, 6).as_subclass(Labelled)
    made, plain, upgrade = entry(CONDITIONS, (0, 1), "return _fs_s0", ("x",), first)
    made(first, 3)
    assert upgrade.native is not None and len(upgrade.kept_in_python) > 4
    for x in (first, torch.ones(8, 6).as_subclass(Labelled), torch.ones(3, 6).as_subclass(Labelled), torch.ones(4, 6)):
        assert made(x, 3) == plain(x, 3)


def test_no_references_are_lost_or_kept():
    numbers = ("_fs_s0", "_fs_s1")
    made, _, upgrade = entry(CONDITIONS, (0, 1), "return _fs_s0, _fs_s2", ("x", *numbers * 4))
    x, other, n = torch.ones(400, 600), torch.ones(401, 600), 12345
    made(x, n)
    native = upgrade.native
    found = native(x, n)
    assert found[0] == (x, *(400, 600) * 4) and found[1:] == (400, 600)
    watched = [x, n, None, found, 400, 2]
    gc.collect()
    tracemalloc.start()
    try:
        before, size = [sys.getrefcount(obj) for obj in watched], tracemalloc.get_traced_memory()[0]
        for _ in range(5000):
            native(x, n)
            native(other, n)
            native(x, x)
        after, grown = [sys.getrefcount(obj) for obj in watched], tracemalloc.get_traced_memory()[0] - size
    finally:
        tracemalloc.stop()
    # a few may come and go with what else happens in the process
    assert all(abs(b - a) < 100 for a, b in zip(before, after)), (before, after)
    assert grown < 10_000


def test_the_expression_kinds_are_all_met():
    """The random conditions above reach every kind of node and operation that is lowered."""
    rng, seen = random.Random(5), set()

    def visit(expr):
        seen.add(expr.op if isinstance(expr, Call) else type(expr))
        for arg in expr.args:
            visit(arg)

    for _ in range(400):
        visit(random_condition(rng, 2))
    assert {Symbol, Const, Sum, Product, "floordiv", "mod", "min", "max", "abs", "ifelse", "eq0", "ne0", "ge0", "and",
            "or", "eq"} <= seen


def test_a_program_hands_out_numbers_as_ints():
    program = Program(1)
    register = program.load(Op.SCALE, program.load(Op.INTEGER, 0), 2, 1)
    run = native_checker.checker().function(program, [register, 0], [register])
    assert run(1 << 40) == (((1 << 41) + 1, 1 << 40), (1 << 41) + 1)
    assert run(1 << 62) is None
    low = GuardLowering(native_checker.checker(), ["n"], (3,), {N: LocalSource("n")})
    prologue = Prologue(["n"], ["if not (n >= 2): return _fs_miss"], {}, [], "graph", [], [], lambda lines: None)
    assert split(low, prologue).kept == prologue.lines


# Compiled functions


def sizes_and_a_number(x, n):
    return x.view(-1, n) * x.shape[0], x.shape[1] + n


def two_tensors(x, y):
    if x.shape[0] > 5 or x.shape[0] % 3 == 1:
        return torch.cat([x, y]) + y.shape[0]
    return x[:, : y.shape[1] // 2].sum() * max(x.shape[0], y.shape[0])


def transposed(x, y):
    return x.t() + y, x.stride(0)


SHAPES = [(2, 6), (3, 6), (4, 6), (8, 12), (300, 6), (1, 6), (6, 1), (0, 6), (6, 6)]
CALLS = {
    sizes_and_a_number: [(torch.ones(shape), n) for shape in SHAPES for n in (1, 2, 3, 6, -1, 0, 7, 1 << 40, 1 << 70)],
    two_tensors: [(torch.ones(a), torch.ones(b)) for a in SHAPES for b in SHAPES if a[1] == b[1]],
    transposed: [(torch.ones(a), torch.ones(a).t()) for a in SHAPES] + [
        (torch.ones(a).t(), torch.ones(a)) for a in SHAPES] + [(torch.ones(8, 6)[::2], torch.ones(6, 4))],
}


def outcome(function, args):
    try:
        return function(*args)
    except (RuntimeError, TypeError, OverflowError) as error:
        return type(error).__name__


@pytest.mark.parametrize("function", CALLS)
@pytest.mark.parametrize("dynamic", [True, None])
def test_compiled_functions_of_many_sizes(function, dynamic):
    with config.patch(native_guards="always", raise_on_internal_error=True, recompile_limit=100):
        fs.reset()
        compiled = fs.compile(function, backend="eager", dynamic=dynamic)
        for args in (*CALLS[function], *CALLS[function]):
            found, expected = outcome(compiled, args), outcome(function, args)
            if isinstance(expected, str):
                assert found == expected
            else:
                torch.testing.assert_close(found, expected)
        unit = compiled._firesteel_unit
        checked = 0
        for entry_ in unit.entries:
            if entry_.upgrade.native is None:
                continue
            kept = entry_.upgrade.kept_in_python
            assert all(f"n == {1 << 70} " in line for line in kept)  # a constant that machine code cannot compare with
            checked += bool(entry_.shape_guards)
            for args in CALLS[function]:
                # the guards as Python are the measure; numbers that are too large are left to them
                accepted = first_failure(entry_, unit, args) is None
                if kept and args[1] != 1 << 70:
                    continue
                large = any(type(arg) is int and arg > 1 << 60 for arg in args)
                assert accepted or entry_.upgrade.native(*args) is None
                assert large or (entry_.upgrade.native(*args) is not None) == accepted
        assert checked


def test_a_number_that_does_not_fit_is_left_to_python():
    def f(x, n):
        return x + n // (1 << 66)

    with config.patch(native_guards="always"):
        compiled = fs.compile(f, backend="eager", dynamic=True)
        x = torch.ones(3)
        compiled(x, 5)
        (made,) = [entry_.upgrade for entry_ in compiled._firesteel_unit.entries]
        assert made.native is not None and made.native(x, 5) is not None
        for n in (1 << 66, 1 << 67, -(1 << 68)):
            assert made.native(x, n) is None
            torch.testing.assert_close(compiled(x, n), f(x, n))
        assert len(compiled._firesteel_unit.entries) == 4  # integers beyond 61 bits are constants
