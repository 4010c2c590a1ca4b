"""Names of arguments that collide with those of lifted tensors, with each other, with Python's words, with torch."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch
from torch import nn

import firesteel as fs

Args = collections.namedtuple("Args", "first second")


class Lifted(nn.Module):
    """Its arguments are called as its tensors are in the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 2.0))
        self.register_buffer("b", torch.full((3,), 5.0))
        self.held = torch.full((3,), 7.0)

    def forward(self, p_weight: Any, b_b: Any, c_held: Any, torch: Any, output: Any) -> Any:
        return p_weight * self.weight + b_b * self.b - c_held * self.held + torch * 11 - output


class Nested(nn.Module):
    """The tensors inside of one argument are called as the others."""

    def forward(self, x: Any, x_0: Any, x_1: Any) -> Any:
        return x[0] + x[1] * 2 + x_0 * 3 + x_1 * 5


class Keywords(nn.Module):
    """Takes whatever keywords there are."""

    def forward(self, x: Any, **others: Any) -> Any:
        for number, key in enumerate(sorted(others)):
            x = x * 0.5 + others[key] * number
        return x


class Branches(nn.Module):
    """Operands of a control flow operator that are called as what it captures."""

    def forward(self, captured_0: Any, outer_1: Any) -> Any:
        return fs.cond(captured_0.sum() > 0, lambda a: a + outer_1, lambda a: a - outer_1, (captured_0,))


def vectors(count: int) -> tuple[torch.Tensor, ...]:
    return tuple([torch.linspace(number, number + 1, 3) for number in range(count)])


ODD = ("class", "a-b", "a.b", "a_b", "torch", "sum", "self_", "None", "others")


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("module, args, kwargs", [
    (Lifted(), vectors(5), {}),
    (Nested(), (list(vectors(2)), *vectors(2)), {}),
    (Keywords(), vectors(1), dict(zip(ODD, vectors(len(ODD)), strict=True))),
    (Branches(), vectors(2), {}),
    (Nested(), Args(*[(vectors(2), *vectors(1))[at] for at in (0, 1)]) + vectors(1), {}),
], ids=["lifted", "nested", "keywords", "branches", "tuple"])
def test_names_that_collide(module: nn.Module, args: Any, kwargs: dict[str, Any], strict: bool) -> None:
    program = fs.export.export(module, args, kwargs, strict=strict)
    expected = module(*args, **kwargs)
    for made in (program.module(), fs.export.unflatten(program), program.run_decompositions().module()):
        torch.testing.assert_close(made(*args, **kwargs), expected)


@pytest.mark.parametrize("strict", [True, False])
def test_a_named_tuple_of_arguments(strict: bool) -> None:
    class Difference(nn.Module):
        def forward(self, first: Any, second: Any) -> Any:
            return first - second

    args = Args(*vectors(2))
    module = fs.export.export(Difference(), args, strict=strict).module()
    assert torch.equal(module(*args), args.first - args.second)


def test_keywords_that_are_no_parameters_are_checked() -> None:
    module = fs.export.export(Keywords(), vectors(1), {"class": torch.ones(3)}).module()
    with pytest.raises(TypeError, match="misses the keyword argument 'class'"):
        module(*vectors(1))
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        module(*vectors(1), **{"class": torch.ones(3), "other": torch.ones(3)})
