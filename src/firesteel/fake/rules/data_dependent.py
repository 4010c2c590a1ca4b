"""Operators whose result, or the size of it, depends on the values in a tensor: nonzero, unique, item, masks.

What the values decide becomes a new symbol without a hint, with the bounds that hold for any values. The mode keeps the
symbols made, so that capture can say where a program reads them when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ... import torch_compat
from ...registry import Registry
from ...shapes import Kind, Symbol, le
from ...shapes.symnode import make_symbolic
from ..dims import at_least_one, depends_on_data, dim_of, numel_of, product, require_equal, shape_of
from ..tensor import DataDependentError, FakeTensor, new_fake
from .losses import ctc_results
from .operands import wrap_dim
from .strides import broadcast_shapes, packed_strides

if TYPE_CHECKING:
    from ..mode import FakeMode

DataRule = Callable[..., Any]
_rules: Registry[str, DataRule] = Registry("rule for what depends on data")
data_rule = _rules.register
"""Registers how results of the operators named are made; the function gets the mode in front of its arguments."""
_MASKS = (torch.bool, torch.uint8)


def data_result(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of an operator that depends on data."""
    rule = _rules.get(str(func))
    if rule is None or mode is None or mode.shape_env is None:
        raise DataDependentError(func)
    return rule(mode, *args, **kwargs)


def always(*args: Any, **kwargs: Any) -> bool:
    """Whatever the arguments are, the result depends on data."""
    return True


def with_masks(x: Any, indices: Sequence[Any]) -> bool:
    """Indices that select by truth values."""
    return any(t is not None and t.dtype in _MASKS for t in indices)


def of_unknown_sum(repeats: Any, *, output_size: Any = None) -> bool:
    """The numbers of repetitions are added up to give the size."""
    return output_size is None


def new_size(mode: FakeMode, name: str, at_most: Any, at_least: int = 0) -> Any:
    """A size that data decides, between 0 and a known one."""
    env = mode.shape_env
    assert env is not None

    def make() -> Symbol:
        if isinstance(at_most, int):
            return env.new_symbol(None, name, lower=at_least, upper=max(at_most, at_least))
        symbol = env.new_symbol(None, name, lower=at_least)
        if at_most is not None:
            env.assume(le(symbol, at_most.expr))
        return symbol

    return dim_of(make_symbolic(env, _next_symbol(mode, make, None)))


def _next_symbol(mode: FakeMode, make: Callable[[], Symbol], x: FakeTensor | None) -> Symbol:
    """The next symbol of the operation under way: one that an earlier attempt made, or a new one."""
    known = mode.data_symbols_known
    position = len(mode.data_symbols)
    if position == len(known):
        known.append(make())
    mode.data_symbols.append((known[position], x))
    return known[position]


_KINDS: dict[bool, Kind] = {True: "float", False: "int"}


def new_number(mode: FakeMode, x: FakeTensor, name: str) -> Symbol:
    """A symbol for the value of an element."""
    env = mode.shape_env
    assert env is not None
    if x.dtype.is_complex:
        raise DataDependentError("aten.item", "a complex number in a tensor is read")
    kind: Kind = "bool" if x.dtype is torch.bool else _KINDS[x.dtype.is_floating_point]
    bounds: dict[str, Any] = {}
    if kind == "int":
        limits = torch.iinfo(x.dtype)
        bounds = {"lower": limits.min, "upper": limits.max}
    return env.new_symbol(None, name, kind=kind, **bounds)


@data_rule("aten._local_scalar_dense.default", "aten.item.default")
def local_scalar(mode: FakeMode, x: FakeTensor) -> Any:
    """The element as a number."""
    if not require_equal(numel_of(x), 1):
        raise RuntimeError(f"a Tensor with {x.numel()} elements cannot be converted to Scalar")
    name = "tensor" if mode.name_of is None else mode.name_of(x)
    symbol = _next_symbol(mode, lambda: new_number(mode, x, f"{name}.item()"), x)
    assert mode.shape_env is not None
    return make_symbolic(mode.shape_env, symbol)


@data_rule("aten.nonzero.default")
def nonzero(mode: FakeMode, x: FakeTensor) -> Any:
    """The places of elements other than 0, one in each row; memory is in the order of columns."""
    count = _true_elements(mode, x) if x.dtype is torch.bool else new_size(mode, "nonzero().size(0)", numel_of(x))
    return new_fake((count, x.ndim), (1, count), torch.int64, x.device)


@data_rule("aten.masked_select.default")
def masked_select(mode: FakeMode, x: FakeTensor, mask: FakeTensor) -> Any:
    """The elements where the mask is true, after broadcasting."""
    shape = broadcast_shapes([shape_of(x), shape_of(mask)])
    if shape is None or mask.dtype not in _MASKS:
        raise DataDependentError("aten.masked_select")
    return new_fake((new_size(mode, "masked_select().size(0)", product(shape)),), None, x.dtype, x.device)


def _true_elements(mode: FakeMode, mask: FakeTensor) -> Any:
    """The number of true elements of a mask; one symbol for as long as the mask is not changed."""
    assert mode.shape_env is not None
    if mask.is_inference():
        return new_size(mode, "mask.sum()", numel_of(mask))
    known = mode.mask_counts.get(id(mask))
    if known is not None and known[0] is mask and known[1] == torch_compat.version_of(mask):
        if known[2] in mode.data_symbols_known:
            _next_symbol(mode, lambda: known[2], None)
        return dim_of(make_symbolic(mode.shape_env, known[2]))
    count = new_size(mode, "mask.sum()", numel_of(mask))
    mode.mask_counts[id(mask)] = mask, torch_compat.version_of(mask), mode.data_symbols[-1][0]
    return count


