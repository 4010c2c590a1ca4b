"""Where inputs lie in their storage: guarded only for programs that look there, so that others serve every slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..fake.dims import dims, known_equal, layout_of, offset_of, storage_size
from ..shapes import le
from ..shapes.symnode import expr_of
from ..torch_compat.subclasses import plain_alias
from .source import PlainSource
from .values.subclass_tensors import SubclassTensorValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

# Functions whose result depends on what lies around a tensor in its storage, or on where that begins.
LOOKING = frozenset({"as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter", "storage_offset", "set_"})


def guard_places(tx: Tracer, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Guard offset and storage of the inputs that a call looks around in; `args` are what it gets, as fake tensors."""
    for x in (*args, *kwargs.values()):
        if not isinstance(x, torch.Tensor):
            continue
        inside = _stays_inside(tx, name, x, args, kwargs)
        address = torch_compat.storage_address(x)
        for value in list(tx.tensor_of_fake.values()):
            if not isinstance(value, TensorValue) or value.source is None or value.real is None:
                continue
            if torch_compat.storage_address(value.fake) == address and not (
                    inside and known_equal(offset_of(x), offset_of(value.fake))):
                real, source = value.real, value.source
                if isinstance(value, SubclassTensorValue) and value.overrides:
                    real, source = plain_alias(real), PlainSource(source)
                tx.guard(source, "storage", f"{{0}}.storage_offset() == {real.storage_offset()} "
                         f"and {{0}}.untyped_storage().nbytes() == {real.untyped_storage().nbytes()}")


def _stays_inside(tx: Tracer, name: str, x: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a new layout begins where a tensor does and ends before it ends."""
    if name not in ("as_strided", "as_strided_") or kwargs or len(args) != 3:
        return False
    size, stride = args[1:]
    numbers = (*size, *stride) if isinstance(size, (list, tuple)) and isinstance(stride, (list, tuple)) else ()
    if not numbers or len(size) != len(stride):
        return False
    if any(tx.shape_env.decide(le(0, expr_of(number))) is not True for number in numbers):
        return False
    own, wanted = storage_size(*layout_of(x)), storage_size(dims(size), dims(stride))
    return tx.shape_env.decide(le(expr_of(wanted), expr_of(own))) is True
