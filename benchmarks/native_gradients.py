"""Gradients of every operator sample that the torch wheel carries, eager against compiled:

    python -m benchmarks.native_gradients                             # native, float32 and float64
    python -m benchmarks.native_gradients --backend aot_eager
    python -m benchmarks.native_gradients --only softmax --samples 20
    python -m benchmarks.native_gradients --inductor                  # whose backward torch's own backend lowers itself
    python -m benchmarks.native_gradients --write-failures            # renew tests/conformance/gradient_failures.txt

An operator passes in a dtype when for each sample the results and the gradients of all arguments, for gradients of the
results that tell elements apart, are within the tolerance of the dtype, with eager's dtypes, sizes and strides. Prints
the share of differentiable operators that pass, and the share of operators whose backward runs without a call of ATen,
found by compiling forward and backward together, beside that of torch.compile. Samples run in processes of their own.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.fx
from tests.conformance.comparing import Pair
from tests.conformance.gradients import (
    BACKENDS,
    DTYPES,
    FAILURES,
    arguments,
    differentiable,
    known_failures,
    run_pair,
    samples_of,
    tangent,
    tensors_of,
)
from torch.utils import _pytree as pytree

from benchmarks.native_op_db import ROOT, compare_all, work

INDUCTOR = ROOT / "benchmarks" / "data" / "inductor_backward_lowered.txt"


def lowered_by_inductor(op: Any, dtype: torch.dtype, count: int) -> str:
    """"lowered" when torch's backend makes the backward of all samples into kernels of its own; otherwise why not."""
    from torch._functorch.aot_autograd import aot_function, make_boxed_func
    from torch._inductor import ir as inductor_ir
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    library: list[str] = []

    def backward_compiler(gm: Any, inputs: Any) -> Any:
        graph = GraphLowering(gm)
        with V.set_graph_handler(graph), V.set_fake_mode(inputs[0].fake_mode if inputs else None):
            graph.run(*inputs)
        library.extend(
            type(made).__name__ for made in graph.operations
            if isinstance(made, inductor_ir.ExternKernel) and not isinstance(made, inductor_ir.NopKernel)
        )  # fmt: skip
        return make_boxed_func(gm.forward)

    samples = samples_of(op, dtype, count)
    for _, sample in samples:
        flat, tree = pytree.tree_flatten(arguments(sample))
        places = [k for k, part in enumerate(flat) if isinstance(part, torch.Tensor)]

        def call(*tensors: Any, flat: Any = flat, tree: Any = tree, places: Any = places) -> Any:
            parts = list(flat)
            for place, tensor in zip(places, tensors, strict=True):
                parts[place] = tensor
            args, kwargs = pytree.tree_unflatten(parts, tree)
            return op.op(*args, **kwargs)

        try:
            seen = aot_function(
                call, fw_compiler=lambda gm, inputs: make_boxed_func(gm.forward), bw_compiler=backward_compiler,
                decompositions=select_decomp_table(),
            )  # fmt: skip
            roots = [t for t in tensors_of(seen(*(flat[k] for k in places))) if t.requires_grad]
            if roots:
                torch.autograd.backward(roots, [tangent(root) for root in roots])
        except Exception as error:
            return f"{type(error).__name__}"
        if library:
            return library[0]
    return "lowered" if samples else "no samples"


def write_inductor(only: str, count: int) -> None:
    """Renew the list of operators whose backward torch's own backend lowers itself, in float32."""
    warnings.simplefilter("ignore")
    names: dict[str, list[str]] = collections.defaultdict(list)
    for op in differentiable(only):
        if torch.float32 in op.supported_dtypes("cpu"):
            torch._dynamo.reset()
            outcome = lowered_by_inductor(op, torch.float32, count)
            names[op.formatted_name].append(outcome)
            print(op.formatted_name, outcome, flush=True)
    if not only:
        INDUCTOR.write_text("".join(f"{name}\n" for name, found in names.items() if set(found) == {"lowered"}))


def pairs_of(ops: Sequence[Any], dtypes: Sequence[str]) -> list[tuple[str, str]]:
    """Operators with the dtypes in which they can be differentiated."""
    return list(dict.fromkeys(
        (op.formatted_name, dtype) for op in ops for dtype in dtypes
        if getattr(torch, dtype) in op.supported_backward_dtypes("cpu")
    ))  # fmt: skip


