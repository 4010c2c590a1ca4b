"""Arguments of operators in torch's files, objects with one key that says what they are, as values of saved programs.

>>> read_argument({"as_ints": [1, 2]}), read_argument({"as_scalar_type": 7})
([1, 2], {'dtype': 'float32'})
>>> read_argument({"as_tensor": {"name": "x"}})
{'node': 'x'}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..saving.values import DEEPEST
from .numbers import DTYPES, LAYOUTS, MEMORY_FORMATS, name_of

_FLOATS = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}


def only(data: Any, what: str) -> tuple[str, Any]:
    """The key and the content of an object that has one of several forms. Raises ValueError."""
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError(f"{str(data)[:80]} is no {what}")
    kind, content = next(iter(data.items()))
    return kind, content


def field(data: Any, name: str, kind: type | tuple[type, ...]) -> Any:
    """A field of an object. Raises ValueError."""
    if not isinstance(data, dict) or not isinstance(data.get(name), kind):
        raise ValueError(f"{name} is missing in {str(data)[:80]}")
    return data[name]


def read_argument(data: Any, depth: int = 0) -> Any:
    """A value in the form of `saving.values`. Raises ValueError."""
    kind, content = only(data, "argument")
    reader = _READERS.get(kind)
    if reader is None or depth > DEEPEST:
        raise ValueError(f"arguments of the kind {kind[:40]} are not known")
    if kind == "as_string_to_argument":
        return {"dict": [[key, read_argument(item, depth + 1)] for key, item in content.items()]}
    return reader(content)


def _typed(kind: type) -> Callable[[Any], Any]:
    def read(content: Any) -> Any:
        if type(content) is not kind:
            raise ValueError(f"{str(content)[:80]} is no {kind.__name__}")
        return content

    return read


def read_float(content: Any) -> Any:
    """A float; those that JSON has no form for are texts."""
    if isinstance(content, str) and content in _FLOATS:
        return {"float": _FLOATS[content]}
    if isinstance(content, bool) or not isinstance(content, (int, float)):
        raise ValueError(f"{str(content)[:80]} is no float")
    value = float(content)
    return value if value - value == 0 else {"float": str(value)}


def _node(content: Any) -> Any:
    return {"node": field(content, "name", str)}


def _symbolic(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(content: Any) -> Any:
        kind, value = only(content, "number")
        if kind == "as_name" and isinstance(value, str):
            return {"node": value}
        return plain(value)

    return read


def _optional_tensor(content: Any) -> Any:
    kind, value = only(content, "tensor or None")
    return None if kind == "as_none" else _node(value)


def read_place(content: Any) -> str:
    """The text of a device."""
    index = content.get("index") if isinstance(content, dict) else None
    name = field(content, "type", str)
    return name if index is None else f"{name}:{int(index)}"


def _list(item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(content: Any) -> Any:
        if not isinstance(content, list):
            raise ValueError(f"{str(content)[:80]} is no list")
        return [item(value) for value in content]

    return read


_int, _bool, _str = _typed(int), _typed(bool), _typed(str)
_sym_int, _sym_float, _sym_bool = _symbolic(_int), _symbolic(read_float), _symbolic(_bool)

_READERS: dict[str, Callable[[Any], Any]] = {
    "as_none": lambda content: None, "as_tensor": _node, "as_tensors": _list(_node), "as_int": _int,
    "as_ints": _list(_int), "as_float": read_float, "as_floats": _list(read_float), "as_string": _str,
    "as_strings": _list(_str), "as_sym_int": _sym_int, "as_sym_ints": _list(_sym_int), "as_bool": _bool,
    "as_bools": _list(_bool), "as_sym_bool": _sym_bool, "as_sym_bools": _list(_sym_bool), "as_sym_float": _sym_float,
    "as_sym_floats": _list(_sym_float), "as_optional_tensor": _optional_tensor,
    "as_optional_tensors": _list(_optional_tensor), "as_nested_tensors": _list(_list(_node)),
    "as_int_lists": _list(lambda content: {"tuple": _list(_int)(content)}), "as_float_lists": _list(_list(read_float)),
    "as_scalar_type": lambda content: {"dtype": name_of(DTYPES, content, "dtype")},
    "as_layout": lambda content: {"layout": name_of(LAYOUTS, content, "layout")},
    "as_memory_format": lambda content: {"memory_format": name_of(MEMORY_FORMATS, content, "memory format")},
    "as_device": lambda content: {"device": read_place(content)},
    "as_complex": lambda content: {"complex": [content["real"], content["imag"]]},
    "as_string_to_argument": dict,
}  # fmt: skip


def names_in(value: Any) -> list[str]:
    """The nodes that a value of a saved program speaks of."""
    if isinstance(value, list):
        return [name for item in value for name in names_in(item)]
    if isinstance(value, dict):
        if "node" in value:
            return [value["node"]]
        return [name for item in value.values() for name in names_in(item)]
    return []


def renamed(value: Any, places: dict[str, Any]) -> Any:
    """A value in which nodes are replaced by what ``places`` has for their names."""
    if isinstance(value, list):
        return [renamed(item, places) for item in value]
    if isinstance(value, dict):
        if "node" in value:
            return places.get(value["node"], value)
        return {key: renamed(item, places) for key, item in value.items()}
    return value
