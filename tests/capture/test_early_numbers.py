"""Numbers in tensors among the arguments that the program decides on: inputs of one graph, guarded like numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.torch_differential import differences, observe
from torch import nn

import firesteel as fs
from firesteel.errors import GraphBreakError


def rounds(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    for _ in range(n.item()):
        x = x.sin()
    return x


def compared(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x.sin() if n.item() > 3 else x.cos()


def truth(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x.sin() if n else x.cos()


def of_a_list(x: torch.Tensor, n: torch.Tensor) -> Any:
    return [x.sin(), x.cos(), x.exp(), x + 1, x + 2, x + 3][n], n + 1


def of_modules(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    layers = nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.ELU(), nn.GELU(), nn.SiLU()])
    return layers[int(n)](x)


def key(x: torch.Tensor, n: torch.Tensor) -> Any:
    return {0: x, 2: x * 2, 3: x * 3, 5: x * 5}.get(n.item(), x - 1)


def text(x: torch.Tensor, n: torch.Tensor) -> Any:
    return x.sin() if f"{n.item()}" in ("2", "3") else x.cos()


def read_and_written(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    m = n.item()
    n += 1
    return x * 2 if m > 2 else x * 3


PROGRAMS = (rounds, compared, truth, of_a_list, of_modules, key, text, read_and_written)


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_it_is_eagers(program: Callable[..., Any], fullgraph: bool) -> None:
    compiled = fs.compile(program, backend="eager", fullgraph=fullgraph)
    for number in (3, 2, 5, 0, 3, 4, 1, 2):
        def make(number: int = number) -> tuple[Any, ...]:
            return torch.arange(3.0), torch.tensor(number)

        expected, _ = observe(program, make, False)
        actual, _ = observe(compiled, make, False)
        assert differences(expected, actual) == [], number


def breaks_and_entries(function: Callable[..., Any], *calls: tuple[Any, ...], fullgraph: bool = False) -> Any:
    compiled = fs.compile(function, backend="eager", fullgraph=fullgraph)
    for arguments in calls:
        compiled(*arguments)
    entries = compiled._firesteel_unit.entries
    return sum(entry.break_reason is not None for entry in entries), len(entries)


def test_a_comparison_makes_two_entries_more() -> None:
    calls = [(torch.ones(2), torch.tensor(n)) for n in (1, 2, 7, 9, 1, -4, 30)]
    assert breaks_and_entries(compared, *calls) == (0, 3)  # for 1, for what is at most 3, for what is more


def test_many_values_end_in_a_break() -> None:
    calls = [(torch.ones(2), torch.tensor(n)) for n in range(12)]
    assert breaks_and_entries(rounds, *calls) == (1, 4)


def test_every_value_has_its_graph_where_one_is_insisted_on() -> None:
    calls = [(torch.ones(2), torch.tensor(n)) for n in (1, 4, 2, 4)]
    assert breaks_and_entries(rounds, *calls, fullgraph=True) == (0, 3)


def test_elements_and_lists() -> None:
    def f(x: torch.Tensor, n: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        a, b = n.tolist()
        if a > b:
            return x.sin()
        return x.cos() if m[0, 1].item() > 7 else x + m[1][0].item()

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    for n, m in (((3, 5), 3), ((5, 3), 3), ((8, 9), 9), ((1, 1), 0), ((2, 1), 0)):
        arguments = torch.ones(2), torch.tensor(n), torch.tensor([[0, m], [4, 0]])
        assert torch.equal(compiled(*arguments), f(*arguments))


def test_floats_and_bools() -> None:
    def f(x: torch.Tensor, scale: torch.Tensor, on: torch.Tensor) -> torch.Tensor:
        if on.item() and scale.item() > 0.5:
            return x * scale
        return x

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    for scale in (0.25, 1.0, 0.75, float("nan"), float("inf"), 0.0, -0.0):
        for on in (True, False):
            arguments = torch.ones(2), torch.tensor(scale), torch.tensor(on)
            assert torch.equal(compiled(*arguments), f(*arguments)), (scale, on)


def test_buffers_and_gradients() -> None:
    class Warm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("step", torch.tensor(0))
            self.linear = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x) if self.step.item() < 2 else self.linear(x) * 2
            self.step += 1
            return y

    torch.manual_seed(0)
    model, plain = Warm(), Warm()
    plain.load_state_dict(model.state_dict())
    compiled = fs.compile(model, backend="eager", fullgraph=True)
    for _ in range(5):
        x = torch.randn(3, 2)
        result, expected = compiled(x), plain(x)
        result.sum().backward()
        expected.sum().backward()
        assert torch.allclose(result, expected)
        for one, other in zip(model.parameters(), plain.parameters(), strict=True):
            assert torch.allclose(one.grad, other.grad)
    assert model.step.item() == 5


def test_what_was_written_or_computed_is_not_looked_at() -> None:
    def written(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n += 1
        return x.sin() if n.item() > 3 else x.cos()

    def through_a_view(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n.view(1)[0] = 9
        return x.sin() if n.item() > 3 else x.cos()

    def computed(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x.sin() if (n + 1).item() > 3 else x.cos()

    for f in (written, through_a_view, computed):
        with pytest.raises(GraphBreakError):
            fs.compile(f, backend="eager", fullgraph=True)(torch.ones(2), torch.tensor(1))
        compiled = fs.compile(f, backend="eager")
        for number in (1, 5, 2, 3):
            assert torch.equal(compiled(torch.ones(2), torch.tensor(number)), f(torch.ones(2), torch.tensor(number)))


def test_one_memory_under_two_names() -> None:
    def f(x: torch.Tensor, n: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        m.fill_(7)
        return x.sin() if n.item() > 3 else x.cos()

    compiled = fs.compile(f, backend="eager")
    for shared in (False, True, False, True):
        n = torch.tensor([1])
        m = n.view(1) if shared else torch.tensor([1])
        assert torch.equal(compiled(torch.ones(2), n, m), torch.ones(2).sin() if shared else torch.ones(2).cos())


def test_other_shapes_are_not_asked_for_a_number() -> None:
    def f(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x * 2 if n.numel() > 1 else x.sin() if n.item() > 3 else x.cos()

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    for n in (torch.tensor(1), torch.tensor([1, 2]), torch.tensor([5]), torch.tensor(9), torch.ones(2, 2)):
        assert torch.equal(compiled(torch.ones(2), n), f(torch.ones(2), n))


def test_exports_do_not_look_at_data() -> None:
    with pytest.raises(fs.errors.FiresteelError):
        fs.export.export(_Module(rounds), (torch.ones(2), torch.tensor(2)))


class _Module(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)
