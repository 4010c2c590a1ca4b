"""Declarations of sizes in torch's own classes (``torch.fx.experimental.dynamic_spec``), read into plain data.

Nothing is imported: whoever has such a declaration has loaded the module.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import torch

from ..records import dataclass

_MODULE = "torch.fx.experimental.dynamic_spec"
_ATTACHED = "_dynamic_spec"
_OPERATORS = {"Add": " + ", "Mul": "*", "Pow": "**", "FloorDiv": "//", "PythonMod": "%", "Mod": "%",
              "Equality": " == ", "Unequality": " != ", "GreaterThan": " >= ", "LessThan": " <= ",
              "StrictGreaterThan": " > ", "StrictLessThan": " < ", "And": " and ", "Or": " or "}


@dataclass(frozen=True)
class Variable:
    """A size or number that varies. Two of the same name are not the same one: the key tells them apart."""

    key: str
    name: str
    min: int | None = None
    max: int | None = None


@dataclass(frozen=True)
class Formula:
    """An expression of variables as text, in which their keys stand for them."""

    text: str
    variables: tuple[Variable, ...]


Leaf = Formula | int | None


@dataclass(frozen=True)
class TensorSizes:
    """The sizes of a tensor."""

    dims: tuple[Leaf, ...]


@dataclass(frozen=True)
class Items:
    """What is declared of the items of a list, tuple or dict."""

    items: Mapping[Any, Any]


@dataclass(frozen=True)
class Attributes:
    """What is declared of the attributes of an object."""

    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class ArgumentSpec:
    """What is declared of the arguments of a function."""

    named: Mapping[str, Any] = field(default_factory=dict)
    positional: tuple[Any, ...] = ()
    """Of ``*args``."""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """Of ``**kwargs``."""
    assumptions: tuple[Formula, ...] = ()


def attached_spec(model: Any) -> Any:
    """What ``@dynamic_spec(...)`` attached to a function or to the forward of a module; None without it."""
    return getattr(model.forward if isinstance(model, torch.nn.Module) else model, _ATTACHED, None)


def read_spec(spec: Any) -> ArgumentSpec | None:
    """A ``ShapesSpec`` or ``ParamsSpec`` as plain data; None for anything else."""
    kind = _kind(spec)
    if kind == "ShapesSpec":
        read = ArgumentSpec() if spec._params is None else read_spec(spec._params)
        assert read is not None
        return ArgumentSpec(read.named, read.positional, read.keywords,
                            tuple(_formula(condition) for condition in getattr(spec, "_assumptions", ())))
    if kind == "ParamsSpec":
        return ArgumentSpec({name: read_node(node) for name, node in spec._named_args.items()},
                            tuple(read_node(node) for node in spec._varargs or ()),
                            {name: read_node(node) for name, node in (spec._varkw or {}).items()})
    return None


def read_node(node: Any) -> Any:
    """What is declared of one value: one of the classes above, or what was given where it is none of torch's."""
    kind = _kind(node)
    if kind == "TensorSpec":
        return TensorSizes(tuple(read_node(size) for size in node._specs))
    if kind == "ObjectSpec":
        return Attributes({name: read_node(part) for name, part in node._fields.items()})
    if kind == "DictSpec":
        return Items({key: read_node(part) for key, part in node._entries.items()})
    if kind == "SeqSpec":
        return Items({key: read_node(part) for key, part in enumerate(node._entries)})
    if hasattr(node, "node") and hasattr(node.node, "expr"):  # a symbolic number
        return _formula(node)
    return node


def _kind(value: Any) -> str:
    return type(value).__name__ if type(value).__module__ == _MODULE and _MODULE in sys.modules else ""


def _formula(number: Any) -> Formula:
    expr = number.node.expr
    ranges = number.node.shape_env.var_to_range
    variables = []
    for symbol in sorted(expr.free_symbols, key=str):
        name, _, _ = str(symbol).partition("#")
        bounds = ranges[symbol]
        lower, upper = (int(bound) if getattr(bound, "is_Integer", False) or isinstance(bound, int) else None
                        for bound in (bounds.lower, bounds.upper))
        variables.append(Variable(_key(symbol), name, lower, upper))
    return Formula(_text(expr), tuple(variables))


def _key(symbol: Any) -> str:
    return "v" + "".join(character if character.isalnum() else "_" for character in str(symbol))


def _text(expr: Any) -> str:
    """A sympy expression as Python; torch's own functions are called by their classes' names."""
    kind = type(expr).__name__
    parts = [_text(part) for part in expr.args]
    if kind == "Symbol":
        return _key(expr)
    if not parts:
        return str(expr)  # a number
    if kind in ("Max", "Min"):
        return f"{kind.lower()}({', '.join(parts)})"
    if kind == "Not":
        return f"(not {parts[0]})"
    if kind in _OPERATORS:
        return f"({_OPERATORS[kind].join(parts)})"
    raise ValueError(f"sizes cannot be declared with {kind}: {expr}")
