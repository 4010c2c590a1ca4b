"""Bar 2: graphs, breaks and coverage of every model of the zoo, firesteel beside torch.compile.

    python -m benchmarks.model_breaks                         # both sides, all models
    python -m benchmarks.model_breaks --side torch --record   # refresh data/torch_compile_breaks.json

Each model and side runs in a fresh process, so a crash is one row of the table. A model is compiled with a backend that
runs the graph as it is and marks its run for the profiler; calls into ATen outside such marks were not captured. A
dispatch mode around the call would count too, but torch.compile runs everything eagerly under one.

Coverage is not the share of eager's own calls that are found again in the graphs: some models of transformers take
other branches while they are compiled (Mamba another scan, BERT no test of its mask), and for four of them
torch.compile's single, unbroken graph would get only 58% to 98%.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks import models, report

RECORD = Path(__file__).resolve().parent / "data" / "torch_compile_breaks.json"
"""What torch.compile did when last measured, so that tests compare without paying for torch.compile."""

MARK = "captured_graph"
MINIMUM_COVERAGE = 0.99
SIDES = ("firesteel", "torch")


@dataclass(frozen=True)
class Measurement:
    """What one side did with one model. `error` is set, and the rest is meaningless, when the side failed."""

    model: str
    side: str
    graphs: int = 0
    breaks: int = 0
    reasons: list[str] = field(default_factory=list)
    second_call_graphs: int = 0
    """Graphs compiled by a second, equal call: not zero means a needless recompilation."""
    calls_inside: int = 0
    calls_outside: int = 0
    eager_calls: int = 0
    first_call_s: float = 0.0
    error: str | None = None

    @property
    def coverage(self) -> float:
        """The share of ATen calls that ran inside captured graphs.

        Of the compiled call's or of eager's calls, whichever are fewer: what a graph does beyond eager must not dilute
        the calls outside.
        """
        total = min(self.calls_inside + self.calls_outside, self.eager_calls)
        return max(0.0, 1 - self.calls_outside / total) if total else 0.0


# ------------------------------------------------------------------------------------------------- comparing outputs


def assert_same(actual: object, expected: object, path: str = "output") -> None:
    """Raise `AssertionError` unless both are equal: types, structure, and tensors within `assert_close`'s defaults.

    Objects that are no containers (a key-value cache, say) are compared by their attributes.

    >>> assert_same({"a": [torch.ones(2), 1]}, {"a": [torch.ones(2), 1]})
    """
    _assert_same(actual, expected, path, set())


def _assert_same(actual: object, expected: object, path: str, visited: set[int]) -> None:
    assert type(actual) is type(expected), f"{path}: {type(actual)} is not {type(expected)}"
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torch.Tensor)
        torch.testing.assert_close(actual, expected, msg=lambda text: f"{path}: {text}")
        return
    if id(expected) in visited:
        return
    if isinstance(expected, Mapping):
        visited.add(id(expected))
        assert isinstance(actual, Mapping)
        assert list(actual) == list(expected), f"{path}: keys {list(actual)} are not {list(expected)}"
        for key in expected:
            _assert_same(actual[key], expected[key], f"{path}[{key!r}]", visited)
    elif isinstance(expected, (list, tuple)):
        visited.add(id(expected))
        assert isinstance(actual, (list, tuple))
        assert len(actual) == len(expected), f"{path}: length {len(actual)} is not {len(expected)}"
        for i, (left, right) in enumerate(zip(actual, expected, strict=True)):
            _assert_same(left, right, f"{path}[{i}]", visited)
    elif hasattr(expected, "__dict__") and not isinstance(expected, (type, torch.nn.Module)) and not callable(expected):
        visited.add(id(expected))
        _assert_same(vars(actual), vars(expected), f"{path}.__dict__", visited)
    elif not callable(expected):
        assert actual == expected, f"{path}: {actual!r} is not {expected!r}"


# ------------------------------------------------------------------------------------------------- counting ATen calls


class CountingBackend:
    """A backend that runs each graph as it is, counts the graphs, and marks every run for the profiler."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)

        def run(*inputs: Any) -> Any:
            with torch.profiler.record_function(MARK):
                return gm.forward(*inputs)

        return run


