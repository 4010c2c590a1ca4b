"""Whether the operands of an operator fit together, where eager's kernels look and torch's meta kernels do not.

A kernel of ours trusts the sizes that it was made for: with fewer values than indices it would read memory that belongs
to nobody. So what eager demands is asked for ahead of the operator's rule, as guards and checks where sizes are
symbols. An operand that does not fit is left to eager, which raises the error.

    y[i] = v     values of the shape of y[i], or broadcast to it, in the dtype of y
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..devices import kind_of
from ..registry import Registry
from ..torch_compat import storage_address
from .dims import Dim, depends_on_data, is_one, known_equal, numel_of, require_equal, shape_of
from .rules.operands import wrap_dim
from .rules.strides import broadcast_shapes
from .tensor import FakeTensor, FakeUnsupported

Check = Callable[..., bool]

_LONG = (torch.int64,)
_INDEX = (torch.int64, torch.int32)
_MASKS = (torch.bool, torch.uint8)
_checks: Registry[str, Check] = Registry("check")


def find_check(name: str) -> Check | None:
    """What an operator demands of its operands, as a function of its arguments; None if there is nothing to ask."""
    return _checks.get(name)


def require(name: str, check: Check, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Leave a call to eager whose operands do not fit."""
    if not check(*args, **kwargs):
        raise FakeUnsupported(name, "operands that do not fit together, an error in eager")


def _check(*names: str) -> Callable[[Check], Check]:
    """Register what operators demand, in all of their forms: ``put.default`` means ``put_.default`` too."""
    parts = [name.partition(".") for name in names]
    return _checks.register(*[f"aten.{base}{ending}.{overload}" for base, _, overload in parts for ending in ("", "_")])


# ---------------------------------------------------------------------------------------------------------------------
# sizes


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(require_equal(x, y) for x, y in zip(a, b, strict=True))


