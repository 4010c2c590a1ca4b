"""Fake tensors: microseconds per operator beside torch's FakeTensorMode, and a comparison with eager over ``op_db``.

python -m benchmarks.fake_tensors            # the table of times
python -m benchmarks.fake_tensors --op-db    # every operator sample that torch ships, metadata against eager
python -m benchmarks.fake_tensors --op-db --symbolic    # the same with symbolic sizes, at these sizes and at others
python -m benchmarks.fake_tensors --op-db --layouts     # the same with tensors that do not lie by rows
"""

from __future__ import annotations

import argparse
import itertools
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

from firesteel.fake import DataDependentError, FakeMode, FakeTensor, FakeUnsupported, describe
from firesteel.fake.rules.strides import memory_order, packed_strides
from firesteel.fake.tensor import new_fake
from firesteel.shapes import ContradictionError, ShapeEnv, Symbol, UndecidableError
from firesteel.shapes.symnode import expr_of, make_symint


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


def _reversed(x: torch.Tensor) -> torch.Tensor:
    dims = range(x.ndim - 1, -1, -1)
    return x.permute(*dims).contiguous().permute(*dims) if x.ndim > 1 else x


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if x.ndim > 2 else x


def _with_gaps(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x, x], -1).select(-1, 0)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "reversed": _reversed, "channels last": _channels_last, "with gaps": _with_gaps,
}  # fmt: skip


def laid_out(sample: Any, layout: str, every: int = 1) -> Any:
    """The sample with its tensors in a layout; with ``every=2`` only the first tensor, the third and so on."""
    count = itertools.count()

    def lay(x: torch.Tensor) -> torch.Tensor:
        if x.layout is not torch.strided or next(count) % every:
            return x
        return LAYOUTS[layout](x.detach()).requires_grad_(x.requires_grad)

    given = pytree.tree_map_only(torch.Tensor, lay, (sample.input, sample.args, sample.kwargs))
    return type(sample)(given[0], args=given[1], kwargs=given[2])


def layouts_of(sample: Any) -> Iterator[Any]:
    """The sample in every layout, with all of its tensors and with every other one."""
    for layout, every in itertools.product(LAYOUTS, (1, 2)):
        yield laid_out(sample, layout, every)


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


# ---------------------------------------------------------------------------------------------------------------------
# op_db with symbolic sizes


class SymbolicRun:
    """One operator sample run on fake tensors whose every size from 2 up is a symbol of its own."""

    def __init__(self, fn: Callable[..., Any], sample: Any) -> None:
        self.fn = fn
        self.real = (sample.input, sample.args, sample.kwargs)
        self.env = ShapeEnv()
        self.mode = FakeMode()
        self._sizes: dict[int, tuple[torch.Tensor, tuple[Symbol | int, ...]]] = {}
        fakes = pytree.tree_map_only(torch.Tensor, self._symbolic, self.real)
        self.result = pytree.tree_leaves(self.mode.run(fn, (fakes[0], *fakes[1]), fakes[2]))

    def _symbolic(self, t: torch.Tensor) -> FakeTensor:
        order = memory_order(t.shape, [t.stride()])
        if packed_strides(t.shape, order) != t.stride() or t.storage_offset():
            return self.mode.from_real(t)  # strides that do not follow from sizes stay numbers
        sizes: list[Symbol | int] = [
            self.env.new_symbol(size, f"t{len(self._sizes)}.size({i})", lower=2) if size >= 2 else size
            for i, size in enumerate(t.shape)
        ]
        self._sizes[id(t)] = (t, tuple(sizes))
        shape = [make_symint(self.env, size) for size in sizes]
        return new_fake(shape, packed_strides(shape, order), t.dtype, t.device)

    def values(self, grow: Callable[[int], int]) -> dict[Symbol, int] | None:
        """Other sizes for which all guards hold, where ``grow`` gives such; None otherwise."""
        values = {symbol: grow(int(hint)) for symbol, hint in self.env.hints.items()}
        for symbol, replacement in self.env.facts.replacements.items():
            if isinstance(symbol, Symbol) and replacement.is_constant:
                values[symbol] = int(self.env.hints[symbol])
        return values if self.holds(values) else None

    def holds(self, values: dict[Symbol, int]) -> bool:
        return all(guard.expr.evaluate(values) for guard in self.env.guards)

    def difference(self, values: dict[Symbol, int]) -> str | None:
        """What differs between the result at these sizes and eager's."""
        other = pytree.tree_map_only(torch.Tensor, lambda t: self._resized(t, values), self.real)
        try:
            real = pytree.tree_leaves(self.fn(other[0], *other[1], **other[2]))
        except Exception as error:
            raise EagerRaises(f"{error!r:.100}") from error
        if len(real) != len(self.result):
            return f"{len(real)} results, not {len(self.result)}"
        for r, f in zip(real, self.result):
            if not isinstance(r, torch.Tensor):
                if isinstance(f, (int, float, torch.SymInt, torch.SymFloat)) and expr_of(f).evaluate(values) != r:
                    return f"{r} != {f}"
                continue
            shape = tuple(expr_of(size).evaluate(values) for size in f.shape)
            stride = tuple(expr_of(size).evaluate(values) for size in f.stride())
            if (shape, stride, f.dtype, f.device) != (tuple(r.shape), r.stride(), r.dtype, r.device):
                return f"eager {tuple(r.shape)} {r.stride()} {r.dtype}, fake {shape} {stride} {f.dtype}"
        return None

    def _resized(self, t: torch.Tensor, values: dict[Symbol, int]) -> torch.Tensor:
        """A tensor of other sizes with the values of this one, repeated: what was a valid index stays one."""
        if id(t) not in self._sizes:
            return t
        sizes = [size if isinstance(size, int) else values[size] for size in self._sizes[id(t)][1]]
        result = t.detach()
        for dim, size in enumerate(sizes):
            if size != t.shape[dim]:
                result = result.index_select(dim, torch.arange(size) % t.shape[dim])
        order = memory_order(t.shape, [t.stride()])
        return torch.empty_strided(sizes, packed_strides(sizes, order), dtype=t.dtype).copy_(result)


class EagerRaises(Exception):
    """Eager refuses the values or sizes that were made up."""


GROWTH: list[Callable[[int], int]] = [
    lambda n: n + 1,
    lambda n: 2 * n,
    lambda n: n + 2,
    lambda n: 4 * n,
    lambda n: 3 * n,
]


def compare_symbolic(fn: Callable[..., Any], sample: Any) -> tuple[str, str]:
    """How a sample with symbolic sizes fares: an outcome and a text."""
    try:
        run = SymbolicRun(fn, sample)
    except (FakeUnsupported, DataDependentError, UndecidableError, ContradictionError) as error:
        return "unsupported", repr(error)
    except Exception as error:
        return "raises", repr(error)
    hints: Any = dict(run.env.hints)
    if not run.holds(hints):
        return "different", "a guard that does not hold"
    try:
        difference = run.difference(hints)
    except EagerRaises:
        return "eager raises", ""
    if difference is not None:
        return "different", difference
    refused = ""
    for grow in GROWTH:
        values = run.values(grow)
        if values is None or values == hints:
            continue
        try:
            difference = run.difference(values)
        except EagerRaises as error:
            refused = str(error)
            continue
        guards = ", ".join(str(guard.expr) for guard in run.env.guards)
        return ("same" if difference is None else "different"), f"at other sizes: {difference} (guards: {guards})"
    if refused:
        return "refused at other sizes", refused
    return ("no symbols" if not hints else "specialised"), ", ".join(str(guard.expr) for guard in run.env.guards)


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