def count_aten_calls(call: Callable[[], object]) -> tuple[int, int]:
    """Run `call` and count the ATen calls that Python makes, inside and outside of captured graphs.

    A call that ATen makes while it runs another one is not counted: the graph decided only the outer one.

    >>> count_aten_calls(lambda: torch.ones(2) + 1)
    (0, 2)
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    inside = outside = 0
    for event in profile.events():
        if not event.name.startswith("aten::"):
            continue
        ancestors = list(_ancestors(event))
        if any(name.startswith("aten::") for name in ancestors):
            continue
        if MARK in ancestors:
            inside += 1
        else:
            outside += 1
    return inside, outside


def _ancestors(event: Any) -> Iterator[str]:
    while event.cpu_parent is not None:
        event = event.cpu_parent
        yield event.name


# ------------------------------------------------------------------------------------------------------------ measuring


def measure(name: str, side: str) -> Measurement:
    """Compile and call one model in this process. Failures of the side become `Measurement.error`."""
    reference, args, kwargs = models.build(name)
    with torch.no_grad():
        expected = reference(*args, **kwargs)
        eager_calls = sum(count_aten_calls(lambda: reference(*args, **kwargs)))
    try:
        measure_side = _measure_firesteel if side == "firesteel" else _measure_torch
        return measure_side(name, expected, eager_calls)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).strip().splitlines() or [""]
        message = f"{type(error).__name__}: {text[0]} ({Path(place.filename).name}:{place.lineno})"
        return Measurement(model=name, side=side, eager_calls=eager_calls, error=message)


@dataclass(frozen=True)
class _Calls:
    graphs: int
    second_call_graphs: int
    calls_inside: int
    calls_outside: int
    first_call_s: float


def _call_twice(compile_: Callable[..., Any], name: str, expected: object) -> _Calls:
    """Compile a fresh copy of the model; a cold call, then a warm one under the profiler, both equal to eager's."""
    module, args, kwargs = models.build(name)
    backend = CountingBackend()
    compiled = compile_(module, backend=backend)
    outputs: list[object] = []
    with torch.no_grad():
        start = time.perf_counter()
        outputs.append(compiled(*args, **kwargs))
        seconds = time.perf_counter() - start
        graphs = len(backend.graphs)
        inside, outside = count_aten_calls(lambda: outputs.append(compiled(*args, **kwargs)))
    for output in outputs:
        assert_same(output, expected)
    return _Calls(graphs, len(backend.graphs) - graphs, inside, outside, seconds)


def _measure_firesteel(name: str, expected: object, eager_calls: int) -> Measurement:
    import firesteel as fs

    with fs.config.patch(raise_on_internal_error=True):
        fs.reset()
        calls = _call_twice(fs.compile, name, expected)
        fs.reset()
        module, args, kwargs = models.build(name)
        with torch.no_grad():
            explanation = fs.explain(module)(*args, **kwargs)
        fs.reset()
    return Measurement(
        model=name,
        side="firesteel",
        breaks=explanation.graph_break_count,
        reasons=[str(reason) for reason in explanation.break_reasons],
        eager_calls=eager_calls,
        **asdict(calls),
    )


def _measure_torch(name: str, expected: object, eager_calls: int) -> Measurement:
    import torch._dynamo
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    calls = _call_twice(torch.compile, name, expected)
    # The counter holds the number of breaks per reason. A frame that was given up as a whole is not in it, yet is one
    # break at least, as torch's own log says: without it a model that runs uncompiled would count as unbroken.
    broken = dict(counters["graph_break"])
    given_up = counters["frames"]["total"] - counters["frames"]["ok"]
    if given_up:
        broken |= counters["unimplemented"]
    return Measurement(
        model=name,
        side="torch",
        breaks=sum(counters["graph_break"].values()) + given_up,
        reasons=[reason.strip().splitlines()[0] for reason, number in broken.items() for _ in range(number)],
        eager_calls=eager_calls,
        **asdict(calls),
    )


def measure_in_subprocess(name: str, side: str, timeout_s: float = 300.0) -> Measurement:
    """`measure` in a fresh process: a crash or an endless loop becomes an error row."""
    command = [sys.executable, "-m", "benchmarks.model_breaks", "--child", name, side]
    root = Path(__file__).resolve().parent.parent
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return Measurement(model=name, side=side, error=f"no result after {timeout_s:.0f} s")
    with contextlib.suppress(IndexError, json.JSONDecodeError):
        return Measurement(**json.loads(done.stdout.splitlines()[-1]))
    last = (done.stderr.strip().splitlines() or ["no output"])[-1]
    return Measurement(model=name, side=side, error=f"exit status {done.returncode}: {last}")