def write_failures(backend: str, found: Sequence[Pair]) -> None:
    """Renew the known failures of one backend."""
    kept = FAILURES.read_text().splitlines() if FAILURES.exists() else []
    kept = [line for line in kept if line and not line.startswith(f"{backend} ")]
    kept += [f"{backend} {p.name} {p.dtype}: {' '.join(p.failures[0].split())[:240]}" for p in found if p.failures]
    FAILURES.write_text("".join(f"{line}\n" for line in sorted(kept)))


def summary(pairs: Sequence[Pair], native: bool = True) -> str:
    """The lines that count; with ``native`` those about calls of ATen too."""
    tried = [pair for pair in pairs if pair.samples]
    lines = []
    for dtype in sorted({pair.dtype for pair in tried}):
        mine = [pair for pair in tried if pair.dtype == dtype]
        passed = [pair for pair in mine if not pair.failures]
        share = len(passed) / len(mine)
        lines.append(f"{dtype}: {len(passed)} of {len(mine)} differentiable operators pass ({share:.1%})")
    crashed = [pair for pair in tried if any("crash" in line for line in pair.failures)]
    worse = sum(bool(pair.less_accurate) for pair in tried)
    lines.append(f"{len(crashed)} crash, {worse} with more than twice eager's error against float64")
    single = {pair.name: pair for pair in tried if pair.dtype == "float32" and native}
    own = {name for name, pair in single.items() if not (pair.calls or pair.uncompiled)}
    if single:
        share = len(own) / len(single)
        lines.append(f"{len(own)} of {len(single)} operators ({share:.1%}) have a backward without a call of ATen")
    if INDUCTOR.exists() and single:
        theirs = [name for name in INDUCTOR.read_text().split() if name in single]
        lines.append(
            f"torch.compile: {len(theirs)} ({len(theirs) / len(single):.1%}); of these we do "
            f"{sum(name in own for name in theirs)}, not: {', '.join(sorted(set(theirs) - own)) or 'none'}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--backend", choices=BACKENDS, default="native")
    parser.add_argument("--samples", type=int, default=3, help="samples of each pair")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    parser.add_argument("--inductor", action="store_true", help="renew the list of what torch's own backend lowers")
    parser.add_argument("--write-failures", action="store_true", help="renew the list of known failures")
    parser.add_argument("--check-bounds", action="store_true", help="kernels check every access")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.check_bounds:
        os.environ["FIRESTEEL_CHECK_BOUNDS"] = "1"  # for the workers
    native = options.backend == "native"
    if options.worker:
        work(options.samples, functools.partial(run_pair, backend=options.backend, fallbacks=native))
        return 0
    if options.inductor:
        write_inductor(options.only, options.samples)
        return 0
    started = time.perf_counter()
    wanted = pairs_of(differentiable(options.only), options.dtypes.split(","))
    found: list[Pair] = []
    command = ("benchmarks.native_gradients", "--backend", options.backend)
    for pair in compare_all(wanted, options.samples, options.processes, command):
        found.append(pair)
        for line in pair.failures[:2]:
            print(f"FAIL {pair.name} {pair.dtype}: {line}", flush=True)
    found.sort(key=lambda pair: (pair.name, pair.dtype))
    for pair in found:
        for line in pair.less_accurate[:1]:
            print(f"less accurate: {pair.name} {pair.dtype}: {line}")
    for what in ("calls", "uncompiled"):
        reasons = collections.Counter(line for pair in found for line in set(getattr(pair, what)))
        for reason, times in reasons.most_common():
            print(f"{'called in ATen' if what == 'calls' else 'not compiled'} in {times} pairs: {reason}")
    if options.json:
        options.json.write_text(json.dumps([asdict(pair) for pair in found], indent=1))
    if options.write_failures:
        write_failures(options.backend, found)
    print(summary(found, native))
    print(f"{time.perf_counter() - started:.0f} s")
    known = known_failures(options.backend)
    return 1 if any(pair.failures and (pair.name, pair.dtype) not in known for pair in found) else 0


if __name__ == "__main__":
    sys.exit(main())
