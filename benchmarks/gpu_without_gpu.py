"""Compile for a GPU on a machine that has none, and run what comes out on the CPU, against eager:

    python -m benchmarks.gpu_without_gpu operators --only softmax --samples 5     # torch's operator samples
    python -m benchmarks.gpu_without_gpu modules                                  # torch's module samples
    python -m benchmarks.gpu_without_gpu models --only timm                       # the models of tests.models.zoo
    python -m benchmarks.gpu_without_gpu large                                    # those of benchmarks.gpu_models
    python -m benchmarks.gpu_without_gpu random --start 0 --count 200             # random programs

Forward and backward go through all stages (see `pretended_gpu`); kernels run in a stand-in for Triton. Prints what
raises, what differs from eager, which kernels could not be made, and which operators are left to ATen. ``--dynamic``
compiles for sizes that change; ``--machine-code`` lets Triton compile every kernel for an H200, and tells which need
more than registers; ``--only-compile`` runs nothing; ``--interpreter`` runs kernels in Triton's own interpreter, which
is slow. `large` does not run either.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tests.conformance import gradients
from tests.conformance.comparing import AMBIGUOUS, UNDEFINED, Pair, copied, differences, run
from tests.conformance.torch_samples import operators, samples_of
from tests.kernels.gpu.nearness import nearer
from tests.kernels.gpu.pretended_gpu import OnCpu, PretendedGpu, by_stand_in, error_text
from torch.utils import _pytree as pytree

import firesteel as fs
from benchmarks.native_op_db import ROOT, compare_all, pairs_of, work

DTYPES = ("float32", "bfloat16", "int64")
KERNELS = ROOT / "build" / "kernels_without_gpu"
"""Where machine code is kept, so that the next sweep compiles what is new."""


class Sweep:
    """How programs are compiled and compared."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.dynamic = True if options.dynamic else None
        self.machine_code = options.machine_code
        self.launch = None if options.only_compile else _interpreted() if options.interpreter else by_stand_in

    def gpu(self) -> PretendedGpu:
        """A GPU for one program."""
        return PretendedGpu(self.launch, self.machine_code)

    def compare(self, pair: Pair, label: str, program: Callable[..., Any], observe: Callable[..., Any],
                make: Callable[[], Any], values: bool = True) -> None:
        """Compare what ``observe`` sees of a program and of its compiled form, each with arguments from ``make``."""
        gpu = self.gpu()
        fs.reset()
        want = observe(program, *make())
        with gpu.here(), fs.config.patch(raise_on_internal_error=True):
            got = observe(fs.compile(program, backend=gpu, dynamic=self.dynamic), *make())
        self.note(pair, label, gpu)
        if isinstance(got, Exception) and not isinstance(want, Exception):
            pair.failures.append(f"{label}: raises {error_text(got)}")
        elif not gpu.draws:
            found = [line for line in differences(want, got, values) if not line.startswith("strides that nothing")]
            if found and not isinstance(want, Exception) and differences(want, observe(program, *make()), True):
                return  # what eager does not repeat cannot be compared
            if found and all(line.startswith("values:") for line in found) \
                    and nearer(functools.partial(observe, program), make(), want, got):
                return
            pair.failures += [f"{label}: {line}" for line in found]

    def note(self, pair: Pair, label: str, gpu: PretendedGpu) -> None:
        """Keep what a GPU has to tell."""
        pair.samples += 1
        pair.failures += [f"{label}: {line}" for line in gpu.failures]
        pair.calls += gpu.calls
        pair.uncompiled += gpu.uncompiled
        pair.notes += [f"no kernel: {line}" for line in gpu.refused]
        pair.notes += [f"not in registers: {line}" for line in gpu.spilling]


def _interpreted() -> Any:
    os.environ["TRITON_INTERPRET"] = "1"
    from tests.kernels.gpu import interpreted

    return interpreted.launch


# ---------------------------------------------------------------------------------------------------------------------
# operators and modules


def operator_pair(sweep: Sweep, op: Any, dtype: torch.dtype, count: int) -> Pair:
    """The samples of an operator, without and with gradients."""
    pair = Pair(op.formatted_name, str(dtype).removeprefix("torch."))
    values = op.name not in UNDEFINED + AMBIGUOUS

    def program(*args: Any, **kwargs: Any) -> Any:
        return op.op(*args, **kwargs)

    for observe, samples in ((run, samples_of(op, dtype, count)), (gradients.differentiate, (
            gradients.samples_of(op, dtype, count) if dtype in op.supported_backward_dtypes("cpu") else []))):
        for number, sample in samples:
            given = gradients.arguments(sample)
            try:
                copied(given)
            except Exception:
                continue
            label = f"sample {number}" if observe is run else f"gradients of sample {number}"
            sweep.compare(pair, label, program, observe, functools.partial(copied, given), values)
    return pair


