"""The loop IR: typed scalar expressions over loads, the computations made of them, and the loop nests they become.

There are two levels. Lowering gives *computations*: each fills one buffer, point by point or by reducing.

    mean[i0] = sum(r0 < s1) load(x, s1*i0 + r0)                    for i0 < s0
    out[s1*i0 + i1] = sub(load(x, s1*i0 + i1), load(mean, i0))     for i0 < s0, i1 < s1

Scheduling turns groups of them into *kernels*: loops, with values kept in locals where they need no memory.

    kernel k0(x: f32, out: f32; s0, s1):
        parallel for i0 < s0:
            a0 = sum(r0 < s1) load(x, s1*i0 + r0)
            for i1 < s1:
                out[s1*i0 + i1] = sub(load(x, s1*i0 + i1), a0)

Nothing here knows a target. Indices are shape expressions, in elements from a buffer's first one; the symbols in them
are axes, sizes that the kernel is given, and names for values computed in the kernel (indirect indexing).
"""

from __future__ import annotations

import math
import struct
import weakref
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

import torch

from .. import shapes
from ..records import dataclass
from ..shapes import Expr, Symbol
from .operations import OPERATIONS

# ---------------------------------------------------------------------------------------------------------------------
# values


class Value:
    """One scalar computed at a point of a loop nest. Nodes are interned: equal expressions are one object.

    ``op`` is one of `operations.OPERATIONS`, or:
    - ``const``: ``data`` is a Python number or bool;
    - ``index``: ``data`` is a shape expression, the value an int64;
    - ``load``: ``data`` is a `Place`; ``args`` are the values behind its symbols, then the mask if it has one. Where
      the mask is false nothing is read and the value is zero;
    - ``number``: ``data`` is a float expression of numbers given at run time, the value a float64. In a kernel it is a
      float symbol among `Kernel.numbers`; the host computes what it stands for;
    - ``local``: ``data`` is the name of a local of the kernel;
    - ``cast`` and ``bitcast``: to ``dtype``;
    - ``checked``: the first operand, an index. Where the second, a bool, is false, the program stops with the message
      ``data``. For kernels of GPUs, which cannot raise.
    """

    __slots__ = ("op", "dtype", "args", "data", "_hash", "__weakref__")
    op: str
    dtype: torch.dtype
    args: tuple[Value, ...]
    data: Any

    _interned: weakref.WeakValueDictionary[Any, Value] = weakref.WeakValueDictionary()

    def __new__(cls, op: str, dtype: torch.dtype, args: tuple[Value, ...] = (), data: Any = None) -> Value:
        # 1, 1.0 and True are equal and so are 0.0 and -0.0, but not the same constant
        key = (op, dtype, tuple(map(id, args)), type(data), repr(data) if isinstance(data, float) else data)
        known = cls._interned.get(key)
        if known is None:
            known = object.__new__(cls)
            known.op, known.dtype, known.args, known.data = op, dtype, args, data
            cls._interned[key] = known
        return known

    def __repr__(self) -> str:
        from .printing import print_value

        return print_value(self)

    def walk(self) -> Sequence[Value]:
        """This node and everything it is made of, each once, operands before users."""
        return _walked(self) if self.args else (self,)


