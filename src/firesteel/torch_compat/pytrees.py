"""Nested containers as flat lists of leaves and back, with the user's own registered classes."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from torch.utils._pytree import (
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    TreeSpec,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_structure,
    tree_unflatten,
)


def children_of(spec: TreeSpec) -> list[TreeSpec]:
    """The specs of a container's items; torch 2.12 made them a method."""
    children = getattr(spec, "children", None)
    return list(children() if callable(children) else spec.children_specs)


def leaf_spec() -> TreeSpec:
    """The structure of a single value."""
    return tree_flatten(0)[1]


def is_namedtuple_spec(spec: TreeSpec) -> bool:
    """Whether a structure is an instance of a named tuple; its context is then the class."""
    return spec.type is namedtuple


def registered_types() -> list[Any]:
    """The classes that are containers."""
    return list(SUPPORTED_NODES)


def functions_of_class(cls: type) -> tuple[Any, Any] | None:
    """The functions that take an instance of a registered class apart, into items and a context, and put one together;
    None for other classes."""
    functions = SUPPORTED_NODES.get(cls)
    return None if functions is None else (functions.flatten_fn, functions.unflatten_fn)


def stored_context(spec: TreeSpec) -> Any:
    """What is kept of a container beside its items, as plain values where its class says how."""
    to_plain = _serialization(spec.type, "to_dumpable_context")
    return spec.context if to_plain is None else to_plain(spec.context)


def make_spec(kind: Any, context: Any, items: list[TreeSpec], stored: bool = False) -> TreeSpec:
    """The structure of a container; None as its class makes it a named tuple. ``stored``: a `stored_context`."""
    if kind is None:
        return TreeSpec(namedtuple, context, items)
    from_plain = _serialization(kind, "from_dumpable_context") if stored else None
    return TreeSpec(kind, context if from_plain is None else from_plain(context), items)


def _serialization(kind: Any, what: str) -> Any:
    return getattr(SUPPORTED_SERIALIZED_TYPES.get(kind), what, None)


def keeps_plain_context(kind: Any) -> bool:
    """Whether what is kept of a container beside its items is written to files as it is."""
    return _serialization(kind, "to_dumpable_context") is None


def stored_name(kind: Any) -> str | None:
    """The name that torch's files have for a class of containers, if any."""
    name = _serialization(kind, "serialized_type_name")
    return name if isinstance(name, str) and name != NO_SERIALIZED_TYPE_NAME_FOUND else None


def class_of_stored_name(name: str) -> Any:
    """The class that torch's files call so; None if there is none."""
    return SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name)
