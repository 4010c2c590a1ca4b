"""Random programs behave the same plain and compiled, and the harness would notice if they did not."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from .generator import generate
from .harness import Function, check, compare, run_program
from .program import Program
from .shrinker import shrink

CHUNK = 50
CHUNKS = (0, 2, 3, 4, 6, 9)
"""Of the first 600 programs, those that run lines of the compiler which neither other tests run nor chunks before."""
NATIVE_CHUNK = 25
NATIVE_CHUNKS = (0, 1, 3)
"""Of the first 100, likewise."""
MIN_SHARE_INSIDE_GRAPHS = 0.90


# Compiled programs


@pytest.mark.parametrize("chunk", CHUNKS)
def test_compiled_programs_match_plain_ones(chunk: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    inside = total = 0
    failures = []
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        report = check(generate(seed))
        inside += report.inside
        total += report.total
        if report.differences:
            failures.append(f"seed {seed}: " + "; ".join(report.differences[:3]))
    assert not failures, f"{len(failures)} of {CHUNK} programs differ\n" + "\n".join(failures)
    _check_share(chunk, inside, total, tmp_path_factory)


@pytest.mark.parametrize("chunk", NATIVE_CHUNKS)
def test_programs_in_machine_code_match_plain_ones(chunk: int) -> None:
    failures = []
    for seed in range(chunk * NATIVE_CHUNK, (chunk + 1) * NATIVE_CHUNK):
        report = check(generate(seed), "native")
        if report.differences:
            failures.append(f"seed {seed}: " + "; ".join(report.differences[:3]))
    assert not failures, "\n".join(failures)


def _check_share(chunk: int, inside: int, total: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Judge the share over all chunks, wherever they ran: the last one to finish sees every file."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # shared by the workers
    folder = folder / "fuzz_share"
    folder.mkdir(exist_ok=True)
    partial = folder / f"{chunk}.partial"
    partial.write_text(json.dumps([inside, total]))
    partial.rename(folder / f"{chunk}.json")
    results = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    share = sum(result[0] for result in results) / sum(result[1] for result in results)
    print(f"{share:.1%} of the tensor operations of {len(results) * CHUNK} programs ran inside graphs")
    if len(results) == len(CHUNKS):
        assert share > MIN_SHARE_INSIDE_GRAPHS


# The generator


def test_plain_runs_are_equal_and_programs_sensible() -> None:
    seeds = range(300)
    raised = operators = 0
    for seed in seeds:
        program = generate(seed)
        first, second = run_program(program, count=True), run_program(program)
        assert compare(first, second, traces=True) == [], seed
        raised += bool(first.raised)
        operators += first.operators
        assert "NameError" not in first.raised and "UnboundLocalError" not in first.raised, seed
    assert 0.03 < raised / len(seeds) < 0.2
    assert operators / len(seeds) > 20


FEATURES = (
    "match |nonlocal c|global |lambda |yield |try:|finally:|raise | from |with torch.no_grad()|while |continue|break|"
    "else:|:=|del |*rest|class |super()|.item()|dropout|defaultdict|deque|Counter|itertools.|functools.reduce|"
    "functools.partial|operator.|sorted(|zip(|print(|f'|.add_(|torch.cat(|torch.stack(| @ |.shape[0] * 2|net|"
    "nullcontext|suppress|copy.|torch.where|.long()|random.|enumerate(|with Tracker|with recording|ExitStack|"
    "graph_break()|digits(|interrupted(|re.match|class Owner:|class Owner(torch.nn.Module)|fn = owner.run|fn = owner\n|"
    "Clamped(|__init_subclass__|@dataclasses.dataclass|gauge|registry|F.embedding|torch.linalg.inv"
)


def test_programs_use_the_whole_language() -> None:
    text = "\n".join(generate(seed).source.partition("def make():")[2] for seed in range(400))
    for feature in FEATURES.split("|"):
        assert feature in text, feature


# The harness: each planted fault has to be seen.

VICTIM = Program(
    -1,
    """
import random
import torch
TOTAL = 0
class Note:
    tag = 'a'
def make():
    history = [1]
    bank = {'b': torch.ones(2), 'a': torch.zeros(2)}
    note = Note()
    def fn(x, n):
        global TOTAL
        TOTAL += 1
        history.append(n)
        note.last = x
        bank['a'].add_(1)
        print('n is', n)
        if n > 5:
            raise ValueError('too big', n)
        return {'x': x, 'y': x * 2 + bank['a'].sum(), 'history': history, 'n': n, 'rows': (row for row in [1, n])}
    calls = [((torch.randn(2, 3, requires_grad=True), 1), {}), ((torch.randn(2, 3), 7), {})]
    def before(index):
        pass
    def observe():
        return {'history': history, 'bank': bank, 'note': note}
    return fn, calls, before, observe
