"""``firesteel bench script.py:f --args "torch.randn(3)"``: eager, firesteel and torch.compile side by side.

Each way runs in a process of its own, so that first calls are first calls and memory is the way's own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from . import FAILED, OK, InputError
from .printing import show_error
from .targets import add_target, load_target

if TYPE_CHECKING:
    from . import Commands

WAYS = ("eager", "firesteel", "torch")


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bench", help="time a function: eager, firesteel and torch.compile side by side",
        description="Time a function: first call, warm calls, memory. Each way runs in a process of its own.",
        epilog="""example: firesteel bench models.py:forward --args "torch.randn(64, 64)" --torch""")
    add_target(parser)
    parser.add_argument("--torch", action="store_true", help="torch.compile too, with its default backend")
    parser.add_argument("--mode", help='a mode of compile, such as "max-autotune", for both compilers')
    parser.add_argument("--seconds", type=float, default=1.0, help="how long warm calls are repeated (1)")
    parser.add_argument("--only", choices=WAYS, help="one way, in this process")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.set_defaults(command=bench)


def bench(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if not 0 < arguments.seconds <= 600:
        raise InputError(f"--seconds {arguments.seconds:g}: a number above 0, at most 600")
    if arguments.only:
        try:
            found = {arguments.only: measure(arguments)}
        except InputError:
            raise
        except Exception as error:
            show_error(error)
            return FAILED
    else:
        found = {}
        for way in WAYS if arguments.torch else WAYS[:2]:
            figures = _in_process(arguments, way)
            if figures is None:
                return FAILED
            found[way] = figures
    if arguments.json:
        print(json.dumps(found))
    else:
        _print_table(found)
    return OK


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds of the first call and of a warm one, and the MiB that the process grew by."""
    import torch

    target = load_target(arguments)
    function = _compiled(target.function, arguments.only, arguments.mode)
    wait = torch.cuda.synchronize if torch.cuda.is_available() and torch.cuda.is_initialized() else lambda: None
    before = _peak()
    wait()
    began = time.perf_counter()
    function(*target.args, **target.kwargs)
    wait()
    first = time.perf_counter() - began
    samples: list[float] = []
    until = time.perf_counter() + arguments.seconds
    while len(samples) < 5 or time.perf_counter() < until:
        began = time.perf_counter()
        function(*target.args, **target.kwargs)
        wait()
        samples.append(time.perf_counter() - began)
        if len(samples) >= 3 and time.perf_counter() > until + 60:
            break
    warm = sorted(samples[len(samples) // 2:])
    figures = {"first_call": first, "call": warm[len(warm) // 2], "calls": len(samples), "memory": _peak() - before}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        figures["gpu_memory"] = torch.cuda.max_memory_allocated() / 2**20
    return figures


def _compiled(function: Any, way: str, mode: str | None) -> Any:
    if way == "eager":
        return function
    if way == "torch":
        import torch

        return vars(torch)["compile"](function, mode=mode)
    import firesteel

    return firesteel.compile(function, mode=mode, tier="wait")


def _peak() -> float:
    """The most memory that this process has had so far, in MiB."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 2**20 if sys.platform == "darwin" else size / 2**10


def _in_process(arguments: argparse.Namespace, way: str) -> dict[str, float] | None:
    command = [sys.executable, "-m", "firesteel", "bench", arguments.target, f"--args={arguments.args}", "--only", way,
               "--json", f"--seconds={arguments.seconds}", *([f"--mode={arguments.mode}"] if arguments.mode else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 2:
        raise InputError(done.stderr.strip().removeprefix("firesteel: "))
    if done.returncode:
        print(f"firesteel: {way} failed:\n{done.stderr.rstrip()}", file=sys.stderr)
        return None
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])[way]
    return figures


def _print_table(found: dict[str, dict[str, float]]) -> None:
    eager = found.get("eager")
    rows = [("", "first call", "warm call", "against eager", "memory")]
    for way, figures in found.items():
        faster = f"{eager['call'] / figures['call']:.2f}x" if eager else ""
        memory = figures.get("gpu_memory", figures["memory"])
        name = way if way != "torch" else "torch.compile"
        rows.append((name, _time(figures["first_call"]), _time(figures["call"]), faster, f"{memory:.0f} MiB"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        print("  ".join(cell.ljust(widths[0]) if not column else cell.rjust(widths[column])
                        for column, cell in enumerate(row)))


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else \
        f"{seconds * 1e6:.3g} us"
