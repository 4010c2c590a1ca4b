"""Variables that are not read any more keep what they hold until the function ends, also behind breaks."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import firesteel as fs

LOG: list[Any] = []


class Node:
    pass


class Noticed:
    def __init__(self, name: str) -> None:
        self.name = name

    def __del__(self) -> None:
        LOG.append(("end of", self.name))


@contextlib.contextmanager
def entered() -> Iterator[int]:
    try:
        yield 3
    finally:
        LOG.append("left")


def temporary_folder(x: torch.Tensor) -> Any:
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "x.pt")
    if x.sum() > 0:
        x = x + 1
    torch.save(x, path)
    return torch.load(path)


def weakly_known(x: torch.Tensor) -> Any:
    root, child = Node(), Node()
    child.parent = weakref.ref(root)  # type: ignore[attr-defined]
    y = x + 1
    if y.sum() > 0:
        y = y * 2
    return y, child.parent() is not None  # type: ignore[attr-defined]


def in_containers(x: torch.Tensor) -> Any:
    held = [Node()]
    known = weakref.WeakSet(held)
    if x.sum() > 0:
        x = x + 1
    LOG.append(len(known))
    if x.sum() > 0:
        x = x + 1
    LOG.append(len(known))
    return x


def finalizers(x: torch.Tensor) -> Any:
    a, b, c = Noticed("a"), [Noticed("b")], {"k": Noticed("c")}
    if x.sum() > 0:
        x = x * 2
    LOG.append("one")
    a = None  # type: ignore[assignment]
    LOG.append("two")
    if x.sum() > 1:
        x = x * 3
    del b
    LOG.append("three")
    return x


def deleted_in_with(x: torch.Tensor) -> Any:
    with torch.no_grad():
        a = Noticed("a")
        LOG.append("before")
        del a
        LOG.append("after")
    return x * 2


def context_by_hand(x: torch.Tensor) -> Any:
    context = entered()
    value = context.__enter__()
    if x.sum() > 0:
        x = x * value
    LOG.append("inside")
    return x


def in_a_loop(x: torch.Tensor) -> Any:
    found: list[Any] = []
    for i in range(4):
        node = Node()
        found.append(weakref.ref(node))
        if x.sum() > i:
            x = x + 1
        LOG.append([reference() is not None for reference in found])
    return x


def caught_later(x: torch.Tensor) -> Any:
    kept = Noticed("kept")
    torch.zeros(1).item()
    out = []
    try:
        raise ValueError(x.shape)
    except ValueError as error:
        out.append(len(traceback.extract_tb(error.__traceback__)))
    return out, x * 2


def one_after_the_other(x: torch.Tensor) -> Any:
    first = Noticed("first")
    torch.zeros(1).item()
    second = Noticed("second")
    torch.zeros(1).item()
    return x + 1


@pytest.mark.parametrize("program", [
    temporary_folder, weakly_known, in_containers, finalizers, deleted_in_with, context_by_hand, in_a_loop,
    caught_later, one_after_the_other,
])  # fmt: skip
def test_objects_live_as_long_as_in_python(program: Callable[..., Any]) -> None:
    def run(function: Callable[..., Any]) -> list[str]:
        seen = []
        for _ in range(3):
            LOG.clear()
            seen.append(f"{function(torch.ones(2))} {LOG}")
        return seen

    collecting = gc.isenabled()
    gc.disable()  # nothing may be left to it
    try:
        assert run(fs.compile(program, backend="eager")) == run(program)
    finally:
        if collecting:
            gc.enable()
