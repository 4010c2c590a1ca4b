"""``torch.nn.Parameter(data)`` in captured code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .call_handlers import handles
from .signals import GraphBreak
from .torch_calls import call_torch
from .values.base import Value
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


@handles(torch.nn.Parameter)
def make_parameter(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """An operation of the graph whose result is of another class."""
    parameter = call_torch(tx, torch.nn.Parameter, args, kwargs)
    if not isinstance(parameter, TensorValue):
        raise GraphBreak("a Parameter of something that is no tensor")
    parameter.cls = torch.nn.Parameter
    parameter.fake.is_parameter = True
    return parameter
