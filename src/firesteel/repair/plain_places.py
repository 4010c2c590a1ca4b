"""Expressions of a script that plain Python can compute instead of captured code, and what their opcodes are called."""

from __future__ import annotations

import ast
import dis
import types

from . import edits

_NAMES: dict[type[ast.AST], str] = {
    ast.ListComp: "LIST_APPEND", ast.SetComp: "SET_ADD", ast.DictComp: "MAP_ADD", ast.JoinedStr: "FORMAT_VALUE",
    ast.BinOp: "BINARY_OP", ast.Compare: "COMPARE_OP", ast.Subscript: "BINARY_SUBSCR", ast.Call: "CALL",
    ast.Dict: "BUILD_MAP", ast.List: "BUILD_LIST", ast.Tuple: "BUILD_TUPLE", ast.Attribute: "LOAD_ATTR",
    ast.GeneratorExp: "YIELD_VALUE", ast.Lambda: "MAKE_FUNCTION", ast.Set: "BUILD_SET", ast.IfExp: "POP_JUMP",
}
_SIMPLE = frozenset({
    "RESUME", "RETURN_VALUE", "LOAD_FAST", "STORE_FAST", "LOAD_CONST", "LOAD_GLOBAL", "PRECALL", "CALL", "PUSH_NULL",
    "POP_TOP", "COPY_FREE_VARS", "RETURN_CONST", "NOP", "CACHE", "LOAD_ATTR", "LOAD_METHOD", "LOAD_FAST_LOAD_FAST",
    "MAKE_FUNCTION", "BUILD_TUPLE", "KW_NAMES", "COPY", "SWAP",
})


def plain_places(tree: ast.Module) -> list[int]:
    """The expressions of functions that do more than name something, by their number in the tree, small ones first."""
    inside = {id(node) for statement in tree.body if isinstance(statement, (ast.FunctionDef, ast.ClassDef))
              for function in ast.walk(statement) if isinstance(function, ast.FunctionDef)
              for part in function.body for node in ast.walk(part)}
    hidden = {id(node) for part in ast.walk(tree) if isinstance(part, ast.JoinedStr)
              for node in ast.walk(part) if node is not part}
    found = [(len(ast.unparse(place[3])), number) for number, place in enumerate(edits.expressions(tree))
             if id(place[3]) in inside and id(place[3]) not in hidden
             and not isinstance(place[3], (ast.Name, ast.Constant, ast.Slice, ast.Starred))]
    return [number for _, number in sorted(found)][:24]


def make_plain(tree: ast.Module, number: int) -> tuple[str, str]:
    """Have plain Python compute an expression; its opcode and its source."""
    parent, name, at, expression = edits.expressions(tree)[number]
    named = opcode_of(expression), ast.unparse(expression)
    call = ast.Call(ast.Name("_plain", ast.Load()), [ast.Lambda(
        ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]), expression)], [])
    if at is None:
        setattr(parent, name, call)
    else:
        getattr(parent, name)[at] = call
    first = next(place for place, statement in enumerate(tree.body)
                 if isinstance(statement, (ast.FunctionDef, ast.ClassDef)))
    tree.body[first:first] = ast.parse("import firesteel\n@firesteel.disable\ndef _plain(compute):\n"
                                       "    return compute()").body
    return named


def opcode_of(expression: ast.expr) -> str:
    """The opcode that computes an expression."""
    if isinstance(expression, ast.UnaryOp):
        return {ast.USub: "UNARY_NEGATIVE", ast.Not: "UNARY_NOT", ast.Invert: "UNARY_INVERT"}.get(
            type(expression.op), "UNARY_POSITIVE")
    if isinstance(expression, ast.Compare):
        return {ast.In: "CONTAINS_OP", ast.NotIn: "CONTAINS_OP", ast.Is: "IS_OP", ast.IsNot: "IS_OP"}.get(
            type(expression.ops[0]), "COMPARE_OP")
    if isinstance(expression, ast.Dict) and None in expression.keys:
        return "DICT_UPDATE"
    return _NAMES.get(type(expression), type(expression).__name__)


def opcodes_of(tree: ast.Module) -> list[str]:
    """What is left of the opcodes of a script's functions, without those that every function has."""
    names: dict[str, None] = {}
    waiting = [compile(tree, "<script>", "exec", dont_inherit=True)]
    top = waiting[0]
    while waiting:
        code = waiting.pop(0)
        waiting += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        if code is not top:
            names |= {one.opname: None for one in dis.get_instructions(code) if one.opname not in _SIMPLE}
    return list(names)
