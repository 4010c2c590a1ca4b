"""When a function is compiled again and when it is not: limits, numbers, loops, logs."""

from __future__ import annotations

import collections
import math
import warnings
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.guard_probe import Probe
from firesteel import config
from firesteel.errors import FiresteelWarning, RecompileError, RecompileLimitError

X = torch.arange(4.0)


# Policy


def test_most_recently_used_first() -> None:
    def f(x: torch.Tensor, name: str) -> torch.Tensor:
        return x + len(name)

    probe = Probe(f)
    for name in ("a", "bb", "ccc"):
        probe(X, name)
    unit = probe.compiled._firesteel_unit
    newest, *rest = unit.functions
    probe.compiled(X, "a")
    assert unit.functions[0] is not newest
    assert unit.functions[1] is newest
    assert len(unit.functions) == 3
    probe.compiled(X, "a")
    assert unit.functions[1] is newest


def test_limit_per_function_warns_once_and_runs_plain() -> None:
    def many(x: torch.Tensor, name: str) -> Any:
        return x + 1, name.upper()

    probe = Probe(many)
    with config.patch(recompile_limit=3):
        for name in "abc":
            assert probe(X, name) == 1
        with pytest.warns(FiresteelWarning) as caught:
            assert probe(X, "d") == 0
        text = str(caught[0].message)
        assert "many" in text
        assert f'File "{__file__}", line {many.__code__.co_firstlineno}' in text
        assert "name == " in text
        assert "'d'" in text
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert probe(X, "e") == 0
            assert probe(X, "a") == 0  # what is compiled stays in use


def test_limit_with_fullgraph_raises() -> None:
    @fs.compile(backend="eager", fullgraph=True)
    def f(x: torch.Tensor, name: str) -> Any:
        return x + len(name)

    with config.patch(recompile_limit=1):
        f(X, "a")
        with pytest.raises(RecompileLimitError, match="recompile limit of 1"):
            f(X, "b")


def test_overall_limit_counts_continuations() -> None:
    def f(x: torch.Tensor, name: str) -> Any:
        y = x + len(name)
        fs.graph_break()
        return y * 2, name * 2

    probe = Probe(f)
    with config.patch(accumulated_recompile_limit=4), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("a", "bb", "ccc", "dddd", "eeeee"):
            probe(X, name)
    assert probe.entries <= 4
    assert any(issubclass(w.category, FiresteelWarning) for w in caught)


def test_reasons_in_the_logs(capfd: pytest.CaptureFixture[str]) -> None:
    def logged(x: torch.Tensor, name: str) -> Any:
        return x + 1, name.upper()

    probe = Probe(logged)
    fs.set_logs("recompiles,guards")
    probe(X, "a")
    probe(X, "b")
    probe(torch.ones(2), "b")
    fs.set_logs()
    err = capfd.readouterr().err
    recompiles = [line for line in err.splitlines() if line.startswith("[recompiles]")]
    assert len(recompiles) == 2
    assert "logged" in recompiles[0]
    assert "test_recompilation.py" in recompiles[0]
    assert "name == 'a'" in recompiles[0]
    assert "shape" in recompiles[1]
    guards = [line for line in err.splitlines() if line.startswith("[guards]")]
    assert any("name == 'a'" in line and "test_recompilation.py" in line for line in guards)


# Numbers


@pytest.mark.parametrize("numbers", [[3, 5, 7, 11, 100], [2.5, 3.5, 1e10, -2.5, 0.1], [-3, -4, -5]], ids=str)
def test_numbers_become_inputs(numbers: list[Any]) -> None:
    def f(x: torch.Tensor, n: Any) -> Any:
        return x * n + (n + 1) * 2 - n / 2, n * 3, -n

    probe = Probe(f)
    assert probe(X, numbers[0]) == 1
    assert probe(X, numbers[1]) == 1
    for number in numbers[2:]:
        assert probe(X, number) == 0


