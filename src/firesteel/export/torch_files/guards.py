"""Conditions on the sizes of inputs, as torch's files have them: Python of the arguments' names.

    L['d']['u'].size()[0] % 2 == 0          s60 % 2 == 0
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import torch

from ...fake import FakeTensor
from ...fake.dims import layout_of, offset_of
from ...shapes import Expr, Provenance, ShapeGuard
from ...shapes.expr import as_expr
from ...shapes.symnode import expr_of
from ...torch_compat.pytrees import tree_flatten_with_path, tree_unflatten
from ..program import ExportedProgram
from ..signature import InputKind
from .expressions import read_expression

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def read_guards(program: ExportedProgram, texts: list[str]) -> list[ShapeGuard]:
    """The conditions, without those that follow from the symbols. Raises ValueError."""
    leaf = _leaves(program)
    guards = []
    for text in texts:
        expr = read_expression(text, leaf)
        if expr.kind != "bool":
            raise ValueError(f"{text[:80]!r} is no condition")
        if not expr.is_constant:
            guards.append(ShapeGuard(expr, Provenance(op="torch.export")))
        elif not expr.evaluate({}):
            raise ValueError(f"the condition {text[:80]!r} never holds")
    return guards


def _leaves(program: ExportedProgram) -> Callable[[ast.expr], Expr | None]:
    """What sizes and numbers of inputs are in terms of the program's symbols."""
    inputs = places_of_inputs(program, varying=True)

    def leaf(node: ast.expr) -> Expr | None:
        match node:
            case ast.Subscript(value=ast.Call(func=ast.Attribute(value=at, attr=method), args=[]),
                               slice=ast.Constant(value=int() as position)) if method in ("size", "stride"):
                known = inputs.get(_place(at))
                return None if known is None else _number(_layout(known)[method == "stride"][position])
            case ast.Call(func=ast.Attribute(value=at, attr="storage_offset"), args=[]):
                known = inputs.get(_place(at))
                return None if known is None else _number(
                    offset_of(known) if isinstance(known, FakeTensor) else known.storage_offset())
            case ast.Subscript():
                known = inputs.get(_place(node))
                return _number(known) if isinstance(known, (int, float, *_SYMBOLIC)) else None
        return None

    return leaf


def _layout(value: Any) -> tuple[Any, Any]:
    return layout_of(value) if isinstance(value, FakeTensor) else (value.shape, value.stride())


def _number(value: Any) -> Expr:
    if isinstance(value, _SYMBOLIC):
        return expr_of(value)
    return as_expr(getattr(value, "expr", value))


def _place(node: ast.expr) -> str:
    """The text of where an input is: ``L['x'][0]``."""
    return ast.unparse(node)


def places_of_inputs(program: ExportedProgram, varying: bool = False) -> dict[str, Any]:
    """What is known of each input, by its place in the arguments that are called by name.

    ``varying``: also by its place in ``args``, as it is called where forward takes ``*args``.
    """
    call = program.module_call_graph[0].signature
    assert call is not None
    names = call.forward_arg_names or []
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    known = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    values = [known.get(spec.arg.name) for spec in specs]
    numbered = tree_unflatten(list(range(call.in_spec.num_leaves)), call.in_spec)
    places: dict[str, Any] = {}
    for path, number in tree_flatten_with_path(numbered)[0]:
        outer: Any = path[0]
        first: Any = path[1]
        if outer.idx == 0 and varying:
            places[f"L['args'][{first.idx}]{''.join(_step(entry) for entry in path[2:])}"] = values[number]
        name = names[first.idx] if outer.idx == 0 and first.idx < len(names) else getattr(first, "key", None)
        steps = "".join(_step(entry) for entry in path[2:])
        if name is not None:
            places[f"L[{name!r}]{steps}"] = values[number]
    return places


def _step(entry: Any) -> str:
    if hasattr(entry, "idx"):
        return f"[{entry.idx}]"
    if hasattr(entry, "key"):
        return f"[{entry.key!r}]"
    return f".{entry.name}"
