"""Every module that the torch wheel carries samples for, eager against compiled: forward and backward, train and eval.

    python -m benchmarks.module_db                       # native
    python -m benchmarks.module_db --backend aot_eager
    python -m benchmarks.module_db --only LSTM --samples 20
    python -m benchmarks.module_db --write-failures      # renew tests/conformance/module_db_failures.txt

A module passes in a mode when results, gradients of inputs and parameters, and buffers afterwards are eager's for all
samples. Prints the share that passes and what failed, with reasons.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence

import torch
from tests.conformance.gradients import BACKENDS
from tests.conformance.module_db import FAILURES, MODES, Outcome, known_failures, modules, run_module


def write_failures(backend: str, outcomes: Sequence[Outcome]) -> None:
    """Renew the known failures of one backend."""
    kept = FAILURES.read_text().splitlines() if FAILURES.exists() else []
    kept = [line for line in kept if line and not line.startswith(f"{backend} ")]
    kept += [f"{backend} {o.name} {o.mode}: {' '.join(o.failures[0].split())[:240]}" for o in outcomes if o.failures]
    FAILURES.write_text("".join(f"{line}\n" for line in sorted(kept)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="modules whose name contains this")
    parser.add_argument("--backend", choices=BACKENDS, default="native")
    parser.add_argument("--samples", type=int, default=3, help="samples of each module and mode")
    parser.add_argument("--write-failures", action="store_true", help="renew the list of known failures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    outcomes: list[Outcome] = []
    for info in modules():
        for mode in MODES:
            if options.only in info.formatted_name:
                outcomes.append(run_module(info, mode, options.samples, options.backend))
                for line in outcomes[-1].failures[:2]:
                    print(f"FAIL {info.formatted_name} {mode}: {line}", flush=True)
    tried = [outcome for outcome in outcomes if outcome.samples]
    passed = [outcome for outcome in tried if not outcome.failures]
    if options.write_failures:
        write_failures(options.backend, outcomes)
    print(f"{len(passed)} of {len(tried)} pairs of a module and a mode pass ({len(passed) / max(len(tried), 1):.1%}), "
          f"{len(outcomes) - len(tried)} without samples, {time.perf_counter() - started:.0f} s")  # fmt: skip
    known = known_failures(options.backend)
    return 1 if any(outcome.failures and (outcome.name, outcome.mode) not in known for outcome in tried) else 0


if __name__ == "__main__":
    sys.exit(main())
