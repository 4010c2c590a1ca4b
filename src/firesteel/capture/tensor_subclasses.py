"""Tensors of the program's own classes from outside: what is guarded, and how the graph gets them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..functional.jagged_tensors import is_jagged, jagged_spec
from ..functional.wrapper_tensors import (
    Carriers,
    MakeWrapper,
    has_members,
    is_made_like,
    is_wrapper_class,
    other_members,
    spec_of,
)
from ..shapes.symnode import hint_of
from ..torch_compat import distributed_tensors, nested, subclasses
from .jagged_tensors import wrap_jagged
from .program_state import watched
from .signals import GraphBreak, SkipFrame
from .source import AttrSource, PlainSource, Source, call_source, item_source
from .values.base import Value
from .values.constants import ConstantValue
from .values.opaque import OpaqueValue
from .values.subclass_tensors import SubclassTensorValue
from .values.tensors import TensorValue
from .values.wrapper_tensors import WrapperTensorValue
from .wrapping import wrap_plain_tensor

if TYPE_CHECKING:
    from .tracer import Tracer


def wrap_subclass(tx: Tracer, real: torch.Tensor, kind: type, source: Source) -> Value:
    """The Value of a tensor from outside that is of a class of the program's."""
    if kind is nested.JAGGED_CLASS:
        return wrap_jagged(tx, real, source)
    if distributed_tensors.is_in_flight(real):
        return tx.wrap(distributed_tensors.waited(real), call_source(source, distributed_tensors.waited))
    if is_wrapper_class(kind):
        return wrap_wrapper(tx, real, kind, source)
    with subclasses.DisableSubclasses():
        hooked = subclasses.has_foreign_hooks(real)
    reason = "a tensor subclass with hooks" if hooked else _untraceable(real, kind)
    if reason is not None:
        tx.guard(source, "type", "type({0}) is {k[0]}", (kind,))
        return OpaqueValue(real, source, reason)
    if not subclasses.is_overriding(kind):
        return wrap_plain_tensor(tx, real, kind, source)
    tx.guard(source, "subclass", "type({0}) is {k[0]} and {k[1]}({0}) == {k[2]}",
             (kind, subclasses.own_facts_of, subclasses.own_facts_of(real)))
    tx.objects.find_on_class(kind, "__torch_function__", tx)
    with subclasses.DisableSubclasses():  # what the alias is a view of is looked at, too
        plain = wrap_plain_tensor(tx, subclasses.plain_alias(real), torch.Tensor, PlainSource(source))
    if not isinstance(plain, TensorValue):
        assert isinstance(plain, OpaqueValue)
        return OpaqueValue(real, source, plain.reason)
    value = SubclassTensorValue(plain.node, plain.fake, source, kind, real)
    tx.tensor_of_fake[id(plain.fake)] = value
    tx.torch_functions.note(value)
    return value


def _untraceable(real: torch.Tensor, kind: type) -> str | None:
    """Why a tensor of a class is left to Python; None if it is not."""
    if subclasses.has_own_dispatch(kind):
        return "a tensor subclass with a __torch_dispatch__"
    if kind.__module__.partition(".")[0] == "torch":
        return f"a tensor of torch's own class {kind.__name__}"
    getter: Any = kind.__getattribute__
    if getter is not torch.Tensor.__getattribute__ or hasattr(kind, "__del__"):
        return "a tensor subclass that overrides __getattribute__ or has a __del__"
    return None


LEFT_TO_PYTHON = frozenset({"FakeTensor", "FunctionalTensor"})
"""Wrappers of torch's own that capture does not look into."""