# ------------------------------------------------------------------------------------------------------------ recording


def recorded_breaks() -> dict[str, dict[str, Any]]:
    """What torch.compile did with each model when `--record` last ran: `graphs`, `breaks`, `coverage`, `error`…"""
    payload = json.loads(RECORD.read_text(encoding="utf-8"))
    recorded: dict[str, dict[str, Any]] = payload["models"]
    return recorded


def _payload(measurements: Sequence[Measurement]) -> dict[str, Any]:
    rows = {}
    for measurement in measurements:
        row = asdict(measurement)
        del row["model"], row["side"]
        row["coverage"] = round(measurement.coverage, 4)
        del row["first_call_s"]  # one sample, on a machine that may be busy: capture_time measures that
        rows[measurement.model] = row
    return {"versions": report.versions("transformers", "timm", "torchvision"), "models": rows}


def _verdict(mine: Measurement | None, theirs: Measurement | None) -> str:
    """One word for the row: what of the bar is missed, or `ok`."""
    if mine is None:
        return "-"
    if mine.error:
        return "FAILED"
    missed = []
    if mine.coverage < MINIMUM_COVERAGE:
        missed.append("coverage")
    if theirs is not None and not theirs.error and mine.breaks > theirs.breaks:
        missed.append("breaks")
    if mine.second_call_graphs:
        missed.append("recompiles")
    return "misses " + ", ".join(missed) if missed else "ok"


def _print(measurements: Mapping[str, dict[str, Measurement]]) -> None:
    rows: list[list[object]] = []
    for name, sides in measurements.items():
        row: list[object] = [name]
        for side in SIDES:
            one = sides.get(side)
            if one is None or one.error:
                row += [None if one is None else "error", None, None, None]
            else:
                row += [one.graphs, one.breaks, f"{one.coverage:.1%}", f"{one.first_call_s:.2f}"]
        eager = max(one.eager_calls for one in sides.values())
        rows.append([*row, eager, _verdict(sides.get("firesteel"), sides.get("torch"))])
    columns = ["model"]
    for side in SIDES:
        columns += [f"{side} graphs", "breaks", "in graphs", "first call s"]
    report.print_table("Graphs and breaks per model", [*columns, "eager ATen calls", "bar"], rows)
    for name, sides in measurements.items():
        for side, one in sides.items():
            if one.error:
                print(f"{name}: {side} failed: {one.error}")
            for reason in one.reasons:
                print(f"{name}: {side} break: {reason}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. The exit status is 1 when firesteel misses the bar for any model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--side", choices=[*SIDES, "both"], default="both")
    parser.add_argument("--only", action="append", help="a model's name, or the start of it; may be repeated")
    parser.add_argument("--json", type=Path, help="write every measurement to this file")
    parser.add_argument("--record", action="store_true", help=f"write torch.compile's numbers to {RECORD.name}")
    parser.add_argument("--child", nargs=2, metavar=("MODEL", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        torch.set_num_threads(1)
        print(json.dumps(asdict(measure(*options.child))))
        return 0
    sides = SIDES if options.side == "both" else (options.side,)
    if options.record and ("torch" not in sides or options.only):
        parser.error("--record needs torch.compile's side and all models")
    chosen = [
        name
        for name in models.MODELS
        if not options.only or any(name.startswith(o) or name.endswith("/" + o) for o in options.only)
    ]
    if not chosen:
        parser.error(f"no model named {options.only}; known: {', '.join(models.MODELS)}")
    results: dict[str, dict[str, Measurement]] = {}
    for name in chosen:
        for side in sides:
            print(f"{name} ({side})", file=sys.stderr, flush=True)
            results.setdefault(name, {})[side] = measure_in_subprocess(name, side)
    _print(results)
    if options.record:
        report.write_json(RECORD, _payload([row["torch"] for row in results.values()]))
    if options.json:
        report.write_json(options.json, {side: _payload([row[side] for row in results.values()]) for side in sides})
    verdicts = [_verdict(row.get("firesteel"), row.get("torch")) for row in results.values()]
    return int(any(verdict not in ("ok", "-") for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
