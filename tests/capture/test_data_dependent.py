"""Values and sizes that depend on data: in one graph where the program permits it, right for whatever the data is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.torch_differential import differences, observe

import firesteel as fs
from capture.checking_programs import checks_its_data
from firesteel.capture.equivalents.reductions import sum_compensating_floats
from firesteel.errors import GraphBreakError

NAN = float("nan")
MASKS = ([1.0, -1.0, 2.0, -2.0, 3.0], [-1.0] * 5, [1.0] * 5, [-1.0, 4.0, -1.0, -1.0, -1.0], [0.0, NAN, 1.0, 1.0, 1.0])
ROWS = tuple([[value * factor for factor in (1.0, 2.0, -3.0)] for value in values] for values in MASKS)


def entries_of(compiled: Any) -> list[Any]:
    unit = compiled._firesteel_unit
    return [entry for part in (unit, *unit.continuations.values()) for entry in part.entries]


def check(function: Callable[..., Any], *calls: Callable[[], tuple[Any, ...]], entries: int = 1,
          fullgraph: bool = True, backward: bool = False, dynamic: bool | None = None) -> Any:
    """Compare compiled calls with plain ones; `entries` is how many compilations they may need in all."""
    compiled = fs.compile(function, backend="eager", fullgraph=fullgraph, dynamic=dynamic)
    for make in calls:
        expected, _ = observe(function, make, backward)
        actual, _ = observe(compiled, make, backward)
        assert differences(expected, actual) == [], make()
    assert len(entries_of(compiled)) == entries, [entry.break_reason for entry in entries_of(compiled)]
    return compiled


def over(*rows: Any, dtype: torch.dtype | None = None, grad: bool = False) -> list[Callable[[], tuple[Any, ...]]]:
    """One call for each list of numbers, with a tensor of it."""
    def make(row: Any) -> Callable[[], tuple[Any, ...]]:
        return lambda: (torch.tensor(row, dtype=dtype, requires_grad=grad),)

    return [make(row) for row in rows]


def with_numbers(*numbers: Any) -> list[Callable[[], tuple[Any, ...]]]:
    """One call for each group of integers: a matrix, and each integer as a tensor."""
    def make(group: Any) -> Callable[[], tuple[Any, ...]]:
        group = group if isinstance(group, tuple) else (group,)
        return lambda: (torch.arange(40.0).reshape(10, 4), *(torch.tensor(number) for number in group))

    return [make(group) for group in numbers]


# Sizes that data decides on

SELECTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "mask": lambda x: x[x > 0] * 2,
    "mask of rows": lambda x: x[x[:, 0] > 0].relu() + 1,
    "mask in the middle": lambda x: x.unsqueeze(0)[:, x[:, 0] > 0, 1:],
    "mask of columns": lambda x: x[:, x[0] > 0].sum(1),
    "mask and index": lambda x: x[x[:, 0] > 0, 1],
    "masked_select": lambda x: x.masked_select(x > 0).sort()[0],
    "nonzero": lambda x: torch.nonzero(x > 0) * 2,
    "nonzero as tuple": lambda x: (x > 0).nonzero(as_tuple=True),
    "argwhere": lambda x: torch.argwhere(x),
    "where": lambda x: torch.where(x > 0)[0].float().sum(),
    "indices back": lambda x: x[torch.where(x > 0)],
    "unique": lambda x: torch.unique(x.int()),
    "unique with all": lambda x: torch.unique(x.int(), return_inverse=True, return_counts=True),
    "unique of rows": lambda x: torch.unique(x.int(), dim=0, return_counts=True),
    "unique_consecutive": lambda x: torch.unique_consecutive(x.sign().int(), return_inverse=True, return_counts=True),
    "bincount": lambda x: torch.bincount((x[:, 0] > 0).int(), minlength=2),
    "repeat_interleave": lambda x: torch.repeat_interleave(x, (x[:, 0] > 0).int() * 2, dim=0),
    "repeat_interleave of a known size": lambda x: torch.repeat_interleave(
        torch.tensor([1, 2, 3]), (x[0] > 0).int() * 0 + 2, output_size=6),
    "size": lambda x: (x[x > 0].shape, len(x[x > 0]), x[x > 0].numel() * 2 + 1, x[x > 0].size(0) == 3),
    "matmul": lambda x: x[x[:, 0] > 0] @ torch.ones(3, 2),
    "cat": lambda x: torch.cat([x[x[:, 0] > 0], x, x[x[:, 0] <= 0]]),
    "view": lambda x: x[x[:, 0] > 0].view(-1),
    "reshape": lambda x: x[x[:, 0] > 0].reshape(-1, 1, 3).transpose(0, 2),
    "flatten": lambda x: x[x[:, 0] > 0].t().flatten(),
    "softmax": lambda x: torch.softmax(x[x[:, 0] > 0], -1),
    "mean": lambda x: x[x > 0].mean(),
    "largest": lambda x: x[x > 0].max(),
    "new tensor of that size": lambda x: torch.zeros(x[x > 0].size(0), 2) + x.new_ones(x[x > 0].size(0), 1),
    "write by mask": lambda x: (x.__setitem__(x > 0, 5.0), x)[1],
    "write by mask, tensor": lambda x: (x.__setitem__(x > 0, torch.ones(3)), x)[1],
    "index_put": lambda x: x.index_put((x > 0,), torch.tensor(7.0)),
    "dropout": lambda x: torch.nn.functional.dropout(x[x[:, 0] > 0] + 1, 0.5),
    "linear": lambda x: torch.nn.functional.linear(x[x[:, 0] > 0], torch.ones(2, 3), torch.ones(2)),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x[x[:, 0] > 0], (3,)),
    "one mask twice": lambda x: (lambda mask: x[mask] + (x * 2)[mask] + mask.nonzero().sum(1)[:, None])(x[:, 0] > 0),
    "a mask changed": lambda x: (lambda mask: (x[mask], mask.logical_not_(), x[mask]))(x[:, 0] > 0),
    "loop": lambda x: [x[x > limit].sum() for limit in range(3)],
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_one_graph_for_all_data(name: str) -> None:
    check(SELECTIONS[name], *over(*ROWS))


DIFFERENTIABLE = ["mask", "mask of rows", "masked_select", "matmul", "cat", "softmax", "linear", "mean"]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name: str) -> None:
    check(SELECTIONS[name], *over(*ROWS[:4], grad=True), backward=True)


@pytest.mark.parametrize("name", ["mask of rows", "nonzero", "unique", "repeat_interleave", "cat", "view"])
def test_with_symbolic_inputs(name: str) -> None:
    check(SELECTIONS[name], *over(*ROWS, *[rows[:4] for rows in ROWS], [*ROWS[0], *ROWS[2]]), dynamic=True)


# Numbers that data decides on

NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda x: x.sum().item() + 1,
    "as a factor": lambda x: x * x[0].item() + x[1].item(),
    "as a tensor": lambda x: torch.tensor(x[0].item()) + torch.tensor([x[1].item(), 2.0]),
    "fill": lambda x: torch.full((2,), x[2].item()) + x.new_full((2,), x[0].item()),
    "where and clamp": lambda x: torch.where(x > 0, x, x[0].item()).clamp(max=x[4].item()),
    "float": lambda x: (float(x[0]), x.double().sum().item() / 2, float(x.int().sum())),
    "comparison": lambda x: (x[0].item() > 0, bool(x[0] > 0), not x[1], x.sum().item() == x[1].item()),
    "bool": lambda x: ((x > 0).any().item(), (x > 0).all().item()),
    "list": lambda x: x.tolist(),
    "nested list": lambda x: [sum(row) for row in torch.stack([x, x + 1]).tolist()],
    "compensated sum": lambda x: [sum_compensating_floats(iter(row), 0) for row in torch.stack([x, -x]).tolist()],
    "list of truths": lambda x: (x > 0).tolist(),
    "text": lambda x: f"{x[0].item():.2f} {x[1].item()}",
    "print": lambda x: print("first", x[0].item()),
    "dictionary": lambda x: {"first": x[0].item(), "all": [value.item() for value in x]},
    "equal": lambda x: (torch.equal(x, x.abs()), torch.allclose(x, x), x.equal(x[:3])),
    "changed in place": lambda x: [x.add_(1)[0].item() for _ in range(3)],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_in_one_graph(name: str) -> None:
    check(NUMBERS[name], *over(*MASKS))


def test_integers() -> None:
    def f(x: torch.Tensor) -> Any:
        a, b = x[0].item(), int(x[1])
        return a + b, a * b - 3, -a, abs(b), a // 3, b % 5, a == b, min(a, b), max(a, 0), x + a, x * b, a & 3

    check(f, *over([3, 4, 5], [-7, 0, 1], [0, -1, 9]))
    check(lambda x: (x[0].item() + 1, x.sum().item()), *over([1, 200], [255, 255], dtype=torch.uint8))
    check(lambda x: (x.item(), x.int().item(), int(x), x.item() + 1), *over(True, False))


def test_division_by_data_raises_as_python_does() -> None:
    check(lambda x: (10 // x[0].item(), 10 % x[0].item(), 7 / x[0].item()), *over([3], [-4], [0], [1]))
    check(lambda x: int(x[0].item()), *over([2.7], [-2.7], [float("nan")], [float("inf")], [3.0]))

    def caught(x: torch.Tensor) -> Any:
        try:
            return x * (1 / x[0].item())
        except ZeroDivisionError:
            return "zero"

    check(caught, *over([2.0], [0.0], [4.0]))


# Numbers from data as sizes and indices

SIZES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "zeros": (lambda x, n: torch.zeros(n.item(), 2) + 1, (3, 0, 1, -1, 3)),
    "ones and full": (lambda x, n: torch.ones(n.item()) * torch.full((n.item(),), 2.0), (3, 0, 1)),
    "arange": (lambda x, n: torch.arange(n.item()) * 2, (3, 0, 1, -2)),
    "arange of a tensor": (lambda x, n: torch.arange(n), (3, 0, 1, -2)),
    "arange from": (lambda x, n: torch.arange(1, n.item()), (3, 1, 7)),
    "head": (lambda x, n: x[: n.item()] * 2, (3, 0, 10, 40, 1)),
    "tail": (lambda x, n: x[n.item():].sum(0), (3, 0, 10, 40)),
    "from second": (lambda x, n: (x[1: n.item()].shape[0], x[1: n.item()]), (3, 0, 1, 40)),
    "window": (lambda x, a, b: (x[a.item(): b.item()].shape, x[a.item(): b.item()]), ((1, 4), (0, 0), (5, 2), (3, 60))),
    "tensor in a slice": (lambda x, n: x[:n], (3, 0, 40)),
    "all but the last": (lambda x, n: x[: -n.item()], (3, 1, 10)),
    "every other": (lambda x, n: x[n.item()::2], (3, 0, 9, 10)),
    "row": (lambda x, n: (x[n.item()] * 2, x[n.item(), 1], x[:, n.item()]), (3, 0, -1, 40, -4)),
    "row by tensor": (lambda x, n: (x[n], x[n, 1:], x[..., n]), (3, 0, -1, 40)),
    "element by two": (lambda x, a, b: x[a.item(), b], ((3, 1), (0, 0), (-1, -1), (1, 9))),
    "index and list": (lambda x, n: x[[0, 2], n.item()], (3, 0, -1, 9)),
    "write a row": (lambda x, n: (x.__setitem__(n.item(), -1.0), x)[1], (3, 0, -1, 40)),
    "write by tensor": (lambda x, n: (x.__setitem__((slice(2), n), torch.zeros(2)), x)[1], (3, 0, -1, 40)),
    "write a head": (lambda x, n: (x[: n.item()].mul_(2), x)[1], (3, 0, 40)),
    "narrow": (lambda x, a, b: x.narrow(0, a.item(), b.item()), ((1, 4), (0, 0), (9, 1), (4, 9))),
    "split": (lambda x, a, b: x.split([a.item(), b.item()]), ((3, 7), (0, 10), (10, 0), (2, 3))),
    "split a list": (lambda x, a, b: x.split(torch.stack([a, b]).tolist()), ((3, 7), (0, 10), (2, 3))),
    "view": (lambda x, n: x.view(n.item(), -1), (4, 8, 2, 3, 0)),
    "reshape": (lambda x, n: x.reshape(-1, n.item()).t(), (4, 8, 20, 3)),
    "expand": (lambda x, n: x[0].expand(n.item(), 4), (4, 1, 0, -2)),
    "repeat": (lambda x, n: x.repeat(n.item(), 1), (2, 1, 0)),
    "topk": (lambda x, n: x.sum(1).topk(n.item()), (2, 1, 10, 11)),
    "pad": (lambda x, n: torch.nn.functional.pad(x, (0, 0, 0, n.item())), (2, 0)),
    "index_select": (lambda x, n: x.index_select(0, torch.arange(n.item())), (2, 0, 10, 11)),
    "broadcast": (lambda x, n: x[:1] + torch.zeros(n.item(), 1), (2, 0, 1)),
    "one_hot": (lambda x, n: torch.nn.functional.one_hot(n % 4, 4), (2, 0)),
    "random": (lambda x, n: torch.rand(n.item()) + torch.randn(n.item()), (2, 0, 5)),
}


@pytest.mark.parametrize("name", SIZES)
def test_numbers_as_sizes(name: str) -> None:
    function, numbers = SIZES[name]
    check(function, *with_numbers(*numbers))


# What the program states

def test_checks_of_the_program() -> None:
    def f(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        torch._check(size >= 2, lambda: f"{size} is too small")
        torch._check(size <= x.size(0))
        return x.narrow(0, 0, size).sum(0) + x[:size].shape[0]

    compiled = check(f, *with_numbers(3, 10, 1, 12, -4, 5))
    (entry,) = entries_of(compiled)
    asserted = [node.args[1] for node in entry.graph.module.graph.nodes if "_assert_scalar" in str(node.target)]
    # what is stated is all that has to be asserted
    assert len(asserted) == 2 and all("the graph is for the case" not in text for text in asserted)
    assert __file__ in asserted[0] and "size >= 2" in asserted[0]


@pytest.mark.parametrize("kind", ["_check_index", "_check_value", "_check_type", "_check_not_implemented"])
def test_kinds_of_checks(kind: str) -> None:
    state = getattr(torch, kind)

    def f(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        state(n.item() > 2, lambda: "not above 2")
        return x + n.item()

    check(f, *with_numbers(3, 2, 4))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_check_is_size() -> None:
    def f(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        torch._check_is_size(size)
        torch._check_is_size(size, max=6)
        return torch.zeros(size)

    check(f, *with_numbers(3, 0, 7, -1))


def test_check_of_all_elements() -> None:
    check(lambda x: (torch._check_tensor_all(x > -1, lambda: "negative"), x * 2)[1], *over([1.0, 2.0], [1.0, -2.0]))


def test_checks_on_sizes_are_guards() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.size(0) > 2, lambda: "too few")
        return x * 2

    compiled = check(f, *over([1.0] * 4, [1.0] * 7), dynamic=True)
    assert [str(guard.expr) for guard in entries_of(compiled)[0].shape_guards if guard.provenance.frames] == ["s0 >= 3"]
    check(f, *over([1.0] * 4, [1.0] * 2), dynamic=True, entries=2, fullgraph=False)


def test_a_contradiction_raises_the_users_error() -> None:
    def f(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        torch._check(size >= 5)
        torch._check(size <= 3, lambda: "never")
        return x

    check(f, *with_numbers(4, 9), fullgraph=False, entries=1)


def test_assertions_and_raises_do_not_break() -> None:
    rows = ([1.0, 2.0], [-20.0, 2.0], [200.0, 1.0], [-3.0, -3.0], [60.0, 1.0], [float("nan"), 1.0], [4.0, 4.0])
    check(checks_its_data, *[lambda row=row: (torch.tensor(row), []) for row in rows])


def test_a_raise_that_is_caught_is_a_branch() -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            if x.sum().item() > 3:
                raise ValueError("large")
            return x * 2
        except ValueError:
            return x - 1

    check(f, *over([1.0, 1.0], [4.0, 1.0], [1.0, 2.0], [9.0, 9.0]), fullgraph=False, entries=3)


def test_effects_before_a_failing_check() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
        x.add_(1)
        log.append(x.sum().item())
        noise = torch.rand(3)
        torch._check(x[0].item() > 0, lambda: f"after {log}")
        x.mul_(2)
        return x[: int(x[1].item())] + noise.sum()

    check(f, *[lambda row=row: (torch.tensor(row), []) for row in ([1.0, 2.0, 3.0], [-4.0, 2.0, 3.0], [1.0, 0.0, 3.0])])


# Assumptions

def test_an_assumption_that_fails_is_given_up() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x[x > 0] + y) * 2

    def make(row: list[float]) -> Callable[[], tuple[Any, ...]]:
        return lambda: (torch.tensor(row), torch.arange(5.0))

    compiled = fs.compile(f, backend="eager")
    calls = [make(MASKS[2]), *[make(MASKS[3]) for _ in range(4)], make(MASKS[2]), *[make(MASKS[3]) for _ in range(4)]]
    for call in calls:
        assert differences(observe(f, call, False)[0], observe(compiled, call, False)[0]) == []
    (entry,) = compiled._firesteel_unit.entries
    assert entry.break_reason is not None and "add needs to know whether mask.sum() == 5" in entry.break_reason.reason
    wrong = observe(compiled, make(MASKS[0]), False)[0]
    assert differences(observe(f, make(MASKS[0]), False)[0], wrong) == []  # eager's own error


def test_a_dimension_that_is_squeezed_sometimes() -> None:
    check(lambda x: x[x[:, 0] > 0].squeeze(0).dim(), *over(*ROWS[:3]))
    compiled = fs.compile(lambda x: x[x[:, 0] > 0].squeeze(0).dim(), backend="eager")
    for rows in (ROWS[3], ROWS[0], ROWS[3], ROWS[1], ROWS[3], ROWS[3]):
        assert compiled(torch.tensor(rows)) == (1 if rows is ROWS[3] else 2)


def test_a_failed_assumption_restores_what_was_changed() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.mul_(2)
        noise = torch.rand(2).sum()
        return (x[x > 0] + y) * noise

    def make(row: list[float]) -> Callable[[], tuple[Any, ...]]:
        return lambda: (torch.tensor(row), torch.arange(5.0))

    check(f, make(MASKS[2]), make(MASKS[3]), make(MASKS[2]))

    def large(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.mul_(2)
        return x[x > 0] + y[:5]

    # too large to be kept: the graph ends before the assumption instead
    check(large, *[lambda row=row: (torch.tensor(row), torch.ones(600_000)) for row in (MASKS[2], MASKS[3])],
          fullgraph=False)


def test_one_graph_even_if_assumptions_fail() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[x > 0] + y

    check(f, *[lambda row=row: (torch.tensor(row), torch.arange(5.0)) for row in (MASKS[2], *[MASKS[3]] * 4)])


# What stays a break

def test_a_branch_breaks_and_says_what_would_help() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        n = (x[0] * 1).item()
        if n > 5:
            return x * 2
        return x + n

    with pytest.raises(GraphBreakError) as caught:
        fs.compile(f, backend="eager", fullgraph=True)(torch.tensor([1, 2]))
    text = str(caught.value)
    for part in (__file__, "if n > 5:", "depends on data", "torch._check(n >= 6)", "torch._check(n <= 5)"):
        assert part in text, text
    check(f, *over([1, 2], [9, 2], [3, 4], [2, 2], [11, 5]), fullgraph=False, entries=4)


def test_loops_over_data_settle() -> None:
    def f(x: torch.Tensor) -> list[torch.Tensor]:
        y = x * 2
        made = []
        for i in range(y[0].item()):
            made.append(y + i)
        return made

    check(f, *over([2, 1], [3, 1], [0, 1], [5, 1], [4, 4], [1, 1]), fullgraph=False, entries=5)


def test_numbers_after_a_break_become_inputs() -> None:
    def f(x: torch.Tensor) -> Any:
        n = x.sum().item()
        fs.graph_break()
        return x * n, n + 1

    check(f, *over([2, 1], [3, 1], [0, 1], [5, 1], [4, 4]), fullgraph=False, entries=3)


def test_sizes_after_a_break_become_inputs() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x[x > 0]
        fs.graph_break()
        return y * y.size(0)

    # static, then dynamic, and one each for no element and one element
    check(f, *over(*MASKS, [1.0, 1.0, -1.0, 1.0, 1.0]), fullgraph=False, entries=5)


def test_values_that_graphs_cannot_read_break() -> None:
    check(lambda x: x.tolist(), *over([0.0] * 300), fullgraph=False, entries=1)
    check(lambda x: (x * 1j).sum().item() * x, *over([1.0, 2.0]), fullgraph=False, entries=2)
    check(lambda x: x.item(), *over([1.0, 2.0]), fullgraph=False, entries=1)
    check(lambda x: ["a", "b", "c"][x.sum().item()], *over([1, 0], [1, 1]), fullgraph=False, entries=1)


def test_in_inlined_functions_and_modules() -> None:
    class Selects(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)
            self.norm = torch.nn.BatchNorm1d(2)

        def pick(self, x: torch.Tensor) -> torch.Tensor:
            return x[x[:, 0] > 0]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            picked = self.linear(self.pick(x))
            count = (x[:, 0] > 0).sum().item()
            return self.norm(torch.cat([picked, picked, x.new_zeros(2, 2)])) * count

    torch.manual_seed(0)
    module = Selects()
    compiled = fs.compile(module, backend="eager", fullgraph=True)
    other = Selects()
    other.load_state_dict(module.state_dict())
    for rows in ROWS[:4]:
        x = torch.tensor(rows)
        torch.testing.assert_close(compiled(x), other(x), rtol=0, atol=0)
        torch.testing.assert_close(module.norm.running_mean, other.norm.running_mean, rtol=0, atol=0)


def test_nothing_is_recorded_for_a_size_that_nobody_needs() -> None:
    compiled = check(lambda x: x[x > 0] * 2, *over(*MASKS))
    nodes = entries_of(compiled)[0].graph.module.graph.nodes
    assert [node.target for node in nodes if node.op == "call_method"] == []


def test_layouts_that_depend_on_data() -> None:
    check(lambda x: (x[x > 0].is_contiguous(), x[x[:, 0] > 0].stride()), *over(*ROWS))
    # contiguous only when the slice is all of it
    def f(x: torch.Tensor, n: torch.Tensor) -> Any:
        part = x[:, : n.item()]
        return part.is_contiguous(), part.contiguous().sum(0), torch.relu(part) + 1

    # static, dynamic, and one each for sizes 0 and 1 after the break
    check(f, *with_numbers(2, 4, 0, 1), fullgraph=False, entries=5)
    check(lambda x, n: x[n.item()].storage_offset(), *with_numbers(2, -1, 0), fullgraph=False, entries=1)


def test_uses_of_one_mask_have_one_size() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mask = x > 0
        return x[mask] + y[mask]

    compiled = check(f, *[lambda row=row: (torch.tensor(row), torch.arange(5.0)) for row in MASKS])
    assert not any("assert" in str(node.target) for node in entries_of(compiled)[0].graph.module.graph.nodes)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu")])
def test_under_modes(mode: Callable[[], Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        with mode():
            kept = x[x[:, 0] > 0]
            return kept @ torch.ones(3, 2), kept.shape[0], x[0, 0].item(), torch.unique(x.sign()).numel()

    check(f, *over(*ROWS))


STRIDES = {
    "expanded": lambda x, n: x.t()[:1].expand(n, 4),
    "expanded in front": lambda x, n: x.t()[:1][None].expand(n, -1, -1),
    "broadcast and computed": lambda x, n: torch.broadcast_to(x.t()[:1], (n, 4)) * 2,
    "rows": lambda x, n: x[:n].t().contiguous(),
    "rows sorted": lambda x, n: x[:n, 0].sort()[0],
    "rows turned": lambda x, n: x.t()[:, :n] + 1,
}


@pytest.mark.parametrize("name", STRIDES)
def test_strides_of_what_data_makes_small(name):
    def function(x, number):
        return STRIDES[name](x, number.item())

    compiled = fs.compile(function, backend="aot_eager")
    for count in (3, 1, 0, 2, 1):
        arguments = (torch.arange(12.0).reshape(4, 3), torch.tensor(count))
        assert compiled(*arguments).stride() == function(*arguments).stride()


@pytest.mark.parametrize("take", [
    lambda rows: torch.stack([rows[:, 0] + rows[:, 2], rows[:, 1] * rows[:, 2]], 1).mean(0),
    lambda rows: rows.reshape(-1) * 2,
    lambda rows: rows.unbind(1)[1] * 2,
    lambda rows: rows.t() @ rows,
])
def test_strides_that_no_data_changes_are_not_asked_about(take):
    def function(x):
        return take(x[x[:, 0] > 0])

    compiled = fs.compile(function, backend="aot_eager")
    for values in ROWS[:4]:
        x = torch.tensor(values)
        torch.testing.assert_close(compiled(x), function(x), equal_nan=True)
    assert len(entries_of(compiled)) == 1


@torch.library.custom_op("data_dependent::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


@positive.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(max=x.numel()))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_sizes_that_fake_kernels_of_custom_operators_ask_for(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        chosen = positive(x)
        return chosen + 1, chosen.sum(), x * 2

    compiled = fs.compile(f, backend=backend, fullgraph=True)
    for x in (torch.tensor([1.0, -1, 2]), torch.tensor([1.0, 2, 3, 4]), torch.tensor([-1.0, -2])):
        torch.testing.assert_close(compiled(x), f(x))


@pytest.mark.parametrize("backend", ["native", "eager"])
def test_conversions_of_tensors_that_the_program_made_of_numbers(backend):
    def convert(x):
        three = torch.tensor(7) / 2
        return (int(three), float(torch.tensor(3)), bool(torch.tensor(0.5)), three.__int__(), int(torch.tensor(True)),
                torch.tensor(-0.0).is_nonzero(), x[:int(torch.ones(()) * 2.9)],
                torch.tensor([1, 2]) * float(torch.tensor(3)))

    def impossible(x):
        return x * int(torch.tensor(float("nan")))

    x = torch.ones(4)
    results = [f(x) for f in (convert, fs.compile(convert, fullgraph=True, backend=backend))]
    assert [type(value) for value in results[1]] == [type(value) for value in results[0]]
    assert results[1][:6] == results[0][:6] == (3, 3.0, True, 3, 1, False)
    for plain, compiled in zip(results[0][6:], results[1][6:], strict=True):
        torch.testing.assert_close(compiled, plain, rtol=0, atol=0)
    with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
        fs.compile(impossible, backend=backend)(x)
