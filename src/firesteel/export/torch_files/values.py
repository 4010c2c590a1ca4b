"""What is known of values, and arguments of operators, in the form of torch's files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.fx

from ...fake import FakeTensor
from ...fake.dims import layout_of, offset_of
from ...shapes import Expr, Symbol
from ...shapes.expr import Const, Scalar
from ...shapes.symnode import expr_of
from ..saving.errors import SavedProgramError
from .expressions import write_expression
from .numbers import DTYPES, LAYOUTS, MEMORY_FORMATS, number_of

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_HINTS: dict[type, str] = {bool: "as_bool", int: "as_int", float: "as_float"}


def as_kind(kind: str, content: Any) -> dict[str, Any]:
    """One form of a value that has several."""
    return {kind: content}


def write_float(value: float) -> Any:
    """A float; those that JSON has no form for are texts."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def write_device(device: torch.device) -> Any:
    """A device."""
    return {"type": device.type, "index": device.index}


class Metadata:
    """Writes what is known of values; symbols get the names that torch wants."""

    def __init__(self, renamed: Mapping[Expr, Expr], hints: Mapping[Symbol, Scalar], root: str = "") -> None:
        self.root = root
        """The module that is around all operations."""
        self.renamed = renamed
        self.hints = hints

    def tensor(self, value: torch.Tensor) -> dict[str, Any]:
        """A tensor's dtype, sizes and place."""
        if value.layout is not torch.strided:
            raise SavedProgramError("torch's files have no form for this program: it has sparse tensors")
        shape, stride = layout_of(value) if isinstance(value, FakeTensor) else (value.shape, value.stride())
        offset = offset_of(value) if isinstance(value, FakeTensor) else value.storage_offset()
        return {
            "dtype": number_of(DTYPES, str(value.dtype)[6:], "dtype"), "sizes": [self.number(size) for size in shape],
            "requires_grad": value.requires_grad, "device": write_device(value.device),
            "strides": [self.number(size) for size in stride], "storage_offset": self.number(offset),
            "layout": number_of(LAYOUTS, str(value.layout)[6:], "layout"),
        }  # fmt: skip

    def number(self, value: Any, kind: str = "int") -> dict[str, Any]:
        """A number, known or not."""
        expr = expr_of(value) if isinstance(value, SYMBOLIC) else getattr(value, "expr", value)
        if isinstance(expr, Const):
            expr = expr.value
        if not isinstance(expr, Expr):
            return {f"as_{kind}": write_float(float(expr)) if kind == "float" else expr}
        content: dict[str, Any] = {"expr_str": write_expression(self.expr(expr)), "hint": None}
        if kind != "bool" and all(symbol in self.hints for symbol in expr.free_symbols):
            hint = expr.evaluate(self.hints)
            content["hint"] = {_HINTS[float if kind == "float" else int]: hint}
        return as_kind("as_expr", content)

    def expr(self, expr: Expr) -> Expr:
        """An expression of torch's symbols."""
        return expr.substitute(self.renamed)


def kind_of_number(value: Any) -> str | None:
    """``int``, ``float`` or ``bool`` for numbers, known or not."""
    for kind, symbolic, plain in (("bool", torch.SymBool, bool), ("int", torch.SymInt, int),
                                  ("float", torch.SymFloat, float)):
        if isinstance(value, (symbolic, plain)):
            return kind
    return None


class Arguments:
    """Writes arguments. Nodes stand in them by name."""

    def __init__(self, same: Mapping[torch.fx.Node, str]) -> None:
        self.same = same
        """The names of nodes whose value has another name in the file."""

    def name(self, node: torch.fx.Node) -> str:
        """The name of a node's value."""
        return self.same.get(node, node.name)

    def write(self, value: Any, declared: str = "") -> dict[str, Any]:
        """An argument; ``declared`` is the type that the operator gives it."""
        if isinstance(value, torch.fx.Node):
            kind = kind_of_number(value.meta.get("val"))
            name = self.name(value)
            return {"as_tensor": {"name": name}} if kind is None else {f"as_sym_{kind}": {"as_name": name}}
        if isinstance(value, (list, tuple)):
            return self._list(list(value), declared)
        if isinstance(value, dict):
            return {"as_string_to_argument": {str(key): self.write(item) for key, item in value.items()}}
        return write_constant(value)

    def _list(self, items: list[Any], declared: str) -> dict[str, Any]:
        if not items:
            return as_kind(_empty_list(declared), [])
        kinds = {kind_of_number(item.meta.get("val") if isinstance(item, torch.fx.Node) else item) for item in items}
        nodes = [isinstance(item, torch.fx.Node) for item in items]
        if not any(nodes):
            return self._plain_list(items, kinds)
        if len(kinds) == 1 and None not in kinds:
            kind = next(iter(kinds))
            return {f"as_sym_{kind}s": [
                {"as_name": self.name(item)} if isinstance(item, torch.fx.Node) else {f"as_{kind}": item}
                for item in items]}
        if all(nodes):
            return {"as_tensors": [{"name": self.name(item)} for item in items]}
        if all(item is None or node for item, node in zip(items, nodes, strict=True)):
            return {"as_optional_tensors": [
                {"as_none": True} if item is None else {"as_tensor": {"name": self.name(item)}} for item in items]}
        raise SavedProgramError("torch's files have no form for this program: a list of tensors and numbers together")

    def _plain_list(self, items: list[Any], kinds: set[str | None]) -> dict[str, Any]:
        if all(item is None for item in items):
            return {"as_optional_tensors": [{"as_none": True}] * len(items)}
        if all(isinstance(item, (list, tuple)) and all(isinstance(part, torch.fx.Node) for part in item)
               for item in items):
            return {"as_nested_tensors": [[{"name": self.name(part)} for part in item] for item in items]}
        if all(type(item) is str for item in items):
            return {"as_strings": items}
        if kinds == {"float"} or kinds == {"int", "float"}:
            return {"as_floats": [write_float(float(item)) for item in items]}
        if len(kinds) == 1 and None not in kinds:
            return {f"as_{next(iter(kinds))}s": items}
        raise SavedProgramError(f"torch's files have no form for the list {str(items)[:80]}")


def _empty_list(declared: str) -> str:
    for text, kind in (("bool", "as_bools"), ("float", "as_floats"), ("str", "as_strings"), ("Tensor", "as_tensors"),
                       ("int", "as_ints")):
        if text in declared:
            return kind
    return "as_tensors"


def write_constant(value: Any) -> dict[str, Any]:
    """A value that is no node."""
    kind = type(value)
    if value is None:
        return {"as_none": True}
    if kind in (bool, int):
        return {f"as_{kind.__name__}": value}
    if kind is float:
        return {"as_float": write_float(value)}
    if kind is str:
        return {"as_string": value}
    if kind is complex:
        return {"as_complex": {"real": value.real, "imag": value.imag}}
    if isinstance(value, torch.dtype):
        return {"as_scalar_type": number_of(DTYPES, str(value)[6:], "dtype")}
    if isinstance(value, torch.layout):
        return {"as_layout": number_of(LAYOUTS, str(value)[6:], "layout")}
    if isinstance(value, torch.memory_format):
        return {"as_memory_format": number_of(MEMORY_FORMATS, str(value)[6:], "memory format")}
    if isinstance(value, torch.device):
        return {"as_device": write_device(value)}
    raise SavedProgramError(f"torch's files have no form for values of the type {kind.__qualname__}")