""",
)


def _with_result(change: Callable[[dict[str, Any]], Any]) -> Callable[[Function], Function]:
    def transform(function: Function) -> Function:
        def wrapper(*args: Any) -> Any:
            result = function(*args)
            changed = change(result)
            return result if changed is None else changed

        return wrapper

    return transform


def _state(function: Function, name: str) -> Any:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))[name].cell_contents


def _around(act: Callable[[Function], Any]) -> Callable[[Function], Function]:
    def transform(function: Function) -> Function:
        def wrapper(*args: Any) -> Any:
            try:
                return function(*args)
            finally:
                act(function)

        return wrapper

    return transform


def _other_exception(function: Function) -> Function:
    def wrapper(*args: Any) -> Any:
        try:
            return function(*args)
        except ValueError as error:
            raise ValueError("too big", 8) from error.__cause__

    return wrapper


def _swallowed_exception(function: Function) -> Function:
    def wrapper(*args: Any) -> Any:
        try:
            return function(*args)
        except ValueError:
            return None

    return wrapper


def _reorder(function: Function) -> None:
    bank = _state(function, "bank")
    bank["b"] = bank.pop("b")


FAULTS: dict[str, Callable[[Function], Function]] = {
    "value": _with_result(lambda result: result.update(y=result["y"] + 0.01)),
    "dtype": _with_result(lambda result: result.update(y=result["y"].double())),
    "stride": _with_result(lambda result: result.update(y=result["y"].t().contiguous().t())),
    "requires_grad": _with_result(lambda result: result.update(y=result["y"].detach())),
    "gradient": _with_result(lambda result: result.update(x=result["x"] * 1.0)),
    "identity of a tensor": _with_result(lambda result: result.update(x=result["x"].view(2, 3))),
    "identity of a list": _with_result(lambda result: result.update(history=list(result["history"]))),
    "type of a number": _with_result(lambda result: result.update(n=float(result["n"]))),
    "type of the result": _with_result(lambda result: list(result.items())),
    "generator": _with_result(lambda result: result.update(rows=iter(list(result["rows"])))),
    "items of a generator": _with_result(lambda result: result.update(rows=(row for row in [1, 2]))),
    "key order": _with_result(lambda result: result.update(x=result.pop("x"))),
    "exception": _other_exception,
    "swallowed exception": _swallowed_exception,
    "stdout": _around(lambda function: print("extra")),
    "global": _around(lambda function: function.__globals__.update(TOTAL=0)),
    "list in a closure": _around(lambda function: _state(function, "history").append(0)),
    "tensor in a closure": _around(lambda function: _state(function, "bank")["a"].mul_(2)),
    "order of a dict in a closure": _around(_reorder),
    "attribute": _around(lambda function: delattr(_state(function, "note"), "last")),
    "class attribute": _around(lambda function: setattr(type(_state(function, "note")), "tag", "b")),
    "torch generator": _around(lambda function: torch.rand(1)),
    "random generator": _around(lambda function: random.random()),
    "grad mode": _around(lambda function: torch.set_grad_enabled(False)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_difference_is_seen(fault: str) -> None:
    plain = run_program(VICTIM)
    assert compare(plain, run_program(VICTIM)) == []
    assert compare(plain, run_program(VICTIM, FAULTS[fault]))


def test_double_effects_are_seen_in_random_programs() -> None:
    def twice(function: Function) -> Function:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            try:
                function(*args, **kwargs)
            except Exception:
                pass
            return function(*args, **kwargs)

        return wrapper

    programs = [generate(seed) for seed in range(60)]
    seen = sum(bool(compare(run_program(program), run_program(program, twice))) for program in programs)
    assert seen > 40


def test_traceback_lines_are_seen() -> None:
    moved = Program(VICTIM.seed, "\n" + VICTIM.source)
    plain, shifted = run_program(VICTIM), run_program(moved)
    assert compare(plain, shifted) == []
    assert compare(plain, shifted, traces=True)


def test_operators_are_counted() -> None:
    assert run_program(VICTIM, count=True).operators == 5  # add_ in both calls; sum, mul, add in the first
    report = check(VICTIM, "none")
    assert (report.inside, report.total, report.differences) == (0, 5, [])


# The shrinker


def test_shrink_keeps_the_failure_and_little_else() -> None:
    def still_fails(program: Program) -> bool:
        return "ValueError" in run_program(program).raised

    small = shrink(VICTIM, still_fails)
    assert still_fails(small)
    assert "raise ValueError" in small.source
    assert len(small.source.splitlines()) < 16
    assert "bank" not in small.source and "print" not in small.source


def test_shrink_random_program() -> None:
    """Cut a program down to what it takes to call `tanh` without an exception."""

    def tanh_runs(candidate: Program) -> bool:
        return ".tanh()" in candidate.source.partition("def make")[2] and not run_program(candidate).raised

    program = next(program for program in map(generate, range(100)) if tanh_runs(program))
    small = shrink(program, tanh_runs)
    assert tanh_runs(small)
    assert len(small.source.splitlines()) < 20


# Compilers


INSTALLED = """import torch
import firesteel as fs


class Asking(torch.nn.Module):
    def forward(self, x):
        return x.relu(){asked}


def make():
    return {target}, [((torch.ones(2),), {{}})], lambda index: None, dict
"""


@pytest.mark.parametrize("target", ["Asking()", "Asking().forward"])
def test_installed_compiles(target: str) -> None:
    assert check(Program(-1, INSTALLED.format(asked="", target=target)), "installed").differences == []
    asking = Program(-1, INSTALLED.format(asked=", fs.is_compiling()", target=target))
    assert "('bool', False) != ('bool', True)" in "".join(check(asking, "installed").differences)
