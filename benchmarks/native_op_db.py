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
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

import firesteel as fs
from benchmarks.fake_tensors import load_op_db

ROOT = Path(__file__).parent.parent
FAILURES = ROOT / "tests" / "conformance" / "native_op_db_failures.txt"
INDUCTOR = ROOT / "benchmarks" / "data" / "inductor_lowered.txt"
DTYPES = ("float32", "float64", "bfloat16", "int64", "bool")
# Results are memory that nobody has written to.
UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
# Eager promises no repeatable values here: factors up to sign and order, or sums in the order of threads.
AMBIGUOUS = ("svd", "linalg.svd", "svd_lowrank", "pca_lowrank", "linalg.eig", "linalg.eigh", "eig", "symeig")
PAIR_LIMIT_S = 240.0
DEVICE = os.environ.get("FIRESTEEL_OP_DB_DEVICE", "cpu")


@dataclass
class Pair:
    """What came of one operator in one dtype."""

    name: str
    dtype: str
    samples: int = 0
    failures: list[str] = field(default_factory=list)
    less_accurate: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    """Operators of ATen that compiled graphs call, with the reason."""
    uncompiled: list[str] = field(default_factory=list)
    """Why graphs run operator by operator."""
    notes: list[str] = field(default_factory=list)
    """What else there is to say."""


class Recording:
    """The native backend, noting what is called in ATen and what is not compiled at all."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.uncompiled: list[str] = []
        self.graphs = 0

    def __call__(self, gm: Any, example_inputs: Sequence[Any]) -> Any:
        from firesteel.backends.native import runner, unsupported_reason
        from firesteel.functional import Unsupported
        from firesteel.kernels.ir import ExternCall
        from firesteel.kernels.options import make_options
        from firesteel.pipeline.compile import compile_graph

        self.graphs += 1
        try:
            reason = unsupported_reason(example_inputs)
            if reason is not None:
                raise Unsupported(reason)
            made = compile_graph(gm, example_inputs, make_options())
        except Unsupported as error:
            self.uncompiled.append(error.reason)
            return gm.forward
        reasons = {fallback.operator: fallback.reason for fallback in made.lowered.fallbacks}
        for step in made.plan.steps:
            if isinstance(step, ExternCall) and isinstance(step.target, torch._ops.OpOverload):
                name = str(step.target)
                self.calls.append(f"{name}: {reasons.get(name, 'by choice')}")
        return runner(made)


# ---------------------------------------------------------------------------------------------------------------------
# comparing


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """Some of the items, the first and the last among them.

    >>> spread(range(9), 3)
    [0, 4, 8]
    """
    if len(items) <= count:
        return list(items)
    return [items[round(k * (len(items) - 1) / max(count - 1, 1))] for k in range(count)]


def samples_of(op: Any, dtype: torch.dtype, count: int) -> list[tuple[int, Any]]:
    """Numbered samples of an operator, spread over all of them."""
    try:
        found = list(zip(range(200), op.sample_inputs(DEVICE, dtype, requires_grad=False), strict=False))
    except Exception:  # some sample functions need packages that are not here
        return []
    return spread(found, count)


def copied(value: Any) -> Any:
    """Copies of all tensors, with strides and shared memory kept."""
    import copy

    return copy.deepcopy(value)


def run(function: Any, args: Any, kwargs: Any) -> Any:
    """The result, or the exception."""
    torch.manual_seed(3)
    try:
        with torch.no_grad():
            return function(*args, **kwargs)
    except Exception as error:
        return error


def memory_of(tensor: torch.Tensor, args: Sequence[torch.Tensor]) -> int | None:
    """The argument whose memory a tensor looks at."""
    if tensor.layout is not torch.strided or tensor.numel() == 0 or tensor.is_meta:
        return None
    address = tensor.untyped_storage().data_ptr()
    for position, arg in enumerate(args):
        if arg.layout is torch.strided and arg.numel() and arg.untyped_storage().data_ptr() == address:
            return position
    return None


def differences(want: Any, got: Any, values: bool) -> list[str]:
    """What differs between two results."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        if type(want) is type(got):
            return []
        if isinstance(got, Exception):
            return [f"raises {_error_text(got)}"]
        return [f"raises nothing, eager {type(want).__name__}: {str(want)[:200]}"]
    flat_want, tree_want = pytree.tree_flatten(want)
    flat_got, tree_got = pytree.tree_flatten(got)
    if tree_want != tree_got:
        return [f"structure: {tree_got}, eager {tree_want}"]
    found: list[str] = []
    for left, right in zip(flat_want, flat_got, strict=True):
        if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
            if type(left) is not type(right) or (left != right and not (left != left and right != right)):
                found.append(f"value: {right!r}, eager {left!r}"[:300])
            continue
        found.extend(tensor_differences(left, right, values))
    return found


def _error_text(error: BaseException) -> str:
    """An exception in one line: what it comes from and where that was raised."""
    while error.__cause__ is not None:
        error = error.__cause__
    places = [f"{Path(at.filename).name}:{at.lineno}" for at in traceback.extract_tb(error.__traceback__)[-3:]]
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]} ({' '.join(places)})"


