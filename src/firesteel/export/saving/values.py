"""Arguments of operators as JSON and back.

Numbers, strings, None and lists are themselves; everything else is an object with one key that says what it is.

>>> write_value((1, float("inf"), torch.float32))
{'tuple': [1, {'float': 'inf'}, {'dtype': 'float32'}]}
>>> read_value(_)
(1, inf, torch.float32)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from .errors import SavedProgramError

_ENUMS: dict[str, Any] = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}
DEEPEST = 64
"""How far values may be nested in a file."""


def write_value(value: Any) -> Any:
    """JSON of a value; nodes stand in it by name."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if isinstance(value, list):
        return [write_value(item) for item in value]
    if kind in (tuple, torch.Size):
        return {"tuple": [write_value(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[write_value(key), write_value(item)] for key, item in value.items()]}
    if kind is slice:
        return {"slice": [write_value(part) for part in (value.start, value.stop, value.step)]}
    if kind is complex:
        return {"complex": [write_value(value.real), write_value(value.imag)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for name, enum in _ENUMS.items():
        if isinstance(value, enum):
            return {name: str(value)[6:]}
    raise SavedProgramError(f"a value of type {kind.__qualname__} in the program cannot be saved",
                            "Numbers, strings, None, containers of these and torch's dtypes, devices and formats can.")


def read_value(data: Any, node: Callable[[str], Any] | None = None, depth: int = 0) -> Any:
    """A value from JSON; ``node`` gives the nodes that it names. Raises ValueError."""
    if depth > DEEPEST:
        raise ValueError("values are nested too deeply")
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if isinstance(data, list):
        return [read_value(item, node, depth + 1) for item in data]
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError(f"{str(data)[:80]} is no value")
    kind, content = next(iter(data.items()))
    if kind == "node" and node is not None and isinstance(content, str):
        return node(content)
    if kind in ("tuple", "dict", "slice", "complex") and isinstance(content, list):
        parts = read_value(content, node, depth + 1)
        return _container(kind, parts)
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "ellipsis":
        return ...
    if kind == "device" and isinstance(content, str):
        return read_device(content)
    if kind in _ENUMS and isinstance(content, str):
        return read_enum(kind, content)
    raise ValueError(f"{str(data)[:80]} is no value")


def _container(kind: str, parts: list[Any]) -> Any:
    if kind == "tuple":
        return tuple(parts)
    if kind == "dict":
        return dict(parts)
    if kind == "slice" and len(parts) == 3:
        return slice(*parts)
    if kind == "complex" and len(parts) == 2 and all(isinstance(part, (int, float)) for part in parts):
        return complex(*parts)
    raise ValueError(f"{str(parts)[:80]} is no {kind}")


def read_enum(kind: str, name: str) -> Any:
    """A dtype, layout or memory format by its name in torch."""
    member = getattr(torch, name, None)
    if not isinstance(member, _ENUMS[kind]):
        raise ValueError(f"there is no {kind} {name[:40]}")
    return member


def read_device(name: str) -> torch.device:
    """A device by its name."""
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"there is no device {name[:40]}") from error
