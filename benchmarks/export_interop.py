"""Programs that go from torch.export to firesteel and back: files, ExportedPrograms, and random modules.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.export_interop                     # all programs, both ways
    python -m benchmarks.export_interop --way from_torch --only cond                    # some programs, one way
    python -m benchmarks.export_interop --random 300 --start 1000                       # random modules

The programs are those of `benchmarks.export_programs`. ``from_torch``: torch.export exports and saves, firesteel
loads. ``to_torch``: firesteel exports, `fs.export.to_torch` makes torch's ExportedProgram, which must pass torch's
verifier and run; then torch saves and loads it, and firesteel loads that file. What comes out must equal eager on the
example and on further inputs (results, changes of inputs and buffers, inputs that must be refused). What the first
exporter refuses or gets wrong itself is left out.
"""

from __future__ import annotations

import argparse
import io
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.export
from tests.export.export_programs import PROGRAMS, Program, compare, export, module_of

import firesteel as fs
from benchmarks.export_programs import MODES, in_process
from benchmarks.programs.export_modules import random_program


def through_file(save: Callable[..., None], load: Callable[..., Any], exported: Any) -> Any:
    """What is loaded after saving to memory."""
    file = io.BytesIO()
    save(exported, file)
    file.seek(0)
    return load(file)


def outcome(program: Program, strict: bool, way: str) -> tuple[str, str]:
    """``equal``, ``left out``, ``refused`` or ``wrong``, and why."""
    api: Any = torch.export if way == "from_torch" else fs.export
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            first = export(api, program, strict)
            state = [(tensor, tensor.detach().clone()) for tensor in (*first.state_dict.values(),
                                                                      *first.constants.values())]
            compare(program, program.model(), module_of(program, first), "exported")
        except Exception as error:
            return "left out", f"{type(error).__name__}: {error}"
        _restore(state)
        try:
            if way == "from_torch":
                made = {"loaded": through_file(torch.export.save, fs.export.load, first)}
            else:
                made = to_torch(first)
        except Exception as error:
            return "refused", f"{type(error).__name__}: {error}"
        try:
            for what, exported in made.items():
                _restore(state)  # which torch's program shares
                compare(program, program.model(), module_of(program, exported), what)
        except Exception as error:
            return "wrong", f"{type(error).__name__}: {error}"
    return "equal", ""


def _restore(state: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.no_grad():
        for tensor, value in state:
            tensor.copy_(value)


def to_torch(first: Any) -> dict[str, Any]:
    """torch's program, that program after saving and loading, and firesteel's of the same file."""
    file = io.BytesIO()
    theirs = fs.export.to_torch(first)
    theirs.validate()
    torch.export.save(theirs, file)
    file.seek(0)
    again = torch.export.load(file)
    file.seek(0)
    return {"to_torch": theirs, "saved by torch": again, "loaded again": fs.export.load(file)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=["from_torch", "to_torch"], action="append")
    parser.add_argument("--modes", nargs="*", default=["non-strict"], choices=list(MODES))
    parser.add_argument("--only", default="", help="a part of the programs' names or kinds")
    parser.add_argument("--random", type=int, default=0, help="how many random modules instead of the programs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    if arguments.random:
        programs = [random_program(arguments.start + seed) for seed in range(arguments.random)]
    else:
        programs = [program for program in PROGRAMS.values()
                    if arguments.only in program.name or arguments.only in program.kind]
    counts: Counter[tuple[str, str, str]] = Counter()
    for way in ("from_torch", "to_torch"):  # what only the first export of a process pays; each program is a fork
        outcome(PROGRAMS["CondOfModules"], False, way)
    for program in programs:
        for mode in arguments.modes:
            for way in arguments.way or ["from_torch", "to_torch"]:
                how, why = in_process(lambda: outcome(program, MODES[mode], way))
                counts[way, mode, how] += 1
                if how in ("refused", "wrong"):
                    print(f"{way:<10} {mode:<10} {program.name:<36} {how}: {' '.join(why.split())[:400]}", flush=True)
    for (way, mode, how), count in sorted(counts.items()):
        print(f"{way:<10} {mode:<10} {how:<10} {count}")


if __name__ == "__main__":
    main()
