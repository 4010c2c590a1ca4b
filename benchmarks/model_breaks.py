"""Bar 2: graphs, breaks and coverage of every model of the zoo, firesteel beside torch.compile.

    python -m benchmarks.model_breaks                         # both sides, all models
    python -m benchmarks.model_breaks --side torch --record   # refresh tests/models/torch_compile_breaks.json

Each model and side runs in a fresh process, so a crash is one row of the table. `tests/models/captured_calls.py` says
what is counted, and how.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tests.models import zoo
from tests.models.captured_calls import MINIMUM_COVERAGE, RECORD, Measurement, measure

from benchmarks import report

SIDES = ("firesteel", "torch")


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
        for name in zoo.MODELS
        if not options.only or any(name.startswith(o) or name.endswith("/" + o) for o in options.only)
    ]
    if not chosen:
        parser.error(f"no model named {options.only}; known: {', '.join(zoo.MODELS)}")
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
