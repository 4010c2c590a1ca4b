"""What torch's files say of nodes and values: source lines, modules, sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..saving.schema import SavedModule
from .arguments import field, only, read_place
from .expressions import read_expression
from .numbers import DTYPES, STRIDED, name_of


class Sizes:
    """Reads sizes, and collects the symbols in them with their kinds and example values."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self.hints: dict[str, int | float | bool | None] = {}
        self._texts: dict[str, str] = {}

    def read(self, data: Any) -> Any:
        """A number in the form of saved programs: as it is, or the text of an expression."""
        kind, content = only(data, "size")
        if kind != "as_expr":
            return content
        text = field(content, "expr_str", str)
        if text not in self._texts:
            expr = read_expression(text)
            self.kinds.update({symbol.name: symbol.kind for symbol in expr.free_symbols})
            self._texts[text] = str(expr)
        if text.startswith("Symbol("):
            hint = content.get("hint")
            self.hints.setdefault(self._texts[text], None if hint is None else only(hint, "hint")[1])
        return self._texts[text]

    def tensor(self, data: Any) -> Any:
        """What is known of a tensor."""
        if field(data, "layout", int) != STRIDED:
            raise ValueError("sparse tensors are not supported")
        return {"tensor": {
            "dtype": name_of(DTYPES, data.get("dtype"), "dtype"),
            "shape": [self.read(size) for size in field(data, "sizes", list)],
            "stride": [self.read(size) for size in field(data, "strides", list)],
            "offset": self.read(data["storage_offset"]), "device": read_place(data["device"]),
            "requires_grad": bool(data["requires_grad"]),
        }}  # fmt: skip


def values_of(graph: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    """What is known of the values of a graph, by name."""
    known = {name: sizes.tensor(data) for name, data in graph.get("tensor_values", {}).items()}
    for table in ("sym_int_values", "sym_float_values", "sym_bool_values"):
        for name, data in graph.get(table, {}).items():
            number = sizes.read(data)
            known[name] = {"value": number} if isinstance(number, (bool, float)) else {"number": number}
    return known


def modules_around(metadata: dict[str, Any]) -> list[SavedModule]:
    """The modules around an operation, outermost first."""
    text = metadata.get("nn_module_stack")
    modules = []
    for entry in text.split(";") if isinstance(text, str) and text else ():
        parts = list(_outer_parts(entry))
        if len(parts) == 3 and not parts[0].startswith("_empty_nn_module_stack"):
            modules.append(SavedModule(*parts))
    return modules


def _outer_parts(text: str) -> Iterator[str]:
    """Parts between commas that are not in brackets."""
    begin = depth = 0
    for at, character in enumerate(text):
        depth += (character in "[(") - (character in ")]")
        if character == "," and not depth:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]
