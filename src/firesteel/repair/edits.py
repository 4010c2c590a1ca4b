"""Edits that make a Python program smaller, each on a syntax tree of its own."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Iterator

from .asked_for import protected

Edit = Callable[[ast.Module], None]
BLOCKS = ("body", "orelse", "finalbody")
_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try)
_DRAWS = re.compile(r"rand|normal|bernoulli|multinomial|uniform|dropout|\binit\b|\bnn\.[A-Z]", re.IGNORECASE)


def source(tree: ast.Module) -> str:
    """A tree as text."""
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def is_closed(tree: ast.Module, wanted: Iterable[str] = ()) -> bool:
    """Whether each name that is read or wanted is bound somewhere: a cheap look before a program is run."""
    bound = set(dir(builtins)) | {"__file__", "__name__"}
    read = set(wanted)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
    return read <= bound


def draws(tree: ast.AST) -> bool:
    """Whether a program seems to draw random numbers."""
    return _DRAWS.search(ast.unparse(tree)) is not None


def is_seeded(tree: ast.AST) -> bool:
    """Whether a program draws no random numbers, or the same ones in every process."""
    return "manual_seed(" in ast.unparse(tree) or not draws(tree)


def seed(tree: ast.Module) -> None:
    """Have a program draw the same random numbers in every process."""
    if not is_seeded(tree):
        imports = [at for at, statement in enumerate(tree.body) if isinstance(statement, (ast.Import, ast.ImportFrom))
                   and any(item.name == "torch" and item.asname is None for item in statement.names)]
        if imports:
            tree.body[imports[0] + 1:imports[0] + 1] = ast.parse("torch.manual_seed(0)").body


def blocks(tree: ast.AST) -> list[list[ast.stmt]]:
    """Every list of statements, in an order that only depends on the tree."""
    return [block for node in ast.walk(tree) for name in BLOCKS
            if isinstance(block := getattr(node, name, None), list) and block and isinstance(block[0], ast.stmt)]


def remove(index: int, start: int, width: int) -> Edit:
    """Leave out some statements of a block."""
    def edit(tree: ast.Module) -> None:
        del blocks(tree)[index][start:start + width]
        for node in ast.walk(tree):
            # An empty `else` is none at all, an empty body needs a statement.
            if getattr(node, "body", None) == [] and not isinstance(node, ast.Module):
                node.body = [ast.Pass()]  # type: ignore[attr-defined]
            if isinstance(node, ast.Try) and not node.handlers and not node.finalbody:
                node.finalbody = [ast.Pass()]

    return edit


def unwrappings(tree: ast.Module) -> Iterator[Edit]:
    """Replace a compound statement by one of its blocks."""
    for index, block in enumerate(blocks(tree)):
        for position, statement in enumerate(block):
            if isinstance(statement, ast.Try):
                for number in range(len(statement.handlers)):
                    yield _unwrap_handler(index, position, number)
            if isinstance(statement, _COMPOUND):
                for name in BLOCKS:
                    if getattr(statement, name, None):
                        yield _unwrap(index, position, name)


def _unwrap_handler(index: int, position: int, number: int) -> Edit:
    def edit(tree: ast.Module) -> None:
        block = blocks(tree)[index]
        block[position:position + 1] = block[position].handlers[number].body  # type: ignore[attr-defined]

    return edit


def _unwrap(index: int, position: int, name: str) -> Edit:
    def edit(tree: ast.Module) -> None:
        block = blocks(tree)[index]
        block[position:position + 1] = getattr(block[position], name)

    return edit


def droppings(tree: ast.Module) -> Iterator[Edit]:
    """Leave out an element of a display, an argument of a call, a decorator, a base class, a parameter."""
    found = called_function(tree)
    call = 0 if found is None else id(found[1])  # its arguments are the function's
    for index, node in enumerate(ast.walk(tree)):
        for name in ("elts", "keys", "args", "keywords", "names", "decorator_list", "bases"):
            members = getattr(node, name, None)
            if isinstance(members, list) and not isinstance(node, (ast.Global, ast.arguments, ast.alias)) \
                    and id(node) != call:
                for position in reversed(range(len(members))):
                    yield drop(index, name, position)


def drop(index: int, name: str, position: int) -> Edit:
    """Leave out one of the parts of a node, which are counted as `ast.walk` comes to them."""
    def edit(tree: ast.Module) -> None:
        node = list(ast.walk(tree))[index]
        del getattr(node, name)[position]
        if isinstance(node, ast.Dict):
            del node.values[position]
        elif isinstance(node, (ast.Nonlocal, ast.Global, ast.Import, ast.ImportFrom)) and not node.names:
            for block in blocks(tree):
                block[:] = [ast.Pass() if statement is node else statement for statement in block]

    return edit


def simplifications(tree: ast.Module) -> Iterator[Edit]:
    """Replace an expression by one of the expressions in it."""
    for index, (_, _, _, expression) in enumerate(expressions(tree)):
        for child in range(len(_operands(expression))):
            yield _replace(index, child)


def expressions(tree: ast.Module) -> list[tuple[ast.AST, str, int | None, ast.expr]]:
    """Every expression that is read, with the place it stands in."""
    found: list[tuple[ast.AST, str, int | None, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.JoinedStr, ast.FormattedValue, ast.pattern)):
            continue
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                found.append((node, name, None, value))
            elif isinstance(value, list):
                found += [(node, name, at, item) for at, item in enumerate(value) if isinstance(item, ast.expr)]
    return [place for place in found if isinstance(getattr(place[3], "ctx", ast.Load()), ast.Load)]


def _operands(expression: ast.expr) -> list[ast.expr]:
    if isinstance(expression, (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
        return []
    operands = [child for child in ast.iter_child_nodes(expression)
                if isinstance(child, ast.expr) and not isinstance(child, (ast.FormattedValue, ast.Starred))]
    if isinstance(expression, ast.Call):  # what a method is called on, rather than the method
        operands = [child.value if child is expression.func and isinstance(child, ast.Attribute) else child
                    for child in operands]
        operands = [child for child in operands if child is not expression.func]
    return operands


def _replace(index: int, child: int) -> Edit:
    def edit(tree: ast.Module) -> None:
        parent, name, at, expression = expressions(tree)[index]
        operand = _operands(expression)[child]
        if at is None:
            setattr(parent, name, operand)
        else:
            getattr(parent, name)[at] = operand

    return edit


def numbers(tree: ast.Module) -> list[int]:
    """The sizes in a program, largest first: integers above 1."""
    return sorted({value for number in _numbers(tree) if isinstance(value := number.value, int)}, reverse=True)


def _numbers(tree: ast.Module) -> list[ast.Constant]:
    asked = protected(tree)
    return [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) is int
            and node.value > 1 and id(node) not in asked]


def renumber(old: int, new: int) -> Edit:
    """Replace a number everywhere."""
    def edit(tree: ast.Module) -> None:
        for node in _numbers(tree):
            if node.value == old:
                node.value = new

    return edit


def parameter_droppings(tree: ast.Module) -> Iterator[Edit]:
    """Leave out a parameter of the function that is called last, with its argument."""
    found = called_function(tree)
    if found is not None:
        function, call = found
        read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        for position in reversed(range(min(len(function.args.args), len(call.args)))):
            if function.args.args[position].arg not in read:
                yield _drop_parameter(position)


def _drop_parameter(position: int) -> Edit:
    def edit(tree: ast.Module) -> None:
        found = called_function(tree)
        assert found is not None
        del found[0].args.args[position]
        del found[1].args[position]

    return edit


def tidy(tree: ast.Module) -> None:
    """Leave out parameters and statements of the file that nothing reads, and other names of one value."""
    _without_aliases(tree)
    while True:
        found = called_function(tree)
        if found is not None:
            function, call = found
            read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            for position in reversed(range(min(len(function.args.args), len(call.args)))):
                if function.args.args[position].arg not in read:
                    del function.args.args[position], call.args[position]
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        kept = [statement for statement in tree.body if not _is_unread(statement, read)
                or "manual_seed(" in ast.unparse(statement) and draws(tree)]
        if len(kept) == len(tree.body):
            return
        tree.body[:] = kept


def _without_aliases(tree: ast.Module) -> None:
    found = called_function(tree)
    for statement in list(found[0].body) if found is not None else []:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name) \
                and isinstance(statement.targets[0], ast.Name) and found is not None:
            new, old = statement.value.id, statement.targets[0].id
            stores = [node.id for node in ast.walk(found[0]) if isinstance(node, ast.Name)
                      and isinstance(node.ctx, ast.Store)]
            if stores.count(old) != 1 or stores.count(new) > 1 or old == new:
                continue
            found[0].body.remove(statement)
            for node in ast.walk(found[0]):
                if isinstance(node, ast.Name) and node.id == old:
                    node.id = new


def _is_unread(statement: ast.stmt, read: set[str]) -> bool:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return all((item.asname or item.name.partition(".")[0]) not in read for item in statement.names)
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return statement.name not in read
    if isinstance(statement, ast.Expr):
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        return isinstance(statement.value, ast.Constant) or "fs" not in names and "seed" in ast.unparse(statement)
    if isinstance(statement, ast.Assign) and all(isinstance(one, ast.Name) for one in statement.targets):
        return all(one.id not in read for one in statement.targets if isinstance(one, ast.Name))
    return False


def small_sizes(tree: ast.Module) -> None:
    """Give each size of the program a small number of its own."""
    for new, old in enumerate(sorted(numbers(tree)), 2):
        for node in _numbers(tree):
            if node.value == old:
                node.value = new


def called_function(tree: ast.Module) -> tuple[ast.FunctionDef, ast.Call] | None:
    """The function that ``fs.check(f)(...)`` or ``fs.compile(f)(...)`` is about, and that call; None for others."""
    for statement in reversed(tree.body):
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) and node.func.args and \
                    isinstance(node.func.args[0], ast.Name) and not node.keywords and \
                    not any(isinstance(one, ast.Starred) for one in node.args):
                name = node.func.args[0].id
                for other in tree.body:
                    if isinstance(other, ast.FunctionDef) and other.name == name and \
                            not (other.args.vararg or other.args.kwonlyargs or other.args.kwarg or other.args.defaults):
                        return other, node
    return None
