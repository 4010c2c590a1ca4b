"""Every operator sample that the torch wheel carries, in every dtype that it declares, with special values put into its
tensors, eager against compiled by the native backend:

    python -m benchmarks.special_values --results build/special.jsonl        # all pairs; goes on where it stopped
    python -m benchmarks.special_values --only softmax --dtypes float16,bool
    python -m benchmarks.special_values --write-differences    # renew tests/conformance/special_values.txt

Zeros of both signs, infinities, NaN, denormals, the largest and smallest numbers of a dtype, halves, large integers. A
pair of an operator and a dtype is equal when on each sample values (NaN at the same places, zeros of the same sign
where eager itself gives one answer), dtypes, sizes, strides and the types of errors are eager's. Where eager itself is
undefined nothing is drawn: quotients of the smallest integer, conversions of floats to integers that cannot hold them,
sums whose result depends on their order.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from tests.conformance.comparing import Pair
from tests.conformance.special_values import DTYPES, KNOWN, SAMPLES, known_differences, run_pair
from tests.conformance.torch_samples import operators

from benchmarks.native_op_db import compare_all, work


def eager_ends(name: str, dtype: str) -> bool:
    """Whether a pair whose comparison ended its process does so in eager alone."""
    os.environ["FIRESTEEL_SPECIAL_EAGER"] = "1"
    try:
        (pair,) = compare_all([(name, dtype)], SAMPLES, 1, ("benchmarks.special_values",))
    finally:
        del os.environ["FIRESTEEL_SPECIAL_EAGER"]
    return bool(pair.failures)


def all_pairs(only: str, dtypes: Sequence[str]) -> list[tuple[str, str]]:
    """Names of operators with the dtypes that they declare, dtype after dtype."""
    ops = operators(only)
    return list(dict.fromkeys(
        (op.formatted_name, dtype) for dtype in dtypes for op in ops
        if getattr(torch, dtype) in op.supported_dtypes("cpu")
    ))  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--part", default="0/1", help="which part of the pairs, such as 0/4")
    parser.add_argument("--results", type=Path, help="append outcomes here; pairs that are there are not run again")
    parser.add_argument("--write-differences", action="store_true", help="renew the list of known differences")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.samples, run_pair)
        return 0
    started = time.perf_counter()
    part, parts = map(int, options.part.split("/"))
    wanted = all_pairs(options.only, options.dtypes.split(","))[part::parts]
    found: dict[tuple[str, str], Pair] = {}
    if options.results and options.results.exists():
        for line in options.results.read_text().splitlines():
            pair = Pair(**json.loads(line))
            found[pair.name, pair.dtype] = pair
    missing = [pair for pair in wanted if pair not in found]
    for pair in compare_all(missing, options.samples, options.processes, ("benchmarks.special_values",)):
        if any("crash" in line or "no end" in line for line in pair.failures) and eager_ends(pair.name, pair.dtype):
            pair = Pair(pair.name, pair.dtype, 0, [], notes=["eager itself ends the process"])
        found[pair.name, pair.dtype] = pair
        for line in pair.failures[:2]:
            print(f"DIFFERS {pair.name} {pair.dtype}: {line}", flush=True)
        if options.results:
            with options.results.open("a") as file:
                file.write(json.dumps(asdict(pair)) + "\n")
    compared = [found[key] for key in wanted if key in found and found[key].samples]
    equal = [pair for pair in compared if not pair.failures]
    for dtype, count in sorted(collections.Counter(pair.dtype for pair in compared if pair.failures).items()):
        print(f"{count} of {sum(pair.dtype == dtype for pair in compared)} pairs differ in {dtype}")
    print(f"{len(equal)} of {len(compared)} pairs are equal ({len(equal) / max(len(compared), 1):.2%}), "
          f"{sum(pair.samples for pair in compared)} samples, {time.perf_counter() - started:.0f} s")
    if options.write_differences:
        known = known_differences()
        KNOWN.write_text("".join(
            f"{pair.name} {pair.dtype}: {known.get((pair.name, pair.dtype), pair.failures[0])}\n"
            for pair in sorted(compared, key=lambda pair: (pair.name, pair.dtype)) if pair.failures))
    return 1 if any(pair.failures and (pair.name, pair.dtype) not in known_differences() for pair in compared) else 0


if __name__ == "__main__":
    sys.exit(main())
