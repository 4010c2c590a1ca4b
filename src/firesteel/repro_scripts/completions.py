"""Statements of a file that complete what others define: operators of the user's with their kernels, registered cases.

    @torch.library.custom_op("mine::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor: ...

    @twice.register_fake
    def _(x): ...

Nothing reads the second function by its name, and without it the first is another operator.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPLETING = ("register", "impl", "define")
_OPERATORS = ("custom_op", "triton_op", "define", "impl", "impl_abstract")
_OWN_SPACES = frozenset({"aten", "prims", "prim", "higher_order"})


def completing(tree: ast.Module, statements: Collection[ast.stmt], operators: Collection[str] = ()) -> list[ast.stmt]:
    """The statements of a file that complete some of them, or define ``operators``, as ``space::name``, that these
    call by name."""
    names = {statement.name for statement in statements if isinstance(statement, _DEFINITIONS)}
    names |= {node.id for statement in statements if isinstance(statement, ast.Assign) for target in statement.targets
              for node in ast.walk(target) if isinstance(node, ast.Name) and is_operator(statement)}
    spaces = dict(_libraries(tree))
    wanted = {*operators, *(name for statement in statements for name in operators_called(statement))}
    wanted |= operators_made(tree, statements)
    return [statement for statement in tree.body if statement not in statements and any(
        _completes(one, names, wanted, spaces) for one in _calls(statement))]


def operators_called(tree: ast.AST) -> Iterator[str]:
    """The operators that are called as ``torch.ops.space.name``, without torch's own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) \
                and ast.unparse(node.value.value) == "torch.ops" and node.value.attr not in _OWN_SPACES:
            yield f"{node.value.attr}::{node.attr}"


def operators_made(tree: ast.Module, statements: Collection[ast.stmt]) -> set[str]:
    """The operators that statements of a file define or complete."""
    spaces = dict(_libraries(tree))
    return {name for statement in statements for one in _calls(statement) for name in _named(one, spaces)}


def is_operator(statement: ast.stmt | None) -> bool:
    """Whether it makes an operator or a library of operators, and gives it a name."""
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) \
        and _last_name(statement.value.func) in ("Library", *_OPERATORS)


def _calls(statement: ast.stmt) -> list[ast.expr]:
    """What a statement does with something else: its decorators, or the call that it is."""
    if isinstance(statement, _DEFINITIONS):
        return statement.decorator_list
    return [statement.value] if isinstance(statement, (ast.Expr, ast.Assign)) \
        and isinstance(statement.value, ast.Call) else []


def _completes(call: ast.expr, names: set[str], wanted: set[str], spaces: dict[str, str]) -> bool:
    function = call.func if isinstance(call, ast.Call) else call
    known = not wanted.isdisjoint(_named(call, spaces))
    if _last_name(function).startswith(_COMPLETING):
        arguments = [*call.args, *(one.value for one in call.keywords)] if isinstance(call, ast.Call) else []
        return known or not names.isdisjoint(
            node.id for part in (function, *arguments[:1]) for node in ast.walk(part) if isinstance(node, ast.Name))
    return known and _last_name(function) in _OPERATORS


def _named(call: ast.expr, spaces: dict[str, str]) -> Iterator[str]:
    """The operators that a call names in texts: whole, or as parts of a library."""
    if not isinstance(call, ast.Call):
        return
    used = [spaces[node.id] for node in ast.walk(call) if isinstance(node, ast.Name) and node.id in spaces]
    for argument in call.args[:2]:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            name = argument.value.partition("(")[0].strip()
            space, _, short = name.rpartition("::")
            yield from (f"{one}::{short.partition('.')[0]}" for one in ([space] if space else used))


def _libraries(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names of libraries of operators, and their name spaces."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) \
                and _last_name(statement.value.func) == "Library" and statement.value.args \
                and isinstance(statement.value.args[0], ast.Constant):
            yield from ((target.id, str(statement.value.args[0].value)) for target in statement.targets
                        if isinstance(target, ast.Name))


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
