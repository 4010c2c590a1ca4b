"""Fake tensors: microseconds per operator beside torch's FakeTensorMode, and a comparison with eager over ``op_db``.

python -m benchmarks.fake_tensors            # the table of times
python -m benchmarks.fake_tensors --op-db    # every operator sample that torch ships, metadata against eager
python -m benchmarks.fake_tensors --op-db --symbolic    # the same with symbolic sizes, at these sizes and at others
python -m benchmarks.fake_tensors --op-db --layouts     # the same with tensors that do not lie by rows
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from tests.fake.op_db_comparison import compare, compare_symbolic, layouts_of, op_samples

from firesteel.fake import DataDependentError, FakeMode, FakeUnsupported


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


def check_symbolic(dtype: torch.dtype, limit: int, verbose: bool) -> int:
    """Print one line per operator whose symbolic result is wrong; return their number."""
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    bad: dict[str, str] = {}
    shown: set[tuple[str, str]] = set()
    start = time.perf_counter()
    for name, fn, sample in op_samples(dtype, limit):
        outcome, text = compare_symbolic(fn, sample)
        counts[outcome] += 1
        if outcome == "different":
            bad.setdefault(name, text)
        elif verbose and outcome not in ("same", "no symbols") and (name, outcome) not in shown:
            shown.add((name, outcome))
            print(f"{outcome}: {name}: {text:.200}")
    for name, text in bad.items():
        print(f"{name}: {text}")
    print(dict(counts), f"{len(bad)} operators differ, {time.perf_counter() - start:.0f} s")
    return len(bad)


def check_op_db(dtype: torch.dtype, limit: int, verbose: bool, layouts: bool = False) -> int:
    """Print one line per operator that differs; return their number."""
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    bad: dict[str, str] = {}
    start = time.perf_counter()
    given = op_samples(dtype, limit)
    for name, fn, sample in ((n, fn, one) for n, fn, s in given for one in (layouts_of(s) if layouts else [s])):
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
    parser.add_argument("--symbolic", action="store_true", help="with --op-db: symbolic sizes")
    parser.add_argument("--layouts", action="store_true", help="with --op-db: tensors that do not lie by rows")
    parser.add_argument("--dtype", default="float32", help="dtype of the samples")
    parser.add_argument("--limit", type=int, default=8, help="samples per operator")
    parser.add_argument("--verbose", action="store_true", help="also name what has no fake version")
    options = parser.parse_args()
    if options.op_db:
        arguments = (getattr(torch, options.dtype), options.limit, options.verbose)
        bad = check_symbolic(*arguments) if options.symbolic else check_op_db(*arguments, options.layouts)
        sys.exit(1 if bad else 0)
    time_operators()


if __name__ == "__main__":
    main()
