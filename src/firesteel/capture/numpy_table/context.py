"""What functions of the table are given: making arrays of tensors, converting, views, writing into arrays."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
import torch

from ...devices import kind_of
from ...torch_compat import storage_address
from ..signals import GraphBreak
from ..undecidable import SYMBOLIC
from ..values.arrays import ArrayValue, View
from .dtypes import FLOAT, NUMPY, SIGNED, check_fits, dtype_argument, is_number, result_type, rounded, torch_dtype
from .layouts import copied_order, in_order, laid_out
from .registry import FUNCTIONS
from .traced import Tensor, Traced, record, to_value

if TYPE_CHECKING:
    from ..tracer import Tracer

# Lists with more numbers than this are not made part of a graph.
MOST_CONSTANTS = 4096


class Context:
    """The capture that a function of the table works for."""

    def __init__(self, tx: Tracer) -> None:
        self.tx = tx
        self.state = tx.array_state
        self.device = torch.get_default_device()

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function of NumPy's that is in the table."""
        known = FUNCTIONS.find(function)
        assert known is not None
        return known(self, *args, **kwargs)

    # Tensors

    def make(self, function: Any, *args: Any, **kwargs: Any) -> Tensor:
        """A tensor that a factory of torch's makes."""
        if not kind_of(self.device).is_host:
            kwargs["device"] = self.device
        return record(self.tx, function, args, kwargs)

    def full(self, shape: Sequence[Any], value: Any, dtype: Any) -> Tensor:
        """A tensor of one number; `dtype` is NumPy's."""
        if isinstance(value, numpy.generic):
            value = value.item()
        if dtype.kind in "iu" and isinstance(value, torch.SymFloat):
            raise GraphBreak(f"a float that varies as one of {dtype}, which NaN cannot be")
        if dtype.kind in "iu" and isinstance(value, float):
            value = int(value)
        check_fits(value, dtype)
        if isinstance(value, SYMBOLIC) and dtype.kind in "fc" and dtype.itemsize < 8:
            # torch would refuse what only infinity is near to
            return self.make(torch.full, tuple(shape), value, dtype=torch.float64).to(torch_dtype(dtype))
        value = rounded(value, dtype)
        if isinstance(value, complex) and not cmath.isfinite(value):  # which the code of a graph cannot have
            part = numpy.dtype(dtype.char.lower())
            return torch.complex(self.full(shape, value.real, part), self.full(shape, value.imag, part))
        return self.make(torch.full, tuple(shape), value, dtype=torch_dtype(dtype))

    def tensor(self, array: ArrayValue) -> Tensor:
        """The tensor of an array, in the order of its elements."""
        traced = Traced(self.tx, array.tensor)
        if array.flipped:
            return self.flip(traced, sorted(array.flipped))
        return traced

    def flip(self, traced: Tensor, dims: Sequence[int]) -> Tensor:
        """A tensor with the elements of some dimensions in the opposite order."""
        signed = SIGNED.get(traced.dtype)
        if signed is None:
            return record(self.tx, torch.flip, (traced, list(dims)), {})
        return record(self.tx, torch.flip, (traced.view(signed), list(dims)), {}).view(traced.dtype)

    def isin(self, one: Tensor, two: Tensor, invert: bool = False) -> Tensor:
        """Which elements of a tensor are among those of another one of the same dtype."""
        signed = SIGNED.get(one.dtype)
        if signed is not None:
            one, two = one.view(signed), two.view(signed)
        return torch.isin(one, two, invert=invert)

    def cast(self, traced: Tensor, dtype: Any) -> Tensor:
        """A tensor in one of NumPy's dtypes."""
        wanted = torch_dtype(dtype)
        return traced if traced.dtype is wanted else traced.to(wanted)

    def cast_to(self, obj: Any, dtype: Any) -> Tensor:
        """The tensor of an array, or of a number, in one of NumPy's dtypes."""
        if isinstance(obj, ArrayValue):
            if obj.dtype.kind == "c" and dtype.kind not in "cb":
                raise GraphBreak("NumPy warns that it discards the imaginary part", "take .real of the array")
            return self.cast(self.tensor(obj), dtype)
        return self.full((), obj, dtype)

    # Arrays

    def array(self, traced: Tensor, scalar: bool = False, dtype: Any = None) -> ArrayValue:
        """A new array, or with `scalar` a scalar, that owns its memory."""
        if dtype is not None:
            traced = self.cast(traced, dtype)
        if traced.fake.storage_key in self.state.memories:
            traced = in_order(traced, range(traced.ndim), always=True)
        value = ArrayValue(traced.value, NUMPY[traced.dtype], scalar)
        self.state.memories.add(traced.fake.storage_key)
        return value

    def scalar(self, traced: Tensor, dtype: Any = None) -> ArrayValue:
        return self.array(traced, True, dtype)

    def array_or_scalar(self, traced: Tensor, dtype: Any = None) -> ArrayValue:
        """A scalar where there are no dimensions, as most functions give."""
        return self.array(traced, traced.ndim == 0, dtype)

    def rows(self, traced: Tensor, scalar: bool = False, dtype: Any = None) -> ArrayValue:
        """A new array that lies in memory by rows."""
        return self.array(laid_out(traced, range(traced.ndim)), scalar, dtype)

    def view(self, of: ArrayValue, traced: Tensor, kind: str, name: Any, *args: Any) -> ArrayValue:
        """A view of an array; `kind`, `name` and `args` say how NumPy makes it, see `View`."""
        how = View(of, kind, name, tuple(to_value(self.tx, arg) for arg in args))
        value = ArrayValue(traced.value, NUMPY[traced.dtype], False, how)
        value.writeable = of.writeable
        value.copied = of.copied
        return value

    def check_element(self, value: Any, dtype: Any) -> None:
        """Break where a number may be none that integers have: NumPy refuses a single one, in arrays it takes them."""
        if dtype.kind not in "iu":
            return
        if isinstance(value, ArrayValue) and value.ndim == 0 and value.dtype.kind == "f" or \
                isinstance(value, (float, numpy.floating, torch.SymFloat)) and not (
                    isinstance(value, (float, numpy.floating)) and numpy.isfinite(value)):
            raise GraphBreak("a float as an element of a NumPy array of integers, which NaN cannot be")

    def asarray(self, obj: Any, dtype: Any = None) -> ArrayValue:
        """What ``np.asarray`` makes of something; scalars stay scalars."""
        dtype = dtype_argument(dtype)
        if isinstance(obj, ArrayValue):
            if dtype is None or dtype == obj.dtype:
                return obj
            order = copied_order(obj.tensor.fake, obj.flipped)
            return self.array(laid_out(self.cast_to(obj, dtype), order), obj.scalar)
        if isinstance(obj, numpy.generic):
            return self.array(self.full((), obj, dtype or obj.dtype), True)
        if is_number(obj):
            return self.array(self.full((), obj, dtype or result_type(obj)))
        if isinstance(obj, (list, tuple, range)):
            return self.of_sequence(obj, dtype)
        if isinstance(obj, Traced):
            raise GraphBreak("a tensor as an argument of a function of NumPy's", "call .numpy() on it first")
        raise GraphBreak(f"an array made of {type(obj).__name__}")

    def of_sequence(self, obj: Any, dtype: Any) -> ArrayValue:
        """The array of a nested sequence of numbers and arrays."""
        leaves: list[Any] = []
        shape = _collect(obj, leaves)
        if dtype is None:
            dtype = result_type(*map(_strong, leaves)) if leaves else FLOAT
        if any(isinstance(leaf, ArrayValue) for leaf in leaves):
            for leaf in leaves:
                self.check_element(leaf, dtype)
            parts = [self.asarray(part) for part in obj]
            return self.array(record(self.tx, torch.stack, ([self.cast_to(part, dtype) for part in parts],), {}))
        if len(leaves) > MOST_CONSTANTS:
            raise GraphBreak(f"an array of {len(leaves)} numbers in a list", "make the array outside")
        if not leaves:
            return self.array(self.make(torch.zeros, shape, dtype=torch_dtype(dtype)))
        plain = [leaf.item() if isinstance(leaf, numpy.generic) else leaf for leaf in leaves]
        if any(isinstance(leaf, SYMBOLIC) or isinstance(leaf, complex) and not cmath.isfinite(leaf) for leaf in plain):
            parts = [self.full((), leaf, dtype) for leaf in plain]
            return self.array(record(self.tx, torch.stack, (parts,), {}).reshape(shape))
        plain = [int(leaf) if dtype.kind in "iu" else rounded(leaf, dtype) for leaf in plain]
        for leaf in plain:
            check_fits(leaf, dtype)
        flat = self.make(torch.tensor, plain, dtype=torch_dtype(dtype))
        return self.array(flat if len(shape) == 1 else flat.reshape(shape))

    # Writing

    def write(self, array: ArrayValue, traced: Tensor) -> None:
        """Give all elements of an array new values; a scalar or smaller tensor is broadcast."""
        self.check_writable(array)
        if array.flipped:
            if traced.ndim:
                traced = self.flip(traced.expand(array.shape), sorted(array.flipped))
        if traced.ndim and storage_address(traced.fake) == storage_address(array.tensor.fake):
            traced = traced.clone()  # all is read before anything is written
        Traced(self.tx, array.tensor).copy_(traced)
        self.written(array)

    def write_result(self, out: Any, traced: Tensor) -> ArrayValue:
        """Write a result into the array that the caller gives for it."""
        if not isinstance(out, ArrayValue):
            raise GraphBreak("an out= that is no array of the graph")
        if out.ndim != traced.ndim or not numpy.can_cast(NUMPY[traced.dtype], out.dtype, "same_kind"):
            raise GraphBreak(f"an array of {out.dtype}, or of other dimensions than the result, as out=")
        self.write(out, self.cast(traced, out.dtype))
        return out

    def target(self, obj: Any) -> ArrayValue:
        """The array that a function of NumPy's writes into; breaks at what NumPy refuses, such as a list."""
        if not isinstance(obj, ArrayValue):
            raise GraphBreak(f"{type(obj).__name__} as the array that a function of NumPy's writes into")
        return obj

    def check_writable(self, array: ArrayValue) -> None:
        """Break before something is written that the graph cannot write."""
        if array.scalar or not array.writeable:
            raise GraphBreak("a write to a NumPy array that is read-only")
        if array.copied or array.tensor.fake.storage_key in self.state.copied_of:
            raise GraphBreak("a write to a NumPy array of which data chooses a view")
        if 0 in array.tensor.fake.stride() and not isinstance(array.tensor.fake.numel(), SYMBOLIC) \
                and any(size != 1 and step == 0 for size, step in
                        zip(array.tensor.fake.shape, array.tensor.fake.stride(), strict=True)):
            raise GraphBreak("a write to a NumPy array whose elements lie on each other")

    def written(self, array: ArrayValue) -> None:
        """An array has been changed: what lies in the memory of an array from outside goes there."""
        root = array.root()
        if root.host is not None:
            Traced(self.tx, root.host).copy_(Traced(self.tx, root.tensor))

    # Arguments

    def axes(self, axis: Any, ndim: int) -> tuple[int, ...]:
        """The dimensions that an ``axis`` argument names; all of them for None."""
        if axis is None:
            return tuple(range(ndim))
        dims = tuple(self.axis(one, ndim) for one in (axis if isinstance(axis, (tuple, list)) else (axis,)))
        if len(set(dims)) != len(dims):
            raise GraphBreak("an axis that is named twice")
        if not dims and ndim:
            raise GraphBreak("axis=() of an array with dimensions")
        return dims

    def axis(self, axis: Any, ndim: int) -> int:
        number = self.integer(axis)
        if not -ndim <= number < ndim:
            raise GraphBreak(f"axis {number} of an array of {ndim} dimensions")
        return number % ndim if ndim else 0

    def integer(self, obj: Any) -> int:
        """A plain integer."""
        if isinstance(obj, ArrayValue):
            raise GraphBreak("an argument of a function of NumPy's that depends on data")
        return obj.__index__()

    def shape(self, shape: Any) -> tuple[Any, ...]:
        """Sizes that a caller names."""
        sizes = shape if isinstance(shape, (tuple, list, range)) else (shape,)
        numbers = []
        for size in sizes:
            if isinstance(size, ArrayValue):
                if size.ndim or size.dtype.kind not in "iu":
                    raise GraphBreak("sizes in an array of NumPy's")
                size = record(self.tx, "item", (self.tensor(size),), {})
            numbers.append(size if isinstance(size, torch.SymInt) else size.__index__())
        return tuple(numbers)


def _strong(leaf: Any) -> Any:
    """What a number in a sequence counts for in promotion: those of Python's are as wide as the platform's."""
    return result_type(leaf) if is_number(leaf) else leaf


def _collect(obj: Any, leaves: list[Any]) -> tuple[Any, ...]:
    """All numbers and arrays of a nested sequence, and its shape."""
    if isinstance(obj, ArrayValue):
        leaves.append(obj)
        return obj.shape
    if is_number(obj) or isinstance(obj, numpy.generic):
        leaves.append(obj)
        return ()
    if not isinstance(obj, (list, tuple, range)):
        raise GraphBreak(f"an array made of {type(obj).__name__}")
    shapes = [_collect(item, leaves) for item in obj]
    if any(len(one) != len(shapes[0]) for one in shapes):
        raise GraphBreak("an array of sequences of different lengths")
    if not any(isinstance(size, SYMBOLIC) for one in shapes for size in one) and len(set(shapes)) > 1:
        raise GraphBreak("an array of sequences of different lengths")
    return (len(shapes), *(shapes[0] if shapes else ()))


def count_of(sizes: Sequence[Any]) -> Any:
    """The product of sizes."""
    return math.prod(sizes)
