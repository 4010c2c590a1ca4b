"""An example as a program of its own: what its class needs of its file, the class, and the call that exports it."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from .registry import Example

_PUBLIC = {("firesteel.shapes.dims", "Dim"): "firesteel.export", ("firesteel.control", "disable"): "firesteel"}
"""Where users import a name from that these files have from deeper inside."""


def standalone(example: Example) -> str:
    """A program that exports an example; where that cannot be done, it prints why.

    >>> from firesteel.export import examples
    >>> print(examples.get("print_in_forward").program)
    import torch
    from torch import nn
    import firesteel as fs
    <BLANKLINE>
    <BLANKLINE>
    class PrintInForward(nn.Module):
        \"\"\"Printing is an effect that a graph cannot have.\"\"\"
    <BLANKLINE>
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print("largest:", x.max())
            return x + 1
    <BLANKLINE>
    <BLANKLINE>
    try:
        fs.export.export(PrintInForward(), (torch.randn(3),))
    except fs.errors.FiresteelError as error:
        print(error)
    <BLANKLINE>
    """
    file = _File.of(str(inspect.getsourcefile(example.module)))
    kind = next(node for node in file.tree.body
                if isinstance(node, ast.ClassDef) and node.name == example.module.__name__)
    decorator = next(node for node in kind.decorator_list if isinstance(node, ast.Call))
    given = {keyword.arg: keyword.value for keyword in decorator.keywords}
    call, used = _call(kind.name, given, example, file)
    imports, definitions = file.needed([name for part in (*kind.bases, *kind.body) for name in _names(part)] + used)
    return "\n\n\n".join(["\n".join([*imports, "import firesteel as fs"]), *definitions,
                          file.text(kind), call]) + "\n"


def _call(name: str, given: dict[str | None, ast.expr], example: Example, file: _File) -> tuple[str, list[str]]:
    """The statements that export a class, and the names in them."""
    parts, used = [f"{name}()"], []
    for argument in ("args", "kwargs", "dynamic_shapes"):
        value = given.get(argument)
        if value is not None:
            body = value.body if isinstance(value, ast.Lambda) else value
            used += _names(body)
            parts.append(("" if argument == "args" else f"{argument}=") + ast.unparse(body))
    if example.strict_only:
        parts.append("strict=True")
    call = f"fs.export.export({', '.join(parts)})"
    if example.supported:
        return f"program = {call}\nprint(program)", used
    return f"try:\n    {call}\nexcept fs.errors.FiresteelError as error:\n    print(error)", used


class _File:
    """The source of a file of examples."""

    def __init__(self, path: str) -> None:
        self.source = Path(path).read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)
        self.package = f"{__package__}.{Path(path).stem}"

    @staticmethod
    @functools.cache
    def of(path: str) -> _File:
        """The file at a path, read once."""
        return _File(path)

    def text(self, node: ast.stmt) -> str:
        """The source of a statement; a class of the examples without what puts it among them."""
        first, last = node.lineno, node.end_lineno
        decorators = [one for one in getattr(node, "decorator_list", []) if not _is_example(one)]
        lines = self.source.splitlines()[min([first, *[one.lineno for one in decorators]]) - 1:last]
        return "\n".join(lines)

    def needed(self, names: list[str]) -> tuple[list[str], list[str]]:
        """The imports and the definitions of this file that these names need."""
        imports: dict[str, None] = {}
        definitions: dict[int, str] = {}
        waiting, seen = list(names), set()
        while waiting:
            name = waiting.pop()
            if name in seen or hasattr(builtins, name):
                continue
            seen.add(name)
            for at, node in enumerate(self.tree.body):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    for line in self._imported(node, name):
                        imports[line] = None
                elif name in _bound(node) and at not in definitions:
                    definitions[at] = self.text(node)
                    waiting += _names(node)
        imports.setdefault("import torch")
        imports.setdefault("from torch import nn")
        return sorted(imports, key=_place), [text for _, text in sorted(definitions.items())]

    def _imported(self, node: ast.Import | ast.ImportFrom, name: str) -> Iterator[str]:
        for alias in node.names:
            if name != (alias.asname or alias.name):
                continue
            renamed = f" as {alias.asname}" if alias.asname else ""
            if isinstance(node, ast.Import):
                yield f"import {alias.name}{renamed}"
            else:
                base = self.package.rsplit(".", node.level)[0] if node.level else ""
                module = ".".join(part for part in (base, node.module) if part)
                yield f"from {_PUBLIC.get((module, alias.name), module)} import {alias.name}{renamed}"


def _is_example(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "example"


def _place(line: str) -> tuple[bool, bool, bool]:
    """Where an import stands: the standard library first, firesteel last, and modules before what is from them."""
    module = line.split()[1].partition(".")[0]
    return module not in sys.stdlib_module_names, module == "firesteel", line.startswith("from ")


def _names(node: ast.AST) -> list[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
