"""One walk through the steps of a plan, for all that write it down.

    host/printer.py             Python source
    host/native_segment.py      rows of a table that native code runs, for the steps between two calls of ATen
    shared_object/program.py    LLVM IR that needs no Python

Which steps there are, which allocations make a tensor, a view or plain memory, and what ends where is the same for
all; how each is written is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

from ...devices import kind_of
from ...shapes import Expr, const
from ..ir import Buffer, ExternCall
from ..plan import Allocate, Launch, Step, WriteBack
from .lifetimes import Lifetimes

Value = TypeVar("Value")


class PlanEmitter(Generic[Value]):
    """Writes steps of a plan. A ``Value`` stands for a tensor or an address: a register, a variable."""

    def __init__(self, lifetimes: Lifetimes, tensors: AbstractSet[str]) -> None:
        """``tensors``: which of the buffers with memory of their own are tensors even where plain memory would do."""
        self.lifetimes = lifetimes
        self.tensors = tensors
        self.handles: dict[str, Value] = {}
        """The tensors of buffers, as far as they are known."""
        self.addresses: dict[str, Value] = {}
        """The addresses of the first elements of buffers with memory of their own."""

    # The walk

    def walk(self, steps: Iterable[tuple[int, Step]]) -> None:
        """Write steps, given with their positions, and let go of what is not needed behind each."""
        for position, step in steps:
            self.emit(step)
            self.release(self.lifetimes.ending(position))

    def emit(self, step: Step) -> None:
        """Write one step. Those of the kind `Free` are not looked at: lifetimes follow from the uses."""
        if isinstance(step, Allocate):
            self.allocate(step.buffer)
        elif isinstance(step, Launch):
            self.launch(step)
        elif isinstance(step, ExternCall):
            self.call(step)
        elif isinstance(step, WriteBack):
            self.write_back(step)

    def allocate(self, buffer: Buffer) -> None:
        """Memory of its own, or a view in that of another buffer, unless nobody sees a tensor there."""
        root = self.lifetimes.group(buffer.name)
        if root != buffer.name:
            if self.lifetimes.is_new_tensor(buffer.name):
                self.new_view(buffer, root)
        elif buffer.name in self.tensors or not self.has_plain_memory(buffer):
            self.new_tensor(buffer)
        else:
            self.new_memory(buffer)

    def has_plain_memory(self, buffer: Buffer) -> bool:
        """Whether the device of a buffer has memory that is no tensor."""
        return kind_of(buffer.device).is_host

    # Buffers

    def tensor(self, buffer: str) -> Value:
        """The tensor of a buffer."""
        if self.lifetimes.is_same_tensor(buffer):
            buffer = self.lifetimes.group(buffer)
        if buffer not in self.handles:
            self.handles[buffer] = self.find_tensor(buffer)
        return self.handles[buffer]

    def address(self, buffer: str) -> Value:
        """The address of a buffer's first element."""
        root = self.lifetimes.group(buffer)
        if root not in self.addresses:
            self.addresses[root] = self.find_address(root)
        return self.addresses[root]

    # How each is written

    def find_tensor(self, buffer: str) -> Value:
        """A tensor that no step has made: an input, a constant."""
        raise NotImplementedError

    def find_address(self, root: str) -> Value:
        """The address of a tensor."""
        raise NotImplementedError

    def new_tensor(self, buffer: Buffer) -> None:
        """A tensor with memory of its own."""
        raise NotImplementedError

    def new_memory(self, buffer: Buffer) -> None:
        """Plain memory, which only kernels see."""
        raise NotImplementedError

    def new_view(self, buffer: Buffer, root: str) -> None:
        """A tensor in the memory of the buffer ``root``."""
        raise NotImplementedError

    def launch(self, step: Launch) -> None:
        """Run a kernel."""
        raise NotImplementedError

    def call(self, step: ExternCall) -> None:
        """Call an operator of ATen or another function."""
        raise NotImplementedError

    def write_back(self, step: WriteBack) -> None:
        """Copy a result into an input."""
        raise NotImplementedError

    def release(self, roots: Sequence[str]) -> None:
        """Let go of the memory of buffers."""
        raise NotImplementedError


def bytes_of(buffer: Buffer) -> Expr:
    """The memory from a buffer's first element to its last."""
    elements: Expr = const(1)
    for size, stride in zip(buffer.shape, buffer.strides, strict=True):
        elements = elements + (size - 1) * stride
    return elements * buffer.dtype.itemsize
