"""Tensors spread over processes in captured code: from a process's own part, back to it, and into another layout.

    spread = DTensor.from_local(x, mesh, [Shard(0)])        spread = from_local(x)
    whole = spread.redistribute(placements=[Replicate()])   whole = redistribute(spread)
    return whole.to_local()                                 to_local = to_local(whole)

These are operations of the captured graph, on tensors made of others (`functional.wrapper_tensors`): traced, what torch
does in them ends in operators on the parts, collectives among them. Meshes and layouts are constants.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

from ..torch_compat import distributed_tensors, has_symbolic_layout
from .collectives import mesh_of
from .signals import GraphBreak
from .undecidable import static_needed
from .values.base import Value
from .values.sequences import ListValue, TupleValue
from .values.subclass_tensors import SubclassTensorValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


class SpreadCall:
    """The graph operation that calls a method of DTensor with constants."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.options = options
        self.__name__, self.__qualname__ = name, f"DTensor.{name}"
        self.__module__ = __name__  # code of graphs takes names in torch for what torch has under them

    def __call__(self, tensor: Any) -> Any:
        return getattr(distributed_tensors.tensor_class(), self.__name__)(tensor, **self.options)


def call(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call ``DTensor.from_local``, ``to_local``, ``redistribute`` or ``full_tensor``."""
    real: Any = getattr(function, "real", None) or function.as_constant()
    name = real.__name__
    try:
        given = dict(inspect.signature(real).bind(*args, **kwargs).arguments)
    except TypeError:
        raise GraphBreak(f"DTensor.{name}() with wrong arguments") from None
    tensor = given.pop("local_tensor" if name == "from_local" else "self").realize()
    spread = isinstance(tensor, TensorValue) and distributed_tensors.is_spread(tensor.fake)
    if not isinstance(tensor, TensorValue) or spread is (name == "from_local") or \
            not spread and isinstance(tensor, SubclassTensorValue):
        raise GraphBreak(f"DTensor.{name}() of {tensor.describe()}")
    options = {key: _constant(tx, value) for key, value in given.items()}
    if options.get("run_check"):
        raise GraphBreak("DTensor.from_local() that checks what other processes have", "pass run_check=False")
    if name == "from_local" and options.get("device_mesh") is None:
        raise GraphBreak("DTensor.from_local() without a mesh of devices", "pass device_mesh")
    distributed_tensors.prepare()
    if has_symbolic_layout(tensor.fake):
        raise static_needed(tx, [tensor.fake], f"DTensor.{name}")
    return tx.call_torch(SpreadCall(name, options), [tensor], {})


def _constant(tx: Tracer, value: Value) -> Any:
    value = value.realize()
    if isinstance(value, ListValue):
        return [_constant(tx, item) for item in value.elements(tx)]
    if isinstance(value, TupleValue) and value.cls in (tuple, torch.Size):
        return value.cls([_constant(tx, item) for item in value.items])
    mesh = mesh_of(tx, value)
    return tx.constant_of(value) if mesh is None else mesh
