"""Convolution networks on a GPU compute with channels last, the layout that cuDNN's fast kernels need.

    conv: f32[8, 16, 56, 56] = convolution(x, w, None, ...)
    relu: f32[8, 16, 56, 56] = relu(conv)
    ...
    return relu

becomes

    x_last: f32[8, 3, 56, 56]/[9408, 1, 168, 3] = clone(x, memory_format=channels_last)
    w_last: f32[16, 3, 3, 3]/[27, 1, 9, 3] = clone(w, memory_format=channels_last)
    conv: f32[8, 16, 56, 56]/[50176, 1, 896, 16] = convolution(x_last, w_last, None, ...)
    relu: f32[8, 16, 56, 56]/[50176, 1, 896, 16] = relu(conv)
    ...
    relu_back: f32[8, 16, 56, 56] = clone(relu, memory_format=contiguous_format)
    return relu_back

In the other layout cuDNN converts what it reads and writes around every convolution. Operators in between compute in
the layout that they are given; where one needs the old strides, and for results, a copy with the old layout is made. In
a graph with forward and backward the gradients of convolutions are computed the same way.

Graphs in which more would be copied than the library converts stay as they are. Convolutions of single channels in
short floats are faster with channels last: those of EfficientNet-B0 1.3 to 4 times in the mean, those of ConvNeXt 3 to
5 times (`benchmarks.gpu_convolutions`, on an H200, forward and backward). Graphs with other convolutions in groups stay
as they are; some of those take twice the time backward. In single precision the library converts where it rounds the
factors of products to 19 bits, and only there it is given another layout, which makes it do so: in convolutions between
many channels, if the library may, and in graphs that have enough to multiply.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..functional.graph import FunctionalGraph
from ..functional.operators import Kind, operator_of
from .layout_plan import LAST, LayoutPlan, copy_cost, with_channels_last
from .rewriting import ATEN, Rewriter, is_call, number_hint, same_layout, same_sizes, size_hint
from .settings import STRICT, Settings

LEAST_WORK = 1 << 28
"""Multiplications in single precision from which on the library rounds their factors."""
MANY_CHANNELS = 32
SMALL = 1 << 24
"""Images of so many bytes are kept for backward rather than computed again."""
_CONVOLUTION, _BACKWARD = ATEN.convolution.default, ATEN.convolution_backward.default
_LIKE_ANY = (ATEN.native_batch_norm_backward.default,)
"""Operators beside the elementwise ones whose kernels write any layout that they are told."""


def image_layouts(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Lay the images of a convolution network out as the library likes them, where that pays."""
    convolutions = [node for node in functional.graph.nodes if is_call(node, _CONVOLUTION)]
    if not any(_is_wanted(node) for node in convolutions) or any(map(_is_slower, convolutions)):
        return functional
    plan = _Plan(functional)
    if not plan.make() or plan.copied >= plan.converted or plan.work < LEAST_WORK:
        return functional
    return plan.apply()


def _is_slower(node: torch.fx.Node) -> bool:
    """Whether a convolution in groups may be slower with channels last, forward or backward."""
    args: Any = node.args
    return args[8] != 1 and not _has_single_channels(args[0].meta["val"], args[1].meta["val"], args[8])


def _has_single_channels(x: Any, weight: Any, groups: Any) -> bool:
    """Whether each channel of short floats is convolved by itself, for which cuDNN has kernels with channels last."""
    return (x.dtype in (torch.float16, torch.bfloat16) and torch.backends.cudnn.enabled
            and number_hint(weight.shape[1]) == 1 and number_hint(x.shape[1]) == groups)


def _is_wanted(node: torch.fx.Node) -> bool:
    """Whether a convolution, or the gradient of one, is to be computed with channels last."""
    backward = is_call(node, _BACKWARD)
    if not backward and not is_call(node, _CONVOLUTION):
        return False
    args: Any = node.args
    parts = [part.meta["val"] for part in (args[:3] if backward else args[:2])]
    if any(part.ndim != 4 or part.dtype is not parts[0].dtype for part in parts):
        return False
    groups = args[9 if backward else 8]
    if groups != 1 and not _has_single_channels(parts[-2], parts[-1], groups):
        return False
    if parts[0].dtype not in (torch.float16, torch.bfloat16) and not (parts[0].dtype is torch.float32 and _may_round()):
        return False
    if any(number_hint(part.shape[1]) == 1 and not part.is_contiguous() for part in parts):
        return False
    if backward:
        return not is_last(parts[0]) or not is_last(parts[1]) or not is_last(parts[2])
    return number_hint(parts[0].shape[1]) > 1 and bool(node.meta["val"].is_contiguous()) and not (
        is_last(parts[0]) and is_last(node.meta["val"]))


def _may_round() -> bool:
    """Whether cuDNN may round factors in single precision."""
    return bool(torch.backends.cudnn.allow_tf32)


def is_last(value: Any) -> bool:
    """Whether a tensor is laid out with channels last."""
    return bool(value.is_contiguous(memory_format=LAST))


