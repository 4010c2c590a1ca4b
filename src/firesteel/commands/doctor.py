"""``firesteel doctor``: what there is on this machine, what does not work here and why, and a compile as a trial."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import firesteel

from . import FAILED, OK

if TYPE_CHECKING:
    from . import Commands

Line = tuple[str, str]
"""What was looked at and what was found."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor", help="say what firesteel finds on this machine, and what does not work and why",
        description="Say what firesteel finds on this machine, what does not work here and why, and compile a small "
                    "function. The exit code is 1 if that function is not compiled.")
    parser.set_defaults(command=doctor)


def doctor(arguments: argparse.Namespace) -> int:
    """Run the command."""
    for look in (_versions, _processor, _gpu, _cache, _settings, _native):
        for title, found in look():
            print(f"{title + ':':18} {found}", flush=True)
    reason, notes = _verdict()
    print(f"{'supported:':18} {reason or 'yes, all of it'}")
    for note in notes:
        print(f"{'':18} {note}")
    print(f"{'a trial:':18} ", end="", flush=True)
    worked, text = _trial()
    print(text)
    return OK if worked else FAILED


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _versions() -> Iterator[Line]:
    yield "firesteel", f"{firesteel.__version__} in {os.path.dirname(os.path.abspath(firesteel.__file__))}"
    yield "Python", f"{platform.python_version()} ({sys.implementation.name}), {sys.executable}"
    yield "torch", _version("torch")
    yield "llvmlite, NumPy", f"{_version('llvmlite')}, {_version('numpy')}"


def _processor() -> Iterator[Line]:
    yield "system", f"{platform.system()} on {platform.machine()}, {os.cpu_count()} processors"
    try:
        import llvmlite.binding as llvm

        flags = llvm.get_host_cpu_features()
        wanted = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512bf16", "amx-tile", "neon", "sve")
        yield "processor", f"{llvm.get_host_cpu_name()}: {', '.join(name for name in wanted if flags.get(name)) or '-'}"
    except Exception as error:
        yield "processor", f"LLVM cannot say: {type(error).__name__}: {error}"
    import torch

    yield "threads", f"{torch.get_num_threads()}"


def _gpu() -> Iterator[Line]:
    import torch

    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            yield f"GPU {index}", f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, " \
                                  f"compute capability {properties.major}.{properties.minor}"
    else:
        yield "GPU", "none that torch sees"
    yield "Triton", _version("triton")


def _cache() -> Iterator[Line]:
    from firesteel import disk_cache

    info = disk_cache.info()
    if info.directory is None:
        yield "cache", "switched off"
        return
    count = sum(number for number, _ in info.kinds.values())
    folder = info.directory
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    state = "" if os.access(folder, os.W_OK) else ", cannot be written to"
    yield "cache", f"{info.directory}: {count} entries, {sum(size for _, size in info.kinds.values()) >> 10} KiB{state}"


def _settings() -> Iterator[Line]:
    from firesteel.remote_cache import without_password

    shown = {**os.environ, "FIRESTEEL_CACHE_SECRET": "..." if os.environ.get("FIRESTEEL_CACHE_SECRET") else ""}
    given = sorted(f"{name}={without_password(value)}" for name, value in shown.items()
                   if name.startswith("FIRESTEEL_") and value)
    yield "environment", ", ".join(given) or "nothing set"


def _verdict() -> tuple[str, list[str]]:
    from firesteel import support

    verdict = support.verdict()
    notes = [f"config.on_unsupported is {firesteel.config.on_unsupported!r}"] if verdict.reason else []
    if firesteel.config.native_guards == "never":
        notes.append("guards in machine code are switched off: config.native_guards")
    return verdict.sentence if verdict.reason else "", notes


def _trial() -> tuple[bool, str]:
    """Compile a function, forward and backward, and compare it with plain Python."""
    import torch

    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x * 2).sum()

    try:
        with firesteel.config.patch(raise_on_internal_error=True, on_unsupported="raise"):
            began = time.perf_counter()
            compiled = firesteel.compile(forward, tier="wait", fullgraph=True)
            gradients = [_gradient(function) for function in (compiled, forward)]
            seconds = time.perf_counter() - began
            torch.testing.assert_close(*gradients)
            return True, f"compiled, forward and backward, in {seconds:.2f} s, and it agrees with eager"
    except Exception as error:
        return False, f"failed: {type(error).__name__}: {error}"


def _gradient(function: Callable[..., Any]) -> Any:
    import torch

    x = torch.linspace(-2, 2, 256).requires_grad_()
    function(x).backward()
    return x.grad


def _native() -> Iterator[Line]:
    """Guards and launches in machine code test themselves when they are made; they may know this Python or not."""
    from firesteel.kernels.host.machine import machine
    from firesteel.native.checker import checker

    for title, make in (("native guards", checker), ("native launches", machine)):
        try:
            make()
            yield title, "work, and passed their own tests"
        except Exception as error:
            yield title, f"not here, plain Python in their place: {type(error).__name__}: {error}"