def wrap_wrapper(tx: Tracer, real: torch.Tensor, kind: type, source: Source) -> Value:
    """The Value of a tensor from outside that is made of other tensors."""
    if kind.__name__ in LEFT_TO_PYTHON and kind.__module__.partition(".")[0] == "torch":
        tx.guard(source, "type", "type({0}) is {k[0]}", (kind,))
        return OpaqueValue(real, source, f"a {kind.__name__}")
    tx.guard(source, "subclass", "type({0}) is {k[0]} and {k[1]}({0}) == {k[2]}",
             (kind, subclasses.facts_of, subclasses.facts_of(real)))
    if subclasses.has_foreign_hooks(real):
        return OpaqueValue(real, source, "a tensor subclass with hooks")
    if distributed_tensors.has_mask(real):
        return OpaqueValue(real, source, "a DTensor whose rows still have to be masked")
    distributed_tensors.prepare()
    try:
        with watched(tx, [kind], []):
            spec = spec_of(real)
            like_itself = is_made_like(real, spec)
    except GraphBreak as cause:
        return OpaqueValue(real, source, f"a tensor subclass: {cause.reason}")
    except AttributeError:  # its __init__ has not run yet
        return OpaqueValue(real, source, "a tensor subclass without its parts")
    if not like_itself:
        return OpaqueValue(real, source, "a tensor subclass with a context that does not equal itself")
    tx.guard(source, "context", "{k[0]}({0}, {k[1]})", (is_made_like, spec))
    for name in ("__torch_dispatch__", "__torch_function__", "__tensor_unflatten__"):
        tx.objects.find_on_class(kind, name, tx)
    parts = [part.realize() for part in _parts(tx, real, source)]
    if not all(isinstance(part, TensorValue) for part in parts):
        return OpaqueValue(real, source, "a tensor subclass with a part that is not captured")
    carriers, nodes, fakes = None, [], []
    for part in parts:
        assert isinstance(part, TensorValue)
        nodes.append(part.node)
        fakes.append(part.fake)
    if real.requires_grad:
        carriers = Carriers()
        where = call_source(source, carriers)
        for position, carrier in enumerate(carriers(real)):
            fake = tx.fake.from_real(carrier)
            node = tx.graph.add_input(item_source(where, position), fake)
            tx.tensor_of_fake[id(fake)] = TensorValue(node, fake, None, torch.Tensor, carrier)
            tx.kept_alive += [fake, carrier]
            nodes.append(node)
            fakes.append(fake)
    make = MakeWrapper(spec, carriers)
    try:
        with watched(tx, [kind], []):
            wrapper: Any = make(*fakes)
            made_kind = type(wrapper)
            is_whole = made_kind is not kind or has_members(real, other_members(wrapper))
    except GraphBreak as cause:
        return OpaqueValue(real, source, f"a tensor subclass: {cause.reason}")
    if not is_whole:
        return OpaqueValue(real, source, "a tensor subclass with attributes that __tensor_unflatten__ does not set")
    if made_kind is not kind:
        return OpaqueValue(real, source, f"a tensor subclass of which __tensor_unflatten__ makes {made_kind.__name__}")
    tx.guard(source, "attributes", "{k[0]}({0}, {k[1]})", (has_members, other_members(wrapper)))
    node = tx.graph.call(make, tuple(nodes), {}, tx.user_frames())
    node.meta["example_value"] = wrapper
    value = WrapperTensorValue(node, wrapper, source, kind, real)
    tx.torch_functions.wrappers.append(value)
    tx.tensor_of_fake[id(wrapper)] = value
    tx.kept_alive.append(wrapper)
    tx.effects.version += 1
    return value


def _parts(tx: Tracer, real: torch.Tensor, source: Source) -> Iterator[Value]:
    """The Values of the plain tensors inside, in order."""
    names, _ = real.__tensor_flatten__()  # type: ignore[attr-defined]
    for name in names:
        part = getattr(real, name)
        where: Source = AttrSource(source, name)
        if not isinstance(part, torch.Tensor):
            continue
        if distributed_tensors.is_in_flight(part):
            part, where = distributed_tensors.waited(part), call_source(where, distributed_tensors.waited)
        if is_wrapper_class(type(part)):
            yield from _parts(tx, part, where)
        else:
            yield tx.wrap(part, where)


def note_changed_wrappers(tx: Tracer) -> None:
    """At the end of a capture: autograd counts changes of a wrapper in place, which the graph does to its parts.

    What the graph has of other classes is an alias: of its sizes and of requires_grad the tensor itself hears nothing.
    """
    for value in tx.tensor_of_fake.values():
        if isinstance(value, SubclassTensorValue) and value.source is not None and not value.fake.is_inference() \
                and not _is_as_outside(value):
            raise SkipFrame(f"{value.describe()} from outside is changed in place in more than its elements")
    for value in tx.torch_functions.wrappers:
        if value.fake.is_inference() or not (count := torch_compat.version_of(value.fake)):
            continue
        same = jagged_spec(value.fake) == jagged_spec(value.real) if is_jagged(value.fake) else \
            tuple(value.fake.shape) == tuple(value.real.shape)
        if value.real.requires_grad or not same:
            raise SkipFrame(f"{value.describe()} that requires grad, or whose sizes change, is changed in place")
        tx.effects.replay(_count_changes, [value, ConstantValue(count)], {})


def _is_as_outside(value: SubclassTensorValue) -> bool:
    """Whether a tensor from outside has still the sizes that it has there, and requires grad as it does there."""
    fake, changes = value.fake, torch_compat.version_of(value.fake)
    with subclasses.DisableSubclasses():
        real = value.real
        if real.requires_grad != fake.requires_grad and (not changes or isinstance(value, WrapperTensorValue)):
            return False
        if not changes or isinstance(value, WrapperTensorValue):
            return True
        return [*real.shape, *real.stride()] == list(map(hint_of, (*fake.shape, *fake.stride())))


def _count_changes(tensor: torch.Tensor, count: int) -> None:
    """What autograd does when a tensor is changed in place."""
    for _ in range(count):
        torch.autograd.graph.increment_version(tensor)


def check_linked_wrappers(tx: Tracer, outputs: list[Any]) -> None:
    """When all results of the graph are known: autograd gets from one of them to another. A wrapper is made again of
    its parts behind the graph, and whatever was computed from it inside was not computed from that one."""
    results = {node for node in outputs if _needs_gradient(node)}
    for wrapper, parts in tx.torch_functions.taken_apart:
        queue, seen = [user for user in wrapper.users if user is not parts], set()
        while queue:
            node = queue.pop()
            if node in results:
                raise SkipFrame("a wrapper that requires grad is a result, and another result is computed from it")
            if node not in seen:
                seen.add(node)
                queue.extend(node.users)


def _needs_gradient(node: Any) -> bool:
    value = node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and value.requires_grad
