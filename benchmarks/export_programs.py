"""Small programs of all kinds, exported strictly and by running, firesteel beside torch.export.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.export_programs            # both sides
    python -m benchmarks.export_programs --ours --only cond                     # firesteel alone, some programs
    python -m benchmarks.export_programs --json programs.json

For each program of `tests/export/export_programs.py` and both modes: whether it is accepted, and whether what comes
out equals eager on the example and on further inputs (values, dtypes, structure of the results, changes of inputs and
buffers, inputs that must be refused), again after saving and loading, and after what the program has done to itself
(`run_decompositions`, passes, reading metadata). torch.export goes through the same.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch.export
from tests.export.export_programs import PROGRAMS, outcome

import firesteel as fs

SIDES = {"firesteel": fs.export, "torch": torch.export}
MODES = {"strict": True, "non-strict": False}


def in_process(work: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """Run something in a process of its own: what fails inside of a transform may leave its levels behind."""
    here, there = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=lambda: there.send(work()))
    child.start()
    there.close()
    try:
        result: tuple[str, str] = here.recv()
    except EOFError:
        result = "wrong", "the process ended"
    child.join()
    return result


def warm_up(sides: Sequence[str], modes: Sequence[str]) -> None:
    """What only the first export of a process pays."""
    for side in sides:
        for mode in modes:
            outcome(SIDES[side], PROGRAMS["CondOfModules"], MODES[mode])


def measure(names: Sequence[str], sides: Sequence[str], modes: Sequence[str]) -> dict[str, Any]:
    """What becomes of each program: by name, mode and side."""
    results: dict[str, Any] = {}
    for name in names:
        program = PROGRAMS[name]
        row = results[name] = {"kind": program.kind}
        for mode in modes:
            row[mode] = {}
            for side in sides:
                started = time.perf_counter()
                how, why = in_process(lambda: outcome(SIDES[side], program, MODES[mode]))
                row[mode][side] = {"outcome": how, "why": why, "seconds": round(time.perf_counter() - started, 3)}
            ours = row[mode]["firesteel"]
            theirs = row[mode].get("torch", {}).get("outcome", "")
            if ours["outcome"] != "accepted":
                print(f"{mode:<10} {name:<42} {ours['outcome']} (torch: {theirs or '-'})  "
                      f"{' '.join(ours['why'].split())[:220]}", flush=True)
    return results


def table(results: dict[str, Any], modes: Sequence[str], with_torch: bool) -> tuple[list[str], int]:
    """Lines to print, and how many programs break the bar."""
    lines, bad = [], 0
    head = f"{'kind':<26} {'mode':<11} {'programs':>8} {'ours':>5} {'torch':>6} {'theirs only':>12} " \
        f"{'ours only':>10} {'wrong':>6} {'wrong (torch)':>14}"
    lines.append(head)
    kinds = list(dict.fromkeys(row["kind"] for row in results.values()))
    for kind in [*kinds, "all"]:
        for mode in modes:
            rows = [row[mode] for row in results.values() if kind in (row["kind"], "all")]
            pairs = Counter((row["firesteel"]["outcome"], row.get("torch", {}).get("outcome", "-")) for row in rows)
            ours = sum(count for (mine, _), count in pairs.items() if mine == "accepted")
            theirs = sum(count for (_, other), count in pairs.items() if other == "accepted")
            missed = pairs["refused", "accepted"]
            extra = pairs["accepted", "refused"] + pairs["accepted", "wrong"]
            wrong = sum(count for (mine, _), count in pairs.items() if mine == "wrong")
            wrong_there = sum(count for (_, other), count in pairs.items() if other == "wrong")
            lines.append(f"{kind:<26} {mode:<11} {len(rows):>8} {ours:>5} {theirs if with_torch else '-':>6} "
                         f"{missed:>12} {extra:>10} {wrong:>6} {wrong_there:>14}")
            if kind == "all":
                bad += missed + wrong
    return lines, bad


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="programs whose names or kinds contain one of these")
    parser.add_argument("--ours", action="store_true", help="without torch.export")
    parser.add_argument("--mode", choices=list(MODES), default="")
    parser.add_argument("--json", default="")
    options = parser.parse_args(arguments)
    os.environ.setdefault("FIRESTEEL_DISK_CACHE", "0")
    names = [name for name, program in PROGRAMS.items()
             if any(text in name or text in program.kind for text in options.only)]
    modes = [options.mode] if options.mode else list(MODES)
    sides = ["firesteel"] if options.ours else list(SIDES)
    warm_up(sides, modes)
    results = measure(names, sides, modes)
    lines, bad = table(results, modes, not options.ours)
    print("\n".join(lines))
    print(f"{len(names)} programs: {bad} accepted by torch and refused here, or wrong")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    return min(bad, 1)


if __name__ == "__main__":
    raise SystemExit(main())