@pytest.mark.parametrize("special", [0, 1, 0.0, -0.0, math.inf, -math.inf, math.nan, True, 10**30], ids=repr)
def test_special_numbers_are_not_generalised(special: Any) -> None:
    def f(x: torch.Tensor, n: Any) -> Any:
        return x * n, repr(n * 2), math.copysign(1.0, n), n == n, n - n

    probe = Probe(f)
    for number in (2.5, 3.5, 4, 5, special, 4.5, 6, special):
        probe(X, number)


def test_number_in_a_comparison_is_guarded() -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        return x + n if n > 10 else x - n

    probe = Probe(f)
    probe(X, 20)
    assert probe(X, 21) == 1
    assert probe(X, 500) == 0
    assert probe(X, 11) == 0
    assert probe(X, 5) == 1
    assert probe(X, 6) == 0
    assert probe(X, 10) == 0


def test_float_comparison_is_guarded() -> None:
    def f(x: torch.Tensor, n: float) -> Any:
        return x + n if n * 2 + 0.1 > 1.0 else x - n

    probe = Probe(f)
    probe(X, 2.0)
    probe(X, 3.0)
    assert probe(X, 4.0) == 0
    assert probe(X, 0.25) == 1
    assert probe(X, 0.3) == 0
    for n in (0.45, 0.449999999999, 0.45000001):
        probe(X, n)


def test_number_as_shape_and_index() -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        return torch.zeros(n), x[: n - 1], [10, 20, 30, 40, 50][n]

    probe = Probe(f)
    for n in (2, 3, 4, 2, 3):
        probe(X, n)


def test_number_used_in_range_and_text() -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        for i in range(n):
            x = x + i
        return (x, f"{n} steps", [n] * n, {n: x}, divmod(n, 3), n % 4, n // 2, n ** 2, n << 1, n & 3, n == 3, float(n),
                int(n))

    probe = Probe(f)
    for n in (2, 3, 4, 5, 3):
        probe(X, n)


def test_dynamic_false_keeps_numbers_constant() -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        return x * n

    probe = Probe(f, dynamic=False)
    for n in (3, 4, 5):
        assert probe(X, n) == 1


def test_number_returned_and_stored() -> None:
    class Holder:
        def __init__(self) -> None:
            self.count = 5

    def f(x: torch.Tensor, holder: Holder) -> Any:
        holder.count += 1
        return x + holder.count, holder.count

    plain, held = Holder(), Holder()
    probe = Probe(f)
    for step in range(20):
        expected, actual = f(X, plain), probe.compiled(X, held)
        assert expected[1] == actual[1]
        assert type(actual[1]) is int
        assert torch.equal(expected[0], actual[0]), step
    assert held.count == plain.count
    assert probe.entries <= 3


def test_global_counter() -> None:
    state = {"steps": 3}

    def f(x: torch.Tensor) -> Any:
        state["steps"] += 1
        return x + state["steps"]

    compiled = fs.compile(f, backend="eager")
    for step in range(20):
        assert torch.equal(compiled(X), X + 4 + step)
    assert len(compiled._firesteel_unit.entries) <= 3


# Loops with a break inside


def loop_range(x: torch.Tensor, n: int) -> Any:
    for i in range(n):
        x = x + i
        fs.graph_break()
        x = x * 0.5
    return x


def loop_enumerate(x: torch.Tensor, n: int) -> Any:
    for i, item in enumerate([float(k) for k in range(n)]):
        x = x + item
        fs.graph_break()
        x = x * 0.5 + i
    return x


def loop_list(x: torch.Tensor, n: int) -> Any:
    items = [k * 3 for k in range(n)]
    for item in items:
        x = x + item
        fs.graph_break()
        x = x * 0.5
    return x


def loop_dict(x: torch.Tensor, n: int) -> Any:
    table = {f"key{k}": float(k) for k in range(n)}
    for key, value in table.items():
        x = x + value
        fs.graph_break()
        x = x * 0.5 + len(table)
    return x


