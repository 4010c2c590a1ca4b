"""Loops that are too long to be unrolled into one graph.

    for _ in range(768):                    a graph of 768 × 80 operations, which takes minutes to compile
        logits = model(ids)         ->
        ids = torch.cat([ids, draw(logits)])     one graph for each round: the graph ends where the loop begins

Rounds that only repeat themselves are told from the layers of a model by what they read: those of a loop over layers
find new parameters in every round. Whether a loop is too long is known after its third round began, because a round
has about as many operations as the one before, and a range says how many there will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..records import dataclass
from .signals import GraphBreak, Restart
from .values.base import Value
from .values.iterators import ConstantIterator, IteratorValue

if TYPE_CHECKING:
    from .frame import Frame

MOST_UNROLLED = 2_000
"""Operations that the rounds of one loop may come to, if they read nothing new."""
QUIET_ROUNDS = 2


@dataclass
class Rounds:
    """What is known of a loop that is being unrolled."""

    iterator: Value
    """It is kept: loops are told apart by its identity."""
    first_step: int
    begin: int
    operations: int
    inputs: int
    quiet: int = 0

    def total(self, last: int) -> int:
        """How many operations the loop comes to, if all rounds are like the last."""
        unrolled = self.operations - self.begin
        if isinstance(self.iterator, ConstantIterator):
            return max(unrolled, last * len(self.iterator.items))
        return unrolled


def count_round(frame: Frame, iterator: Value) -> None:
    """A loop begins another round. One that is found to be too long is not unrolled: the capture ends before it."""
    tx = frame.tx
    if frame.hidden or tx.compiler is None or tx.compiler.fullgraph or not isinstance(iterator, IteratorValue):
        return
    operations, inputs = tx.graph.operations, len(tx.graph.inputs)
    known = tx.unrolled.get(id(iterator))
    if known is None:
        tx.unrolled[id(iterator)] = Rounds(iterator, tx.root_step, operations, operations, inputs)
        return
    last = operations - known.operations
    known.quiet = known.quiet + 1 if inputs == known.inputs else 0
    known.operations, known.inputs = operations, inputs
    if known.quiet < QUIET_ROUNDS or known.total(last) <= MOST_UNROLLED:
        return
    cause = GraphBreak(f"a loop that would become {known.total(last)} operations or more is not unrolled",
                       "compile what is done in one round instead of the loop, or insist with fullgraph=True")
    if frame is not tx.frames[0]:
        raise cause
    cause.frames = tuple(tx.user_frames())  # type: ignore[attr-defined]
    raise Restart(known.first_step, cause)
