"""View operators: how a view is made again from its parent, and how a write to a view goes to its parent.

    write to y = x.t()        x becomes t(value)
    write to y = x[2:5]       x becomes slice_scatter(x, value, 0, 2, 5)
    write to y = x.view(-1)   x becomes view(value, sizes of x)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import torch_compat
from ..fake import FakeTensor
from ..fake.dims import known_equal, layout_of, offset_of, product, shape_of, storage_size
from ..fake.mode import LAZY_VIEWS
from ..fake.rules.strides import is_dense
from ..fake.rules.views import viewed_strides
from ..records import dataclass
from ..registry import Registry
from .graph import Unsupported

if TYPE_CHECKING:
    from .recorder import Recorder

_ATEN = torch.ops.aten
_IDENTITIES = frozenset({"aten.alias.default", "aten.detach.default", "aten.lift_fresh.default", "aten.lift.default"})


@dataclass(frozen=True, slots=True)
class View:
    """An operator that makes a view, and its arguments after the tensor."""

    func: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


def view(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], base: FakeTensor, result: FakeTensor) -> View | None:
    """The view that an operator made of ``base``; None when the result is the same elements in the same layout."""
    name = torch_compat.operator_name(func)
    if name in _IDENTITIES:
        return None
    if name in LAZY_VIEWS:
        raise Unsupported("a lazily conjugated or negated tensor")
    if name == "aten.as_strided.default":
        # of the memory's root from now on, with the place in the storage spelled out
        return View(func, (*layout_of(result), offset_of(result)))
    if name in ("aten._unsafe_view.default", "aten._reshape_alias.default"):
        return View(_ATEN.view.default, (list(layout_of(result)[0]),))
    return View(func, args, dict(kwargs))


def parts(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], base: FakeTensor,
          results: Sequence[FakeTensor]) -> Iterator[View]:
    """The views that an operator with several results makes, each as an operator with one."""
    base_name = name.split(".")[1]
    if base_name == "unbind":
        dim = _argument(args, kwargs, 1, "dim", 0)
        for position in range(len(results)):
            yield View(_ATEN.select.int, (dim, position))
    elif base_name in ("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes"):
        dim = _argument(args, kwargs, 2, "dim", 0)
        start: Any = 0
        for result in results:
            end = start + shape_of(result)[dim]
            yield View(_ATEN.slice.Tensor, (dim, start, end))
            start = end
    else:
        raise Unsupported(f"the views that {name} makes")


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str, default: Any) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def source(recorder: Recorder, view: View, parent: FakeTensor, node: torch.fx.Node) -> tuple[torch.fx.Node, View]:
    """What makes a view of ``parent``, whose value is ``node``: a node and the operator that is applied to it."""
    if view.func is not _ATEN.as_strided.default:
        return node, view
    shape, stride, offset = view.args
    start = offset_of(parent)
    own = node.op == "placeholder" and node.meta["val"] is parent
    if not own:
        _require_inside(view, parent, "as_strided of")
    # Only of inputs is it known where they lie in their storage. Where the program names such places, they are guarded.
    if own and not known_equal(offset, start):
        return node, view
    if not known_equal(offset, start):
        node = recorder.node_of(_flat(recorder, parent, offset - start)[1])
    return node, View(view.func, (shape, stride))


def _require_inside(view: View, parent: FakeTensor, what: str) -> None:
    """Nothing is known of the memory around a value that the graph has computed."""
    shape, stride, offset = view.args
    start = offset_of(parent)
    if not fills_its_storage(*layout_of(parent)):
        raise Unsupported(f"{what} a tensor with gaps that is changed in place")
    if not (offset >= start and offset + storage_size(shape, stride) <= start + product(shape_of(parent))):
        raise Unsupported(f"{what} memory beyond a tensor that is changed in place")


def _flat(recorder: Recorder, parent: FakeTensor, begin: Any) -> tuple[FakeTensor, FakeTensor]:
    """The elements of a tensor without gaps in the order of memory: all, and those from ``begin`` on."""
    flat = recorder.call(_ATEN.as_strided.default, (parent, [product(shape_of(parent))], [1]), {})
    return flat, recorder.call(_ATEN.slice.Tensor, (flat, 0, begin), {})


def same_numbers(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether sizes or strides are known to be equal. Nothing is assumed about symbols."""
    return len(left) == len(right) and all(map(known_equal, left, right))


def same_layout(value: FakeTensor, other: FakeTensor) -> bool:
    """Whether two tensors are known to have the same sizes and strides, as far as strides matter."""
    shape, stride = layout_of(value)
    other_shape, other_stride = layout_of(other)
    return same_numbers(shape, other_shape) and all(
        known_equal(a, b) or (type(size) is int and size == 1)
        for size, a, b in zip(shape, stride, other_stride, strict=True))


# ---------------------------------------------------------------------------------------------------------------------
# writes

Through = Callable[["Recorder", View, FakeTensor, FakeTensor], FakeTensor]
_THROUGH: Registry[str, Through] = Registry("way to write through it")


