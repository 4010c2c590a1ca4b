"""Tensor subclasses, function modes and wrappers: how many programs are right and one graph, torch.compile beside.

    python -m benchmarks.subclass_programs                  # both sides
    python -m benchmarks.subclass_programs --side firesteel --only wrapper

The programs are those of `tests/capture/subclass_programs.py`. A program is *right* when results, their classes and
attributes, arguments afterwards, gradients and what classes have written down are those of eager PyTorch, in the first
call and in the second; it is *one graph* when ``fullgraph=True`` takes it and the backend gets one graph. For results,
firesteel runs its native backend and torch.compile runs ``eager``: its other backends refuse tensors of a class here.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from tests.capture.subclass_programs import PROGRAMS, Program, agree, run

from benchmarks import report

SIDES = ("firesteel", "torch")


@dataclass
class Verdict:
    """What came of one program on one side."""

    right: bool
    one_graph: bool
    note: str = ""


def measure(chosen: Program, side: str) -> Verdict:
    """Run a program plainly and compiled."""
    expected = run(chosen, chosen.function)
    reset, compile_one = _SIDES[side]
    reset()
    note = ""
    try:
        compiled = compile_one(chosen.function, False, None)
        right = agree(expected, run(chosen, compiled)) and agree(expected, run(chosen, compiled))
    except Exception as error:
        right, note = False, _reason(error)
    reset()
    graphs: list[int] = []
    try:
        run(chosen, compile_one(chosen.function, True, graphs))
        one_graph = len(graphs) <= 1
    except Exception as error:
        one_graph, note = False, note or _reason(error)
    return Verdict(right, one_graph, " ".join(note.split())[:150])


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or f"{type(error).__name__}: {error}")


def _with_firesteel(function: Callable[..., Any], fullgraph: bool, graphs: list[int] | None) -> Callable[..., Any]:
    import firesteel as fs

    if graphs is None:
        return fs.compile(function, fullgraph=fullgraph)

    def count(module: torch.fx.GraphModule, examples: Any) -> Callable[..., Any]:
        graphs.append(1)
        return module.forward

    return fs.compile(function, fullgraph=fullgraph, backend=count)


def _with_torch(function: Callable[..., Any], fullgraph: bool, graphs: list[int] | None) -> Callable[..., Any]:
    if graphs is None:
        return torch.compile(function, fullgraph=fullgraph, backend="eager")

    def count(module: torch.fx.GraphModule, examples: Any) -> Callable[..., Any]:
        graphs.append(1)
        return module.forward

    return torch.compile(function, fullgraph=fullgraph, backend=count)


def _reset_firesteel() -> None:
    import firesteel as fs

    fs.reset()


def _reset_torch() -> None:
    torch.compiler.reset()


_SIDES = {"firesteel": (_reset_firesteel, _with_firesteel), "torch": (_reset_torch, _with_torch)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", choices=SIDES, action="append")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sides = options.side or SIDES
    chosen = [one for one in PROGRAMS.values() if options.only in one.name]
    verdicts = {side: [measure(one, side) for one in chosen] for side in sides}
    rows: list[list[object]] = []
    for position, one in enumerate(chosen):
        row: list[object] = [one.name]
        for side in sides:
            verdict = verdicts[side][position]
            row += ["right" if verdict.right else "WRONG", "one" if verdict.one_graph else "breaks"]
        rows.append([*row, verdicts[sides[0]][position].note])
    headers = ["program", *[f"{side} {what}" for side in sides for what in ("result", "graph")], "note"]
    report.print_table("tensor subclasses", headers, rows)
    for side in sides:
        right, whole = (sum(getattr(verdict, name) for verdict in verdicts[side]) for name in ("right", "one_graph"))
        print(f"{side}: {right} of {len(chosen)} right, {whole} one graph")


if __name__ == "__main__":
    main()