def loop_zip(x: torch.Tensor, n: int) -> Any:
    for i, j in zip(range(n), range(n, 2 * n), strict=True):
        x = x + i
        fs.graph_break()
        x = x * 0.5 - j
    return x


def loop_while(x: torch.Tensor, n: int) -> Any:
    i = 0
    while i < n:
        x = x + i
        fs.graph_break()
        x = x * 0.5
        i += 1
    return x


def loop_counters(x: torch.Tensor, n: int) -> Any:
    total, scale = 0, 1.0
    for i in range(n):
        total += i
        scale = scale * 0.9
        x = x + total * scale
        fs.graph_break()
    return x, total, scale


def loop_over_tensors(x: torch.Tensor, n: int) -> Any:
    results = []
    for part in [x + k for k in range(n)]:
        y = part * 2
        fs.graph_break()
        results.append(y - 1)
    return results


def loop_nested(x: torch.Tensor, n: int) -> Any:
    for i in range(n // 10):
        for j in range(10):
            x = x + i * j
            fs.graph_break()
            x = x * 0.5
    return x


def loop_break_in_callee(x: torch.Tensor, n: int) -> Any:
    def step(x: torch.Tensor, i: int) -> torch.Tensor:
        x = x + i
        fs.graph_break()
        return x * 0.5

    for i in range(n):
        x = step(x, i)
    return x


def loop_item(x: torch.Tensor, n: int) -> Any:
    total = 0.0
    for i in range(n):
        total += (x * i).sum().item()
    return x + total


def loop_branch(x: torch.Tensor, n: int) -> Any:
    for i in range(n):
        x = x * 0.5 if x.sum() > 10 else x + i
    return x


def loop_generator(x: torch.Tensor, n: int) -> Any:
    def parts() -> Any:
        for k in range(n):
            yield k * 2

    for k in parts():
        x = x + k
        fs.graph_break()
        x = x * 0.5
    return x


@pytest.mark.parametrize("loop", [loop_range, loop_enumerate, loop_list, loop_dict, loop_zip, loop_while, loop_counters,
                                  loop_over_tensors, loop_nested, loop_break_in_callee, loop_item, loop_branch,
                                  loop_generator], ids=lambda f: f.__name__)
def test_loops_do_not_recompile_each_iteration(loop: Any) -> None:
    probe = Probe(loop)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = probe(X, 50)
        assert first <= 12, [(unit.name, len(unit.entries)) for unit in probe.units]
        assert probe(X, 50) == 0
        assert probe(X, 60) <= 4


# Stances, run and reset


def test_stances() -> None:
    def f(x: torch.Tensor, name: str) -> Any:
        y = x + len(name)
        fs.graph_break()
        return y * 2, fs.is_compiling()

    compiled = fs.compile(f, backend="eager")
    unit = compiled._firesteel_unit
    with fs.set_stance("force_eager"):
        assert compiled(X, "a")[1] is False
        assert not unit.entries
    assert compiled(X, "a")[1] is True
    with fs.set_stance("eager_on_recompile"):
        assert compiled(X, "bb")[1] is False
        assert torch.equal(compiled(X, "bb")[0], (X + 2) * 2)
        assert compiled(X, "a")[1] is True
    assert len(unit.entries) == 1
    with fs.set_stance("fail_on_recompile"):
        assert compiled(X, "a")[1] is True
        with pytest.raises(RecompileError):
            compiled(X, "bb")
    with fs.set_stance("force_eager"):
        assert compiled(X, "a")[1] is False
    assert compiled(X, "bb")[1] is True


def test_stance_as_decorator_and_statement() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, fs.is_compiling()

    compiled = fs.compile(f, backend="eager")

    @fs.set_stance("force_eager")
    def eager() -> Any:
        return compiled(X)

    assert eager()[1] is False
    assert compiled(X)[1] is True
    fs.set_stance("force_eager")
    try:
        assert compiled(X)[1] is False
    finally:
        fs.set_stance("default")
    assert compiled(X)[1] is True


def test_force_eager_reaches_modules_and_nested_functions() -> None:
    net = torch.nn.Linear(4, 4)
    compiled = fs.compile(net, backend="eager")
    with fs.set_stance("force_eager"):
        assert torch.equal(compiled(X), net(X))
    assert compiled._firesteel_compiler.units == {}


def test_run_never_compiles() -> None:
    def f(x: torch.Tensor, name: str) -> Any:
        y = x + len(name)
        fs.graph_break()
        return y * 2, fs.is_compiling()

    compiled = fs.compile(f, backend="eager")
    frozen = fs.run(compiled)
    assert frozen(X, "a")[1] is False
    assert compiled(X, "a")[1] is True
    assert frozen(X, "a")[1] is True
    unit = compiled._firesteel_unit
    before = [len(part.entries) for part in (unit, *unit.continuations.values())]
    assert torch.equal(frozen(X, "bb")[0], (X + 2) * 2)
    after = [len(part.entries) for part in (unit, *unit.continuations.values())]
    assert before == after
    assert compiled(X, "bb")[1] is True


def test_reset_forgets_continuations_too() -> None:
    calls: list[Any] = []

    def backend(gm: Any, inputs: Any) -> Any:
        calls.append(gm)
        return gm.forward

    @fs.compile(backend=backend)
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        fs.graph_break()
        return y * 2

    f(X)
    assert len(calls) == 2
    f(X)
    assert len(calls) == 2
    fs.reset()
    assert not f._firesteel_unit.entries
    assert torch.equal(f(X), (X + 1) * 2)
    assert len(calls) == 4


def test_reset_lifts_the_limit() -> None:
    def f(x: torch.Tensor, name: str) -> Any:
        return x + 1, name

    probe = Probe(f)
    with config.patch(recompile_limit=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")

        def g(x: torch.Tensor, name: str) -> Any:
            return x + len(name)

        probe = Probe(g)
        probe(X, "a")
        probe(X, "bb")
        assert probe.compiled._firesteel_unit.given_up
        fs.reset()
        assert probe(X, "bb") == 1


def test_several_numbers_become_inputs_at_once() -> None:
    def f(x: torch.Tensor, a: int, b: float, c: list[int]) -> Any:
        return x * a + b - c[0] * c[1]

    probe = Probe(f)
    assert probe(X, 3, 2.5, [4, 5]) == 1
    assert probe(X, 4, 3.5, [6, 7]) == 1
    assert probe(X, 5, 4.5, [8, 9]) == 0


def test_counter_of_a_submodule() -> None:
    class Counted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + self.calls

    net = torch.nn.Sequential(Counted(), Counted())
    compiled = fs.compile(net, backend="eager")
    for step in range(1, 12):
        assert torch.equal(compiled(X), X + 2 * step)
    assert sum(len(unit.entries) for units in compiled._firesteel_compiler.units.values() for unit in units) <= 3


def test_tensors_of_every_layout_in_any_order():
    """That an entry does not fit is found, and said, of tensors without sizes or strides too."""
    eye = torch.eye(4)
    kinds = {"coo": eye.to_sparse(), "csr": eye.to_sparse_csr(), "dense": eye, "bsr": eye.to_sparse_bsr((2, 2)),
             "nested": torch.nested.nested_tensor([eye, eye]), "mkldnn": eye.to_mkldnn(), "meta": eye.to("meta"),
             "quantized": torch.quantize_per_tensor(eye, 0.1, 0, torch.qint8)}
    for first in kinds:
        compiled = fs.compile(lambda x, s: x * 2 if s.layout is torch.strided else x * 3, backend="eager")
        for kind in (first, *kinds, first):
            expected = 2 if kinds[kind].layout is torch.strided else 3
            assert compiled(torch.ones(1), kinds[kind]).item() == expected, (first, kind)


# Contents that do not matter


@pytest.mark.parametrize("native_guards", ["never", "always"])
@pytest.mark.parametrize("index", [0, 1, -1, -2])
@pytest.mark.parametrize("kind", [list, collections.deque])
def test_the_length_of_a_list_does_not_matter_to_one_item(native_guards: str, index: int, kind: type) -> None:
    def f(x: torch.Tensor, items: Any) -> Any:
        return x + items[index], items[index] is items[0]

    with config.patch(native_guards=native_guards):
        probe = Probe(f)
        items = kind([X + number for number in range(3)])
        assert probe(X, items) == 1
        for _ in range(3):
            items.append(X * len(items))
            assert probe(X, items) == 0
        items.clear()
        with pytest.raises(IndexError):
            probe.compiled(X, items)
        items.extend([X, X * 2])
        torch.testing.assert_close(probe.compiled(X, items), f(X, items))
        items.pop()
        if index in (1, -2):
            with pytest.raises(IndexError):
                probe.compiled(X, items)
        else:
            torch.testing.assert_close(probe.compiled(X, items), f(X, items))


def test_items_read_alone_and_then_all() -> None:
    def f(x: torch.Tensor, items: list[Any]) -> Any:
        last, first = items[-1], items[0]
        if items:
            items.append(x)
        newest = items[-1]
        items[0] = last
        return last is first, newest is x, [item + 1 for item in items], len(items)

    for count in (1, 3):
        plain, compiled = ([X + number for number in range(count)] for _ in range(2))
        expected, actual = f(X, plain), fs.compile(f)(X, compiled)
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(compiled, plain)


def test_whether_a_list_is_empty_needs_no_length() -> None:
    def f(x: torch.Tensor, items: list[int]) -> torch.Tensor:
        return x + 1 if items else x - 1

    probe = Probe(f)
    items: list[int] = [1]
    assert probe(X, items) == 1
    items.append(2)
    assert probe(X, items) == 0
    items.clear()
    assert probe(X, items) == 1
    items.append(5)
    assert probe(X, items) == 0


def test_the_numbers_of_hooks_do_not_matter() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def double(module: Any, args: Any, out: torch.Tensor) -> torch.Tensor:
        return out * 2

    def keyword(module: Any, args: Any, kwargs: Any, out: torch.Tensor) -> torch.Tensor:
        return out - 1

    probe = Probe(lambda x: model(x))
    model[1].register_forward_hook(double)
    assert probe(X) == 1
    for _ in range(3):
        model[1]._forward_hooks.clear()
        model[1].register_forward_hook(double)
        assert probe(X) == 0
    handle = model[1].register_forward_hook(keyword, with_kwargs=True)
    assert probe(X) == 1
    handle.remove()
    assert probe(X) == 0
    model[1].register_forward_hook(keyword, with_kwargs=True, prepend=True)  # the same hooks in the other order
    assert probe(X) == 1
    first, second = model[1]._forward_hooks
    model[1]._forward_hooks_with_kwargs.clear()
    model[1]._forward_hooks_with_kwargs[second] = True  # and the other way of calling
    model[1]._forward_hooks.clear()
    model[1]._forward_hooks.update({first: double, second: keyword})
    assert probe(X) == 0


def test_a_program_that_looks_at_the_numbers_of_hooks() -> None:
    model = torch.nn.Linear(4, 4)

    def f(x: torch.Tensor) -> Any:
        numbers = list(model._forward_hooks)
        return x + 1, numbers, 3 in model._forward_hooks, sorted(model._forward_hooks)[0] + 1

    probe = Probe(f)
    for number in (3, 4, 5):
        model._forward_hooks.clear()
        model._forward_hooks[number] = print
        probe(X)
