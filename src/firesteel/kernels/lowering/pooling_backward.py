"""Gradients of pooling.

The gradient of a mean is gathered: every element adds up what the windows around it give. That of a largest element is
scattered to the position that was found for it, window after window, so that equal positions add up in eager's order.
Where all elements are computed at once, on a GPU, it is gathered too: an element takes the gradients of those windows
around it that found it, in the same order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ...shapes import Expr
from .. import ir
from ..ir import Value
from .adaptive_pooling import parts_of
from .context import Lowering
from .parallel_scatters import obstacle
from .pooling import WRITTEN_OUT, Windows, window_sum
from .reducing import of_one
from .registry import lowering
from .scalars import add, both, cast, compare, div, opmath, where
from .storing import copied, store
from .tensors import ONE, ZERO, Indices, Spec, Stored, Tensor

EMPTY = "a size that may be 0"

# ---------------------------------------------------------------------------------------------------------------------
# largest elements


def _flattened(ctx: Lowering, target: Stored, count: int) -> Stored | None:
    """A buffer with its last dimensions as one; None where they are not one run of equal steps."""
    sizes, strides = target.shape[-count:], target.strides[-count:]
    total: Expr = ONE
    step = strides[-1]
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size is not ONE and not ctx.same(stride, step * total):
            return None
        total = total * size
    return target.restrided((*target.shape[:-count], total), (*target.strides[:-count], step))


def scattered_gradient(ctx: Lowering, grad: Tensor, indices: Tensor, count: int) -> Tensor:
    """Zeros, with every element of the gradient added at its position in the last ``count`` dimensions."""
    out = ctx.out
    if any(ctx.known(size > 0) is not True for size in out.shape):
        return ctx.unsupported(EMPTY)
    if reason := obstacle(ctx, "add"):
        return ctx.unsupported(reason)
    wide = opmath(out.dtype)
    zeros = ctx.computed(lambda i: ir.const(0.0, wide), Spec(out.shape, out.strides, wide, out.device))
    target = copied(ctx, zeros, wide, out)
    flat = _flattened(ctx, target, count)
    if flat is None:
        return ctx.unsupported("a result with gaps")
    grad, indices = ctx.share(grad), ctx.share(indices)
    last = ctx.index(flat.shape[-1] - 1)

    def place(at: Indices) -> Indices:
        # The positions come from the forward operator; they are kept inside all the same.
        inside = ir.op("max", ir.op("min", indices.at(at), last), ctx.index(ZERO))
        return (*at[:-count], ctx.indirect(inside, flat.shape[-1]))

    store(ctx, flat, grad.shape, place, lambda i: cast(grad.at(i), wide), "add")
    return target if wide is out.dtype else ctx.computed(lambda i: cast(target.at(i), out.dtype))


def _sum_of_windows(ctx: Lowering, covering: Sequence[int],
                    share: Callable[[Indices, tuple[int, ...]], Value]) -> Tensor:
    """For each element the sum of what all windows give that may reach it, the first of them first."""
    def body(at: Indices) -> Value:
        total: Value | None = None
        for back in itertools.product(*[range(number - 1, -1, -1) for number in covering]):
            value = share(at, back)
            total = value if total is None else add(total, value)
        assert total is not None
        return cast(of_one("sum", total), ctx.out.dtype)  # a sum of -0.0 only

    return ctx.computed(body)


def _covering(windows: Windows) -> list[int] | None:
    """How many windows may reach an element, for each dimension; None where that is not known or they are too many."""
    if not all(step.is_constant for step in windows.stride):
        return None
    covering = [-(-k // int(s)) for k, s in zip(windows.kernel, windows.stride, strict=True)]  # type: ignore[call-overload]
    return covering if math.prod(covering) <= WRITTEN_OUT else None


def _window_before(ctx: Lowering, windows: Windows, grad: Tensor, element: Indices, back: tuple[int, ...],
                   reaching: bool) -> tuple[Value, Indices]:
    """The window that starts ``back`` windows before the last one that reaches an element, and whether it is there;
    with ``reaching``, also whether it reaches the element."""
    mask, window = ctx.condition(ZERO >= 0), []
    count = len(back)
    for k, i in enumerate(element[-count:]):
        step = windows.stride[k]
        number = ctx.simplify((i + windows.padding[k]) // step) - back[k]
        conditions = [number >= 0, number < grad.shape[k - count]]
        if reaching:
            conditions.append(number * step - windows.padding[k] + windows.kernel[k] > i)
        for condition in conditions:
            if ctx.known(condition) is not True:
                mask = both(mask, ctx.condition(condition))
        window.append(number)
    return mask, tuple(window)


def gathered_gradient(
    ctx: Lowering, grad: Tensor, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, indices: Tensor,
    count: int,
) -> Tensor | None:
    """The sum of what the windows around an element give that have found it; None where windows are not simple."""
    wide = opmath(ctx.out.dtype)
    result = Spec(grad.shape, grad.shape, grad.dtype, grad.device)
    windows = Windows.of(ctx, x, result, kernel_size, stride, padding, dilation, count)
    covering = None if windows is None else _covering(windows)
    if windows is None or covering is None or any(gap is not ONE for gap in windows.dilation):
        return None
    grad, indices = ctx.share(grad), ctx.share(indices)

    def share(at: Indices, back: tuple[int, ...]) -> Value:
        flat: Expr = ZERO
        for k, i in enumerate(at[-count:]):
            flat = flat * x.shape[k - count] + i
        mask, window = _window_before(ctx, windows, grad, at, back, reaching=False)
        place = (*at[:-count], *window)

        def value() -> Value:
            # A window that does not reach the element has found another.
            is_this = compare("eq", indices.at(place), ctx.index(flat))
            return where(is_this, cast(grad.at(place), wide), ir.const(0.0, wide))

        return ctx.masked(mask, value, ir.const(0.0, wide))

    return _sum_of_windows(ctx, covering, share)


def _max_pool_backward(count: int) -> Any:
    def lower(ctx: Lowering, grad: Tensor, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
              ceil_mode: bool, indices: Tensor) -> Tensor:
        if ctx.kind.runs_at_once:
            gathered = gathered_gradient(ctx, grad, x, kernel_size, stride, padding, dilation, indices, count)
            if gathered is not None:
                return gathered
        return scattered_gradient(ctx, grad, indices, count)

    return lower


lowering("aten.max_pool2d_with_indices_backward.default")(_max_pool_backward(2))
lowering("aten.max_pool3d_with_indices_backward.default")(_max_pool_backward(3))


@lowering("aten.adaptive_max_pool2d_backward.default")
def adaptive_max_pool2d_backward(ctx: Lowering, grad: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    return scattered_gradient(ctx, grad, indices, 2)


@lowering("aten.adaptive_max_pool3d_backward.default")
def adaptive_max_pool3d_backward(ctx: Lowering, grad: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    return scattered_gradient(ctx, grad, indices, 3)


@lowering("aten.fractional_max_pool2d_backward.default")
def fractional_max_pool2d_backward(
    ctx: Lowering, grad: Tensor, x: Tensor, kernel_size: Any, output_size: Any, indices: Tensor
) -> Tensor:
    return scattered_gradient(ctx, grad, indices, 2)


# ---------------------------------------------------------------------------------------------------------------------
# means


def _avg_pool_backward(count: int) -> Any:
    def lower(ctx: Lowering, grad: Tensor, x: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
              count_include_pad: bool, divisor_override: Any) -> Tensor:
        wide = opmath(ctx.out.dtype)
        grad = ctx.share(grad)
        result = Spec(grad.shape, grad.shape, grad.dtype, grad.device)
        windows = Windows.of(ctx, x, result, kernel_size, stride, padding, 1, count)
        if windows is None or isinstance(divisor_override, Expr):
            return ctx.unsupported("a window whose size is not constant")
        covering = _covering(windows)
        if covering is None:
            return ctx.unsupported("windows whose steps are not constant, or that overlap much")

        def share(indices: Indices, back: tuple[int, ...]) -> Value:
            mask, window = _window_before(ctx, windows, grad, indices, back, reaching=True)
            place = (*indices[:-count], *window)
            return ctx.masked(mask, lambda: div(cast(grad.at(place), wide), windows.divisor(
                window, divisor_override, count_include_pad, wide)), ir.const(0.0, wide))

        return _sum_of_windows(ctx, covering, share)

    return lower


lowering("aten.avg_pool2d_backward.default")(_avg_pool_backward(2))
lowering("aten.avg_pool3d_backward.default")(_avg_pool_backward(3))


def _adaptive_avg_pool_backward(count: int) -> Any:
    def lower(ctx: Lowering, grad: Tensor, x: Tensor) -> Tensor:
        out = ctx.out
        wide = opmath(out.dtype)
        # The windows around an element are to the gradient what a window's elements are to the argument.
        around, windows = parts_of(ctx, grad, out, count), parts_of(ctx, x, Spec(
            grad.shape, grad.shape, grad.dtype, grad.device), count)  # fmt: skip
        if around is None or windows is None:
            return ctx.unsupported(EMPTY)

        def share(indices: Indices, offsets: Any) -> Value:
            element = around.element(indices, offsets, wide, 0.0)
            for start, end in windows.bounds(tuple(around.position(indices, offsets))):
                element = div(element, ctx.scalar(ctx.simplify(end - start), wide))
            return element

        summed = window_sum(ctx, out, around.kernel, wide, share)
        return ctx.computed(lambda i: cast(summed(i), out.dtype))

    return lower


lowering("aten._adaptive_avg_pool2d_backward.default")(_adaptive_avg_pool_backward(2))
lowering("aten._adaptive_avg_pool3d_backward.default")(_adaptive_avg_pool_backward(3))
