"""When a computed tensor is put into memory instead of being computed again by each of its users.

Everything that a lowering says is pointwise is computed where it is used, unless one of these holds:
- memory is needed: an ATen call reads it, or it is returned;
- it has several users and computing it again costs more than reading it: it reads two tensors of its size or does more
  than a little arithmetic. Scheduling may still keep it in a local, if the users end up in one kernel;
- the expression has grown beyond what a kernel should hold.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch.fx

from ...records import dataclass
from ...shapes import Symbol
from ..ir import Place, Value
from ..operations import OPERATIONS
from .registry import find_lowering

MAX_READS = 16
MAX_OPERATIONS = 200
CHEAP_OPERATIONS = 8
# Up to this many operators in a row nothing is measured.
SMALL_CHAIN = 6

# Operators that give the same elements under other indices; their users are users of what they look at.
VIEWS = frozenset(
    f"aten.{name}" for name in (
        "view.default", "_unsafe_view.default", "reshape.default", "expand.default", "permute.default",
        "transpose.int", "t.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default",
        "slice.Tensor", "select.int", "alias.default", "detach.default", "split.Tensor", "split_with_sizes.default",
        "unbind.int", "diagonal.default", "flip.default", "narrow.default", "unfold.default", "as_strided.default",
        "view_as_real.default",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What one element costs."""

    reads: int
    full_reads: int
    """Reads of elements that no other point reads, as opposed to those of a broadcast operand."""
    operations: int


def cost_of(value: Value, axes: frozenset[Symbol]) -> Cost:
    """The cost of a value at every point of ``axes``."""
    reads = full = operations = 0
    for node in value.walk():
        if node.op in OPERATIONS:
            operations += OPERATIONS[node.op].cost.arithmetic
        if node.op == "load":
            place: Place = node.data
            reads += 1
            full += not (axes - place.index.free_symbols) or bool(place.indirect)
    return Cost(reads, full, operations)


def is_cheap(cost: Cost) -> bool:
    """Whether computing it again is not worse than writing it and reading it back."""
    return cost.full_reads <= 1 and cost.operations <= CHEAP_OPERATIONS


def is_too_large(cost: Cost) -> bool:
    """Whether an expression should not grow any more."""
    return cost.reads > MAX_READS or cost.operations > MAX_OPERATIONS


def consumers(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """The users of a node, and for those that are only views of it, their users."""
    for user in node.users:
        if user.op == "call_function" and (str(user.target) in VIEWS or user.target is operator.getitem):
            yield from consumers(user)
        else:
            yield user


def needs_memory(consumer: torch.fx.Node) -> bool:
    """Whether a user reads from memory and from nothing else."""
    if consumer.op == "output":
        return True
    return consumer.op == "call_function" and find_lowering(str(consumer.target)) is None

