"""Values of tensors that are the same for all data: branches on them and sizes made of them are part of the graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import firesteel as fs


def layer_drop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        if torch.rand([]) < 0.0:
            continue
        x = x.sin() + torch.rand(x.shape)
    return x


def never_above_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sigmoid().amax() > 1 else x - 1


def count_of_a_mask(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if (x > 0).sum() >= 0 else x - 1


def any_of_nothing(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if (torch.rand(4) < -1e-50).any() else x - 1


def position(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.argmax() < 0 or not (x.flatten().argmin() >= 0) else x - 1


def divided_size(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.div(x.numel(), 2, rounding_mode="trunc"), 2) + 1


def number_in_a_tensor(x: torch.Tensor) -> torch.Tensor:
    rows = torch.tensor(3)
    return x.reshape((rows, -1)) if rows * 2 > 5 else x


def number_read(x: torch.Tensor) -> torch.Tensor:
    return x[torch.tensor(1).add(1).item():]


CAPTURED = (layer_drop, never_above_one, count_of_a_mask, any_of_nothing, position, divided_size, number_in_a_tensor,
            number_read)


@pytest.mark.parametrize("function", CAPTURED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_is_one_graph(function: Callable[[torch.Tensor], torch.Tensor], backend: str) -> None:
    x = torch.randn(3, 4)
    torch.manual_seed(1)
    expected, state = function(x), torch.get_rng_state()
    torch.manual_seed(1)
    torch.testing.assert_close(fs.compile(function, fullgraph=True, backend=backend)(x), expected, rtol=0, atol=1e-6)
    assert torch.equal(torch.get_rng_state(), state)  # what is not used is drawn all the same


def not_a_number(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sigmoid().amax() >= 0 else x - 1


def changed_in_place(x: torch.Tensor) -> torch.Tensor:
    draw = torch.rand([])
    draw.sub_(2)
    return x + 1 if draw < 0 else x - 1


def changed_through_data(x: torch.Tensor) -> torch.Tensor:
    draw = torch.rand([])
    draw.data.sub_(2)
    return x + 1 if draw < 0 else x - 1


def changed_through_a_view(x: torch.Tensor) -> torch.Tensor:
    three = torch.tensor(3)
    three.view(1)[0] = 1
    return x + 1 if three > 2 else x - 1


def changed_base(x: torch.Tensor) -> torch.Tensor:
    draws = torch.rand(1)
    first = draws[:1].view(())
    draws.sub_(2)
    return x + 1 if first < 0 else x - 1


def rounds_to_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sigmoid().amax() < 1 + 1e-12 else x - 1


def of_no_elements(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if (x[:0].sigmoid() >= 0).any() else x - 1


def written_by_out(x: torch.Tensor) -> torch.Tensor:
    two = torch.tensor(2.0)
    torch.add(two, -5.0, out=two)
    return x + 1 if two > 0 else x - 1


def too_small_for_a_dtype(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.tensor(1e-9).half() else x - 1


def too_small_in_rows(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.tensor(1e-9).unsqueeze(0).to(torch.float16) else x - 1


@pytest.mark.parametrize("function", [not_a_number, changed_in_place, changed_through_data, changed_through_a_view,
                                      changed_base, rounds_to_one, of_no_elements, written_by_out,
                                      too_small_for_a_dtype, too_small_in_rows],
                         ids=lambda f: f.__name__)
def test_is_not_taken_for_known(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    compiled = fs.compile(function, backend="eager")
    for x in (torch.full((3,), torch.nan), torch.full((3,), 100.0), torch.zeros(3)):
        torch.testing.assert_close(compiled(x), function(x), equal_nan=True)


def test_where_a_maximum_is():
    def function(x):
        place = x[0].argmax().item()
        rows = (x > 0).sum().item()
        return x[:, place] * (1 if place < x.shape[1] else 5) + (2 if place >= 0 and rows >= 0 else 3)

    compiled = fs.compile(function, fullgraph=True, backend="eager")
    for seed in range(3):
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(compiled(x), function(x))
    with pytest.raises(fs.errors.GraphBreakError):
        fs.compile(lambda x: x + 1 if x[0].argmin().item() < 3 else x, fullgraph=True)(x)
