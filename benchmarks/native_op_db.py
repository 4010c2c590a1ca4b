"""Every operator sample that the torch wheel carries, eager against compiled by the native backend, without gradients:

    python -m benchmarks.native_op_db                          # all operators, five dtypes
    python -m benchmarks.native_op_db --only softmax --samples 20
    python -m benchmarks.native_op_db --dtypes float32,bool
    python -m benchmarks.native_op_db --inductor               # which operators torch's own backend lowers itself
    python -m benchmarks.native_op_db --check-bounds           # with kernels that check every access
    python -m benchmarks.native_op_db --write-failures         # renew tests/conformance/native_op_db_failures.txt
    FIRESTEEL_OP_DB_DEVICE=cuda python -m benchmarks.native_op_db   # on a GPU

A pair of an operator and a dtype passes when on each sample the values are within the tolerance of the dtype (bit for
bit for integers), and dtype, sizes, strides and the memory shared with arguments are eager's. Prints the share of pairs
that pass, the share of operators that run without a call of ATen, and what failed, with reasons. Samples run in
processes of their own, so that a crash costs one pair.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import queue
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tests.conformance.comparing import Pair
from tests.conformance.native_op_db import DTYPES, FAILURES, known_failures, run_pair
from tests.conformance.torch_samples import DEVICE, load_op_db, operators, samples_of
from torch.utils import _pytree as pytree

ROOT = Path(__file__).parent.parent
INDUCTOR = ROOT / "benchmarks" / "data" / "inductor_lowered.txt"
PAIR_LIMIT_S = 240.0


# ---------------------------------------------------------------------------------------------------------------------
# processes


def pairs_of(ops: Sequence[Any], dtypes: Sequence[str]) -> list[tuple[str, str]]:
    """The names of pairs; one name may stand for several entries of op_db."""
    return list(dict.fromkeys(
        (op.formatted_name, dtype) for op in ops for dtype in dtypes
        if getattr(torch, dtype) in op.supported_dtypes(DEVICE)
    ))  # fmt: skip


def work(count: int, compare: Callable[[Any, torch.dtype, int], Pair] = run_pair) -> None:
    """A worker: pairs come in, one a line; results go out."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    by_name: dict[str, list[Any]] = collections.defaultdict(list)
    for op in load_op_db():
        by_name[op.formatted_name].append(op)
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # operators may print
    for line in sys.stdin:
        name, dtype = line.split()
        merged = Pair(name, dtype)
        for op in by_name[name]:
            if getattr(torch, dtype) not in op.supported_dtypes(DEVICE):
                continue
            try:
                part = compare(op, getattr(torch, dtype), count)
            except Exception as error:
                part = Pair(name, dtype, 1, [f"the comparison raises {type(error).__name__}: {str(error)[:300]}"])
            merged.samples += part.samples
            for what in ("failures", "less_accurate", "breaks", "calls", "uncompiled", "notes"):
                getattr(merged, what).extend(getattr(part, what))
        print(json.dumps(asdict(merged)), file=results, flush=True)