def write_through(recorder: Recorder, view: View, parent: FakeTensor, value: FakeTensor) -> FakeTensor:
    """What ``parent`` becomes when ``value`` is written to a view of it."""
    name = torch_compat.operator_name(view.func)
    through = _THROUGH.get(name)
    if through is None:
        raise Unsupported(f"a write to what {name} returns")
    return through(recorder, view, parent, value)


def _through(*names: str) -> Callable[[Through], Through]:
    return _THROUGH.register(*[f"aten.{name}" for name in names])


@_through("detach.default")
def _same(recorder: Recorder, view: View, parent: FakeTensor, value: FakeTensor) -> FakeTensor:
    return value


@_through("view.default", "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims")
def _reshape(recorder: Recorder, view: View, parent: FakeTensor, value: FakeTensor) -> FakeTensor:
    shape = shape_of(parent)
    if viewed_strides(*layout_of(value), shape) is None:
        value = recorder.call(_ATEN.clone.default, (value,), {"memory_format": torch.contiguous_format})
    return recorder.call(_ATEN.view.default, (value, list(shape)), {})


@_through("t.default", "transpose.int", "numpy_T.default")
def _swap(recorder: Recorder, view: View, parent: FakeTensor, value: FakeTensor) -> FakeTensor:
    return recorder.call(view.func, (value, *view.args), {})


@_through("permute.default")
def _permute(recorder: Recorder, view: View, parent: FakeTensor, value: FakeTensor) -> FakeTensor:
    count = parent.dim()
    order = [dim % count for dim in _argument(view.args, view.kwargs, 0, "dims", None)]
    return recorder.call(_ATEN.permute.default, (value, [order.index(dim) for dim in range(count)]), {})


def _scatter(operator: Any) -> Through:
    """A write to a view that an operator of the same arguments puts into the parent."""
    return lambda recorder, view, parent, value: recorder.call(operator, (parent, value, *view.args), view.kwargs)


for _view, _operator in (("slice.Tensor", _ATEN.slice_scatter.default), ("select.int", _ATEN.select_scatter.default),
                         ("diagonal.default", _ATEN.diagonal_scatter.default)):
    _through(_view)(_scatter(_operator))


@_through("as_strided.default")
def _as_strided(recorder: Recorder, view: View, parent: FakeTensor, value: FakeTensor) -> FakeTensor:
    shape, stride, offset = view.args
    _require_inside(view, parent, "a write through as_strided to")
    if not fills_its_storage(shape, stride) and not _apart(shape, stride):
        raise Unsupported("a write to a view with elements that share memory")
    place = list(shape), list(stride)
    begin = offset - offset_of(parent)
    if known_equal(begin, 0):
        return recorder.call(_ATEN.as_strided_scatter.default, (parent, value, *place), {})
    flat, rest = _flat(recorder, parent, begin)
    rest = recorder.call(_ATEN.as_strided_scatter.default, (rest, value, *place), {})
    flat = recorder.call(_ATEN.slice_scatter.default, (flat, rest, 0, begin), {})
    return recorder.call(_ATEN.as_strided.default, (flat, *map(list, layout_of(parent))), {})


@_through("unfold.default")
def _unfold(recorder: Recorder, view: View, parent: FakeTensor, value: FakeTensor) -> FakeTensor:
    dim, size, step = view.args
    if type(size) is not int or type(step) is not int or step < size:
        raise Unsupported("a write to a view with elements that share memory")
    result = recorder.call(_ATEN.unfold.default, (parent, dim, size, step), {})
    root = recorder.tracked(parent).memory.root.fake
    if root is not parent:
        raise Unsupported("a write to what unfold returns")
    return _as_strided(recorder, View(_ATEN.as_strided.default, (*layout_of(result), offset_of(result))), parent, value)


@_through("expand.default")
def _expand(recorder: Recorder, view: View, parent: FakeTensor, value: FakeTensor) -> FakeTensor:
    if not same_numbers(shape_of(parent), shape_of(value)):
        raise Unsupported("a write to an expanded tensor")
    return value


@_through("view.dtype")
def _view_dtype(recorder: Recorder, view: View, parent: FakeTensor, value: FakeTensor) -> FakeTensor:
    return recorder.call(_ATEN.view.dtype, (value, parent.dtype), {})


@_through("view_as_real.default")
def _real(recorder: Recorder, view: View, parent: FakeTensor, value: FakeTensor) -> FakeTensor:
    return recorder.call(_ATEN.view_as_complex.default, (value,), {})


@_through("view_as_complex.default")
def _complex(recorder: Recorder, view: View, parent: FakeTensor, value: FakeTensor) -> FakeTensor:
    return recorder.call(_ATEN.view_as_real.default, (value,), {})


def fills_its_storage(shape: Sequence[Any], stride: Sequence[Any]) -> bool:
    """Whether a layout has neither gaps nor elements that share memory; one with both may be just as long."""
    return known_equal(storage_size(shape, stride), product(shape)) and is_dense(shape, stride)


def _apart(shape: Sequence[Any], stride: Sequence[Any]) -> bool:
    """Whether no two elements share memory: each stride steps over all that lies inside."""
    reach: Any = 1
    for size, step in sorted(zip(shape, stride, strict=True), key=lambda pair: pair[1]):
        if size == 1:
            continue
        if step < reach:
            return False
        reach = reach + (size - 1) * step
    return True
