"""Arguments and results between flat lists and the containers of a program: dicts in any order, `torch.Size`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..torch_compat.pytrees import TreeSpec, children_of, functions_of_class, tree_flatten, tree_unflatten


def flatten_as(value: Any, spec: TreeSpec) -> list[Any] | None:
    """The leaves of a value in the order of a structure, in which dicts may have their keys in another order.

    None for a value of another structure.

    >>> flatten_as(({"b": 2, "a": 1},), tree_flatten(({"a": 0, "b": 0},))[1])
    [1, 2]
    """
    leaves, own = tree_flatten(value)
    if own == spec:
        return leaves
    return _leaves(value, spec)


def _leaves(value: Any, spec: TreeSpec) -> list[Any] | None:
    if spec.is_leaf():
        return [value]
    if spec.type in (dict, defaultdict) and type(value) is spec.type:
        keys = spec.context if spec.type is dict else spec.context[1]
        if value.keys() != set(keys) or (spec.type is defaultdict and value.default_factory != spec.context[0]):
            return None
        items = [value[key] for key in keys]
    else:
        items, own = tree_flatten(value, is_leaf=lambda node: node is not value)
        if own.type is not spec.type or own.context != spec.context or len(items) != len(children_of(spec)):
            return None
    result: list[Any] = []
    for item, child in zip(items, children_of(spec), strict=True):
        part = _leaves(item, child)
        if part is None:
            return None
        result += part
    return result


def unflatten(leaves: Iterable[Any], spec: TreeSpec) -> Any:
    """A value of a structure. torch's own function makes a tuple of a `torch.Size`.

    >>> unflatten([2, 3], tree_flatten(torch.Size([0, 0]))[1])
    torch.Size([2, 3])
    """
    return _value(iter(leaves), spec)


def _value(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if not has_size(spec):
        return tree_unflatten([next(leaves) for _ in range(spec.num_leaves)], spec)
    items = [_value(leaves, child) for child in children_of(spec)]
    if spec.type is torch.Size:
        return torch.Size(items)
    functions = functions_of_class(spec.type)
    assert functions is not None
    return functions[1](items, spec.context)


def has_size(spec: TreeSpec) -> bool:
    """Whether a `torch.Size` is in a structure."""
    return spec.type is torch.Size or any(has_size(child) for child in children_of(spec))
