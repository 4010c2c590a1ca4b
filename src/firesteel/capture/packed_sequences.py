"""Packed sequences (`torch.nn.utils.rnn`): they have as many rows as the lengths say, which are data.

Packing and unpacking are operators that need the lengths' values at once, so each is a step between two graphs. The
Python around those operators is not worth graphs of its own: it runs as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn.utils import rnn

from .call_handlers import handles
from .signals import GraphBreak
from .skipping import PLAIN_FUNCTIONS
from .values.base import Value

if TYPE_CHECKING:
    from .tracer import Tracer

PLAIN_FUNCTIONS.update((rnn.pack_padded_sequence, rnn.pad_packed_sequence))


@handles(rnn.pack_padded_sequence, rnn.pad_packed_sequence)
def packed(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The graph ends here."""
    raise GraphBreak("packed sequences have as many rows as their lengths say, which are data",
                     "give the recurrent module padded tensors where that will do")
