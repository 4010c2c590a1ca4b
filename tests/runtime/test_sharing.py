"""Compile calls take over each other's versions where their guards hold, and nothing else of each other."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import firesteel as fs
from firesteel import config
from firesteel.events import LISTENERS

pytestmark = pytest.mark.usefixtures("quick_collections")

X = torch.randn(3, 8)


class Block(nn.Module):
    """A layer with a number of its own."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.inner, self.scale = nn.Linear(8, 8), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x)) * self.scale


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    names: list[str] = []

    def listen(kind: str, unit: Any, what: Any) -> None:
        if kind == "compiled":
            names.append(unit.name)

    LISTENERS.append(listen)
    yield names
    LISTENERS.remove(listen)


def test_instances_of_a_class_are_compiled_once(compilations: list[str]) -> None:
    blocks = [Block() for _ in range(4)]
    compiled = [fs.compile(block) for block in blocks]
    for _ in range(2):
        for block, twin in zip(blocks, compiled, strict=True):
            result = twin(X)
            torch.testing.assert_close(result, block(X))
            result.sum().backward()
            gradient = block.inner.weight.grad
            assert gradient is not None
            block.zero_grad()
            block(X).sum().backward()
            torch.testing.assert_close(gradient, block.inner.weight.grad)
            block.zero_grad()
    assert compilations == ["forward"]


def test_bound_methods_share_too(compilations: list[str]) -> None:
    blocks = [Block() for _ in range(3)]
    for block in blocks:
        expected = block(X)
        block.forward = fs.compile(block.forward)  # type: ignore[method-assign]
        torch.testing.assert_close(block(X), expected)
    assert compilations == ["forward"]


def test_an_instance_that_differs_has_its_own_version(compilations: list[str]) -> None:
    blocks = [Block(), Block(), Block(2.0)]
    compiled = [fs.compile(block) for block in blocks]
    for block, twin in zip(blocks, compiled, strict=True):
        torch.testing.assert_close(twin(X), block(X))
    assert compilations == ["forward"] * 2
    blocks[1].scale = 2.0  # fits what was compiled for the third
    torch.testing.assert_close(compiled[1](X), blocks[1](X))
    assert compilations == ["forward"] * 2
    blocks[1].inner = nn.Linear(8, 8, bias=False)
    torch.testing.assert_close(compiled[1](X), blocks[1](X))
    assert compilations == ["forward"] * 3


@pytest.mark.parametrize("options", [{"fullgraph": True}, {"dynamic": True}, {"mode": "max-autotune-no-cudagraphs"},
                                     {"options": {"freeze": True}}])
def test_other_options_are_compiled_for_themselves(compilations: list[str], options: dict[str, Any]) -> None:
    fs.compile(Block())(X)
    fs.compile(Block(), **options)(X)
    fs.compile(Block())(X)
    assert compilations == ["forward"] * 2


def test_other_settings_are_compiled_for_themselves(compilations: list[str]) -> None:
    first = fs.compile(Block())
    first(X)
    with config.patch(check_bounds=True):
        fs.compile(Block())(X)
    assert compilations == ["forward"] * 2


def test_each_counts_its_own_versions() -> None:
    blocks = [Block(float(number)) for number in range(4)]
    compiled = [fs.compile(block, dynamic=False, recompile_limit=1) for block in blocks]
    for block, twin in zip(blocks, compiled, strict=True):
        torch.testing.assert_close(twin(X), block(X))
    with pytest.warns(UserWarning, match="was compiled 1 times"):
        compiled[0](X[:2])


def test_what_was_assumed_is_given_up_by_all(compilations: list[str]) -> None:
    class Gate(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if (x > 0).all() else x - 1

    gates = [fs.compile(Gate()) for _ in range(2)]
    for gate in gates:
        torch.testing.assert_close(gate(torch.ones(3)), torch.full((3,), 2.0))
    assert compilations == ["forward"]
    for _ in range(3):
        for gate in gates:
            torch.testing.assert_close(gate(-torch.ones(3)), torch.full((3,), -2.0))
    for gate in gates:
        unit = next(iter(type(gate)._firesteel_compiler.units.values()))[0]  # type: ignore[attr-defined]
        assert all(entry.break_reason is not None for entry in unit.entries)


def test_a_version_outlives_whom_it_was_made_for(compilations: list[str]) -> None:
    first, second = Block(), Block()
    compiled = [fs.compile(first), fs.compile(second)]
    compiled[0](X)
    torch.testing.assert_close(compiled[1](X), second(X))
    del first
    compiled.pop(0)
    gc.collect()
    torch.testing.assert_close(compiled[0](X), second(X))
    assert compilations == ["forward"]
