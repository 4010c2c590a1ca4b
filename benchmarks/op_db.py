"""Every operator sample that the torch wheel carries, plain against compiled with the backend "eager":

    python -m benchmarks.op_db                        # all operators, first samples
    python -m benchmarks.op_db --only fft --samples 5
    python -m benchmarks.op_db --dtype complex64
    python -m benchmarks.op_db --write-breaks         # renew tests/conformance/op_db_breaks.txt

Each sample runs as a function, and where the operator has them as a method, in place and as a Python operator. Prints
the mismatches (exits with 1 if there are any) and the operators that break the graph, with reasons.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time

import torch
from tests.conformance.op_db import BREAKS, run_operator
from tests.conformance.torch_samples import load_op_db


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--samples", type=int, default=1, help="samples per operator")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--write-breaks", action="store_true", help="write the list of operators that break the graph")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dtype = getattr(torch, options.dtype)
    started = time.perf_counter()
    count, failed = 0, 0
    breaks: dict[str, list[str]] = collections.defaultdict(list)
    first_reason: dict[str, str] = {}
    for op in load_op_db():
        if options.only not in op.formatted_name or dtype not in op.supported_dtypes("cpu"):
            continue
        for verdict in run_operator(op, dtype, options.samples):
            count += 1
            if verdict.differences:
                failed += 1
                print(f"MISMATCH {verdict.name}: {'; '.join(verdict.differences)[:600]}", flush=True)
            for reason in verdict.breaks:
                breaks[reason].append(verdict.name)
            if verdict.breaks:
                first_reason.setdefault(op.formatted_name, verdict.breaks[0])
    for reason, names in sorted(breaks.items(), key=lambda item: -len(item[1])):
        print(f"break in {len(names)}: {reason}: {', '.join(names[:4])}{' ...' if len(names) > 4 else ''}")
    if options.write_breaks:
        BREAKS.write_text("".join(f"{name}: {reason}\n" for name, reason in sorted(first_reason.items())))
    broken = len({name for names in breaks.values() for name in names})
    print(
        f"{count} cases, {failed} mismatches, {broken} with a break ({broken / max(count, 1):.1%}), "
        f"{time.perf_counter() - started:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
