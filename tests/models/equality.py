"""Equality of what models return: containers, tensors, and objects by their attributes."""

from __future__ import annotations

from collections.abc import Mapping

import torch


def assert_same(actual: object, expected: object, path: str = "output") -> None:
    """Raise `AssertionError` unless both are equal: types, structure, and tensors within `assert_close`'s defaults.

    Objects that are no containers (a key-value cache, say) are compared by their attributes.

    >>> assert_same({"a": [torch.ones(2), 1]}, {"a": [torch.ones(2), 1]})
    """
    _assert_same(actual, expected, path, set())


def _assert_same(actual: object, expected: object, path: str, visited: set[int]) -> None:
    assert type(actual) is type(expected), f"{path}: {type(actual)} is not {type(expected)}"
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torch.Tensor)
        torch.testing.assert_close(actual, expected, msg=lambda text: f"{path}: {text}")
        return
    if id(expected) in visited:
        return
    if isinstance(expected, Mapping):
        visited.add(id(expected))
        assert isinstance(actual, Mapping)
        assert list(actual) == list(expected), f"{path}: keys {list(actual)} are not {list(expected)}"
        for key in expected:
            _assert_same(actual[key], expected[key], f"{path}[{key!r}]", visited)
    elif isinstance(expected, (list, tuple)):
        visited.add(id(expected))
        assert isinstance(actual, (list, tuple))
        assert len(actual) == len(expected), f"{path}: length {len(actual)} is not {len(expected)}"
        for i, (left, right) in enumerate(zip(actual, expected, strict=True)):
            _assert_same(left, right, f"{path}[{i}]", visited)
    elif hasattr(expected, "__dict__") and not isinstance(expected, (type, torch.nn.Module)) and not callable(expected):
        visited.add(id(expected))
        _assert_same(vars(actual), vars(expected), f"{path}.__dict__", visited)
    elif not callable(expected):
        assert actual == expected, f"{path}: {actual!r} is not {expected!r}"
