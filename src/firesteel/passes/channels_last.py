"""Convolution networks compute with channels last, the layout that the convolution library is fastest in.

    conv: f32[8, 16, 56, 56] = convolution(x, w, ...)
    relu: f32[8, 16, 56, 56] = relu(conv)
    return relu

becomes

    clone: f32[8, 3, 56, 56]/[9408, 1, 168, 3] = clone(x, memory_format=channels_last)
    conv: f32[8, 16, 56, 56]/[50176, 1, 896, 16] = convolution(clone, w, ...)
    relu: f32[8, 16, 56, 56]/[50176, 1, 896, 16] = relu(conv)
    clone_1: f32[8, 16, 56, 56] = clone(relu, memory_format=contiguous_format)
    return clone_1

Operators between convolutions take over the layout as they do in eager; where one cannot (a view that needs the old
strides) and for results, a copy with the old layout is made. Convolutions that hang together without copies in between
are a region; regions in which more would be copied than is won are not changed. Two kinds of convolutions stay as they
are:
- those whose weight is large beside their images: the library reorders weights in every call, slower for channels last;
- those that add up many products in single precision: with channels last the library adds them in one long row, with
  several times the rounding error of the other layout. Transposed ones add up alike in both.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from .layout_plan import IN_ANOTHER_ORDER, LAST, LayoutPlan, copy_cost, with_channels_last
from .rewriting import ATEN, Rewriter, is_call, number_hint, same_layout, size_hint
from .settings import STRICT, Settings

# What a convolution gains, as the share of the elements that it reads and writes that could be copied in that time.
GAIN_DEPTHWISE = 2.0
GAIN_TRANSPOSED = 1.0
GAIN_NARROW_POINTWISE = 1.0
GAIN_OTHER = 0.5
NARROW = 128
FEW_RESULTS = 8
# From this ratio of weights to images on the reordering of weights decides.
MOST_WEIGHTS = 2.0
# So many products are added up with at most 1.6 times the error.
MOST_PRODUCTS = 288


def channels_last(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Give convolutions and what lies between them the channels-last layout, where that pays."""
    wanted = {node for node in functional.graph.nodes if _gains(node, settings)}
    if not wanted:
        return functional
    plan = _Plan(functional, wanted)
    if not plan.make():
        return functional
    paying = plan.paying()
    if paying != wanted:
        # Regions touch each other only where copies are, so that what is left does not change.
        plan = _Plan(functional, paying)
        if not paying or not plan.make():
            return functional
    return plan.apply(bool(settings.frozen))


def _gains(node: torch.fx.Node, settings: Settings) -> bool:
    """Whether a convolution is faster with channels last."""
    if not is_call(node, ATEN.convolution.default):
        return False
    x, weight = node.args[0].meta["val"], node.args[1].meta["val"]  # type: ignore[union-attr]
    if x.ndim != 4 or x.dtype not in (torch.float32, torch.bfloat16):
        return False
    if not node.meta["val"].is_contiguous() or number_hint(x.shape[1]) == 1:
        return False
    if x.dtype is torch.float32 and not (is_pointwise(node) or node.args[6] or settings.relaxed):
        if products(weight) > MOST_PRODUCTS:
            return False
    return few_weights(node)


def few_weights(node: torch.fx.Node) -> bool:
    """Whether a convolution's weight is not so large beside its images that reordering it decides."""
    x, weight = node.args[0].meta["val"], node.args[1].meta["val"]  # type: ignore[union-attr]
    return size_hint(weight) <= MOST_WEIGHTS * (size_hint(x) + size_hint(node.meta["val"]))


def products(weight: Any) -> int:
    """How many products make up one element of the result."""
    return number_hint(weight.shape[1]) * number_hint(weight.shape[2]) * number_hint(weight.shape[3])


def is_pointwise(node: torch.fx.Node) -> bool:
    """Whether it is a matrix product over the channels, which every layout computes alike."""
    weight = node.args[1].meta["val"]  # type: ignore[union-attr]
    if node.args[6] or tuple(weight.shape[2:]) != (1, 1):
        return False
    return list(node.args[3]) == [1, 1] and list(node.args[4]) == [0, 0]  # type: ignore[arg-type]


def _gain(node: torch.fx.Node) -> float:
    weight = node.args[1].meta["val"]  # type: ignore[union-attr]
    if node.args[6]:
        return GAIN_TRANSPOSED
    if number_hint(weight.shape[1]) == 1:
        return GAIN_DEPTHWISE
    if not is_pointwise(node):
        return GAIN_OTHER
    if number_hint(weight.shape[0]) < FEW_RESULTS or number_hint(weight.shape[1]) > NARROW:
        return 0.0
    return GAIN_NARROW_POINTWISE


