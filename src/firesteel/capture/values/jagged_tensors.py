"""Nested tensors of the jagged layout. Their fake is one around fake parts; see `functional.jagged_tensors`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...functional.jagged_tensors import MakeJagged, jagged_spec, ragged_size, values_of
from ...torch_compat import nested
from ..signals import GraphBreak, SkipFrame
from .base import Value
from .constants import ConstantValue
from .sequences import TupleValue
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer

LENGTHS = frozenset({"_get_min_seqlen", "_get_max_seqlen", "_min_seqlen", "_max_seqlen", "_maybe_min_seqlen",
                     "_maybe_max_seqlen"})


class RaggedSize(Value):
    """The size of a nested tensor in its ragged dimension. It is no number: it only equals itself."""

    __slots__ = ("tensor", "dim", "size")

    def __init__(self, tensor: JaggedTensorValue, dim: int) -> None:
        super().__init__(None)
        self.tensor = tensor
        self.dim = dim
        self.size = nested.sizes_of(tensor.fake)[dim]

    def describe(self) -> str:
        return "a ragged size"

    def python_type(self) -> type:
        return torch.SymInt

    def node(self, tx: Tracer) -> Any:
        """The node of the graph that gives it."""
        size = tx.graph.call(ragged_size, (self.tensor.node, self.dim), {}, tx.user_frames())
        size.meta["example_value"] = self.size
        return size

    def emit(self, code: EntryCode) -> str:
        return code.assign(self, f"{code.constant(ragged_size)}({code.value(self.tensor)}, {self.dim})")


class JaggedTensorValue(TensorValue):
    """A nested tensor."""

    __slots__ = ()

    def describe(self) -> str:
        return "a nested tensor"

    def part(self, tx: Tracer, name: str) -> Value:
        """One of the tensors inside, or None."""
        part = nested.part_of(self.fake, name)
        if part is None:
            return ConstantValue(None)
        return tx.tensor_of_fake.get(id(part)) or tx.call_torch(getattr, [self, tx.constant(name)], {})

    def shape(self, tx: Tracer) -> TupleValue:
        """Its sizes."""
        return TupleValue([RaggedSize(self, dim) if is_ragged(size) else tx.symbols.value_of(size)
                           for dim, size in enumerate(nested.sizes_of(self.fake))], torch.Size)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name in nested.PARTS:
            return self.part(tx, name)
        if name == "_ragged_idx":
            return tx.constant(nested.ragged_dim(self.fake))
        if name in ("shape", "_size"):
            return self.shape(tx)
        if name in LENGTHS or name in ("_strides", "_metadata_cache", "data", "grad", "__dict__"):
            raise GraphBreak(f"{name} of a nested tensor")
        return super().get_attr(tx, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in ("offsets", "lengths") and not args and not kwargs:
            return self.part(tx, f"_{name}")
        if name == "size":
            shape = self.shape(tx)
            given = [*args, *kwargs.values()]
            return shape.items[tx.constant_of(given[0])] if given else shape
        if name == "unbind":
            from ..equivalents.jagged_tensors import unbind

            return tx.call(tx.python_object(unbind), [self, *args], kwargs)
        if name in ("stride", "storage", "untyped_storage", "data_ptr", "__deepcopy__", "register_hook", "retain_grad",
                    "register_post_accumulate_grad_hook", "set_"):
            raise GraphBreak(f"{name}() of a nested tensor")
        return super().call_method(tx, name, args, kwargs)

    def length(self, tx: Tracer) -> Value:
        return self.shape(tx).items[0]

    def iterate(self, tx: Tracer) -> Value:
        return self.call_method(tx, "unbind", [], {}).iterate(tx)

    def get_item(self, tx: Tracer, key: Value) -> Value:
        if isinstance(key.realize(), ConstantValue) and type(key.realize().as_constant()) is int:
            return self.call_method(tx, "unbind", [], {}).get_item(tx, key)
        return super().get_item(tx, key)

    def emit(self, code: EntryCode) -> str:
        fake = self.fake
        if fake.requires_grad and fake.is_leaf:
            raise SkipFrame("a nested tensor that becomes a leaf inside of the function is a result")
        spec = jagged_spec(fake)
        arguments = []
        for name in spec.names:
            part = nested.part_of(fake, name)
            known = code.tx.tensor_of_fake.get(id(part)) if name != "_values" else None
            arguments.append(self._emit_part(code, name, part) if known is None else code.value(known))
        name = code.assign(self, f"{code.constant(MakeJagged(spec))}({', '.join(arguments)})")
        self.emit_attributes(code, name)
        return name

    def _emit_part(self, code: EntryCode, name: str, part: Any) -> str:
        """The variable with a part that comes out of the graph."""
        graph = code.tx.graph
        if name == "_values":
            node, part = graph.call(values_of, (self.node,), {}, ()), values_of(self.fake)
        else:
            node = graph.call(getattr, (self.node, name), {}, ())
        node.meta["example_value"] = part
        variable = code.node_output(node)
        if name != "_values":  # nested tensors with the same offsets have them as one object
            code.tx.tensor_of_fake[id(part)] = TensorValue(node, part)
        return variable


def is_ragged(size: Any) -> bool:
    """Whether a size of a nested tensor is the one that is no number."""
    return isinstance(size, torch.SymInt) and size.node.is_nested_int()
