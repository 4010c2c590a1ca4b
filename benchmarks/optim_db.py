"""Every optimizer that the torch wheel carries samples for: three compiled steps give eager's parameters.

    python -m benchmarks.optim_db                        # native
    python -m benchmarks.optim_db --backend aot_eager --only Adam
    python -m benchmarks.optim_db --write-failures       # renew tests/conformance/optim_db_failures.txt

Each configuration runs plainly, with ``foreach`` and, where there is such a thing, with ``fused``. Parameters and the
state of the optimizer are compared after every step. Prints breaks and recompilations beside what failed.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import torch
from tests.conformance.gradients import BACKENDS
from tests.conformance.optim_db import FAILURES, Outcome, configurations, known_failures, optimizers, run_configuration


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="optimizers whose name contains this")
    parser.add_argument("--backend", choices=BACKENDS, default="native")
    parser.add_argument("--samples", type=int, default=100, help="configurations of each optimizer")
    parser.add_argument("--write-failures", action="store_true", help="renew the list of known failures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    outcomes: list[Outcome] = []
    for info in optimizers():
        if options.only not in info.name:
            continue
        for name, settings in configurations(info, options.samples):
            outcomes.append(run_configuration(info, name, settings, options.backend))
            for line in outcomes[-1].failures[:1]:
                print(f"FAIL {name}: {line}", flush=True)
            for reason in dict.fromkeys(outcomes[-1].breaks):
                print(f"break in {name}: {reason}", flush=True)
    passed = [outcome for outcome in outcomes if not outcome.failures]
    if options.write_failures:
        kept = FAILURES.read_text().splitlines() if FAILURES.exists() else []
        kept = [line for line in kept if line and not line.startswith(f"{options.backend} ")]
        kept += [f"{options.backend} {o.name}: {' '.join(o.failures[0].split())[:240]}" for o in outcomes if o.failures]
        FAILURES.write_text("".join(f"{line}\n" for line in sorted(kept)))
    print(f"{len(passed)} of {len(outcomes)} configurations pass, {sum(bool(o.breaks) for o in outcomes)} break, "
          f"{time.perf_counter() - started:.0f} s")  # fmt: skip
    known = known_failures(options.backend)
    return 1 if any(outcome.failures and outcome.name not in known for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
