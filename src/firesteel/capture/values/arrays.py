"""Arrays and scalars of NumPy: a tensor of the graph together with what NumPy says of it.

An array computes as a tensor. What leaves the graph is NumPy's own: an array in the memory of the tensor, a scalar of
NumPy's type, and for a view of another array that view itself, taken once more of the real array (`View`), so that
memory, strides and flags are NumPy's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
import torch

from ...devices import kind_of
from ...records import dataclass
from ..call_signatures import refused
from ..guards import constant_condition
from ..signals import GraphBreak
from ..source import Source
from .base import Value, identity_key
from .constants import ConstantValue
from .iterators import ListIterator
from .methods import NativeMethod
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer

# Longer arrays are not gone through element by element.
MOST_ROWS = 4096


def to_array(tensor: torch.Tensor) -> Any:
    """The array in the memory of a tensor of the CPU."""
    return tensor.numpy()


def to_host_array(tensor: torch.Tensor) -> Any:
    """The elements of a tensor of another device as an array."""
    return tensor.cpu().numpy()


def to_read_only_array(tensor: torch.Tensor) -> Any:
    """The elements of a tensor as an array that nothing writes to."""
    array = tensor.cpu().numpy()
    array.flags.writeable = False
    return array


def to_scalar(tensor: torch.Tensor) -> Any:
    """The only element of a tensor as a scalar of NumPy."""
    return tensor.cpu().numpy()[()]


@dataclass(frozen=True)
class View:
    """How NumPy makes a view of an array: ``of[args[0]]``, ``of.name``, ``of.name(*args)`` or ``name(of, *args)``."""

    of: ArrayValue
    kind: str
    name: Any
    args: tuple[Value, ...] = ()

    def text(self, code: EntryCode) -> str:
        array = code.value(self.of)
        args = [code.value(arg) for arg in self.args]
        if self.kind == "item":
            return f"{array}[{args[0]}]"
        if self.kind == "attribute":
            return f"{array}.{self.name}"
        if self.kind == "method":
            return f"{array}.{self.name}({', '.join(args)})"
        return f"{code.constant(self.name)}({', '.join([array, *args])})"


class ArrayValue(Value):
    """An array, or a scalar, of NumPy.

    `flipped` are the dimensions that NumPy goes through backwards and the tensor forwards: torch has no negative
    strides. A `copied` one is a view in NumPy whose tensor is none, because data decides on its place.
    """

    native_methods = True
    __slots__ = ("tensor", "dtype", "scalar", "view", "real", "writeable", "flipped", "copied", "host")

    def __init__(self, tensor: TensorValue, dtype: Any, scalar: bool = False, view: View | None = None,
                 source: Source | None = None, real: Any = None) -> None:
        super().__init__(source)
        self.tensor = tensor
        self.dtype = dtype
        self.scalar = scalar
        self.view = view
        self.real = real
        self.writeable = True
        self.flipped: frozenset[int] = frozenset()
        self.copied = False
        # the tensor in the memory of an array from outside, where the graph computes on another device
        self.host: TensorValue | None = None

    def __repr__(self) -> str:
        return f"ArrayValue({self.tensor}, {self.dtype}{', scalar' if self.scalar else ''})"

    @property
    def ndim(self) -> int:
        return int(self.tensor.fake.dim())

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.tensor.fake.shape)

    def describe(self) -> str:
        return "a NumPy scalar" if self.scalar else "a NumPy array"

    def python_type(self) -> type:
        return self.dtype.type if self.scalar else numpy.ndarray  # type: ignore[no-any-return]

    def root(self) -> ArrayValue:
        """The array whose memory this one looks at."""
        return self if self.view is None else self.view.of.root()

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "__class__":
            return tx.python_object(self.python_type())
        attribute = tx.arrays.attribute(tx, self, name)
        if attribute is not None:
            return attribute
        if not hasattr(self.python_type(), name):
            kind = self.python_type()
            owner = kind.__name__ if self.scalar else "numpy.ndarray"
            raise tx.raised(AttributeError(f"{owner!r} object has no attribute {name!r}"))
        return NativeMethod(self, name)

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        raise GraphBreak(f"setting attribute {name!r} of {self.describe()}")

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.arrays.method(tx, self, name, args, kwargs)

    def truth(self, tx: Tracer) -> bool:
        if self.ndim:
            raise GraphBreak("the truth value of a NumPy array", "use .any() or .all()")
        return self.tensor.truth(tx)

    def number(self, tx: Tracer, method: str) -> Value:
        """``int``, ``float`` or ``bool`` of the only element."""
        if self.ndim or self.dtype.kind == "c":
            raise GraphBreak(f"{method} of a NumPy array of these elements or dimensions")
        return self.tensor.number(tx, method)

    def specialize(self, tx: Tracer) -> Any:
        """Give up generality: guard that a scalar from outside is what it is now."""
        tx.guard(self.source, "constant", *constant_condition(self.real))
        return self.real

    def as_index(self, tx: Tracer) -> Any:
        if self.scalar and self.real is not None:
            return self.specialize(tx)
        raise GraphBreak("a number of NumPy's in a graph as an index into a Python sequence needs its value")

    def length(self, tx: Tracer) -> Value:
        if self.ndim == 0:
            raise refused("len()")
        return tx.symbols.value_of(self.shape[0])

    def iterate(self, tx: Tracer) -> Value:
        if self.ndim == 0:
            raise refused("iter()")
        count = tx.constant_of(self.length(tx))
        if count > MOST_ROWS:
            raise GraphBreak(f"a loop over the {count} elements of a NumPy array", "compute with whole arrays")
        return ListIterator([self.get_item(tx, ConstantValue(index)) for index in range(count)])

    def get_item(self, tx: Tracer, key: Value) -> Value:
        return tx.arrays.get_item(tx, self, key)

    def set_item(self, tx: Tracer, key: Value, value: Value) -> None:
        tx.arrays.set_item(tx, self, key, value)

    def key(self, tx: Tracer) -> Any:
        if self.scalar:
            raise GraphBreak("a NumPy scalar of the graph as a dictionary key")
        return identity_key(tx, self)

    def emit(self, code: EntryCode) -> str:
        if self.view is not None:
            return code.assign(self, self.view.text(code))
        on_host = kind_of(self.tensor.fake.device).is_host
        convert = to_scalar if self.scalar else to_read_only_array if not self.writeable else \
            to_array if on_host else to_host_array
        return code.assign(self, f"{code.constant(convert)}({code.value(self.tensor)})")