@lru_cache(maxsize=1 << 12)
def _walked(value: Value) -> tuple[Value, ...]:
    """`Value.walk`: every stage asks several times."""
    order: list[Value] = []
    seen: set[Value] = set()
    stack: list[tuple[Value, bool]] = [(value, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            if node.args:
                stack.append((node, True))
                stack.extend([(arg, False) for arg in node.args[::-1]])
            else:
                order.append(node)
    return tuple(order)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an element is: a buffer and an index, some of whose symbols stand for values computed in the kernel."""

    buffer: str
    index: Expr
    indirect: tuple[Symbol, ...] = ()
    masked: bool = False


# ---------------------------------------------------------------------------------------------------------------------
# operations

REDUCTIONS = frozenset({
    "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "xor",
    "dot",  # the sum of products of short floats in float32, in tiles of a GPU's matrix units
})  # fmt: skip
SCANS = frozenset({"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"})
STORE_MODES = frozenset({"set", "add", "mul", "max", "min"})


def const(value: bool | int | float, dtype: torch.dtype) -> Value:
    """A constant, rounded or wrapped to what the dtype can hold."""
    return Value("const", dtype, (), _representable(value, dtype))


def _representable(value: bool | int | float, dtype: torch.dtype) -> bool | int | float:
    """The number that a tensor of the dtype would hold.

    >>> _representable(0.1, torch.bfloat16), _representable(300, torch.int8), _representable(1e40, torch.float32)
    (0.10009765625, 44, inf)
    """
    if dtype is torch.bool:
        return bool(value)
    if not dtype.is_floating_point:
        if isinstance(value, float) and not math.isfinite(value):
            return 0
        bits = 8 * dtype.itemsize
        wrapped = int(value) & ((1 << bits) - 1)
        return wrapped - (1 << bits) if dtype.is_signed and wrapped >> (bits - 1) else wrapped
    number = float(value)
    if dtype is torch.float64 or not math.isfinite(number):
        return number
    try:
        single = struct.pack("f", number)
        if dtype is torch.float32:
            return float(struct.unpack("f", single)[0])
        if dtype is torch.float16:
            return float(struct.unpack("e", struct.pack("e", struct.unpack("f", single)[0]))[0])
    except OverflowError:
        return math.copysign(math.inf, number)
    assert dtype is torch.bfloat16, dtype
    pattern = struct.unpack("I", single)[0]
    pattern = (pattern + 0x7FFF + (pattern >> 16 & 1)) & 0xFFFF0000  # to nearest, ties to even
    return float(struct.unpack("f", struct.pack("I", pattern))[0])


def index(expr: Any) -> Value:
    """The value of an index expression."""
    return Value("index", torch.int64, (), shapes.as_expr(expr))


def number(expr: Any) -> Value:
    """The value of a float expression of numbers that are given at run time."""
    return Value("number", torch.float64, (), shapes.as_expr(expr))


def load(buffer: str, at: Any, dtype: torch.dtype, indirect: Sequence[tuple[Symbol, Value]] = (),
         mask: Value | None = None) -> Value:
    """An element of a buffer."""
    place = Place(buffer, shapes.as_expr(at), tuple(symbol for symbol, _ in indirect), mask is not None)
    return Value("load", dtype, (*(value for _, value in indirect), *(() if mask is None else (mask,))), place)


def local(name: str, dtype: torch.dtype) -> Value:
    """A local of the kernel."""
    return Value("local", dtype, (), name)


def cast(value: Value, dtype: torch.dtype) -> Value:
    """A conversion as torch's ``to`` does it: floats to integers towards zero, anything to bool by ``!= 0``."""
    if value.dtype is dtype:
        return value
    if value.op == "const":
        return const(value.data, dtype)
    return Value("cast", dtype, (value,))


def checked(index: Value, fine: Value, message: str) -> Value:
    """An index, in a program that stops with a message where it is not fine."""
    return Value("checked", index.dtype, (index, fine), message)


def op(name: str, *args: Value) -> Value:
    """An operation on values of one dtype (``where`` has a bool in front)."""
    operation = OPERATIONS[name]
    assert len(args) == operation.arity, f"{name} takes {operation.arity} operands"
    same = args[1:] if name == "where" else args
    assert all(arg.dtype is same[0].dtype for arg in same), f"{name} of {[str(arg.dtype) for arg in args]}"
    assert name != "where" or args[0].dtype is torch.bool
    return Value(name, torch.bool if operation.is_test else same[0].dtype, args)


# ---------------------------------------------------------------------------------------------------------------------
# buffers and computations


@dataclass(frozen=True)
class Axis:
    """One loop: its variable and how far it runs, from 0. In kernels a size may depend on the loops around it."""

    symbol: Symbol
    size: Expr


@dataclass(frozen=True)
class Buffer:
    """Memory with a layout. Sizes and strides are shape expressions; kinds: input, output, temporary, constant."""

    name: str
    dtype: torch.dtype
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    kind: str = "temporary"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def element(self) -> torch.dtype:
        """What kernels read and write of it: of complex numbers their parts, which lie side by side."""
        return self.dtype.to_real() if self.dtype.is_complex else self.dtype

    def as_parameter(self, name: str, kind: str) -> Buffer:
        """The same memory as a kernel sees it, in `element`s."""
        if not self.dtype.is_complex:
            return Buffer(name, self.dtype, self.shape, self.strides, kind, self.device)
        shape = (*self.shape, shapes.as_expr(2))
        strides = (*[2 * stride for stride in self.strides], shapes.as_expr(1))
        return Buffer(name, self.element, shape, strides, kind, self.device)


@dataclass(frozen=True)
class Computation:
    """Fills a buffer.

    For every point of ``axes`` the element at ``place`` becomes ``value``, or, with ``reduce``, the reduction or scan
    of ``value`` over ``reduce_axes``. A scan has one reduce axis and stores at each of its points. ``args`` are values
    behind the indirect symbols of ``place``, then its mask if it has one; ``mode`` says how a scatter combines.
    """

    place: Place
    dtype: torch.dtype
    axes: tuple[Axis, ...]
    value: Value
    reduce: str | None = None
    reduce_axes: tuple[Axis, ...] = ()
    args: tuple[Value, ...] = ()
    mode: str = "set"
    origins: tuple[Any, ...] = ()
    """The graph nodes that it computes, for logs."""

    @property
    def buffer(self) -> str:
        return self.place.buffer

    def values(self) -> tuple[Value, ...]:
        return (self.value, *self.args)


@dataclass(frozen=True)
class ExternCall:
    """An ATen operator between kernels: arguments are buffer names (`BufferRef`), shape expressions or constants."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[str | None, ...]
    """The buffers that its results become; None for a result that nobody uses."""
    out: bool = False
    """Whether the operator writes to buffers that exist (``out=``) instead of returning new ones."""
    origins: tuple[Any, ...] = ()


@dataclass(frozen=True)
class BufferRef:
    """A buffer, or a strided view of one, as an argument or a result."""

    buffer: str
    shape: tuple[Expr, ...] | None = None
    strides: tuple[Expr, ...] | None = None
    offset: Expr | None = None
    dtype: torch.dtype | None = None

    def is_whole(self, buffer: Buffer) -> bool:
        """Whether this is all of the buffer, in the buffer's own layout."""
        begins = self.offset is None or self.offset is shapes.as_expr(0)
        return self.shape is None or (begins and self.shape == buffer.shape and self.strides == buffer.strides
                                      and self.dtype in (None, buffer.dtype))


# ---------------------------------------------------------------------------------------------------------------------
# kernels


@dataclass
class Loop:
    """``for axis < size: body``. A parallel loop's iterations are independent of each other."""

    axis: Axis
    body: list[Statement]
    parallel: bool = False
    tile: int = 0
    """A hint: run the two loops from here in square tiles of this size, for transposed access."""


@dataclass
class Assign:
    """``name = value``, for the rest of the surrounding loop's body."""

    name: str
    value: Value


@dataclass
class Reduce:
    """``name = kind(axes) value``: runs loops of its own."""

    name: str
    kind: str
    axes: tuple[Axis, ...]
    value: Value
    dtype: torch.dtype


@dataclass
class Scan:
    """Runs along ``axis`` and stores the running result at every point."""

    kind: str
    axis: Axis
    value: Value
    place: Place
    dtype: torch.dtype
    args: tuple[Value, ...] = ()


@dataclass
class Store:
    """``buffer[index] = value``, or combined with what is there. ``args`` as in `Computation`."""

    place: Place
    value: Value
    args: tuple[Value, ...] = ()
    mode: str = "set"


Statement = Loop | Assign | Reduce | Scan | Store


@dataclass(frozen=True)
class Scratch:
    """Memory of one iteration of the parallel loops, for a row that is used again; a `Place` may name it."""

    name: str
    dtype: torch.dtype
    size: Expr


@dataclass
class Kernel:
    """A loop nest with its parameters."""

    name: str
    buffers: list[Buffer]
    """Parameters, each once: those read and those written."""
    sizes: list[Symbol]
    """Integer parameters: the symbols of sizes that appear."""
    body: list[Statement]
    scratch: list[Scratch] = field(default_factory=list)
    writes: frozenset[str] = frozenset()
    origins: tuple[Any, ...] = ()
    numbers: list[Symbol] = field(default_factory=list)
    """Float parameters: the symbols of ``number`` values, passed as doubles after the sizes."""
    in_place: frozenset[tuple[str, str]] = frozenset()
    """Pairs of a written and a read parameter that may be the same memory: every element is read before it is written.
    Apart from these, a written parameter shares memory with no other."""
    signed: frozenset[Symbol] = frozenset()
    """The integer parameters that may be negative: arguments and items of tensors, while sizes are not."""

    def __str__(self) -> str:
        from .printing import print_kernel

        return print_kernel(self)
