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
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

import firesteel as fs
from benchmarks.fake_tensors import load_op_db
from benchmarks.native_gradients import BACKENDS, tangent, tensors_of
from benchmarks.native_op_db import ROOT, copied, differences, spread

FAILURES = ROOT / "tests" / "conformance" / "module_db_failures.txt"
MODES = ("train", "eval")


@dataclass
class Outcome:
    """What came of one module in one mode."""

    name: str
    mode: str
    samples: int = 0
    failures: list[str] = field(default_factory=list)


def modules() -> list[Any]:
    """The descriptions of modules that the torch wheel carries."""
    load_op_db()  # makes the test packages importable
    from torch.testing._internal.common_modules import module_db

    return list(module_db)


def samples_of(info: Any, mode: str, count: int) -> list[Any]:
    """Some ways to make and call a module."""
    torch.manual_seed(0)
    try:
        made = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=True, training=mode == "train"
        )
    except Exception:  # some need packages that are not here
        return []
    return spread([sample for sample in made if sample.forward_input is not None], count)


def observe(module: torch.nn.Module, function: Any, args: Any, kwargs: Any) -> Any:
    """Results, gradients of all inputs and parameters, and buffers; or the exception."""
    torch.manual_seed(3)
    try:
        result = function(*args, **kwargs)
        roots = [t for t in tensors_of(result) if t.requires_grad]
        if roots:
            torch.autograd.backward(roots, [tangent(root) for root in roots])
        leaves = [t for t in tensors_of((args, kwargs)) if t.requires_grad and t.is_leaf]
        gradients = [t.grad for t in (*leaves, *module.parameters())]
        return [t.detach() for t in tensors_of(result)], gradients, [b.clone() for b in module.buffers()]
    except Exception as error:
        return error


def run_module(info: Any, mode: str, count: int, backend: str = "native") -> Outcome:
    """Compare a module's samples."""
    outcome = Outcome(info.formatted_name, mode)
    for number, sample in enumerate(samples_of(info, mode, count)):
        make, given = sample.constructor_input, sample.forward_input
        seen = []
        for compiled in (False, True):
            torch.manual_seed(1)
            try:
                module = info.module_cls(*make.args, **make.kwargs).to(torch.float32).train(mode == "train")
            except Exception:
                break
            args, kwargs = copied(pytree.tree_map(_leaf, (given.args, given.kwargs)))
            fs.reset()
            function = fs.compile(module, backend=backend) if compiled else module
            with fs.config.patch(raise_on_internal_error=True):
                seen.append(observe(module, function, args, kwargs))
        if len(seen) == 2:
            outcome.samples += 1
            outcome.failures += [f"sample {number}: {line}" for line in differences(seen[0], seen[1], True)]
    return outcome


def _leaf(value: Any) -> Any:
    """Arguments that are results of operators become tensors of their own, so that they can be copied."""
    if isinstance(value, torch.Tensor) and not value.is_leaf:
        return value.detach().requires_grad_(value.requires_grad)
    return value


def known_failures(backend: str) -> dict[tuple[str, str], str]:
    """Modules that are known to fail under a backend, with the reason."""
    if not FAILURES.exists():
        return {}
    lines = [line.split(": ", 1) for line in FAILURES.read_text().splitlines() if line]
    return {(n.split()[1], n.split()[2]): reason for n, reason in lines if n.split()[0] == backend}


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
