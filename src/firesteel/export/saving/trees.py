"""How inputs and outputs are nested, as JSON and back.

Classes that users have registered as containers stand in it by name. They are looked up among those registered when a
program is loaded; nothing is imported because a file names it. Where a class is not known, as on a machine that has the
program but not the library it comes from, a dictionary of the same fields takes its place.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

from ...errors import warn
from ...torch_compat.pytrees import (
    TreeSpec,
    children_of,
    is_namedtuple_spec,
    leaf_spec,
    make_spec,
    registered_types,
    stored_context,
)
from .values import DEEPEST, read_value, write_value

_PLAIN: dict[str, type] = {"tuple": tuple, "list": list, "dict": dict, "ordered_dict": OrderedDict, "deque": deque}
_FACTORIES = ("list", "dict", "set", "tuple", "int", "float", "str", "bool")
_NAMES = {kind: name for name, kind in _PLAIN.items()}


def write_tree(spec: TreeSpec) -> Any:
    """JSON of a structure; a leaf is None."""
    if spec.is_leaf():
        return None
    items = [write_tree(child) for child in children_of(spec)]
    if spec.type in _NAMES:
        kind = _NAMES[spec.type]
        return {kind: items} if kind in ("tuple", "list") else {kind: items, "context": write_value(spec.context)}
    if is_namedtuple_spec(spec):
        return {"namedtuple": items, "type": name_of_class(spec.context)}
    return {"registered": items, "type": name_of_class(spec.type), "context": write_value(stored_context(spec))}


def read_tree(data: Any, depth: int = 0) -> TreeSpec:
    """A structure from JSON. Raises ValueError."""
    if data is None:
        return leaf_spec()
    if depth > DEEPEST or not isinstance(data, dict) or not data:
        raise ValueError(f"{str(data)[:80]} is no structure")
    kind, given = next(iter(data.items()))
    if not isinstance(given, list):
        raise ValueError(f"{str(data)[:80]} is no structure")
    items = [read_tree(item, depth + 1) for item in given]
    if kind in _PLAIN:
        context = read_value(data.get("context"))
        if kind in ("dict", "ordered_dict"):
            _check_keys(kind, context, len(items))
        elif context is not None and (kind != "deque" or type(context) is not int or context < len(items)):
            raise ValueError(f"a {kind} with {str(context)[:80]}")
        return make_spec(_PLAIN[kind], context, items)
    name = str(data.get("type"))
    if kind == "namedtuple":
        named = _named_tuple(name)
        if len(named._fields) != len(items):
            raise ValueError(f"the named tuple {name[:200]} has {len(named._fields)} fields, not {len(items)}")
        return make_spec(None, named, items)
    if kind != "registered":
        raise ValueError(f"{str(data)[:80]} is no structure")
    context = read_value(data.get("context"))
    if name == name_of_class(defaultdict):
        _check_factory(context)
    known_type = _latest([known for known in registered_types() if name_of_class(known) == name])
    return _stand_in(name, context, items) if known_type is None else make_spec(known_type, context, items, stored=True)


def _check_factory(context: Any) -> None:
    """The class that makes missing items of a defaultdict; torch would import the module that the file names."""
    place = context if isinstance(context, dict) else {}
    if place.get("default_factory_module") != "builtins" or place.get("default_factory_name") not in _FACTORIES:
        raise ValueError(f"a defaultdict that makes missing items with {str(context)[:80]}")


def _check_keys(kind: str, keys: Any, count: int) -> None:
    """Keys of a dictionary: as many as it has items, all different."""
    try:
        right = isinstance(keys, list) and len(keys) == count == len(set(keys))
    except TypeError:  # a list as a key
        right = False
    if not right:
        raise ValueError(f"a {kind} with the keys {str(keys)[:80]}")


def _stand_in(name: str, context: Any, items: list[TreeSpec]) -> TreeSpec:
    """A dictionary in the place of an object whose class is not known here, if the names of its fields are."""
    for keys in (context, context[0] if isinstance(context, (list, tuple)) and context else None):
        if isinstance(keys, (list, tuple)) and len(keys) == len(items) and all(isinstance(key, str) for key in keys):
            warn(
                f"the program has containers of the class {name[:200]}, which is not known in this process: "
                "dictionaries take their place. Import the module that registers it before loading to get them.")
            return make_spec(dict, list(keys), items)
    raise ValueError(f"the class {name[:200]} is not registered as a container: import the module that does so first "
                     "(torch.utils._pytree.register_pytree_node, register_dataclass)")


def _named_tuple(name: str) -> Any:
    """A class that the program has defined already."""
    named_tuple = _latest([known for known in _subclasses(tuple)
                           if hasattr(known, "_fields") and name_of_class(known) == name])
    if named_tuple is None:
        raise ValueError(f"there is no named tuple {name[:200]}: import the module that defines it first")
    return named_tuple


def _latest(classes: list[type]) -> type | None:
    """Of classes with the same name the one that the name stands for now: modules are loaded again, cells run again."""
    for known in reversed(classes):
        place: Any = sys.modules.get(known.__module__)
        for part in known.__qualname__.split("."):
            place = getattr(place, part, None)
        if place is known:
            return known
    return classes[-1] if classes else None


def _subclasses(kind: type) -> Iterator[type]:
    known: type
    for known in kind.__subclasses__():
        yield known
        yield from _subclasses(known)


def name_of_class(kind: type) -> str:
    """The name of a class in files."""
    return f"{kind.__module__}.{kind.__qualname__}"
