"""``copy.copy`` and ``copy.deepcopy`` of tensors, dictionaries with attributes and compiled modules, in captured code.

Eager copies the whole storage of a tensor, once for all tensors in it. Captured are tensors that fill their storage
alone; parameters are copied for themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..fake.dims import known_equal, layout_of, numel_of, offset_of
from ..fake.rules.strides import preserved_strides
from .call_handlers import handles
from .equivalents.copying import has_attributes, shallow_tensor_copy, stay_compiled
from .signals import GraphBreak
from .values.base import Value
from .values.mappings import DictValue
from .values.modules import CompiledModuleValue
from .values.storages import storage_bytes
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


def deep_copy(tx: Tracer, tensor: TensorValue, memo: Value) -> Value:
    """``tensor.__deepcopy__(memo)``."""
    _refuse_attributes(tx, tensor)
    requires_grad = tensor.fake.requires_grad
    if requires_grad and not tensor.fake.is_leaf:
        raise GraphBreak("copy.deepcopy of a tensor that was computed from others raises in eager", "use clone()")
    if tensor.source is not None and not _is_none(tensor.grad(tx)):
        raise GraphBreak("copy.deepcopy of a tensor with a gradient", "use detach().clone()")
    if tensor.cls is not torch.nn.Parameter:
        _refuse_shared(tx, tensor, memo)
    copied = tx.call_torch("clone", [tx.call_torch("detach", [tensor], {})], {})
    if tensor.cls is torch.nn.Parameter:
        return tx.call(tx.python_object(torch.nn.Parameter), [copied], {"requires_grad": tx.constant(requires_grad)})
    return tx.call_torch("requires_grad_", [copied], {}) if requires_grad else copied


@handles(shallow_tensor_copy)
def shallow_copy(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``copy.copy(tensor)``: another tensor with the same memory."""
    tensor = args[0].realize()
    assert isinstance(tensor, TensorValue)
    _refuse_attributes(tx, tensor)
    if tensor.cls is not torch.Tensor or tensor.fake.requires_grad:
        raise GraphBreak("copy.copy of a tensor that requires grad, or of a parameter", "use detach()")
    return tx.call_torch("detach", [tensor], {})


@handles(stay_compiled)
def refuse_compiled(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Copies of a compiled module are compiled as well; what is captured in its place is the module behind it."""
    if isinstance(args[0].realize(), CompiledModuleValue):
        raise GraphBreak("a copy of a compiled module is another compiled module")
    return tx.constant(None)


@handles(has_attributes)
def has_own_attributes(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Whether attributes were set on an OrderedDict, as on what `module.state_dict()` returns."""
    mapping = args[0].realize()
    assert isinstance(mapping, DictValue)
    if mapping.source is not None and not vars(mapping.real):
        tx.guard(mapping.source, "attributes", "not {0}.__dict__")
    return tx.constant(bool(mapping.attrs or mapping.source is not None and vars(mapping.real)))


def _is_none(value: Value) -> bool:
    return value.is_constant() and value.as_constant() is None


def _refuse_attributes(tx: Tracer, tensor: TensorValue) -> None:
    """Attributes that the program has set would be copied too."""
    if tensor.cls not in (torch.Tensor, torch.nn.Parameter) or any(name != "grad" for name in tensor.attrs) or \
            getattr(tensor.real, "__dict__", None):
        raise GraphBreak("a copy of a tensor of another class, or with attributes that were set on it", "use clone()")
    if tensor.source is not None:
        tx.guard(tensor.source, "attributes", "not {0}.__dict__")


def _refuse_shared(tx: Tracer, tensor: TensorValue, memo: Value) -> None:
    """What lies around a tensor in its storage would be copied too, and be shared by all copies."""
    fake = tensor.fake
    size = storage_bytes(tx, fake)
    shape, stride = layout_of(fake)
    whole = known_equal(offset_of(fake), 0) and all(map(known_equal, stride, preserved_strides(shape, stride)))
    known = tx.copied_storages.setdefault(id(memo), (memo, set()))[1]
    if not whole or not known_equal(numel_of(fake) * fake.itemsize, size) or fake.storage_key in known:
        raise GraphBreak("copy.deepcopy of a tensor that is a part of its memory, or shares it with another copied one",
                         "use clone()")
    known.add(fake.storage_key)
