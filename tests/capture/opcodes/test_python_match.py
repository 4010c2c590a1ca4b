"""match statements under capture."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from capture.differential import check, x


class Node:
    __match_args__ = ("left", "right")

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right

    def __repr__(self) -> str:
        return f"Node({self.left!r}, {self.right!r})"


@pytest.mark.parametrize(
    "subject",
    [
        0,
        1,
        -3,
        2.5,
        "text",
        "go north",
        None,
        True,
        [],
        [1],
        [1, 2],
        [1, 2, 3, 4],
        (5, [6, 7]),
        {"kind": "a", "v": 1},
        {"kind": "b", "x": 1, "y": 2},
        {},
        Node(1, 2),
        Node(Node(1, 2), 3),
        complex(1, 2),
        b"raw",
        {"kind": "c"},
        range(3),
    ],
    ids=repr,
)
def test_match_patterns(subject: Any) -> None:
    def f(x, subject):
        match subject:
            case 0 | 1 as small:
                return x + small, "small"
            case None:
                return x, "none"
            case True:
                return x, "true"
            case -3:
                return x, "minus"
            case float(value):
                return x * value, "float"
            case str() as text if " " in text:
                return x + len(text.split()), "words"
            case "text":
                return x, "text"
            case []:
                return x, "empty"
            case [one]:
                return x * one, "one"
            case [first, second] if first == 1:
                return x * second, "two"
            case [first, [*inner]]:
                return x * first, inner
            case [first, *_, last]:
                return x * first * last, "many"
            case {"kind": "a", "v": int(v)}:
                return x + v, "a"
            case {"kind": "b", **rest}:
                return x + len(rest), rest
            case {"kind": ("c" | "d") as kind}:
                return x, kind
            case Node(Node(a, b), right=c):
                return x * a * b * c, "deep"
            case Node(left, right):
                return x * left + right, "node"
            case bytes():
                return x, "bytes"
            case complex(real=re):
                return x * re, "complex"
            case _:
                return x - 1, "other"

    check(f, lambda: (x(), subject))


def test_match_on_tensor() -> None:
    def f(x):
        match x:
            case torch.Tensor(ndim=1):
                return x, 1
            case torch.Tensor(ndim=2, shape=(a, b)):
                return x * a + b, 2

    check(f)


def test_match_value_and_dotted_names() -> None:
    import math

    def f(x, v):
        match v:
            case math.pi:
                return x * 3
            case math.inf:
                return x
        return x - 1

    check(f, lambda: (x(), math.pi))
