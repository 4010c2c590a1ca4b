"""What the Python equivalent of ``out_dtype`` asks of the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..devices import kind_of
from .call_handlers import handles
from .equivalents.widened_operators import left_to_torch, lies_on_host
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


@handles(left_to_torch)
def call_left_to_torch(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Ends the graph."""
    raise GraphBreak("out_dtype() of arguments that it refuses, or that need gradients")


@handles(lies_on_host)
def call_lies_on_host(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Known of every tensor."""
    tensor = args[0].realize()
    assert isinstance(tensor, TensorValue)
    return ConstantValue(kind_of(tensor.fake).is_host)