class _Plan(LayoutPlan):
    """Layouts, and what each region wins by them."""

    def __init__(self, functional: FunctionalGraph, wanted: set[torch.fx.Node]) -> None:
        super().__init__(functional)
        self.wanted = wanted
        self.mixed: dict[torch.fx.Node, list[torch.fx.Node]] = {}
        """Nodes with the old layout that read some inputs in the new one."""
        self._parents: dict[torch.fx.Node, torch.fx.Node] = {}
        self._balance: dict[torch.fx.Node, float] = {}
        """What is won less what is copied, noted at some node of a region."""

    def make(self) -> bool:
        if not super().make():
            return False
        # What is copied back for one user is read as that copy by all who do not need the new layout.
        copied = {source for sources in self.back.values() for source in sources}
        for node, sources in self.mixed.items():
            self.back[node] = [source for source in sources if source in copied]
        return True

    def is_wanted(self, node: torch.fx.Node) -> bool:
        return node in self.wanted

    def can_be_copied_back(self, value: Any) -> bool:
        return _dense_order(value) is not None

    def count_copies(self, node: torch.fx.Node, changed: list[torch.fx.Node]) -> None:
        for source in changed:
            in_order = is_call(node, ATEN.cat.default)
            self.win(source, -(IN_ANOTHER_ORDER * size_hint(source.meta["val"]) if in_order else copy_cost(source)))

    def paying(self) -> set[torch.fx.Node]:
        """The convolutions of those regions in which something is won."""
        totals: dict[torch.fx.Node, float] = {}
        for node, amount in self._balance.items():
            region = self.region(node)
            totals[region] = totals.get(region, 0.0) + amount
        return {node for node in self.wanted if totals[self.region(node)] >= 0}

    def region(self, node: torch.fx.Node) -> torch.fx.Node:
        while node in self._parents:
            node = self._parents[node]
        return node

    def join(self, node: torch.fx.Node, other: torch.fx.Node) -> None:
        first, second = self.region(node), self.region(other)
        if first is not second:
            self._parents[first] = second

    def win(self, region: torch.fx.Node, amount: float) -> None:
        self._balance[region] = self._balance.get(region, 0.0) + amount

    def library_call(self, node: torch.fx.Node) -> None:
        source = node.args[0]
        assert isinstance(source, torch.fx.Node)
        given, old = self.value(source), node.meta["val"]
        if not given.is_contiguous(memory_format=LAST):
            self.to_last[node] = [source]
            self.win(node, -copy_cost(source))
        elif source in self.values:
            self.join(node, source)
        self.values[node] = with_channels_last(old)
        self.win(node, _gain(node) * (size_hint(given) + size_hint(old)))

    def follows(self, node: torch.fx.Node, changed: list[torch.fx.Node]) -> bool:
        if is_call(node, ATEN.cat.default) and all(self.needs_old(user) for user in node.users):
            return False  # its parts are copied in any case, so that they can change their order on the way
        return super().follows(node, changed)

    def follow(self, node: torch.fx.Node, changed: list[torch.fx.Node], new: Any) -> None:
        old = node.meta["val"]
        if isinstance(old, torch.Tensor) and same_layout(old, new):
            # A reduction reads one layout as well as the other.
            self.mixed[node] = [source for source in changed if isinstance(source.meta["val"], torch.Tensor)
                                and size_hint(source.meta["val"]) <= size_hint(old)]  # fmt: skip
            for source in self.mixed[node]:
                self.win(source, -IN_ANOTHER_ORDER * size_hint(source.meta["val"]))
            return
        self.values[node] = new
        for source in changed:
            self.join(node, source)

    def needs_old(self, user: torch.fx.Node) -> bool:
        return user.op == "output" or (is_call(user, ATEN.convolution.default) and user not in self.wanted)

    def apply(self, with_weights: bool) -> FunctionalGraph:
        rewriter = Rewriter(self.functional)
        for node in self.wanted if with_weights else ():
            # Frozen ones are copied once; otherwise the convolution itself does that, in every call.
            weight = node.args[1]
            assert isinstance(weight, torch.fx.Node)
            with rewriter.before(node):
                copy = rewriter.call(ATEN.clone.default, weight, memory_format=LAST)
            node.replace_input_with(weight, copy)
        for node, [source] in self.to_last.items():
            with rewriter.before(node):
                copy = rewriter.call(ATEN.clone.default, source, memory_format=LAST,
                                     val=with_channels_last(source.meta["val"]))
            node.replace_input_with(source, copy)
        for node, sources in self.back.items():
            for source in sources:
                with rewriter.before(node):
                    copy = _with_old_layout(rewriter, source)
                node.replace_input_with(source, copy)
                if node.op == "output":
                    rewriter.results[source] = copy
        for node, value in self.values.items():
            node.meta["val"] = value
        return rewriter.finish()


def _with_old_layout(rewriter: Rewriter, source: torch.fx.Node) -> torch.fx.Node:
    """A copy with the layout that a node has had."""
    order = _dense_order(source.meta["val"])
    assert order is not None
    if order == sorted(order):
        return rewriter.call(ATEN.clone.default, source, memory_format=torch.contiguous_format, val=source.meta["val"])
    sorted_view = rewriter.call(ATEN.permute.default, source, order)
    copy = rewriter.call(ATEN.clone.default, sorted_view, memory_format=torch.contiguous_format)
    return rewriter.call(ATEN.permute.default, copy, [order.index(dim) for dim in range(len(order))])


def _dense_order(value: Any) -> list[int] | None:
    """The order of dimensions in which a tensor is contiguous; None if there is none or it is no tensor."""
    if not isinstance(value, torch.Tensor):
        return None
    order = list(range(value.ndim))
    if value.is_contiguous():
        return order
    if any(type(step) is not int for step in value.stride()):
        return None
    order.sort(key=value.stride().__getitem__, reverse=True)
    return order if value.permute(order).is_contiguous() else None