@data_rule("aten.index.Tensor")
def index(mode: FakeMode, x: FakeTensor, indices: Sequence[FakeTensor | None]) -> Any:
    """A mask stands for the places where it is true, as index tensors of one length, one for each of its dimensions."""
    from ..mode import dispatch

    places: list[FakeTensor | None] = []
    shape = shape_of(x)
    for t in indices:
        if t is None or t.dtype not in _MASKS:
            places.append(t)
            continue
        if t.ndim == 0:
            raise DataDependentError("aten.index.Tensor", "a mask without dimensions")
        own, covered = shape_of(t), shape[len(places): len(places) + t.ndim]
        if len(covered) != len(own) or not all(require_equal(a, b) for a, b in zip(own, covered, strict=True)):
            raise IndexError(f"The shape of the mask {list(own)} does not match the shape of the indexed tensor")
        count = _true_elements(mode, t)
        places.extend(new_fake((count,), None, torch.int64, x.device) for _ in own)
    return dispatch(mode, torch.ops.aten.index.Tensor, (x, places), {})


def _with_counts(
    x: FakeTensor, count: Any, return_inverse: bool, inverse: Sequence[Any], return_counts: bool
) -> tuple[FakeTensor, FakeTensor]:
    empty = new_fake((0,), None, torch.int64, x.device)
    return (new_fake(inverse, None, torch.int64, x.device) if return_inverse else empty,
            new_fake((count,), None, torch.int64, x.device) if return_counts else empty)


def _unique(mode: FakeMode, x: FakeTensor, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    shape = list(shape_of(x))
    # Of no elements there are no different ones, of some at least one.
    elements = numel_of(x)
    least = 1 if isinstance(elements, int) and elements > 0 else 0
    if dim is None:
        count = new_size(mode, "unique().size(0)", elements, least)
        result = new_fake((count,), None, x.dtype, x.device)
        return result, *_with_counts(x, count, return_inverse, shape, return_counts)
    at = wrap_dim(dim, x.ndim)
    if at is None or x.ndim == 0:
        raise DataDependentError("aten.unique_dim")
    size = shape[at]
    count = new_size(mode, f"unique().size({at})", size, least)
    shape[at] = count
    # The slices are compared with their dimension in front, and go back to their place as a view.
    order = [d for d in range(x.ndim - 1, -1, -1) if d != at] + [at]
    result = new_fake(shape, packed_strides([at_least_one(s) for s in shape], order), x.dtype, x.device)
    return result, *_with_counts(x, count, return_inverse, (size,), return_counts)


@data_rule("aten._unique.default")
def unique(mode: FakeMode, x: FakeTensor, sorted: bool = True, return_inverse: bool = False) -> Any:  # noqa: A002
    """Different elements, and which of them each element is."""
    return _unique(mode, x, return_inverse, False, None)[:2]


@data_rule("aten._unique2.default")
def unique2(
    mode: FakeMode, x: FakeTensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False  # noqa: A002
) -> Any:
    """Different elements, which of them each element is, and how often each occurs."""
    return _unique(mode, x, return_inverse, return_counts, None)


@data_rule("aten.unique_dim.default")
def unique_dim(
    mode: FakeMode, x: FakeTensor, dim: int, sorted: bool = True, return_inverse: bool = False,  # noqa: A002
    return_counts: bool = False,
) -> Any:
    """Different slices along a dimension, which of them each slice is, and how often each occurs."""
    return _unique(mode, x, True, True, dim)


@data_rule("aten.unique_dim_consecutive.default")
def unique_dim_consecutive(
    mode: FakeMode, x: FakeTensor, dim: int, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    """The first of each run of equal slices along a dimension, the run of each slice, and how long each run is."""
    return _unique(mode, x, True, True, dim)


@data_rule("aten.unique_consecutive.default")
def unique_consecutive(
    mode: FakeMode, x: FakeTensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements, or slices where a dimension is given, with runs and their lengths."""
    if dim is None:
        return _unique(mode, x, return_inverse, return_counts, None)
    return _unique(mode, x, True, True, dim)


@data_rule("aten.bincount.default")
def bincount(mode: FakeMode, x: FakeTensor, weights: FakeTensor | None = None, minlength: Any = 0) -> Any:
    """As many counts as the largest element needs; of nothing, whatever the weights are, integers."""
    least = minlength if isinstance(minlength, int) else 0
    count = new_size(mode, "bincount().size(0)", None, least)
    dtype = torch.int64
    if weights is not None and depends_on_data(numel_of(x)):
        raise DataDependentError("aten.bincount", "whether there is anything to count decides on the dtype")
    if weights is not None and numel_of(x) != 0:
        dtype = weights.dtype if weights.dtype is torch.float32 else torch.float64
    return new_fake((count,), None, dtype, x.device)


@data_rule("aten.repeat_interleave.Tensor")
def repeat_interleave(mode: FakeMode, repeats: FakeTensor, *, output_size: Any = None) -> Any:
    """Each index as often as its number of repetitions says."""
    count = new_size(mode, "repeats.sum()", None)
    return new_fake((count,), None, repeats.dtype, repeats.device)


@data_rule("aten._ctc_loss.Tensor")
def ctc_loss(mode: FakeMode, log_probs: FakeTensor, targets: FakeTensor, *rest: Any) -> Any:
    """Losses, and probabilities of as many states as the longest target needs."""
    result = ctc_results(log_probs, new_size(mode, "ctc_loss().size(2)", None, 1))
    if result is NotImplemented:
        raise DataDependentError("aten._ctc_loss")
    return result
