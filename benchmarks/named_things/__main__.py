"""Each thing that programs do inside of compiled functions: right, and one graph? torch.compile beside.

    python -m benchmarks.named_things                                  # both sides, a table by kind
    python -m benchmarks.named_things --side firesteel --kind nested hooks --only attention

A program is *right* when results, their classes, arguments afterwards, and gradients are those of eager PyTorch, in the
first call, a second, and one with other arguments where there are some; it is *one graph* when ``fullgraph=True`` takes
it and the result is right. Firesteel runs its native backend and waits for it; torch.compile runs ``aot_eager``.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings

from benchmarks import report

from .registry import KINDS, load
from .sides import SIDES, measure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--side", choices=tuple(SIDES), nargs="+", default=list(SIDES))
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    rows: list[list[object]] = []
    totals = {side: [0, 0] for side in options.side}
    count = 0
    for kind in options.kind:
        chosen = [t for t in load((kind,)) if not options.only or any(name in t.name for name in options.only)]
        row: list[object] = [kind, len(chosen)]
        count += len(chosen)
        verdicts = {side: [measure(t, side) for t in chosen] for side in options.side}
        for position, t in enumerate(chosen):
            of_thing = {side: verdicts[side][position] for side in options.side}
            if not all(verdict.right and verdict.one_graph for verdict in of_thing.values()) or options.only:
                shown = ", ".join(f"{side} {verdict.word}" for side, verdict in of_thing.items())
                notes = [f"\n        {side}: {v.note}" for side, v in of_thing.items() if v.note]
                print(f"{kind}.{t.name}: {shown}{''.join(notes[:1])}")
        for side in options.side:
            right = sum(verdict.right for verdict in verdicts[side])
            whole = sum(verdict.one_graph for verdict in verdicts[side])
            totals[side][0] += whole
            totals[side][1] += right
            row += [whole, right]
        rows.append(row)
        sys.stdout.flush()
    rows.append(["all", count, *(n for side in options.side for n in totals[side])])
    columns = [f"{side} {what}" for side in options.side for what in ("one graph", "right")]
    report.print_table("things that programs do", ["kind", "programs", *columns], rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
