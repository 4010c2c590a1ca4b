"""Export of 30 models with a dynamic batch (and sequence): equal to eager on other sizes, and how long it takes.

    python -m benchmarks.export_models                     # all models, firesteel
    python -m benchmarks.export_models --torch             # torch.export beside it
    python -m benchmarks.export_models --only gpt2 --strict 0
    python -m benchmarks.export_models --saved             # save all programs, load and run them in a fresh process

Each model is exported with example inputs of one size, and the program is run on three other sizes of batch and, where
the inputs are tokens, sequence. Times are CPU seconds of this thread for the call of export alone, after a warm-up with
a small model; both sides get the same declaration.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.export
from tests.models.exporting import SIZES, all_names, build, check, export_with


def measure(name: str, side: str, strict: bool, repeat: int) -> dict[str, Any]:
    """Export, check, time."""
    try:
        seconds, program = export_with(side, name, strict)
        for _ in range(repeat - 1):
            seconds = min(seconds, export_with(side, name, strict)[0])
    except Exception as error:
        return {"error": f"export: {type(error).__name__}: {error}"}
    try:
        check(name, program)
    except Exception as error:
        return {"seconds": seconds, "error": f"run: {type(error).__name__}: {error}"}
    return {"seconds": seconds, "error": None}


# ---------------------------------------------------------------------------------------------------------------------
# saved programs


def save_all(folder: Path, names: Sequence[str], strict: bool) -> None:
    """Export models and save the programs."""
    import firesteel as fs

    for name in names:
        fs.export.save(export_with("firesteel", name, strict)[1], folder / name.replace("/", "."))


def load_all(folder: Path, names: Sequence[str]) -> int:
    """Load programs that another process saved and hold them against eager; how many do not equal it."""
    import firesteel as fs

    wrong = 0
    for name in names:
        path = folder / name.replace("/", ".")
        build(name)  # imports the library, which registers its operators and the classes of its results
        started = time.thread_time()
        try:
            program = fs.export.load(path)
            seconds = time.thread_time() - started
            check(name, program)
            print(f"{name:<28} {path.stat().st_size / 1e6:6.1f} MB loaded in {seconds:6.3f} s  ok", flush=True)
        except Exception as error:
            wrong += 1
            print(f"{name:<28} {type(error).__name__}: {error}", flush=True)
    print(f"{len(names) - wrong} of {len(names)} saved programs equal eager in another process")
    return wrong


def saved_in_fresh_process(names: Sequence[str], options: argparse.Namespace) -> int:
    """Save here, load there."""
    with tempfile.TemporaryDirectory() as folder:
        save_all(Path(folder), names, bool(options.strict))
        command = [sys.executable, "-m", "benchmarks.export_models", "--only", options.only, "--load", folder]
        return subprocess.run(command, cwd=Path(__file__).resolve().parent.parent, check=False).returncode


def warm_up(side: str, strict: bool) -> None:
    """What only the first export of a process pays."""
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    if side == "firesteel":
        import firesteel as fs

        fs.export.export(layer, (torch.ones(2, 4),), strict=strict)
    else:

        torch.export.export(layer, (torch.ones(2, 4),), strict=strict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--torch", action="store_true", help="torch.export as well")
    parser.add_argument("--strict", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", default="")
    parser.add_argument("--saved", action="store_true", help="save, load and run in a fresh process")
    parser.add_argument("--load", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    os.environ.setdefault("FIRESTEEL_DISK_CACHE", "0")
    warnings.simplefilter("ignore")
    names = [name for name in all_names() if options.only in name]
    if options.load:
        return min(load_all(Path(options.load), names), 1)
    if options.saved:
        return saved_in_fresh_process(names, options)
    sides = ["firesteel", "torch"] if options.torch else ["firesteel"]
    for side in sides:
        warm_up(side, bool(options.strict))
    results: dict[str, Any] = {}
    ratios: list[float] = []
    for name in names:
        row = results[name] = {side: measure(name, side, bool(options.strict), options.repeat) for side in sides}
        texts = []
        for side in sides:
            seconds = row[side].get("seconds")
            texts.append(f"{side} {'-' if seconds is None else f'{seconds:7.3f} s'} "
                         f"{(row[side]['error'] or 'ok').splitlines()[0][:90]}")
        if all(row[side].get("seconds") for side in sides) and len(sides) == 2 and row["firesteel"]["error"] is None:
            ratios.append(row["torch"]["seconds"] / row["firesteel"]["seconds"])
            texts.append(f"{ratios[-1]:5.1f}x")
        print(f"{name:<28} " + "  ".join(texts), flush=True)
    good = sum(row["firesteel"]["error"] is None for row in results.values())
    print(f"{good} of {len(results)} models export and equal eager on {len(SIZES)} other sizes")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"torch.export takes {mean:.1f} times as long (geometric mean of {len(ratios)})")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    return 0 if good == len(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