def tensor_differences(want: torch.Tensor, got: torch.Tensor, values: bool) -> list[str]:
    if want.dtype is not got.dtype:
        return [f"dtype: {got.dtype}, eager {want.dtype}"]
    if want.shape != got.shape or want.layout is not got.layout:
        return [f"shape: {tuple(got.shape)}, eager {tuple(want.shape)}"]
    found = []
    if want.layout is torch.strided and want.stride() != got.stride():
        kind = "strides" if want.numel() and _strides_matter(want, got) else "strides that nothing depends on"
        found.append(f"{kind}: {got.stride()}, eager {want.stride()} for {tuple(want.shape)}")
    if want.layout is torch.strided and want.storage_offset() != got.storage_offset():
        found.append(f"offset: {got.storage_offset()}, eager {want.storage_offset()}")
    if values and not want.is_meta:
        try:
            torch.testing.assert_close(_parts(got, want), _parts(want, want), equal_nan=True)
        except AssertionError as error:
            found.append(f"values: {' '.join(str(error).split())[:220]}; got {_some(got)}, eager {_some(want)}")
    return found


def _parts(tensor: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Complex numbers with an infinite part have no distance, their parts have."""
    apart = want.is_complex() and want.layout is torch.strided and not want.isfinite().all()
    return torch.view_as_real(tensor.detach().resolve_conj()) if apart else tensor


def _strides_matter(want: torch.Tensor, got: torch.Tensor) -> bool:
    sizes = zip(want.shape, want.stride(), got.stride(), strict=True)
    return any(left != right for size, left, right in sizes if size > 1)


def _some(tensor: torch.Tensor) -> str:
    return str(tensor.detach().to_dense().flatten()[:4].tolist()) if not tensor.is_sparse else "sparse"


def accuracy(function: Any, args: Any, kwargs: Any, want: Any, got: Any) -> str | None:
    """Whether the error against float64 is more than twice eager's, with two units in the last place to spare."""

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.bfloat16, torch.float16):
            return value.double()
        return torch.float64 if value in (torch.float32, torch.bfloat16, torch.float16) else value

    exact = run(function, *pytree.tree_map(widen, (args, kwargs)))
    if isinstance(exact, Exception) or isinstance(want, Exception):
        return None
    for true, eager, ours in zip(*(pytree.tree_leaves(tree) for tree in (exact, want, got)), strict=False):
        if not (isinstance(eager, torch.Tensor) and eager.is_floating_point() and eager.numel()):
            continue
        if not (isinstance(true, torch.Tensor) and true.dtype is torch.float64 and true.shape == eager.shape):
            continue
        if eager.layout is not torch.strided or eager.is_meta:
            continue
        error, ours_error = ((true - part.double()).abs().nan_to_num(0, 0, 0).max().item() for part in (eager, ours))
        size = true.abs().nan_to_num(0, 0, 0).max().item()
        if ours_error > 2 * error + 2 * torch.finfo(eager.dtype).eps * size:
            return f"error {ours_error:.3g}, eager {error:.3g}, at values up to {size:.3g}"
    return None


def run_pair(op: Any, dtype: torch.dtype, count: int) -> Pair:
    """Compare an operator's samples in one dtype."""
    from firesteel.events import Events
    from firesteel.runtime.compiler import COMPILERS

    pair = Pair(op.formatted_name, str(dtype).removeprefix("torch."))
    values = op.name not in UNDEFINED
    function = op.op

    def program(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    for number, sample in samples_of(op, dtype, count):
        given = ((sample.input, *sample.args), sample.kwargs)
        try:
            first, second, third = copied(given), copied(given), copied(given)
        except Exception:
            continue
        fs.reset()
        want = run(function, *first)
        backend = Recording()
        before = set(COMPILERS)
        compiled = fs.compile(program, backend=backend)
        (compiler,) = set(COMPILERS) - before
        compiler.events = Events()
        with fs.config.patch(raise_on_internal_error=True):
            got = run(compiled, *second)
        pair.samples += 1
        pair.breaks += [reason.reason for reason in compiler.events.break_reasons]
        pair.calls += backend.calls
        pair.uncompiled += backend.uncompiled
        found = differences(want, got, values and op.name not in AMBIGUOUS)
        tensors = [[t for t in pytree.tree_leaves(side) if isinstance(t, torch.Tensor)] for side in (first, second)]
        found += [f"argument after the call: {line}" for line in differences(tensors[0], tensors[1], True)]
        if not found and not isinstance(want, Exception):
            for left, right in zip(pytree.tree_leaves(want), pytree.tree_leaves(got), strict=True):
                if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
                    shared = memory_of(left, tensors[0]), memory_of(right, tensors[1])
                    if shared[0] != shared[1]:
                        found.append(f"memory: shared with argument {shared[1]}, eager {shared[0]}")
            if not found and values and dtype in (torch.float32, torch.bfloat16):
                note = accuracy(function, *third, want, got)
                if note:
                    pair.less_accurate.append(f"sample {number}: {note}")
        if found and isinstance(want, torch.Tensor):
            # what eager does not repeat cannot be compared
            again = run(function, *third)
            if differences(want, again, values):
                continue
        pair.failures += [f"sample {number}: {line}" for line in found]
    return pair


# ---------------------------------------------------------------------------------------------------------------------
# processes


def operators(only: str = "") -> list[Any]:
    return sorted((op for op in load_op_db() if only in op.formatted_name), key=lambda op: op.formatted_name)


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


def known_failures() -> dict[tuple[str, str], str]:
    """Pairs that are known to fail, with the reason."""
    lines = [line.split(": ", 1) for line in FAILURES.read_text().splitlines() if line]
    return {(name.split()[0], name.split()[1]): reason for name, reason in lines}


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
