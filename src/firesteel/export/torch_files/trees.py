"""How inputs and outputs are nested: the texts of torch's files, as structures of saved programs and back."""

from __future__ import annotations

import json
from typing import Any

from ...torch_compat.pytrees import (
    TreeSpec,
    children_of,
    class_of_stored_name,
    is_namedtuple_spec,
    keeps_plain_context,
    stored_context,
    stored_name,
)
from ..saving.errors import SavedProgramError
from ..saving.trees import name_of_class
from ..saving.values import DEEPEST, write_value
from .arguments import field

_PLAIN = {"builtins.tuple": "tuple", "builtins.list": "list", "builtins.dict": "dict",
          "collections.OrderedDict": "ordered_dict", "collections.deque": "deque"}
_VERSION = 1


def read_torch_tree(text: str) -> Any:
    """The structure that a text says, as JSON of `saving.trees`. Raises ValueError."""
    data = json.loads(text)
    if not isinstance(data, list) or len(data) != 2 or data[0] != _VERSION:
        raise ValueError(f"{text[:80]} is no structure")
    return _read(data[1], 0)


def _read(data: Any, depth: int) -> Any:
    items = [_read(item, depth + 1) for item in field(data, "children_spec", list)] if depth <= DEEPEST else None
    if items is None:
        raise ValueError("a structure is nested too deeply")
    name, context = data.get("type"), data.get("context")
    if name is None:
        return None
    if name in ("builtins.tuple", "builtins.list"):
        return {_PLAIN[name]: items}
    if name in _PLAIN:
        return {_PLAIN[name]: items, "context": write_value(_parsed(context))}
    if name == "collections.namedtuple":
        known = class_of_stored_name(str(context))
        return {"namedtuple": items, "type": str(context) if known is None else name_of_class(known)}
    known = class_of_stored_name(str(name))
    if known is None and not items:
        raise ValueError(f"the class {str(name)[:200]}, which an input is of, is not registered as a container")
    if known is None:
        return {"registered": items, "type": str(name), "context": write_value(_parsed(context))}
    stored = context if not keeps_plain_context(known) else _parsed(context)
    return {"registered": items, "type": name_of_class(known), "context": write_value(stored)}


def _parsed(context: Any) -> Any:
    """What a text of JSON says; nothing in it is looked up."""
    try:
        return json.loads(context) if isinstance(context, str) else context
    except ValueError:
        return context


def write_torch_tree(spec: TreeSpec) -> str:
    """The text of a structure in torch's files."""
    return json.dumps([_VERSION, _write(spec)])


def _write(spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    items = [_write(child) for child in children_of(spec)]
    if is_namedtuple_spec(spec):
        known = stored_name(spec.context)
        if known is None:
            raise SavedProgramError(
                f"{spec.context.__qualname__} has no name in torch's files",
                f"Register it: torch.utils._pytree._register_namedtuple({spec.context.__qualname__}, "
                f"serialized_type_name={name_of_class(spec.context)!r}).")
        return {"type": "collections.namedtuple", "context": known, "children_spec": items}
    known = stored_name(spec.type)
    if known is None:
        raise SavedProgramError(
            f"the containers of the class {spec.type.__qualname__} have no name in torch's files",
            f"Register it with serialized_type_name={name_of_class(spec.type)!r}.")
    context = stored_context(spec)
    return {"type": known, "context": json.dumps(context) if keeps_plain_context(spec.type) else context,
            "children_spec": items}