def module_pairs(sweep: Sweep, only: str, count: int) -> Iterator[Pair]:
    """The samples of torch's modules, training and not."""
    from tests.conformance.module_db import MODES, _leaf, modules, observe
    from tests.conformance.module_db import samples_of as module_samples

    for info in modules():
        if only not in info.formatted_name:
            continue
        for mode in MODES:
            pair = Pair(info.formatted_name, mode)
            for number, sample in enumerate(module_samples(info, mode, count)):
                made, given = sample.constructor_input, sample.forward_input

                def make(made: Any = made, given: Any = given, mode: str = mode, info: Any = info) -> Any:
                    torch.manual_seed(1)
                    module = info.module_cls(*made.args, **made.kwargs).to(torch.float32).train(mode == "train")
                    return module, copied(pytree.tree_map(_leaf, (given.args, given.kwargs)))

                def see(compiled: Callable[..., Any] | None, module: Any, given: Any) -> Any:
                    function = module if compiled is None else fs.compile(module, backend=gpu, dynamic=sweep.dynamic)
                    return observe(module, function, *given)

                try:
                    make()
                except Exception:
                    continue
                gpu = sweep.gpu()
                fs.reset()
                want = see(None, *make())
                with gpu.here(), fs.config.patch(raise_on_internal_error=True):
                    got = see(fs.compile, *make())
                sweep.note(pair, f"sample {number}", gpu)
                if isinstance(got, Exception) and not isinstance(want, Exception):
                    pair.failures.append(f"sample {number}: raises {error_text(got)}")
                elif not gpu.draws:
                    pair.failures += [f"sample {number}: {line}" for line in differences(want, got, True)]
            yield pair


# ---------------------------------------------------------------------------------------------------------------------
# models


def model_pairs(sweep: Sweep, only: str) -> Iterator[Pair]:
    """The models of `tests.models.zoo`, without and with gradients."""
    from tests.models import zoo

    for name in zoo.names():
        if only not in name:
            continue
        for train in (False, True):
            pair = Pair(name, "training" if train else "inference")
            try:
                seen = []
                gpu = sweep.gpu()
                fs.reset()
                for compiled in (False, True):
                    module, args, kwargs = zoo.build(name)
                    module.train(train)
                    with gpu.here(), fs.config.patch(raise_on_internal_error=True):
                        function = fs.compile(module, backend=gpu, dynamic=sweep.dynamic) if compiled else module
                        seen.append(_step(module, function, args, kwargs, train))
                sweep.note(pair, "model", gpu)
                if isinstance(seen[1], Exception) and not isinstance(seen[0], Exception):
                    pair.failures.append(f"raises {error_text(seen[1])}")
                elif not gpu.draws:
                    pair.failures += _relative_differences(*seen)
            except Exception as error:
                pair.samples += 1
                pair.failures.append(f"raises {error_text(error)}")
            yield pair


def _step(module: torch.nn.Module, function: Any, args: Any, kwargs: Any, train: bool) -> Any:
    torch.manual_seed(3)
    try:
        with torch.set_grad_enabled(train):
            found = gradients.tensors_of(function(*args, **kwargs))
            if train:
                roots = [t for t in found if t.requires_grad]
                torch.autograd.backward(roots, [gradients.tangent(root) for root in roots])
        of_parameters = [p.grad for p in module.parameters() if p.grad is not None] if train else []
        return [t.detach() for t in (*found, *of_parameters)]
    except Exception as error:
        return error