def _expands(own: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether a shape is broadcast to another one, and not the other way round."""
    if len(own) > len(wanted):
        return False
    for size, full in zip(reversed(own), reversed(wanted), strict=False):
        if known_equal(size, full) or (not depends_on_data(size) and size == 1):
            continue
        if not require_equal(size, full):
            return False
    return True


def _at_most(own: Sequence[Any], limits: Sequence[Any]) -> bool:
    return all(known_equal(a, b) or a <= b for a, b in zip(own, limits, strict=True))


def _length(source: FakeTensor, dim: int) -> Any:
    return shape_of(source)[dim] if source.ndim else 1


def _without(shape: Sequence[Any], dim: int) -> list[Any]:
    return [size for at, size in enumerate(shape) if at != dim]


# ---------------------------------------------------------------------------------------------------------------------
# writing by index tensors


def _indexed_shape(x: FakeTensor, indices: Sequence[FakeTensor | None]) -> tuple[Any, ...] | None:
    """The shape of ``x[indices]``, with None for the number of true elements of a mask; None if that is an error."""
    shape = shape_of(x)
    places: list[tuple[Any, ...] | None] = []
    for t in indices:
        if t is None:
            places.append(None)
        elif t.dtype in _MASKS:
            covered = shape[len(places) : len(places) + t.ndim]
            if len(covered) != t.ndim or not _same(shape_of(t), covered):
                return None
            if t.ndim == 0:
                return None  # a dimension more
            places += [(None,)] * t.ndim
        elif t.dtype in _INDEX:
            places.append(shape_of(t))
        else:
            return None
    given = [at for at, place in enumerate(places) if place is not None]
    if len(places) > len(shape) or not given:
        return None
    common = _common([place for place in places if place is not None])
    if common is None:
        return None
    first = given[0] if given == list(range(given[0], given[-1] + 1)) else 0
    rest = [size for at, size in enumerate(shape) if at not in given]
    return (*rest[:first], *common, *rest[first:])


def _common(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...] | None:
    masks = [part for part in parts if part == (None,)]
    if not masks:
        return broadcast_shapes(parts)
    if len(masks) == len(parts):
        return (None,)
    longest = max((part for part in parts if part != (None,)), key=len)
    return (*longest[:-1], None) if longest else (None,)


@_check("index_put.default", "_unsafe_index_put.default", "_index_put_impl.default")
def _index_put(
    x: FakeTensor, indices: Sequence[FakeTensor | None], values: FakeTensor, *rest: Any, **more: Any
) -> bool:
    if values.dtype is not x.dtype:
        return False
    wanted = _indexed_shape(x, indices)
    if wanted is None or values.ndim > len(wanted):
        return False
    # How many elements of a mask are true is seen when the program runs, by ATen: kernels take single values there.
    own = shape_of(values)
    if values.requires_grad:
        # A single value that is repeated would get the sum of what those places get.
        for size, full in zip(reversed(own), reversed(wanted), strict=False):
            if full is None and depends_on_data(size):
                is_one(size)
    pairs = [(a, b) for a, b in zip(reversed(own), reversed(wanted), strict=False) if b is not None]
    return _expands([a for a, _ in pairs], [b for _, b in pairs])


@_check("put.default")
def _put(x: FakeTensor, index: FakeTensor, source: FakeTensor, accumulate: bool = False) -> bool:
    if index.dtype not in _LONG or source.dtype is not x.dtype or not require_equal(numel_of(index), numel_of(source)):
        return False
    sizes = numel_of(x), numel_of(index)
    return any(map(depends_on_data, sizes)) or sizes[0] != 0 or sizes[1] == 0


def _slices(x: FakeTensor, dim: Any, index: FakeTensor, source: FakeTensor, dtypes: Sequence[torch.dtype]) -> bool:
    """One slice of ``source`` for each index."""
    at = wrap_dim(dim, x.ndim)
    if at is None or index.ndim > 1 or index.dtype not in dtypes or source.dtype is not x.dtype:
        return False
    if source.ndim != x.ndim and (source.ndim > 1 or x.ndim > 1):
        return False
    if not require_equal(numel_of(index), _length(source, at)):
        return False
    if (x.requires_grad or source.requires_grad) and any(known_equal(size, 0) for size in shape_of(source)):
        return False  # only backward looks at the indices of slices without elements
    return x.ndim == 0 or source.ndim == 0 or _same(_without(shape_of(source), at), _without(shape_of(x), at))


@_check("index_fill.int_Scalar", "index_fill.int_Tensor")
def _index_fill(x: FakeTensor, dim: Any, index: FakeTensor, value: Any) -> bool:
    if isinstance(value, FakeTensor) and value.ndim:
        return False
    return index.ndim <= 1 and index.dtype in _LONG and wrap_dim(dim, x.ndim) is not None


@_check("scatter.src", "scatter.reduce", "scatter_add.default", "scatter_reduce.two")
def _scatter(x: FakeTensor, dim: Any, index: FakeTensor, source: FakeTensor, *rest: Any, **more: Any) -> bool:
    if source.dtype is not x.dtype or not _index_in_shape(x, dim, index):
        return False
    own, wanted = ((shape_of(t) or (1,)) for t in (source, index))
    return len(own) == len(wanted) and _at_most(wanted, own)


@_check("scatter.value", "scatter.value_reduce", "gather.default")
def _index_in_shape(x: FakeTensor, dim: Any, index: FakeTensor, *rest: Any, **more: Any) -> bool:
    """An index that is not longer than the tensor, but along the dimension that it indexes."""
    at = wrap_dim(dim, x.ndim)
    if at is None or index.dtype not in _INDEX:
        return False
    own, wanted = ((shape_of(t) or (1,)) for t in (x, index))
    return len(own) == len(wanted) and _at_most(_without(wanted, at), _without(own, at))


@_check("masked_scatter.default")
def _masked_scatter(x: FakeTensor, mask: FakeTensor, source: FakeTensor) -> bool:
    return mask.dtype is torch.bool and source.dtype is x.dtype \
        and broadcast_shapes([shape_of(x), shape_of(mask)]) is not None


# ---------------------------------------------------------------------------------------------------------------------
# writing to views


def _of_view(operator: Any) -> Check:
    """A source of the shape of a view of the first argument."""

    def check(x: FakeTensor, source: FakeTensor, *arguments: Any, **more: Any) -> bool:
        return _same(shape_of(source), shape_of(FakeTensor.run_operator(None, operator, (x, *arguments), more)))

    return check


for _name, _view in (
    ("slice_scatter.default", torch.ops.aten.slice.Tensor),
    ("select_scatter.default", torch.ops.aten.select.int),
    ("diagonal_scatter.default", torch.ops.aten.diagonal.default),
):
    _check(_name)(_of_view(_view))


# ---------------------------------------------------------------------------------------------------------------------
# layers


@_check("prod.dim_int")
def _prod(x: FakeTensor, *rest: Any, **more: Any) -> bool:
    """Of nothing, autograd has a gradient of its own for tensors that are not plain ones."""
    return not x.requires_grad or all(isinstance(size, Dim) or size != 0 for size in shape_of(x))


def _parameters(x: FakeTensor, *parameters: FakeTensor | None) -> bool:
    """Parameters of the dtype of the argument, or float32 for one of half precision."""
    wanted = (x.dtype, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else (x.dtype,)
    return not kind_of(x).is_host or all(parameter is None or parameter.dtype in wanted for parameter in parameters)


@_check("native_batch_norm.default", "_native_batch_norm_legit.default", "_batch_norm_with_update.default")
def _batch_norm(
    x: FakeTensor, weight: FakeTensor | None, bias: FakeTensor | None, mean: FakeTensor | None,
    variance: FakeTensor | None, *rest: Any,
) -> bool:
    """Rows of numbers. Eager changes the statistics before it reads the parameters, and before it refuses them."""
    if not all(parameter is None or parameter.ndim == 1 for parameter in (weight, bias, mean, variance)):
        return False
    if weight is not None and bias is not None and weight.dtype is not bias.dtype:
        return False
    changed = [storage_address(t) for t in (mean, variance) if t is not None]
    read = [storage_address(t) for t in (x, weight, bias) if t is not None]
    return not any(memory in read for memory in changed) and len(set(changed)) == len(changed)


@_check("convolution.default")
def _convolution(x: FakeTensor, weight: FakeTensor, bias: FakeTensor | None = None, *rest: Any) -> bool:
    """One dtype, and no masks."""
    return x.dtype is not torch.bool and all(t is None or t.dtype is x.dtype for t in (weight, bias))


@_check(*(f"{name}_backward.default" for name in ("_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
                                                  "adaptive_max_pool2d", "adaptive_max_pool3d")))
def _adaptive_pool_backward(grad: FakeTensor, *rest: Any) -> bool:
    """Forward takes images without channels, backward does not."""
    return all(size != 0 for size in shape_of(grad)[1:])


@_check("_adaptive_avg_pool2d.default", "adaptive_avg_pool2d.default")
def _adaptive_avg_pool2d(x: FakeTensor, *rest: Any) -> bool:
    """Images with pixels."""
    return all(size != 0 for size in shape_of(x)[-2:])


@_check("_adaptive_avg_pool3d.default", "adaptive_avg_pool3d.default")
def _adaptive_avg_pool3d(x: FakeTensor, *rest: Any) -> bool:
    """Channels with pixels."""
    return all(size != 0 for size in shape_of(x)[1:])


# ---------------------------------------------------------------------------------------------------------------------
# losses: eager computes them in memory of the size of one operand


@_check("nll_loss_forward.default", "nll_loss2d_forward.default")
def _nll_loss(x: FakeTensor, target: FakeTensor, weight: FakeTensor | None, *rest: Any) -> bool:
    if x.ndim == 1:
        classes = shape_of(x)[0]
        if target.ndim > 1 or not require_equal(numel_of(target), 1):
            return False
    elif x.ndim in (2, 4):
        batch, classes, *places = shape_of(x)
        if not _same(shape_of(target), (batch, *places)):
            return False
    else:
        return False
    return weight is None or (weight.dtype is x.dtype and _same(shape_of(weight), (classes,)))


@_check("binary_cross_entropy.default")
def _binary_cross_entropy(x: FakeTensor, target: FakeTensor, weight: FakeTensor | None = None, *rest: Any) -> bool:
    return _same(shape_of(target), shape_of(x)) and (weight is None or _expands(shape_of(weight), shape_of(x)))


@_check("binary_cross_entropy_with_logits.default")
def _binary_cross_entropy_with_logits(
    x: FakeTensor, target: FakeTensor, weight: FakeTensor | None = None, pos_weight: FakeTensor | None = None,
    *rest: Any,
) -> bool:
    weights = [t for t in (weight, pos_weight) if t is not None]
    return all(t.dtype.is_floating_point for t in (target, *weights)) and _same(shape_of(target), shape_of(x)) \
        and all(_expands(shape_of(t), shape_of(x)) for t in weights)


# ---------------------------------------------------------------------------------------------------------------------
# ranges and rates of distributions: these operators take plain numbers


@_check("uniform.default")
def _uniform(x: FakeTensor, start: float = 0.0, end: float = 1.0, **more: Any) -> bool:
    if not x.dtype.is_floating_point:
        return False
    largest = torch.finfo(x.dtype).max
    return -largest <= start <= end <= largest and end - start <= largest


def _holds(dtype: torch.dtype, number: int) -> bool:
    """Whether a number and all below are values of a dtype. Eager warns of others if it does not refuse them."""
    if dtype is torch.bool:
        return number in (0, 1)
    if dtype.is_floating_point:
        return abs(number) <= 2 / torch.finfo(dtype).eps
    return not dtype.is_complex and torch.iinfo(dtype).min <= number <= torch.iinfo(dtype).max


# ---------------------------------------------------------------------------------------------------------------------
# what is one condition


_CONDITIONS: dict[str, Check] = {
    # writing by index tensors and to views
    "index_add.default": lambda x, dim, index, source, *, alpha=1: _slices(x, dim, index, source, _INDEX),
    "index_copy.default": lambda x, dim, index, source: _slices(x, dim, index, source, _LONG),
    "index_reduce.default": lambda x, dim, index, source, reduce, *, include_self=True:
        reduce in ("prod", "mean", "amax", "amin") and _slices(x, dim, index, source, _INDEX),
    "masked_fill.Scalar": lambda x, mask, value: mask.dtype is torch.bool,
    "masked_fill.Tensor": lambda x, mask, value:
        mask.dtype is torch.bool and not (isinstance(value, FakeTensor) and value.ndim),
    "as_strided_scatter.default": lambda x, source, size, *rest: _same(shape_of(source), size),
    # reading by index tensors
    "take.default": lambda x, index: index.dtype in _LONG,
    "index_select.default": lambda x, dim, index: index.dtype in _INDEX and index.ndim <= 1,
    "embedding.default": lambda weight, indices, *rest, **more: indices.dtype in _INDEX,
    # layers
    "addmv.default": lambda bias, x, vector, **more:
        bias.dtype is x.dtype is vector.dtype and _expands(shape_of(bias), shape_of(x)[:1]),
    "gcd.default": lambda x, y: _is_integer(x) and _is_integer(y),
    "lcm.default": lambda x, y: _is_integer(x) and _is_integer(y),
    "roll.default": lambda x, shifts, dims=(): len(shifts) == (len(dims) or 1),
    "native_layer_norm.default": lambda x, shape, weight, bias, eps: _parameters(x, weight, bias),
    "native_group_norm.default": lambda x, weight, bias, *rest: _parameters(x, weight, bias),
    # losses
    "soft_margin_loss.default": lambda x, target, *rest: _expands(shape_of(target), shape_of(x)),
    "smooth_l1_loss.default": lambda x, target, reduction=1, beta=1.0: bool(beta >= 0),
    "huber_loss.default": lambda x, target, reduction=1, delta=1.0: bool(delta > 0),
    # ranges and rates of distributions
    "random.from": lambda x, start, end, **more:
        end is not None and start < end and _holds(x.dtype, start) and _holds(x.dtype, end - 1),
    "random.to": lambda x, end, **more: end > 0 and _holds(x.dtype, end - 1),
    "exponential.default": lambda x, rate=1.0, **more: rate > 0 and x.dtype.is_floating_point,
    "geometric.default": lambda x, p, **more: 0 < p < 1,
    "cauchy.default": lambda x, middle=0.0, width=1.0, **more: width > 0 and x.dtype.is_floating_point,
    "log_normal.default": lambda x, middle=0.0, width=1.0, **more: width > 0 and x.dtype.is_floating_point,
    "normal.default": lambda x, mean=0.0, std=1.0, **more: std >= 0,
    "normal.Tensor_float": lambda x, mean=0.0, std=1.0, **more: std >= 0,
    "normal.float_float": lambda mean, std, size, **more: std >= 0,
}
for _name, _condition in _CONDITIONS.items():
    _check(_name)(_condition)


def _is_integer(x: FakeTensor) -> bool:
    return x.dtype is not torch.bool and not x.dtype.is_floating_point and not x.dtype.is_complex


# ---------------------------------------------------------------------------------------------------------------------
# functions that take other ways for fake tensors than for real ones


def require_of_function(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Leave a call of a function of torch to eager whose operands do not fit."""
    check = _FUNCTIONS.get(name)
    if check is not None and isinstance(args[0] if args else None, FakeTensor):
        require(name, check, args, kwargs)


def _max_pool1d(x: FakeTensor, *rest: Any, **more: Any) -> bool:
    """Without gradients it has a kernel of its own, for floats only."""
    return x.dtype.is_floating_point


def _attention(query: FakeTensor, key: Any = None, value: Any = None, attn_mask: Any = None, *rest: Any,
               **more: Any) -> bool:
    """The mask is added to the products of queries and keys in place."""
    if not isinstance(attn_mask, FakeTensor) or not isinstance(key, FakeTensor) or min(query.ndim, key.ndim) < 2:
        return True
    batch = shape_of(query)[:-2]
    if not more.get("enable_gqa"):
        joined = broadcast_shapes([batch, shape_of(key)[:-2]])
        if joined is None:
            return False
        batch = joined
    return _expands(shape_of(attn_mask), (*batch, shape_of(query)[-2], shape_of(key)[-2]))


def _one_hot(x: FakeTensor, num_classes: Any = -1) -> bool:
    """No element is below 0."""
    return not isinstance(num_classes, int) or num_classes != 0


_FUNCTIONS: dict[str, Check] = {
    "max_pool1d": _max_pool1d,
    "scaled_dot_product_attention": _attention,
    "one_hot": _one_hot,
}
