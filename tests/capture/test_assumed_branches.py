"""Branches on flags of tensors: one graph for the way that they go, eager's results whichever way that is."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.capture.differential import assert_same_facts
from tests.fuzz.snapshot import Facts, Snapshot

import firesteel as fs

NOTES: list[Any] = []
WEIGHT = torch.nn.Parameter(torch.linspace(-1, 1, 9).view(3, 3))
OTHER_WEIGHT = torch.nn.Parameter(torch.linspace(0, 1, 9).view(3, 3))


def without_padding(x: torch.Tensor) -> Any:
    mask: torch.Tensor | None = x > 2
    y = x * 2
    if not mask.any():  # type: ignore[union-attr]
        mask = None
    return (y if mask is None else y.masked_fill(mask, 0.0)), mask


def read_as_a_number(x: torch.Tensor) -> Any:
    flag = (x > 2).flatten().any().item()
    parts = []
    for _ in range(3):
        x = x + 1
        if flag:
            parts.append(x.sum())
    return x, parts, flag


def all_of_them(x: torch.Tensor) -> Any:
    if (x <= 2).all() and not torch.isnan(x).any():
        return x.sin()
    return x


def none_counted(x: torch.Tensor) -> Any:
    counts = (x > 2).sum(dim=0)
    if counts.sum() == 0:
        counts[counts.eq(0)] = 1
    return counts


def itself(x: torch.Tensor) -> Any:
    return x.clamp(max=2) if (x > 2).any() else x


def writes_before(x: torch.Tensor) -> Any:
    x.add_(1)
    if (x > 3).any():
        x.mul_(2)
    return x.sin()


def writes_to_a_view_before(x: torch.Tensor) -> Any:
    x[0].add_(1)
    flag = (x > 3).any()
    x[1] = 3
    return (x, x.view(-1)) if flag else x + 1


def asks_again_after_a_write(x: torch.Tensor) -> Any:
    flag = (x > 2).any()
    y = x + 1 if flag else x - 1
    flag.logical_not_()
    return y.cos() if flag else y.sin()


def asks_again_after_a_hidden_write(x: torch.Tensor) -> Any:
    flag = (x > 2).any()
    y = x + 1 if flag else x - 1
    flag.data.fill_(True)
    return y.cos() if flag else y.sin()


def effects_before(x: torch.Tensor) -> Any:
    NOTES.append(len(NOTES))
    print("before", len(NOTES))
    if (x > 2).any():
        NOTES.append("way")
        print("one way")
        return x * 2
    print("other way")
    return x + len(NOTES)


def random_before(x: torch.Tensor) -> Any:
    y = torch.nn.functional.dropout(x, 0.5) + torch.rand(3)
    if (x > 2).any():
        y = y + torch.rand(())
    return y, torch.randn(2)


def random_condition(x: torch.Tensor) -> Any:
    return x.sin() if (torch.rand(3) + x > 2.5).any() else x.cos()


def random_but_finite(x: torch.Tensor) -> Any:
    y = torch.nn.functional.dropout(x, 0.5)
    if not torch.isfinite(y).all():
        y = y.clamp(-100, 100)
    return y + torch.rand(3)


GENERATOR = torch.Generator()


def own_generator(x: torch.Tensor) -> Any:
    y = torch.rand(3, generator=GENERATOR) + x
    return y.sin() if (y == 0).any() else y.cos()


def raises_on_one_way(x: torch.Tensor) -> Any:
    try:
        if (x > 2).any():
            raise ValueError(f"too large: {x}")
        return x + 1
    except ValueError as error:
        return str(error), x


def raises(x: torch.Tensor) -> Any:
    if not (x > 2).any():
        return x + 1
    y = x * 2
    return y.view(7)


def generator(x: torch.Tensor) -> Any:
    def parts() -> Any:
        yield x + 1
        if (x > 2).any():
            yield x * 2

    return list(parts())


def flag_of(x: torch.Tensor) -> bool:
    if (x > 2).any():
        return True
    return False


def in_a_function(x: torch.Tensor) -> Any:
    y = x * 2
    return (y.sin(), 1) if flag_of(x) else [y]


def far_bound(x: torch.Tensor) -> Any:
    n = (x > 2).sum().item()
    if n > 1000:
        return x
    return x[:1].expand(4, 3) + n


def far_bound_of_a_size(x: torch.Tensor) -> Any:
    y = x[x > 2]
    if y.shape[0] <= 4096:
        return y * 2
    return y


def near_bound(x: torch.Tensor) -> Any:
    n = (x > 2).sum().item()
    return x + 1 if n > 2 else x - 1


def counted(x: torch.Tensor) -> Any:
    if (x > 2).sum() > 0 and torch.count_nonzero(x > 2) >= 1:
        return x + 1
    return x - 1 if (x > 1).sum().item() < 1 else x


def any_of_several(x: torch.Tensor) -> Any:
    masks = [x > 2, x > 100]
    several = any(mask.any() for mask in masks), all([not mask.all() for mask in masks]), not masks[0].any()
    return x + sum(several[:2]), several


def equal_tensors(x: torch.Tensor) -> Any:
    return (x.sin(), 1) if torch.equal(x, x.clamp(max=2)) or torch.allclose(x, x * 0) else x


def array(x: torch.Tensor) -> Any:
    return x + 1 if (x.detach().numpy() > 2).any() else x - 1


def nothing_selected(x: torch.Tensor) -> Any:
    chosen = x[x > 2]
    if chosen.numel() == 0:
        return x * 2
    return chosen.mean() + x


def something_selected(x: torch.Tensor) -> Any:
    places = (x > 2).nonzero()
    if places.shape[0] > 0:
        x = x + places.sum()
    rows = torch.where(x.flatten() > 2)[0]
    return x + len(rows) if rows.numel() else x - 1


def experts(x: torch.Tensor) -> Any:
    result = torch.zeros_like(x)
    for bound in (-0.5, 0.0, 2.0):
        rows = torch.where(x[:, 2] > bound)[0]
        if rows.numel() == 0:
            continue
        result.index_add_(0, rows, x[rows] * (bound + 2))
    return result


def rounds_of_a_selection(x: torch.Tensor) -> Any:
    for place in (x > 2).nonzero():
        x = x + x[place[0], place[1]]
    return x


def experts_that_are_asked(x: torch.Tensor) -> Any:
    mask = torch.nn.functional.one_hot((x[:, 2] > 2).long() + (x[:, 1] > 2).long(), 3).t()
    result = torch.zeros_like(x)
    for expert in (mask.sum(-1) > 0).nonzero():
        rows = torch.where(mask[expert[0]])[0]
        result.index_add_(0, rows, x[rows] @ WEIGHT * expert[0])
    return result


def squeezed_selection(x: torch.Tensor) -> Any:
    places = (x.flatten() > 2).nonzero().squeeze()
    if places.numel() == 0:
        return x
    return x.flatten().index_select(0, places)


def empty_selection(x: torch.Tensor) -> Any:
    y = x[x > 2]
    if y.numel() == 0:
        return None
    return y.max()


def leaves_a_loop(x: torch.Tensor) -> Any:
    rounds = 0
    for _ in range(6):
        if (x > 2).any():
            break
        x = x + 0.5
        rounds += 1
    return x, rounds


def while_loop(x: torch.Tensor) -> Any:
    rounds = 0
    while not (x > 2).any():
        x = x + 0.5
        rounds += 1
    return x, rounds


def inside_a_while_loop(x: torch.Tensor) -> Any:
    rounds = 0
    while True:
        x = x + 0.5
        if (x > 2).any():
            return x, rounds
        rounds += 1


def in_every_round(x: torch.Tensor) -> Any:
    for i in range(3):
        if (x > i).any():
            continue
        x = x + i
    return x


def with_weights(x: torch.Tensor) -> Any:
    return x @ (WEIGHT if (x > 2).any() else OTHER_WEIGHT)


def transposed(x: torch.Tensor) -> Any:
    return x.t() if (x > 2).any() else x.t().contiguous().to(torch.float64)


def under_autocast(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ WEIGHT
        return y.float() if (y > 2).any() else y


ONE_GRAPH = (without_padding, read_as_a_number, all_of_them, none_counted, itself, writes_before,
             writes_to_a_view_before, effects_before, random_before, generator, in_a_function, far_bound,
             far_bound_of_a_size, with_weights, transposed, under_autocast, in_every_round, counted, any_of_several,
             equal_tensors, array, random_but_finite, nothing_selected, something_selected, experts, squeezed_selection,
             rounds_of_a_selection, experts_that_are_asked,
             raises)
OTHERS = (asks_again_after_a_write, asks_again_after_a_hidden_write, random_condition, own_generator,
          raises_on_one_way, near_bound, empty_selection, leaves_a_loop,
          while_loop, inside_a_while_loop)
LOW, HIGH = 0.25, 9.0
ORDERS = ((LOW, LOW, LOW), (HIGH, HIGH, LOW), (LOW, HIGH, LOW, HIGH, HIGH, LOW, HIGH, LOW))


def observed(function: Callable[..., Any], order: tuple[float, ...], gradients: bool) -> list[Facts]:
    """What a program does in several calls: results, gradients, what it prints and writes, random numbers."""
    NOTES.clear()
    seen = []
    torch.manual_seed(5)
    GENERATOR.manual_seed(5)
    for highest in order:
        x = torch.linspace(-1, highest, 6).view(2, 3)
        given = (x.requires_grad_() * 1) if gradients else x
        WEIGHT.grad = OTHER_WEIGHT.grad = None
        snapshot = Snapshot()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                result = function(given)
            except Exception as error:
                result = f"{type(error).__name__}: {error}"
        if gradients:
            leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result)
                      if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            if leaves:
                sum(leaf.float().square().sum() for leaf in leaves).backward()
            snapshot.add("gradients", [x.grad, WEIGHT.grad, OTHER_WEIGHT.grad])
        snapshot.add("args", given.detach())
        snapshot.add("result", result)
        snapshot.add("printed", printed.getvalue())
        snapshot.add("notes", list(NOTES))
        snapshot.add("random", [torch.get_rng_state(), GENERATOR.get_state()])
        seen.append(snapshot.facts)
    return seen


@pytest.mark.parametrize("gradients", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("order", ORDERS, ids=["low", "high first", "both"])
@pytest.mark.parametrize("function", [*ONE_GRAPH, *OTHERS], ids=lambda f: f.__name__)
def test_is_eagers(function: Callable[..., Any], order: tuple[float, ...], gradients: bool) -> None:
    for plain, compiled in zip(observed(function, order, gradients),
                               observed(fs.compile(function, backend="eager"), order, gradients), strict=True):
        assert_same_facts(plain, compiled)


@pytest.mark.parametrize("highest", [LOW, HIGH])
@pytest.mark.parametrize("function", [f for f in ONE_GRAPH if f is not raises], ids=lambda f: f.__name__)
def test_is_one_graph(function: Callable[..., Any], highest: float) -> None:
    explanation = fs.explain(function)(torch.linspace(-1, highest, 6).view(2, 3))
    assert explanation.graph_break_count == 0, explanation
    assert explanation.graph_count == 1


@pytest.mark.parametrize("function", [without_padding, itself, with_weights, random_before, far_bound],
                         ids=lambda f: f.__name__)
def test_in_machine_code(function: Callable[..., Any]) -> None:
    compiled = fs.compile(function)
    for highest in ORDERS[2]:
        x = torch.linspace(-1, highest, 6).view(2, 3)
        torch.manual_seed(3)
        expected = function(x)
        torch.manual_seed(3)
        result = compiled(x)
        leaves, others = (torch.utils._pytree.tree_flatten(part) for part in (expected, result))
        assert leaves[1] == others[1]
        torch.testing.assert_close(others[0], leaves[0])


def breaks_in(function: Callable[..., Any], **options: Any) -> list[str]:
    reasons = fs.explain(function, **options)(torch.ones(2, 3)).break_reasons
    return [reason.reason for reason in reasons]


@pytest.mark.parametrize("function", [random_condition, near_bound, leaves_a_loop, while_loop, inside_a_while_loop],
                         ids=lambda f: f.__name__)
def test_what_goes_either_way_is_a_break(function: Callable[..., Any]) -> None:
    assert breaks_in(function)


def test_magnitudes_are_breaks() -> None:
    assert breaks_in(lambda x: x + 1 if x.mean() > 0 else x - 1) == ["a branch depends on the value of a tensor"]


def test_finding_the_way_draws_no_random_numbers() -> None:
    torch.manual_seed(7)
    random_condition(torch.ones(3))
    state = torch.get_rng_state()
    torch.manual_seed(7)
    fs.compile(random_condition)(torch.ones(3))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_function_that_is_called_does_not_assume_again() -> None:
    events: list[str] = []

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        events.append(str(gm.code))
        return gm.forward

    compiled = fs.compile(in_a_function, backend=backend)
    for highest in (LOW, HIGH, HIGH, HIGH, LOW, HIGH):
        x = torch.linspace(-1, highest, 6)
        torch.testing.assert_close(compiled(x), in_a_function(x))
    count = len(events)
    for highest in (LOW, HIGH) * 3:
        compiled(torch.linspace(-1, highest, 6))
    assert len(events) == count
    assert sum("_assert_scalar" in text for text in events) == 1


def test_fullgraph_refuses() -> None:
    with pytest.raises(fs.errors.GraphBreakError, match="a branch depends on the value of a tensor"):
        fs.compile(without_padding, fullgraph=True)(torch.ones(3))


def test_can_be_switched_off() -> None:
    with fs.config.patch(assume_branches=False):
        assert breaks_in(without_padding) == ["a branch depends on the value of a tensor"]


def test_recorded_modes_do_not_ask_the_host_for_nothing() -> None:
    assert not breaks_in(without_padding, mode="reduce-overhead")  # on the CPU there is nothing to record


def test_operators_of_the_program_are_not_run() -> None:
    calls = []

    @torch.library.custom_op("firesteel_tests::noted_flag", mutates_args=())
    def noted_flag(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x > 2

    noted_flag.register_fake(lambda x: torch.empty_like(x, dtype=torch.bool))

    for flag in (noted_flag, torch.ops.firesteel_tests.noted_flag):
        def function(x: torch.Tensor, flag: Any = flag) -> torch.Tensor:
            return x + 1 if flag(x).any() else x - 1

        calls.clear()
        torch.testing.assert_close(fs.compile(function, backend="eager")(torch.ones(2)), torch.zeros(2))
        assert len(calls) == 1


def test_operators_of_the_program_run_once() -> None:
    calls = []

    @torch.library.custom_op("firesteel_tests::noted_step", mutates_args=())
    def noted_step(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1

    noted_step.register_fake(torch.empty_like)

    @fs.allow_in_graph
    def noted_function(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1

    for step in (noted_step, noted_function, torch.ops.firesteel_tests.noted_step):
        def function(x: torch.Tensor, step: Any = step) -> torch.Tensor:
            y = step(x)
            return y + 1 if (x > 2).any() else y - 1

        compiled = fs.compile(function, backend="eager")
        compiled(torch.ones(2))
        for highest in (LOW, HIGH, LOW, HIGH, HIGH):
            calls.clear()
            x = torch.full((2,), highest)
            result = compiled(x)
            assert len(calls) == 1
            torch.testing.assert_close(result, function(x))


def test_in_a_transform_is_eagers_error() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: row + 1 if (row > 2).any() else row - 1)(x)

    outcomes = []
    for call in (function, fs.compile(function)):
        with pytest.raises(RuntimeError) as error:
            call(torch.ones(2, 3))
        outcomes.append(str(error.value))
    assert outcomes[0] == outcomes[1]


def test_statistics_are_those_of_one_call() -> None:
    def make() -> torch.nn.Module:
        torch.manual_seed(0)
        return torch.nn.BatchNorm1d(3).train()

    plain, original = make(), make()

    def function(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = module(x)
        return y * 2 if (x > 2).any() else y.relu()

    compiled = fs.compile(function)
    for highest in ORDERS[2]:
        x = torch.linspace(-1, highest, 6).view(2, 3)
        torch.testing.assert_close(compiled(original, x), function(plain, x))
    torch.testing.assert_close(dict(original.named_buffers()), dict(plain.named_buffers()))


@pytest.mark.parametrize("function", [writes_before, asks_again_after_a_write], ids=lambda f: f.__name__)
def test_in_inference_mode(function: Callable[..., Any]) -> None:
    compiled = fs.compile(function)
    with torch.inference_mode():
        for highest in ORDERS[2]:
            one, other = (torch.linspace(-1, highest, 6) for _ in range(2))
            torch.testing.assert_close(compiled(one), function(other))
            torch.testing.assert_close(one, other)


def test_with_sizes_that_change() -> None:
    compiled = fs.compile(without_padding, dynamic=True)
    for rows, highest in zip(range(2, 12), ORDERS[2] * 2, strict=False):
        x = torch.linspace(-1, highest, rows)
        expected, result = without_padding(x), compiled(x)
        torch.testing.assert_close(result[0], expected[0])
        assert (result[1] is None) is (expected[1] is None)


def test_a_slice_that_must_be_inside() -> None:
    def function(x: torch.Tensor, counts: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        rows = torch.zeros(x.size(0), int(n), x.size(2))
        for i, (row, count) in enumerate(zip(x, counts, strict=True)):
            repeated = torch.repeat_interleave(row, count, dim=0)
            rows[i, :repeated.size(0)] = repeated
        return rows

    compiled = fs.compile(function)
    x = torch.randn(2, 3, 4)
    for counts, n in (([[1, 2, 1], [2, 0, 1]], 4), ([[1, 2, 1], [2, 0, 1]], 7), ([[0, 0, 0], [2, 0, 1]], 3),
                      ([[3, 3, 3], [2, 0, 1]], 5), ([[3, 3, 3], [2, 0, 1]], 9), ([[0, 0, 0], [0, 0, 0]], 0),
                      ([[1, 1, 0], [1, 0, 0]], 1)):
        outcomes = []
        for call in (function, compiled):
            try:
                outcomes.append(call(x, torch.tensor(counts), torch.tensor(n)).tolist())
            except RuntimeError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
    assert fs.explain(function)(x, torch.ones(2, 3, dtype=torch.long), torch.tensor(3)).graph_break_count == 0
