"""Random numbers on a GPU, computed by the kernels that use them.

    dropout = aten.native_dropout.default(x, 0.1, True)      results: out, mask

becomes

    reserved = firesteel.reserve_random.default(8, device=cuda)             the generator's seed and offset, on the CPU
    uniform: f32 = firesteel.uniform_from.default(seed, offset, 0, ...)     pure: backward computes it again
    mask: bool = aten.lt.Scalar(uniform, 0.9)
    out = aten.mul.Tensor(aten.mul.Tensor(x, mask), 1.1111111)

with the numbers that torch's own kernel would draw. Left alone are operators with symbolic sizes, with a generator of
their own, those whose threads depend on where in memory an argument begins, and graphs that are recorded: a recording
repeats the numbers that the host handed out.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Collection
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..devices import kind_of
from ..functional.graph import FunctionalGraph
from ..functional.operators import Kind, operator_of
from ..torch_compat import cuda_random
from ..torch_compat.random_operators import bernoulli_strided
from .rewriting import ATEN, Rewriter, fake_result, is_call
from .settings import STRICT, Settings

_WIDTHS = cuda_random.DROPOUT_WIDTHS
_DRAWING = (ATEN.native_dropout.default, ATEN.rand.default, ATEN.rand_like.default, ATEN.randint.default,
            ATEN.randint.low, bernoulli_strided())
_INTEGERS = (torch.int64, torch.int32)
_LARGEST, _SHORT_RANGE = 1 << 31, 1 << 28
"""Elements that are drawn at once; integers below that are drawn from 32 bits each."""
_WHOLE_VIEWS = (
    ATEN.view.default, ATEN._unsafe_view.default, ATEN.reshape.default, ATEN.permute.default, ATEN.transpose.int,
    ATEN.t.default, ATEN.squeeze.dim, ATEN.unsqueeze.default, ATEN.alias.default, ATEN.detach.default,
)


def random_numbers(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Take the numbers of dropout, rand and others from the generator, for kernels to compute."""
    if not kind_of(settings.device).draws_by_counter or settings.recorded:
        return functional
    if not any(is_call(node, *_DRAWING) for node in functional.graph.nodes) \
            or not cuda_random.follows_rules(settings.device):
        return functional
    rewriter = _Rewriter(functional)
    generator = _Generator(rewriter, getattr(functional, "backward_nodes", frozenset()))
    for node in list(functional.graph.nodes):
        replaced = False
        rewriter.region = node.meta.get("recompute")
        if is_call(node, ATEN.native_dropout.default):
            replaced = _dropout(rewriter, node, generator)
        elif is_call(node, ATEN.rand.default, ATEN.rand_like.default):
            replaced = _rand(rewriter, node, generator)
        elif is_call(node, _DRAWING[-1]):
            replaced = _bernoulli(rewriter, node, generator)
        elif is_call(node, ATEN.randint.default, ATEN.randint.low):
            replaced = _randint(rewriter, node, generator)
        if not replaced:
            generator.pass_by(node)
    return rewriter.finish()


