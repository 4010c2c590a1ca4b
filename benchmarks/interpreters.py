"""Capture time and call overhead under several interpreters, against the first of them.

    python -m benchmarks.interpreters /path/to/python3.11 /path/to/python3.13
    python -m benchmarks.interpreters --torch python3.11 python3.13    # torch.compile of the same version too

Each interpreter needs torch, transformers and torchvision. Every measurement runs in a fresh process, and the
interpreters take turns, so that a slow minute of the machine hits all of them; a cell shows the best of its rounds,
which another process disturbs least.
firesteel and torch.compile never share a process: torch.compile's frame hook slows down every call of Python.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("transformers/bert", "transformers/gpt2", "torchvision/resnet18")
SLOWER_AT_MOST = 1.15


@dataclass(frozen=True)
class Measurement:
    """One figure of one process: the module to run, its arguments, and where the figure stands in what it wrote."""

    name: str
    arguments: tuple[str, ...]
    figure: Callable[[Any], float]
    bounded: bool = True


def capture(model: str, side: str) -> Measurement:
    """Seconds of the first call of `model`, backend "eager"."""
    arguments = ("benchmarks.capture_time", "--child", model, side)
    return Measurement(f"{side}: first call of {model}, s", arguments, lambda seconds: seconds[0], side == "firesteel")


def measurements(with_torch: bool) -> list[Measurement]:
    """All figures, firesteel's and, where asked for, torch.compile's beside them."""
    chosen = [
        Measurement(
            "firesteel: call of a tiny kernel, µs",
            ("benchmarks.native_call", "--no-torch"),
            lambda written: written["times"]["firesteel"]["best_us"],
        )
    ]
    for side in ("firesteel", "torch") if with_torch else ("firesteel",):
        ours = side == "firesteel"
        overhead = ("benchmarks.call_overhead", "--side", side)
        chosen += [
            Measurement(
                f"{side}: call of x + y beyond the plain one, µs",
                overhead,
                lambda written, side=side: written["function_added_us"][side],  # type: ignore[misc]
                ours,
            ),
            Measurement(
                f"{side}: call of 300 parameters beyond the graph, µs",
                overhead,
                lambda written, side=side: written["module_beyond_graph_us"][side],  # type: ignore[misc]
                ours,
            ),
        ]
        chosen += [capture(model, side) for model in MODELS]
    return chosen


def run(python: str, arguments: Sequence[str]) -> Any:
    """What a fresh process of `python` measured: its JSON file, or its last line."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "figures.json"
        command = [python, "-m", *arguments]
        if "--child" not in arguments:
            command += ["--json", str(target)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
        if target.exists():
            return json.loads(target.read_text())
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])


def measure(pythons: Sequence[str], chosen: Sequence[Measurement], rounds: int) -> dict[str, dict[str, float]]:
    """The best figure of each measurement under each interpreter."""
    best: dict[str, dict[str, float]] = {measurement.name: {} for measurement in chosen}
    for number in range(rounds):
        for arguments in dict.fromkeys(measurement.arguments for measurement in chosen):
            for python in pythons:
                written = run(python, arguments)
                for measurement in chosen:
                    if measurement.arguments == arguments:
                        row = best[measurement.name]
                        row[python] = min(row.get(python, float("inf")), measurement.figure(written))
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return best


def version_of(python: str) -> str:
    """Python and torch of an interpreter, in one word."""
    program = "import platform, torch; print(platform.python_version() + '/' + torch.__version__)"
    return subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def print_figures(best: Mapping[str, Mapping[str, float]], pythons: Sequence[str]) -> None:
    """One row for each figure: the interpreters side by side, and what the later ones take of the first's time."""
    rows = []
    for name, row in best.items():
        times = [row[python] for python in pythons]
        rows.append([name, *times, *(time / times[0] for time in times[1:])])
    versions = [version_of(python) for python in pythons]
    report.print_table(
        "best of the rounds", ["figure", *versions, *(f"{version} against the first" for version in versions[1:])], rows
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. The exit status is 1 when a later interpreter takes more than 15% longer in the mean."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pythons", nargs="+", help="interpreters; the first is the one compared with")
    parser.add_argument("--torch", action="store_true", help="torch.compile of the same version too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    chosen = measurements(options.torch)
    best = measure(options.pythons, chosen, options.rounds)
    print_figures(best, options.pythons)
    first, holds = options.pythons[0], True
    for subject, word in (("capture", "first call"), ("call", ": call")):
        bounded = [best[m.name] for m in chosen if m.bounded and word in m.name]
        for python in options.pythons[1:]:
            mean = report.geometric_mean(row[python] / row[first] for row in bounded)
            holds &= mean <= SLOWER_AT_MOST
            print(f"{subject}, {version_of(python)}: {mean:.2f} of {version_of(first)} (at most {SLOWER_AT_MOST})")
    if options.json:
        report.write_json(options.json, {"best": {name: dict(row) for name, row in best.items()}})
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