def _relative_differences(want: Any, got: Any) -> list[str]:
    """Where results of a whole model are further apart than rounding makes them."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        return differences(want, got, True)
    if len(want) != len(got):
        return [f"{len(got)} tensors, eager {len(want)}"]
    found = []
    # Gradients that are nothing but rounding errors, such as those of biases of keys, are small beside the others.
    largest = max([t.double().norm().item() for t in want if t.is_floating_point() and t.numel()], default=0.0)
    for number, (left, right) in enumerate(zip(want, got, strict=True)):
        if left.shape != right.shape or left.dtype is not right.dtype or left.stride() != right.stride():
            found += differences(left, right, False)
        elif left.is_floating_point() and left.numel():
            scale = left.double().norm().item() + 1e-3 * largest
            apart = (left.double() - right.double()).norm().item() / scale
            if not apart <= 1e-3:
                found.append(f"tensor {number} of shape {tuple(left.shape)}: {apart:.3g} apart")
        elif not left.is_floating_point() and not torch.equal(left, right):
            found.append(f"tensor {number}: other values")
    return found


class _Seen(Exception):
    """The graph was compiled; nothing has to run."""


def large_pairs(sweep: Sweep, only: str) -> Iterator[Pair]:
    """The models of `benchmarks.gpu_models`, compiled for their own sizes, but not run."""
    from tests.models import zoo

    from benchmarks import gpu_models

    zoo.prepare_torchvision()
    for name, build in gpu_models.MODELS.items():
        if only not in name:
            continue
        pair = Pair(name, "large")
        gpu = PretendedGpu(None, sweep.machine_code)

        def backend(gm: Any, examples: Sequence[Any], gpu: PretendedGpu = gpu) -> Any:
            gpu(gm, examples)
            raise _Seen

        fs.reset()
        try:
            with OnCpu():
                module, args, train = build()
            module.train(train)
            with gpu.here(), fs.config.patch(raise_on_internal_error=True), torch.set_grad_enabled(train):
                fs.compile(module, backend=backend, dynamic=sweep.dynamic)(*args)
        except Exception as error:
            if not isinstance(error, _Seen) and not isinstance(error.__cause__, _Seen):
                pair.failures.append(f"raises {error_text(error)}")
        sweep.note(pair, "model", gpu)
        pair.notes.append(f"{len(gpu.printed)} kernels")
        yield pair


def random_pairs(sweep: Sweep, start: int, count: int, long: bool) -> Iterator[Pair]:
    """Random programs, with gradients."""
    from tests.kernels.gpu.random_programs import RandomProgram

    for seed in range(start, start + count):
        program = RandomProgram(seed, long=long)
        pair = Pair(f"seed {seed}", "random")
        sweep.compare(pair, str(program), program, gradients.differentiate,
                      lambda program=program: (program.inputs(), {}))
        yield pair


# ---------------------------------------------------------------------------------------------------------------------


def found_pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """What was asked for, as it is done."""
    sweep = Sweep(options)
    if options.subject == "operators":
        wanted = pairs_of(operators(options.only), options.dtypes.split(","))
        names = ("dynamic", "machine_code", "only_compile", "interpreter")
        flags = [f"--{name.replace('_', '-')}" for name in names if getattr(options, name)]
        command = ("benchmarks.gpu_without_gpu", "operators", *flags)
        return compare_all(wanted, options.samples, options.processes, command)
    if options.subject == "modules":
        return module_pairs(sweep, options.only, options.samples)
    if options.subject == "models":
        return model_pairs(sweep, options.only)
    if options.subject == "large":
        return large_pairs(sweep, options.only)
    return random_pairs(sweep, options.start, options.count, options.long)


def main() -> int:
    """Command line. The exit status is 1 when something raised or differed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subject", choices=("operators", "modules", "models", "large", "random"))
    parser.add_argument("--only", default="", help="those whose name contains this")
    parser.add_argument("--samples", type=int, default=3, help="samples of each operator or module")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--start", type=int, default=0, help="the first random program")
    parser.add_argument("--count", type=int, default=100, help="how many random programs")
    parser.add_argument("--long", action="store_true", help="random programs with long rows")
    parser.add_argument("--dynamic", action="store_true", help="for sizes that change")
    parser.add_argument("--machine-code", action="store_true", help="let Triton compile all kernels")
    parser.add_argument("--only-compile", action="store_true", help="run nothing")
    parser.add_argument("--interpreter", action="store_true", help="run kernels in Triton's own interpreter")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="for operators")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.nice(5)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with fs.config.patch(disk_cache=options.machine_code, cache_dir=str(KERNELS)):
        if options.worker:
            work(options.samples, functools.partial(operator_pair, Sweep(options)))
            return 0
        started = time.perf_counter()
        found: list[Pair] = []
        for pair in found_pairs(options):
            found.append(pair)
            for line in pair.failures[:3]:
                print(f"FAIL {pair.name} {pair.dtype}: {line}", flush=True)
    for what in ("notes", "calls", "uncompiled"):
        for line, times in collections.Counter(
                line for pair in found for line in set(getattr(pair, what))).most_common():
            print(f"{what} ({times}): {line}")
    if options.json:
        options.json.write_text(json.dumps([asdict(pair) for pair in found], indent=1))
    tried = [pair for pair in found if pair.samples]
    failed = [pair for pair in tried if pair.failures]
    print(f"{len(tried) - len(failed)} of {len(tried)} pass, {len(found) - len(tried)} without samples, "
          f"{time.perf_counter() - started:.0f} s")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