class _Rewriter(Rewriter):
    """What is computed in the place of a node belongs to its checkpoint; the generator is asked once, in forward."""

    region: Any = None

    def call(self, target: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
        node = super().call(target, *args, **kwargs)
        if self.region is not None and target is not operator.getitem and target is not cuda_random.reserve_random():
            node.meta["recompute"] = self.region
        return node


class _Generator:
    """Reserves numbers: of all operators that follow each other with one call."""

    def __init__(self, rewriter: Rewriter, backward: Collection[torch.fx.Node]) -> None:
        self.rewriter = rewriter
        self.backward = backward
        self.reserved: torch.fx.Node | None = None
        self.numbers: list[torch.fx.Node] = []
        self.in_backward = False

    def pass_by(self, node: torch.fx.Node) -> None:
        """A node that stays: one that draws numbers by itself has to find the generator where it is in eager."""
        target = node.target
        plain = node.op != "call_function" or target is operator.getitem
        if not plain and (operator_of(target).random if isinstance(target, torch_compat.OpOverload)
                          else hasattr(target, "bodies")):
            self.reserved = None

    def uniform(self, node: torch.fx.Node, value: Any, width: int) -> torch.fx.Node:
        """Floats for a tensor like ``value``, in the place of a node."""
        return self._drawn(cuda_random.uniform_from(), torch.float32, node, value, width)

    def words(self, node: torch.fx.Node, value: Any) -> torch.fx.Node:
        """Integers of 32 bits."""
        return self._drawn(cuda_random.words_from(), torch.int64, node, value, 1)

    def _drawn(self, draw: Any, dtype: torch.dtype, node: torch.fx.Node, value: Any, width: int) -> torch.fx.Node:
        rewriter, count, device = self.rewriter, value.numel(), value.device
        increment, in_backward = cuda_random.increment_for(count, device), node in self.backward
        if self.reserved is None or self.reserved.kwargs["device"] != device or in_backward is not self.in_backward:
            number = _fake([], [], torch.int64, torch.device("cpu"))
            self.reserved = rewriter.call(cuda_random.reserve_random(), 0, device=device, val=(number, number))
            self.numbers = [rewriter.call(operator.getitem, self.reserved, part, val=number) for part in (0, 1)]
            self.in_backward = in_backward
        shift: Any = self.reserved.args[0]
        self.reserved.args = (shift + increment,)
        size, stride = [int(n) for n in value.shape], [int(s) for s in value.stride()]
        return rewriter.call(draw, *self.numbers, shift, size, stride, cuda_random.threads_for(count, device), width,
                             device=device, val=_fake(size, stride, dtype, device))


def _fake(size: list[int], stride: list[int], dtype: torch.dtype, device: torch.device) -> Any:
    return fake_result(ATEN.empty_strided.default, (size, stride), {"dtype": dtype, "device": device})


def _dropout(rewriter: Rewriter, node: torch.fx.Node, generator: _Generator) -> bool:
    x, p, train = node.args
    users = list(node.users)
    if not isinstance(x, torch.fx.Node) or train is False or not isinstance(p, float) or not 0 < p < 1:
        return False
    value = x.meta["val"]
    if not _is_plain(value) or not _begins_aligned(x) or any(user.target is not operator.getitem for user in users):
        return False
    count, width = value.numel(), _WIDTHS[value.dtype]
    while count % width:
        width //= 2
    if width == 2 and count > 2 * cuda_random.threads_for(count, value.device):
        return False  # threads draw more numbers than they move the generator on
    keep = _single(1.0 - p)
    with rewriter.before(node):
        uniform = generator.uniform(node, value, width)
        mask = rewriter.call(ATEN.lt.Scalar, uniform, keep)
        wide = x if value.dtype is torch.float32 else rewriter.call(ATEN._to_copy.default, x, dtype=torch.float32)
        out = rewriter.call(ATEN.mul.Tensor, rewriter.call(ATEN.mul.Tensor, wide, mask), _single(1.0 / keep))
        if wide is not x:
            out = rewriter.call(ATEN._to_copy.default, out, dtype=value.dtype)
    for user in users:
        rewriter.replace(user, mask if user.args[1] == 1 else out)
        rewriter.graph.erase_node(user)
    rewriter.graph.erase_node(node)
    return True


def _rand(rewriter: Rewriter, node: torch.fx.Node, generator: _Generator) -> bool:
    value = node.meta["val"]
    if not _is_plain(value) or node.kwargs.get("memory_format") is not None:
        return False
    with rewriter.before(node):
        numbers = generator.uniform(node, value, 1)
        if value.dtype is not torch.float32:
            numbers = rewriter.call(ATEN._to_copy.default, numbers, dtype=value.dtype)
        # What was rounded to 1 is 0 in eager.
        numbers = rewriter.call(ATEN.mul.Tensor, numbers, rewriter.call(ATEN.ne.Scalar, numbers, 1.0))
    rewriter.replace(node, numbers)
    rewriter.graph.erase_node(node)
    return True


def _bernoulli(rewriter: Rewriter, node: torch.fx.Node, generator: _Generator) -> bool:
    value, p = node.meta["val"], node.args[2]
    if not _is_plain(value) or not isinstance(p, float):
        return False
    with rewriter.before(node):
        below = rewriter.call(ATEN.lt.Scalar, generator.uniform(node, value, 1), _single(p))
        numbers = rewriter.call(ATEN._to_copy.default, below, dtype=value.dtype)
    rewriter.replace(node, numbers)
    rewriter.graph.erase_node(node)
    return True


def _randint(rewriter: Rewriter, node: torch.fx.Node, generator: _Generator) -> bool:
    value = node.meta["val"]
    low, high = (0, node.args[0]) if is_call(node, ATEN.randint.default) else node.args[:2]
    if not _is_plain(value, _INTEGERS) or not isinstance(low, int) or not isinstance(high, int) \
            or not 0 < high - low < _SHORT_RANGE:
        return False
    with rewriter.before(node):
        numbers = rewriter.call(ATEN.remainder.Scalar, generator.words(node, value), high - low)
        if low:
            numbers = rewriter.call(ATEN.add.Tensor, numbers, low)
        if value.dtype is not torch.int64:
            numbers = rewriter.call(ATEN._to_copy.default, numbers, dtype=value.dtype)
    rewriter.replace(node, numbers)
    rewriter.graph.erase_node(node)
    return True


def _is_plain(value: Any, dtypes: Collection[torch.dtype] = _WIDTHS) -> bool:
    """Whether a tensor has a known size, a dtype whose numbers are known, and no gaps in memory."""
    if not isinstance(value, torch.Tensor) or not kind_of(value).draws_by_counter or value.dtype not in dtypes:
        return False
    numbers = (*value.shape, *value.stride())
    if not all(isinstance(number, int) for number in numbers) or not 0 < value.numel() < _LARGEST:
        return False
    step = 1
    for stride, size in sorted(zip(value.stride(), value.shape, strict=True)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _begins_aligned(node: torch.fx.Node) -> bool:
    """Whether a tensor begins where its memory does, which torch has allocated."""
    while is_call(node, *_WHOLE_VIEWS):
        node = node.args[0]  # type: ignore[assignment]
    if is_call(node, operator.getitem):
        node = node.args[0]  # type: ignore[assignment]
    return node.op == "call_function" and isinstance(node.target, torch_compat.OpOverload) \
        and operator_of(node.target).kind is Kind.PURE


def _single(number: float) -> float:
    """A number rounded to float32."""
    return float(struct.unpack("f", struct.pack("f", number))[0])
