"""Plain Python in one graph: the programs of tests/python_programs, firesteel beside torch.compile.

    python -m benchmarks.python_programs                        # a table by subject, and every failure with its reason
    python -m benchmarks.python_programs --side firesteel --only generators exceptions

Each program runs plain, and compiled with `fullgraph=True` and `backend="eager"` three times; where that is refused,
it is compiled without `fullgraph`. Right means: results, types, identities, changed arguments, printed text and
exceptions are those of the plain run in every call.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tests.capture.differential import assert_same_facts, observe
from tests.python_programs import Program, arguments, programs, subjects

import firesteel as fs
from benchmarks import report
from firesteel.errors import FiresteelError

SIDES = ("firesteel", "torch")
CALLS = 3


@dataclass(frozen=True)
class Outcome:
    """How one program went: captured whole or not (and why not), and right or not (and what was other)."""

    refusal: str = ""
    wrong: str = ""


class Refused(Exception):
    """torch.compile did not capture a program."""


def _brief(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    why = [line.removeprefix("Why: ") for line in lines if line.startswith("Why: ")]
    source = [line for line in lines if not line.startswith(("Why:", "What to do:", "File", "fullgraph"))]
    if why:
        return f"{why[0]}  |  {source[-1] if source else ''}"[:230]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:230]


def _torch_raises_refused(compiled: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        try:
            return compiled(*args)
        except BaseException as error:
            if type(error).__module__.startswith("torch._dynamo"):
                raise Refused(str(error)) from None
            raise

    return call


def _compiled(program: Program, side: str, fullgraph: bool) -> Callable[..., Any]:
    if side == "firesteel":
        return fs.compile(program, backend="eager", fullgraph=fullgraph)
    torch._dynamo.reset()
    return _torch_raises_refused(torch.compile(program, backend="eager", fullgraph=fullgraph))


def _differs(program: Program, side: str, fullgraph: bool) -> str:
    """What a compiled call does otherwise than a plain one, "" for nothing; raises if the program is refused."""
    plain = observe(program, arguments(program), None)
    compiled = _compiled(program, side, fullgraph)
    for _ in range(CALLS):
        facts = observe(compiled, arguments(program), None)
        if any(str(fact).startswith("Refused: ") for path, (_, fact) in _plain_facts(facts) if path == "error"):
            raise Refused(next(str(fact) for path, (_, fact) in _plain_facts(facts) if path == "error"))
        try:
            assert_same_facts(plain, facts)
        except AssertionError as difference:
            return " ".join(str(difference).split())[:300]
    return ""


def _plain_facts(facts: Any) -> list[tuple[str, tuple[str, Any]]]:
    return [(path, fact) for path, fact in facts if isinstance(fact, tuple) and len(fact) == 2]


def run(program: Program, side: str) -> Outcome:
    """Run one program on one side."""
    try:
        return Outcome(wrong=_differs(program, side, fullgraph=True))
    except (FiresteelError, Refused) as error:
        refusal = _brief(error)
    try:
        return Outcome(refusal, _differs(program, side, fullgraph=False))
    except (FiresteelError, Refused) as error:
        return Outcome(refusal, f"refused without fullgraph: {_brief(error)}")


def main(arguments_given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--side", choices=SIDES, nargs="+", default=list(SIDES))
    parser.add_argument("--only", nargs="+", default=subjects(), metavar="SUBJECT")
    options = parser.parse_args(arguments_given)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    rows: list[list[object]] = []
    totals = {side: [0, 0] for side in options.side}
    count = 0
    for subject in options.only:
        chosen = programs(subject)
        count += len(chosen)
        row: list[object] = [subject, len(chosen)]
        for side in options.side:
            outcomes = {name: run(program, side) for name, program in chosen.items()}
            whole = sum(not o.refusal for o in outcomes.values())
            right = sum(not o.wrong for o in outcomes.values())
            totals[side][0] += whole
            totals[side][1] += right
            row += [whole, right]
            for name, o in outcomes.items():
                if side == "firesteel" and o.refusal:
                    print(f"refused  {subject}.{name}: {o.refusal}")
                if o.wrong:
                    print(f"WRONG    {side}: {subject}.{name}: {o.wrong}")
            sys.stdout.flush()
        rows.append(row)
    rows.append(["all", count, *(n for side in options.side for n in totals[side])])
    columns = [f"{side} {what}" for side in options.side for what in ("whole", "right")]
    report.print_table("plain Python with fullgraph=True", ["subject", "programs", *columns], rows)
    return int(any(totals[side][1] < count for side in options.side if side == "firesteel"))


if __name__ == "__main__":
    raise SystemExit(main())
