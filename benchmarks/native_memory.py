"""Peak memory of one call of a model in steady state: eager, torch.compile and firesteel's native backend.

    python -m benchmarks.native_memory                     # all models
    python -m benchmarks.native_memory --only resnet,bert
    python -m benchmarks.native_memory --no-torch          # without torch.compile, whose first calls take minutes

Every figure comes from a process of its own, with one thread.
- `tensors` is the most memory that tensors made during the call take at once, as torch's profiler counts it. Plain
  memory between two kernels of ours is no tensor: for firesteel the figure is that of its plan, if that is larger.
- `resident` is how far the process grows during a call, as the kernel counts it: free memory is given back before the
  call (`malloc_trim`), the high-water mark is reset (`/proc/self/clear_refs`) and read after it. That has everything
  in it: what libraries allocate for themselves, and holes between allocations, which differ from run to run.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import report
from benchmarks.native_models import SUITE, build

MOST_RATIO = 1.02
VARIANTS = ("eager", "torch", "firesteel")
MIB = 1 << 20


def resident_peak(call: Callable[[], Any], rounds: int = 7) -> int:
    """Bytes by which the process grows during a call, in the smallest of some calls."""
    trim = ctypes.CDLL(None).malloc_trim
    found = []
    for _ in range(rounds):
        gc.collect()
        trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        call()
        found.append(_status("VmHWM") - before)
    return max(min(found), 0)


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def tensor_peak(call: Callable[[], Any]) -> int:
    """The most bytes that tensors made during a call take at once."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    changes = [(event.start_ns(), event.nbytes()) for event in profile.profiler.kineto_results.events()
               if event.name() == "[memory]"]  # fmt: skip
    peak = total = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        total += change
        peak = max(peak, total)
    return peak


def planned_peaks() -> list[int]:
    """A list that gets, for each graph compiled from now on, the most memory that its plan takes at once."""
    from firesteel.kernels.scheduling.memory import peak_bytes
    from firesteel.pipeline import compile as stages

    found: list[int] = []
    compile_graph = stages.compile_graph

    def noting(*args: Any, **kwargs: Any) -> Any:
        executable = compile_graph(*args, **kwargs)
        found.append(peak_bytes(executable.plan.steps, executable.plan.buffers, {}))
        return executable

    stages.compile_graph = noting
    return found


def measure(name: str, variant: str) -> dict[str, int]:
    """Both figures of one model in this process."""
    import firesteel as fs

    torch.set_num_threads(1)
    module, args, kwargs = build(name)
    function: Any = module
    planned = planned_peaks()
    if variant == "torch":
        function = torch.compile(module, dynamic=False)
    elif variant == "firesteel":
        function = fs.compile(module, backend="native", dynamic=False)
    with torch.no_grad():
        for _ in range(3):
            function(*args, **kwargs)
        resident = resident_peak(lambda: function(*args, **kwargs))
        tensors = tensor_peak(lambda: function(*args, **kwargs))
        return {"resident": resident, "tensors": max(tensors, *planned, 0)}


def in_fresh_process(name: str, variant: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.native_memory", "--child", name, variant]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["?"])[-1][:300]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_results(rows: dict[str, dict[str, dict[str, Any]]], variants: tuple[str, ...]) -> bool:
    """The table; whether the bar holds."""
    table, above = [], []
    for name, row in rows.items():
        for variant, found in row.items():
            if "failed" in found:
                print(f"{name}, {variant}: {found['failed']}")
        ours, theirs = row["firesteel"], row.get("torch", {})
        ratios = [ours[k] / theirs[k] if k in ours and theirs.get(k) else None for k in ("tensors", "resident")]
        if ratios[0] is None or ratios[0] > MOST_RATIO:
            above.append(name)
        sizes = [row[v][k] / MIB if k in row.get(v, ()) else None for k in ("tensors", "resident") for v in VARIANTS]
        table.append((name, *sizes[:3], ratios[0], *sizes[3:], ratios[1]))
    report.print_table(
        "peak memory of a call, MiB",
        ["model", "tensors: eager", "torch.compile", "firesteel", "/ torch.compile",
         "resident: eager", "torch.compile", "firesteel", "/ torch.compile"],
        table,
    )  # fmt: skip
    if "torch" in variants:
        print(f"above {MOST_RATIO} times torch.compile's: {', '.join(above) or 'none'}")
    return not above


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models, separated by commas, whose names contain one of these")
    parser.add_argument("--no-torch", action="store_true", help="without torch.compile")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(*options.child)))
        return 0
    variants = tuple(variant for variant in VARIANTS if variant != "torch" or not options.no_torch)
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for name in SUITE:
        if any(part in name for part in options.only.split(",")):
            rows[name] = {variant: in_fresh_process(name, variant) for variant in variants}
            print(json.dumps({name: rows[name]}), file=sys.stderr, flush=True)
    holds = print_results(rows, variants)
    if options.json:
        report.write_json(options.json, {"versions": report.versions("llvmlite", "transformers"), "rows": rows})
    return 0 if holds or options.no_torch else 1


if __name__ == "__main__":
    sys.exit(main())
