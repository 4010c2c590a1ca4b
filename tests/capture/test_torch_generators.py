"""Random numbers that are drawn from a `torch.Generator`: eager's, the generator's state afterwards too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import firesteel as fs
from firesteel.errors import GraphBreakError


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def factories(x: torch.Tensor, g: torch.Generator) -> Any:
    return (torch.rand(2, generator=g) + torch.randn(2, 2, generator=g),
            torch.randn(x.shape, generator=g, dtype=x.dtype), torch.randint(3, (2,), generator=g),
            torch.randint(2, 9, [2, 2], generator=g), torch.randperm(5, generator=g),
            torch.normal(0.0, 2.0, (2,), generator=g),
            torch.rand(size=(3,), generator=g, device=x.device),
            torch.randint(0, 4, size=(2,), dtype=torch.int32, generator=g), torch.rand((), generator=g))


def mixed(x: torch.Tensor, g: torch.Generator) -> Any:
    y = torch.rand(2) + torch.rand(2, generator=g) + torch.rand(2)
    return y, torch.randn(2, generator=g) + torch.randn(2)


def fills(x: torch.Tensor, g: torch.Generator) -> Any:
    y = torch.empty(20).normal_(1, 2, generator=g)
    x.uniform_(generator=g)
    torch.nn.init.normal_(x[0], generator=g)
    return y, x, torch.empty(3).bernoulli_(0.5, generator=g), torch.zeros(2, dtype=torch.int64).random_(9, generator=g)


def seeds(x: torch.Tensor, g: torch.Generator) -> Any:
    first = torch.rand(2, generator=g)
    again = g.manual_seed(3) is g
    return first, torch.rand(2, generator=g), again, g.device.type


def made_inside(x: torch.Tensor, g: torch.Generator) -> Any:
    own = torch.Generator().manual_seed(3)
    other = torch.Generator(device="cpu")
    other.manual_seed(4)
    return x + torch.rand(x.shape, generator=own), torch.rand(1, generator=other), torch.rand(1, generator=g)


def changed_in_place(x: torch.Tensor, g: torch.Generator) -> Any:
    y = torch.randn(4, generator=g)
    z = y[1:]
    z.mul_(2)
    return y, z, y.requires_grad, y.is_leaf


def with_gradients(x: torch.Tensor, g: torch.Generator) -> Any:
    w = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad((w * torch.randn(w.shape, generator=g)).sum(), w)
    return gradient


def several(x: torch.Tensor, g: torch.Generator) -> Any:
    made = [torch.rand(2, generator=one) for one in (g, g, torch.Generator().manual_seed(1))]
    return torch.stack(made)


PROGRAMS = (factories, mixed, fills, seeds, made_inside, changed_in_place, with_gradients, several)


def compare(compiled: Callable[..., Any], program: Callable[..., Any], rounds: int = 3) -> None:
    one, other = seeded(), seeded()
    for number in range(rounds):
        results = []
        for function, generator in ((compiled, one), (program, other)):
            torch.manual_seed(number)
            x = torch.zeros(2, 2, dtype=torch.float64 if number == 1 else torch.float32)
            results.append((*torch.utils._pytree.tree_leaves(function(x, generator)), x, torch.rand(2)))
        for found, expected in zip(*results, strict=True):
            assert torch.equal(found, expected) if isinstance(expected, torch.Tensor) else found == expected
        assert torch.equal(one.get_state(), other.get_state())


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program: Callable[..., Any], backend: str) -> None:
    options = {"tier": "wait"} if backend == "native" else {}
    compare(fs.compile(program, backend=backend, fullgraph=True, **options), program)


def test_sizes_that_vary() -> None:
    def f(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
        return x + torch.randn(x.shape[0], 2, generator=g)

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    one, other = seeded(), seeded()
    for size in (3, 4, 5, 9, 3, 0, 1):
        assert torch.equal(compiled(torch.zeros(size, 2), one), f(torch.zeros(size, 2), other))
    assert len(compiled._firesteel_unit.entries) <= 4


def test_what_is_left_to_python() -> None:
    def of_data(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
        return torch.multinomial(x.abs() + 1, 1, generator=g)

    def state(x: torch.Tensor, g: torch.Generator) -> Any:
        return torch.rand(2, generator=g), g.get_state(), g.initial_seed()

    def over_slices(x: torch.Tensor, g: torch.Generator) -> Any:
        return torch.func.vmap(lambda row: row + torch.rand(2, generator=g), randomness="same")(x)

    def on_gaps(x: torch.Tensor, g: torch.Generator) -> Any:
        return x.t().normal_(generator=g)

    for program in (of_data, state, over_slices, on_gaps):
        with pytest.raises(GraphBreakError):
            fs.compile(program, backend="eager", fullgraph=True)(torch.zeros(2, 2), seeded())
    for program in (of_data, state, on_gaps):
        compare(fs.compile(program, backend="eager"), program)


def test_errors_leave_generators_as_python_does() -> None:
    def f(x: torch.Tensor, g: torch.Generator, i: torch.Tensor) -> torch.Tensor:
        y = torch.rand(2, generator=g)
        return x[i] + y

    compiled = fs.compile(f, backend="eager")
    one, other = seeded(), seeded()
    for index in (1, 7, 0):
        for function, generator in ((compiled, one), (f, other)):
            if index == 7:
                with pytest.raises(IndexError):
                    function(torch.zeros(3, 2), generator, torch.tensor([index]))
            else:
                function(torch.zeros(3, 2), generator, torch.tensor([index]))
        assert torch.equal(one.get_state(), other.get_state())


def test_the_default_generator() -> None:
    def f(g: torch.Generator) -> torch.Tensor:
        return torch.rand(2) + torch.rand(2, generator=g) + torch.rand(2)

    compiled = fs.compile(f, backend="eager")
    for generator in (seeded, lambda: torch.default_generator, seeded):
        torch.manual_seed(1)
        found = compiled(generator())
        torch.manual_seed(1)
        assert torch.equal(found, f(generator()))


def test_wrong_arguments_raise_as_in_python() -> None:
    def backwards(g: torch.Generator) -> Any:
        return torch.randint(5, 2, (1,), generator=g)

    def negative(g: torch.Generator) -> Any:
        return torch.rand(-1, generator=g)

    for program in (backwards, negative):
        with pytest.raises(RuntimeError):
            fs.compile(program, backend="eager")(seeded())
