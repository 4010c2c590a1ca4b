"""Nested tensors of the jagged layout from outside, and those that the program makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..devices import kind_of
from ..functional.jagged_tensors import (
    MakeJagged,
    from_padded,
    is_jagged_like,
    jagged_spec,
    know_lengths,
    values_of,
    view_from_jagged,
)
from ..torch_compat import nested, subclasses
from .call_handlers import handles
from .equivalents.jagged_tensors import attention
from .signals import GraphBreak
from .source import AttrSource, Source, call_source
from .values.base import Value
from .values.constants import ConstantValue
from .values.jagged_tensors import JaggedTensorValue
from .values.opaque import OpaqueValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


def wrap_jagged(tx: Tracer, real: Any, source: Source) -> Value:
    """The Value of a nested tensor from outside."""
    kind = type(real)
    tx.guard(source, "nested tensor", "type({0}) is {k[0]} and {k[1]}({0}) == {k[2]}",
             (kind, nested.jagged_facts, nested.jagged_facts(real)))
    if subclasses.has_foreign_hooks(real):
        return OpaqueValue(real, source, "a nested tensor with hooks")
    spec = jagged_spec(real)
    tx.guard(source, "parts", "{k[0]}({0}, {k[1]})", (is_jagged_like, spec))
    values: Any = nested.part_of(real, "_values")
    where: Source = AttrSource(source, "_values")
    if real.requires_grad:
        with torch_compat.without_modes():
            values = values_of(real)
        where = call_source(source, values_of)
    parts = [tx.wrap(values, where), *[tx.wrap(nested.part_of(real, name), AttrSource(source, name))
                                       for name in spec.names[1:]]]
    nodes, fakes = [], []
    for part in parts:
        known = part.realize()
        if type(known) is not TensorValue:
            return OpaqueValue(real, source, "a nested tensor with a part that is not captured")
        nodes.append(known.node)
        fakes.append(known.fake)
    make = MakeJagged(spec)
    jagged = make(*fakes)
    node = tx.graph.call(make, tuple(nodes), {}, tx.user_frames())
    node.meta["example_value"] = jagged
    value = JaggedTensorValue(node, jagged, source, kind, real)
    tx.torch_functions.wrappers.append(value)
    tx.tensor_of_fake[id(jagged)] = value
    tx.kept_alive.append(jagged)
    tx.effects.version += 1
    return value


def find_lengths(tx: Tracer, tensors: list[JaggedTensorValue]) -> bool:
    """Have the graph know how long the shortest and the longest sequences are; False if all of that was known."""
    unknown = [tensor for tensor in tensors if not nested.knows_lengths(tensor.fake)]
    for tensor in unknown:
        if tensor.source is not None:
            with torch_compat.without_modes():
                lengths = [(find, find(tensor.real)) for find in (nested.shortest_of, nested.longest_of)]
            parts = [tx.wrap(length, call_source(tensor.source, find)).realize() for find, length in lengths]
        else:
            sizes = tensor.part(tx, "_lengths")
            if sizes.is_constant():
                sizes = tx.call_torch("diff", [tensor.part(tx, "_offsets")], {})
            parts = [tx.call_torch(torch.zeros, [tx.call_torch(find, [sizes], {}).call_method(tx, "item", [], {}),
                                                 ConstantValue(0)], {}) for find in ("min", "max")]
        shortest, longest = parts
        if not isinstance(shortest, TensorValue) or not isinstance(longest, TensorValue):
            raise GraphBreak("the lengths of a nested tensor are needed")
        node = tx.graph.call(know_lengths, (tensor.node, shortest.node, longest.node), {}, tx.user_frames())
        node.meta["example_value"] = know_lengths(tensor.fake, shortest.fake, longest.fake)
        tensor.node = node
        if tensor.source is not None:  # which it remembers in eager, too
            tx.effects.replay(nested.set_lengths, [tensor, shortest, longest], {})
        tx.effects.version += 1
    return bool(unknown)


def jagged_attention(tx: Tracer, tensors: list[JaggedTensorValue], args: list[Value],
                     kwargs: dict[str, Value]) -> Value:
    """Attention of sequences to themselves or others. On CPUs torch computes it one by one, here they are padded."""
    if len(tensors) != 3 or len({nested.ragged_dim(tensor.fake) for tensor in tensors} | {2}) > 1 or \
            any(not kind_of(tensor.fake).is_host or nested.part_of(tensor.fake, "_lengths") is not None
                or len(nested.sizes_of(tensor.fake)) != 4 for tensor in tensors):
        raise GraphBreak("scaled_dot_product_attention of such nested tensors")
    named = {**dict(zip(("attn_mask", "dropout_p", "is_causal"), args[3:], strict=False)), **kwargs}
    if any(tx.truth(named[name]) for name in named.keys() - {"scale", "enable_gqa"}):
        raise GraphBreak("scaled_dot_product_attention of nested tensors with a mask, dropout or is_causal")
    find_lengths(tx, tensors)
    options = {name: value for name, value in named.items() if name in ("scale", "enable_gqa")}
    lengths = [tensors[0].part(tx, name) for name in ("_min_seqlen_tensor", "_max_seqlen_tensor")]
    return tx.call(tx.python_object(attention), [*tensors, *lengths], options)


@handles(nested.view_from_jagged)
def call_view_from_jagged(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """How torch's own functions make nested tensors."""
    if kwargs or len(args) < 3:
        raise GraphBreak("_nested_view_from_jagged() with unusual arguments")
    values, offsets, _, *rest = args
    given = [*rest, *[ConstantValue(None)] * (4 - len(rest))]
    if len(rest) < 2:
        given[1] = ConstantValue(1)
    return tx.call_torch(view_from_jagged, [values, offsets, *given], {})


@handles(nested.from_padded)
def call_from_padded(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """How torch's own functions make nested tensors of padded ones."""
    if kwargs or len(args) != 7:
        raise GraphBreak("_nested_from_padded_tensor() with unusual arguments")
    padded, offsets, _, *rest = args
    return tx.call_torch(from_padded, [padded, offsets, *rest], {})


@handles(nested.dummy_of_class)
def call_dummy(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What stands for the class among arguments: the operations of graphs make it themselves."""
    return ConstantValue(None)