class Worker:
    """A process that compares pairs, started again when it dies."""

    def __init__(self, count: int, command: Sequence[str] = ("benchmarks.native_op_db",)) -> None:
        self.count = count
        self.command = command
        """The module that answers to ``--worker``, and more arguments for it."""
        self.process: subprocess.Popen[str] | None = None
        self.done = 0

    def compare(self, name: str, dtype: str) -> Pair:
        if self.process is None or self.done > 150:  # what samples leave behind adds up
            self.stop()
            environment = {**os.environ, "FIRESTEEL_DISK_CACHE": "0"}
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self.command, "--worker", "--samples", str(self.count)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
                env=environment,
            )  # fmt: skip
            self.done = 0
        assert self.process.stdin is not None and self.process.stdout is not None
        self.done += 1
        timer = threading.Timer(PAIR_LIMIT_S, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(f"{name} {dtype}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        timer.cancel()
        if not answer:
            status = self.process.wait()
            self.process = None
            kind = f"no end after {PAIR_LIMIT_S:.0f} s" if status == -9 else f"crash: the process ends with {status}"
            return Pair(name, dtype, 1, [kind])
        return Pair(**json.loads(answer))

    def stop(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()
            self.process = None


def compare_all(
    pairs: Sequence[tuple[str, str]],
    count: int,
    processes: int,
    command: Sequence[str] = ("benchmarks.native_op_db",),
) -> Iterator[Pair]:
    """Compare pairs in several processes; in the order in which they are done."""
    waiting: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    finished: queue.SimpleQueue[Pair] = queue.SimpleQueue()
    for pair in pairs:
        waiting.put(pair)

    def drive() -> None:
        worker = Worker(count, command)
        while True:
            try:
                name, dtype = waiting.get_nowait()
            except queue.Empty:
                break
            finished.put(worker.compare(name, dtype))
        worker.stop()

    for _ in range(processes):
        threading.Thread(target=drive, daemon=True).start()
    for _ in pairs:
        yield finished.get()


# ---------------------------------------------------------------------------------------------------------------------
# what torch's own backend lowers


def lowered_by_inductor(op: Any, dtype: torch.dtype, count: int) -> str:
    """"lowered" when torch's backend makes all of an operator's samples into kernels of its own; otherwise why not."""
    from torch._functorch.aot_autograd import aot_function
    from torch._inductor import ir as inductor_ir
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    library: list[str] = []

    def compiler(gm: Any, inputs: Any) -> Any:
        graph = GraphLowering(gm)
        with V.set_graph_handler(graph), V.set_fake_mode(inputs[0].fake_mode if inputs else None):
            graph.run(*inputs)
        library.extend(
            type(made).__name__ for made in graph.operations
            if isinstance(made, inductor_ir.ExternKernel) and not isinstance(made, inductor_ir.NopKernel)
        )  # fmt: skip
        raise _Seen

    samples = samples_of(op, dtype, count)
    for _, sample in samples:
        flat, tree = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        places = [k for k, part in enumerate(flat) if isinstance(part, torch.Tensor)]

        def call(*tensors: Any, flat: Any = flat, tree: Any = tree, places: Any = places) -> Any:
            parts = list(flat)
            for place, tensor in zip(places, tensors, strict=True):
                parts[place] = tensor
            args, kwargs = pytree.tree_unflatten(parts, tree)
            return op.op(*args, **kwargs)

        try:
            with torch.no_grad():
                seen = aot_function(call, fw_compiler=compiler, decompositions=select_decomp_table())
                seen(*(flat[k] for k in places))
        except _Seen:
            pass
        except Exception as error:
            return f"{type(error).__name__}"
        if library:
            return library[0]
    return "lowered" if samples else "no samples"


class _Seen(Exception):
    """The graph was looked at; nothing has to run."""


def write_inductor(only: str, count: int) -> None:
    """Renew the list of operators that torch's own backend lowers itself, in float32."""
    warnings.simplefilter("ignore")
    names: dict[str, list[str]] = collections.defaultdict(list)
    for op in operators(only):
        if torch.float32 in op.supported_dtypes("cpu"):
            torch._dynamo.reset()
            outcome = lowered_by_inductor(op, torch.float32, count)
            names[op.formatted_name].append(outcome)
            print(op.formatted_name, outcome, flush=True)
    if not only:
        INDUCTOR.write_text("".join(f"{name}\n" for name, found in names.items() if set(found) == {"lowered"}))


# ---------------------------------------------------------------------------------------------------------------------
# results


def summary(pairs: Sequence[Pair]) -> str:
    """The lines that count."""
    tried = [pair for pair in pairs if pair.samples]
    passed = [pair for pair in tried if not pair.failures]
    crashed = [pair for pair in tried if any("crash" in line for line in pair.failures)]
    lines = [
        f"{len(passed)} of {len(tried)} pairs pass ({len(passed) / max(len(tried), 1):.1%}), {len(crashed)} crash, "
        f"{len(pairs) - len(tried)} without samples",
        f"{sum(bool(pair.less_accurate) for pair in tried)} pairs with more than twice eager's error against float64",
        f"{sum(bool(pair.breaks) for pair in tried)} pairs break the graph, "
        f"{sum(bool(pair.uncompiled) for pair in tried)} run operator by operator",
    ]
    single = {pair.name: pair for pair in tried if pair.dtype == "float32"}
    own = {
        name for name, pair in single.items() if not (pair.calls or pair.uncompiled or pair.breaks or pair.failures)
    }  # fmt: skip
    lines.append(f"{len(own)} of {len(single)} operators run in float32 without a call of ATen")
    if INDUCTOR.exists():
        theirs = [name for name in INDUCTOR.read_text().split() if name in single]
        ours = [name for name in theirs if name in own]
        lines.append(
            f"{len(ours)} of the {len(theirs)} operators that torch's own backend lowers itself "
            f"({len(ours) / max(len(theirs), 1):.1%}); not: {', '.join(sorted(set(theirs) - own))}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators whose name contains this")
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
    if options.worker:
        work(options.samples)
        return 0
    if options.inductor:
        write_inductor(options.only, options.samples)
        return 0
    started = time.perf_counter()
    wanted = pairs_of(operators(options.only), options.dtypes.split(","))
    found: list[Pair] = []
    for pair in compare_all(wanted, options.samples, options.processes):
        found.append(pair)
        for line in pair.failures[:3]:
            print(f"FAIL {pair.name} {pair.dtype}: {line}", flush=True)
    found.sort(key=lambda pair: (pair.name, pair.dtype))
    for pair in found:
        for line in pair.less_accurate[:1]:
            print(f"less accurate: {pair.name} {pair.dtype}: {line}")
    reasons = collections.Counter(call for pair in found for call in set(pair.calls))
    for call, times in reasons.most_common():
        print(f"called in ATen in {times} pairs: {call}")
    for reason, times in collections.Counter(why for pair in found for why in set(pair.uncompiled)).most_common():
        print(f"not compiled in {times} pairs: {reason}")
    if options.json:
        options.json.write_text(json.dumps([asdict(pair) for pair in found], indent=1))
    if options.write_failures:
        FAILURES.write_text("".join(f"{p.name} {p.dtype}: {p.failures[0]}\n" for p in found if p.failures))
    print(summary(found))
    print(f"{time.perf_counter() - started:.0f} s")
    return 1 if any(pair.failures and (pair.name, pair.dtype) not in known_failures() for pair in found) else 0


if __name__ == "__main__":
    sys.exit(main())
