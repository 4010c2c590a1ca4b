"""Models of transformers and timm drawn at random: which are captured in one graph, in inference and in training.

    python -m benchmarks.model_survey --transformers 120 --timm 60 --seed 1
    python -m benchmarks.model_survey --transformers 120 --timm 60 --seed 1 --side torch
    python -m benchmarks.model_survey --only transformers/deberta:base --modes training

Models are made small (`tests/models/drawn.py`); those that eager itself does not run that way are drawn again. They run
in a process of their own: a crash or an endless loop is a failure of one model, and the rest goes on. Outputs, and in
training gradients, are compared with eager's. Prints every model that is not one graph, with firesteel's reasons, and
the shares: one graph, right, and the lowest share of operators inside graphs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import queue
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tests.models import drawn
from tests.models.captured_calls import Measurement, measure

NOT_BUILT = "not built: "


class Worker:
    """A process that measures models one after the other, started again when it ended or hangs."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.process: subprocess.Popen[str] | None = None
        self.lines: queue.Queue[str | None] = queue.Queue()

    def _start(self) -> subprocess.Popen[str]:
        self.lines = lines = queue.Queue()
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.model_survey", "--worker"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=Path(__file__).resolve().parent.parent)

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        return process

    def measure(self, name: str, side: str, training: bool) -> Measurement:
        """What one side does with one model."""
        if self.process is None or self.process.poll() is not None:
            self.process = self._start()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, side, training]) + "\n")
        self.process.stdin.flush()
        while True:
            try:
                line = self.lines.get(timeout=self.timeout_s)
            except queue.Empty:
                self.process.kill()
                self.process = None
                return Measurement(model=name, side=side, error=f"no result after {self.timeout_s:.0f} s")
            if line is None:
                status, self.process = self.process.wait(), None
                return Measurement(model=name, side=side, error=f"the process ended with {status}")
            if line.startswith("{"):
                return Measurement(**json.loads(line))


def by_name(name: str) -> drawn.TransformersModel | drawn.TimmModel:
    """A model from its name, such as `transformers/gpt2:causal` or `timm/resnet18`."""
    library, _, kind = name.partition("/")
    if library == "timm":
        return drawn.TimmModel(kind)
    kind, _, head = kind.partition(":")
    return drawn.TransformersModel(kind, head)


def work() -> None:
    """Measure what standard input names, a line of JSON each."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for line in sys.stdin:
        name, side, training = json.loads(line)
        try:
            result = measure(name, side, by_name(name).build, training)
        except drawn.NotBuilt as error:
            result = Measurement(model=name, side=side, error=f"{NOT_BUILT}{error}"[:300])
        except Exception as error:  # in eager: of its gradients, for example
            result = Measurement(model=name, side=side, error=f"{NOT_BUILT}{type(error).__name__}: {error}"[:300])
        print(json.dumps(asdict(result)), flush=True)


def survey(names: Iterator[str], wanted: int, worker: Worker, side: str, training: bool) -> list[Measurement]:
    """The first `wanted` models that eager runs."""
    rows: list[Measurement] = []
    for name in names:
        if len(rows) == wanted:
            break
        row = worker.measure(name, side, training)
        if row.error and row.error.startswith(NOT_BUILT):
            continue
        rows.append(row)
        if row.error or row.breaks or row.graphs != 1 or row.second_call_graphs:
            print(f"{name}{' (training)' if training else ''}: {row.graphs} graphs, {row.breaks} breaks, "
                  f"{row.coverage:.1%} in graphs, {row.second_call_graphs} in a second call"
                  + (f"; ERROR {row.error}" if row.error else ""), flush=True)
            for reason in row.reasons:
                print("    " + reason.replace("\n", "\n    "), flush=True)
    return rows


def summary(title: str, rows: Sequence[Measurement]) -> str:
    """One line of shares."""
    right = [row for row in rows if not row.error]
    whole = [row for row in right if row.breaks == 0 and row.graphs == 1]
    lowest = min((row.coverage for row in right), default=0.0)
    below = sum(row.coverage < 0.95 for row in right)
    return (f"{title}: {len(rows)} models, {len(right)} right, {len(whole)} in one graph "
            f"({len(whole) / max(len(rows), 1):.1%}), lowest share in graphs {lowest:.1%}, {below} below 95%")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--transformers", type=int, default=0, help="how many models of transformers")
    parser.add_argument("--timm", type=int, default=0, help="how many models of timm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", choices=("firesteel", "torch"), default="firesteel")
    parser.add_argument("--only", nargs="+", default=[], help="these models instead")
    parser.add_argument("--modes", nargs="+", choices=("inference", "training"), default=["inference", "training"])
    parser.add_argument("--timeout", type=float, default=180.0)
    parser.add_argument("--json", type=Path, help="write every measurement to this file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    worker = Worker(options.timeout)
    kinds: list[tuple[str, Any, int]] = []
    if options.only:
        kinds.append(("chosen", options.only, len(options.only)))
    if options.transformers:
        kinds.append(("transformers", [m.name for m in drawn.draw_transformers(options.seed)], options.transformers))
    if options.timm:
        kinds.append(("timm", [m.name for m in drawn.draw_timm(options.seed)], options.timm))
    lines, everything = [], {}
    for (title, names, count), mode in itertools.product(kinds, options.modes):
        rows = survey(iter(names), count, worker, options.side, mode == "training")
        lines.append(summary(f"{title}, {mode}, {options.side}", rows))
        everything[f"{title}, {mode}"] = [asdict(row) for row in rows]
    print("\n".join(lines))
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
