"""Fake tensors: microseconds per operator beside torch's FakeTensorMode, and a comparison with eager over ``op_db``.

python -m benchmarks.fake_tensors            # the table of times
python -m benchmarks.fake_tensors --op-db    # every operator sample that torch ships, metadata against eager
"""

from __future__ import annotations

import argparse
import sys
import time
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

from firesteel.fake import DataDependentError, FakeMode, FakeUnsupported, describe


def microseconds(fn: Callable[[], object], calls: int = 300, rounds: int = 5) -> float:
    """The best average over some rounds; the best because other work on the machine only ever adds."""
    fn()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            fn()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


def programs(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, image: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """One call each, most of them one operator; the kind says how we find the result."""
    return {
        "rule   sin": lambda: torch.sin(x),
        "rule   add": lambda: x + x,
        "rule   add with gradient": lambda: x + w,
        "rule   add number": lambda: x + 1,
        "rule   add broadcast": lambda: x + b,
        "rule   add_": lambda: x.add_(1),
        "rule   view": lambda: x.view(-1),
        "rule   transpose": lambda: x.transpose(0, 1),
        "rule   slice": lambda: x[1:],
        "rule   mm": lambda: torch.mm(x, w),
        "rule   layer norm": lambda: F.layer_norm(x, (64,)),
        "rule   softmax": lambda: x.softmax(-1),
        "rule   zeros": lambda: torch.zeros(3),
        "rule   linear (2 operators)": lambda: F.linear(x, w, b),
        "memo   max pool": lambda: torch.max_pool2d(image, 2),
        "memo   topk": lambda: torch.topk(x, 3),
        "memo   roll": lambda: torch.roll(x, 1),
    }


def time_operators() -> None:
    """Print the table of times."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = (torch.randn(64, 64), torch.randn(64, 64, requires_grad=True), torch.randn(64), torch.randn(1, 3, 16, 16))
    ours, theirs = FakeMode(), FakeTensorMode()
    ours_programs = programs(*(ours.from_real(t) for t in real))
    their_programs = programs(*(theirs.from_tensor(t) for t in real))
    print(f"{'':32}{'firesteel':>12}{'FakeTensorMode':>18}   us per call")
    for name, fn in ours_programs.items():
        with ours:
            mine = microseconds(fn)
        with theirs:
            other = microseconds(their_programs[name], calls=100, rounds=3)
        print(f"{name:32}{mine:12.1f}{other:18.1f}")
    from firesteel.fake import mode as mode_module

    x = ours.from_real(real[0])

    def uncached() -> None:
        mode_module._memo.clear()
        torch.roll(x, 1)

    with ours:
        print(f"{'meta   roll':32}{microseconds(uncached, calls=50):12.1f}")


# ---------------------------------------------------------------------------------------------------------------------
# op_db


def load_op_db() -> list[Any]:
    """The operator samples that the torch wheel carries. They import one test package, of which they need one class."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def op_samples(dtype: torch.dtype, limit: int) -> Iterator[tuple[str, Any, Any]]:
    """Name, function and sample of every operator sample in op_db, at most ``limit`` per operator."""
    for op in load_op_db():
        if dtype not in op.supported_dtypes("cpu"):
            continue
        try:
            samples = list(zip(range(limit), op.sample_inputs("cpu", dtype, requires_grad=False), strict=False))
        except Exception:  # some sample functions need packages that are not here
            continue
        for _, sample in samples:
            yield op.formatted_name, op.op, sample


def compare(mode: FakeMode, fn: Callable[..., Any], sample: Any) -> str | None:
    """What differs between eager and fake, or None. Raises FakeUnsupported and DataDependentError."""
    real_args = (sample.input, sample.args, sample.kwargs)
    fake_args = pytree.tree_map_only(torch.Tensor, mode.from_real, real_args)
    random_state = torch.get_rng_state()
    try:
        fake = mode.run(fn, (fake_args[0], *fake_args[1]), fake_args[2])
    except (FakeUnsupported, DataDependentError):
        raise
    except Exception as error:
        fake = error
    if not torch.equal(random_state, torch.get_rng_state()):
        return "the fake run drew random numbers"
    try:
        real = fn(real_args[0], *real_args[1], **real_args[2])
    except Exception as error:
        real = error
    if isinstance(real, Exception) or isinstance(fake, Exception):
        if isinstance(real, Exception) and isinstance(fake, Exception):
            return None
        return f"eager: {real!r:.100}, fake: {fake!r:.100}"
    reals, real_spec = pytree.tree_flatten(real)
    fakes, fake_spec = pytree.tree_flatten(fake)
    if real_spec != fake_spec:
        return f"structure {real_spec} != {fake_spec}"
    for r, f in zip(reals, fakes, strict=True):
        if isinstance(r, torch.Tensor):
            if type(r) is not torch.Tensor or r.layout is not torch.strided:
                raise FakeUnsupported(fn, "not a plain strided result")
            if describe(r) != describe(f):
                return differences(r, f)
        elif r != f and r == r:
            return f"{r!r} != {f!r}"
    return None


def differences(real: torch.Tensor, fake: torch.Tensor) -> str:
    """The fields of two descriptions that differ."""
    a, b = describe(real), describe(fake)
    fields = [n for n in type(a).__slots__ if getattr(a, n) != getattr(b, n)]
    return f"shape {a.shape}: " + ", ".join(f"{n} {getattr(a, n)} != {getattr(b, n)}" for n in fields)


def check_op_db(dtype: torch.dtype, limit: int, verbose: bool) -> int:
    """Print one line per operator that differs; return their number."""
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    bad: dict[str, str] = {}
    start = time.perf_counter()
    for name, fn, sample in op_samples(dtype, limit):
        try:
            difference = compare(FakeMode(), fn, sample)
        except (FakeUnsupported, DataDependentError) as error:
            counts[type(error).__name__] += 1
            if verbose:
                print(f"{name}: {error!r:.160}")
            continue
        counts["different" if difference else "same"] += 1
        if difference:
            bad.setdefault(name, difference)
    for name, difference in bad.items():
        print(f"{name}: {difference}")
    print(dict(counts), f"{len(bad)} operators differ, {time.perf_counter() - start:.0f} s")
    return len(bad)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--op-db", action="store_true", help="compare with eager over op_db instead of timing")
    parser.add_argument("--dtype", default="float32", help="dtype of the samples")
    parser.add_argument("--limit", type=int, default=8, help="samples per operator")
    parser.add_argument("--verbose", action="store_true", help="also name what has no fake version")
    options = parser.parse_args()
    if options.op_db:
        sys.exit(1 if check_op_db(getattr(torch, options.dtype), options.limit, options.verbose) else 0)
    time_operators()


if __name__ == "__main__":
    main()