class _Plan(LayoutPlan):
    """Layouts, and how much is copied and converted."""

    library = (_CONVOLUTION, _BACKWARD)

    def __init__(self, functional: FunctionalGraph) -> None:
        super().__init__(functional)
        self.backward: frozenset[torch.fx.Node] = getattr(functional, "backward_nodes", frozenset())
        self.converted = 0.0
        """How many elements the library would convert in forward."""
        self.copied = 0.0
        """How many are copied in its place."""
        self.work = 0
        """How many multiplications there are, counted as enough where nothing is rounded."""
        self._counted: set[torch.fx.Node] = set()

    def is_wanted(self, node: torch.fx.Node) -> bool:
        return _is_wanted(node)

    def can_be_copied_back(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.is_contiguous()

    def count_copies(self, node: torch.fx.Node, changed: list[torch.fx.Node]) -> None:
        for source in changed:
            if source not in self.backward and (node.op == "output" or node not in self.backward):
                self.count(source)

    def count(self, source: torch.fx.Node) -> None:
        """Note a copy, once. Only forward decides, so that it is the same for every backward."""
        if source not in self._counted:
            self._counted.add(source)
            self.copied += copy_cost(source)

    def library_call(self, node: torch.fx.Node) -> None:
        args: Any = node.args
        backward = is_call(node, _BACKWARD)
        sources = args[:3] if backward else args[:2]
        self.to_last[node] = [source for source in sources if not is_last(self.value(source))]
        old = node.meta["val"]
        if backward:
            self.values[node] = tuple([
                with_channels_last(part) if part is not None and part.ndim == 4 else part
                for part in old])
            return
        if sources[0] in self.to_last[node]:
            self.count(sources[0])
        x, weight = (source.meta["val"] for source in sources)
        channels = number_hint(weight.shape[1]), number_hint(weight.shape[0])
        if old.dtype is not torch.float32:
            self.work = LEAST_WORK
            self.converted += size_hint(x) + size_hint(old)
        elif min(channels) >= MANY_CHANNELS:
            pixels = size_hint(x if args[6] else old) // number_hint((x if args[6] else old).shape[1])
            self.work += pixels * size_hint(weight)
            self.converted += size_hint(x) + size_hint(old)
        self.values[node] = with_channels_last(old)

    def follow(self, node: torch.fx.Node, changed: list[torch.fx.Node], new: Any) -> None:
        if isinstance(node.target, torch_compat.OpOverload) and _writes_any_layout(node.target):
            new = self.preferred(node, new)
        if not _same_layouts(node.meta["val"], new):
            self.values[node] = new

    def preferred(self, node: torch.fx.Node, new: Any) -> Any:
        """Channels last for the first result, where something of its size has that."""
        result = new if isinstance(new, torch.Tensor) else new[0]
        if not isinstance(result, torch.Tensor) or result.ndim != 4 or is_last(result):
            return new
        sources = [self.value(source) for source in node.all_input_nodes if source in self.values]
        if not any(isinstance(value, torch.Tensor) and value.ndim == 4 and is_last(value) and same_sizes(value, result)
                   for value in sources):
            return new
        result = with_channels_last(result)
        return result if isinstance(new, torch.Tensor) else (result, *new[1:])

    def apply(self) -> FunctionalGraph:
        rewriter = Rewriter(self.functional)
        copies: dict[torch.fx.Node, torch.fx.Node] = {}
        olds: dict[torch.fx.Node, torch.fx.Node] = {}
        for node in list(self.functional.graph.nodes):
            for source in self.to_last.get(node, ()):
                copy = copies.get(source)
                if copy is None:
                    with rewriter.before(node):
                        copy = copies[source] = rewriter.call(
                            ATEN.clone.default, source, memory_format=LAST, name=f"{source.name}_last",
                            val=with_channels_last(source.meta["val"]))
                node.replace_input_with(source, copy)
            for source in self.back.get(node, ()):
                old = olds.get(source)
                if old is None:
                    with rewriter.before(source.next):
                        old = olds[source] = self.with_old_layout(rewriter, source)
                node.replace_input_with(source, old)
                if node.op == "output":
                    rewriter.results[source] = old
        for node, value in self.values.items():
            node.meta["val"] = value
        for node in self.to_last:
            for part in node.args[1:3] if is_call(node, _BACKWARD) else ():
                assert isinstance(part, torch.fx.Node)
                value = part.meta["val"]
                # Weights for the library, and what takes no longer to compute again than a kernel takes at least.
                if part is node.args[2] or size_hint(value) * value.dtype.itemsize <= SMALL:
                    part.meta["held"] = True
        return rewriter.finish()

    def with_old_layout(self, rewriter: Rewriter, source: torch.fx.Node) -> torch.fx.Node:
        """A copy, or where only strides of single elements differ, a view."""
        old, name = source.meta["val"], f"{source.name}_back"
        if self.values[source].is_contiguous() and all(type(number) is int for number in (*old.shape, *old.stride())):
            return rewriter.call(
                ATEN.as_strided.default, source, list(old.shape), list(old.stride()), val=old, name=name)
        return rewriter.call(
            ATEN.clone.default, source, memory_format=torch.contiguous_format, val=old, name=name)


def _writes_any_layout(target: Any) -> bool:
    if operator_of(target).kind is Kind.VIEW:
        return False
    return torch.Tag.pointwise in target.tags or any(target is each for each in _LIKE_ANY)


def _same_layouts(old: Any, new: Any) -> bool:
    if isinstance(old, torch.Tensor):
        return same_layout(old, new)
    if isinstance(old, (tuple, list)):
        return all(_same_layouts(a, b) for a, b in zip(old, new, strict=True))
    return True
