"""Tensors that are made of other tensors, of classes with a ``__torch_dispatch__``.

Their fake is a tensor of the same class around fake parts, so that torch functions on it run the class's own code,
which calls operators on the parts. The graph gets the parts and gives parts back; see `functional.wrapper_tensors`.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from ... import torch_compat
from ...functional.wrapper_tensors import (
    PartsOfWrapper,
    Rebuild,
    can_have_gradient,
    has_members,
    other_members,
    parts_of,
    rebuild,
    spec_of,
)
from ...torch_compat import distributed_tensors
from ..signals import GraphBreak, SkipFrame
from ..source import CalledSource, ConstantSource
from .base import Value
from .subclass_tensors import SubclassTensorValue

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


class WrapperTensorValue(SubclassTensorValue):
    """A tensor made of others."""

    __slots__ = ()

    @property
    def cls(self) -> type:  # type: ignore[override]
        """Its class, which the fake has, too."""
        return type(self.fake)

    @cls.setter
    def cls(self, kind: type) -> None:
        if kind is not type(self.fake):  # as nn.Parameter() is not the class of what it makes of a wrapper
            raise GraphBreak(f"{self.describe()} that becomes a {kind.__name__}")

    @property
    def overrides(self) -> bool:
        """Its class is asked when torch runs on the fake."""
        return False

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name in ("placements", "device_mesh") and distributed_tensors.is_spread(self.fake):
            known: Any = getattr(self.fake, name)
            if name == "placements":
                return tx.python_object(known)
            return tx.wrap(known, CalledSource(ConstantSource.of(weakref.ref(known), "device_mesh")))
        return super().get_attr(tx, name)

    def instance_attr(self, tx: Tracer, name: str) -> Value | None:
        if self.source is not None or name in self.attrs or name not in vars(self.fake):
            return super().instance_attr(tx, name)
        known = vars(self.fake)[name]
        if isinstance(known, torch.Tensor):
            return tx.call_torch(getattr, [self, tx.constant(name)], {})
        return tx.python_object(known)

    def plain_attr(self, tx: Tracer, name: str) -> Value:
        if name in ("is_leaf", "requires_grad") and self.source is not None:
            return tx.constant(getattr(self.real, name))
        return super().plain_attr(tx, name)

    def emit(self, code: EntryCode) -> str:
        graph, fake = code.tx.graph, self.fake
        if distributed_tensors.has_mask(fake):
            raise SkipFrame(f"{self.describe()} whose rows still have to be masked is a result")
        differentiable = fake.requires_grad
        spec = spec_of(fake)
        parts = parts_of(fake)
        if differentiable and not all(map(can_have_gradient, parts)):
            raise SkipFrame(f"{self.describe()} that requires grad and has parts that cannot is a result")
        if differentiable and torch_compat.view_base(fake) is not None:
            raise SkipFrame(f"{self.describe()} that requires grad and is a view is a result")
        if differentiable and not _has_gradients_of_its_kind(fake):
            raise SkipFrame(f"{self.describe()} that requires grad is a result, and its gradients are of another class")
        if differentiable and fake.is_leaf:
            raise SkipFrame(f"{self.describe()} that becomes a leaf inside of the function is a result")
        with torch.no_grad():
            again = rebuild(spec, parts)
        if type(again) is not self.cls or not has_members(fake, other_members(again)):
            raise SkipFrame(f"{self.describe()} with attributes that __tensor_unflatten__ does not set is a result")
        take_apart = PartsOfWrapper(spec, differentiable)
        node = graph.call(take_apart, (self.node,), {}, ())
        node.meta["example_value"] = results = take_apart(fake)
        if differentiable:
            code.tx.torch_functions.taken_apart.append((self.node, node))
        names = []
        for position, part in enumerate(results):
            item = graph.item_of(node, position)
            item.meta["example_value"] = part
            names.append(code.node_output(item))
        name = code.assign(self, f"{code.constant(Rebuild(spec, differentiable))}({', '.join(names)})")
        self.emit_attributes(code, name)
        return name


def _has_gradients_of_its_kind(fake: torch.Tensor) -> bool:
    """Whether what autograd begins with is of the class, with as many parts."""
    with torch.no_grad():
        ones = torch.ones_like(fake)
    return type(ones) is type(fake) and len(parts_of(ones)) == len(parts_of(fake))
