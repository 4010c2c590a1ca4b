"""Fake tensors against eager over ``op_db``: metadata of results in several layouts, and with symbolic sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tests.conformance.torch_samples import load_op_db
from tests.fake.tensor_meta import describe
from torch.utils import _pytree as pytree

from firesteel.fake import DataDependentError, FakeMode, FakeTensor, FakeUnsupported
from firesteel.fake.rules.strides import memory_order, packed_strides
from firesteel.fake.tensor import new_fake
from firesteel.shapes import ContradictionError, ShapeEnv, Symbol, UndecidableError
from firesteel.shapes.symnode import expr_of, make_symint


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
