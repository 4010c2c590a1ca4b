"""Graphs are taken apart behind results that others are computed from, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import firesteel as fs
from firesteel.backends.stages import compile_in_stages

GRAPHS = {
    "one from another": (lambda x: (a := x.sin(), a.exp()), 2),
    "three in a row": (lambda x: (a := x.sin(), b := a.exp(), b + a), 3),
    "nothing to do with each other": (lambda x: (x.sin(), x.exp()), None),
    "only a view": (lambda x: (a := x.sin(), a.view(-1)), None),
    "detached between": (lambda x: (a := x.sin(), a.detach() * x), None),
    "a gradient that flows through both": (
        lambda x: (a := x.sin(), torch.autograd.grad(a.exp().sum(), x, create_graph=True)[0]), None),
    "many": (lambda x: (a := x.sin(), b := a.sin(), c := b.sin(), d := c.sin(), e := d.sin(), f := e.sin(),
                            g := f.sin(), h := g.sin(), i := h.sin(), i.sin()), 10),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_parts(name: str) -> None:
    function, expected = GRAPHS[name]
    parts: list[int | None] = []

    def backend(gm: torch.fx.GraphModule, examples: Any) -> Callable[..., Any]:
        stages = compile_in_stages(gm, examples, lambda module, _: module.forward)
        parts.append(None if stages is None else len(stages.stages))
        return stages or gm.forward

    x = torch.linspace(0, 1, 6).view(2, 3).requires_grad_()
    results = fs.compile(function, backend=backend)(x)
    assert parts == [expected]
    for result, plain in zip(results, function(x), strict=True):
        assert torch.equal(result, plain)


def test_numbers_are_made_again_in_each_part() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = x.shape[0] * 2
        a = torch.cat([x, x]) * rows
        return a, a.exp().sum() / rows

    compiled = fs.compile(f, dynamic=True)
    for rows in (2, 3):
        x = torch.linspace(0, 1, 3 * rows).view(rows, 3).requires_grad_()
        a, b = compiled(x)
        plain_a, plain_b = f(x)
        torch.testing.assert_close(torch.autograd.grad(b, a), torch.autograd.grad(plain_b, plain_a))


def changed_before(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = x.sin()
    a.mul_(2)
    with torch.no_grad():
        a.add_(1)
    a.t()[0] = 1
    return a.exp().sum(), a, a.view(-1)


def changed_behind(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = x.sin()
    loss = a.mean()
    rows = torch.zeros(2, 3)
    b = a.exp()
    loss += b.mean()
    rows[0] += b[1]
    return a, b, loss, rows


def changed_behind_a_view(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    base = x.cos()
    row = base[0]
    a = x.sin()
    row.mul_(a[1])
    return a, row, base.sum(), base


def read_before_a_change(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    count = torch.ones(())
    number = count.item()
    count.add_(1)
    a = x.sin()
    return a, a * number, count


def in_autocast(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ x.t()
        b = a @ a
    return a, b, (b @ b).sum()


def in_a_region_of_the_profiler(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.profiler.record_function("region"):
        a = x.sin()
        b = a.exp()
    return a, b


def behind_inference_mode(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = x.sin()
    with torch.inference_mode():
        x.exp()
    return a, a.exp()


def views_of_views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = x.sin()
    row = a[0]
    return row[1:], row, a.t().t(), a


def changed_input(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.mul_(2)
    return x, x.sin()


def transposed_in_place(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = x.sin(), x.cos()
    c = a.exp()
    b.t_()
    return a, c, b


def gradients_of_both(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = x.sin()
    return a, torch.autograd.grad(a.exp().sum(), x, create_graph=True)[0]


@pytest.mark.parametrize("function", [
    changed_before, changed_behind, changed_behind_a_view, read_before_a_change, in_autocast,
    in_a_region_of_the_profiler, behind_inference_mode, views_of_views, changed_input, transposed_in_place,
    gradients_of_both])
@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_gradients_between_results(function: Callable[..., Any], backend: str) -> None:
    def gradients(run: Callable[..., Any]) -> list[Any]:
        leaf = torch.linspace(0.2, 1, 6).view(2, 3).requires_grad_()
        results = run(leaf * 1 if function is changed_input else leaf)
        results = [result for result in results if result.requires_grad]
        found = list(map(torch.Tensor.detach, results))
        for one in results:
            for other in [*results, leaf]:
                if one is not other:
                    found += torch.autograd.grad(one.sum(), other, retain_graph=True, allow_unused=True)
        return found

    expected = gradients(function)
    found = gradients(fs.compile(function, backend=backend))
    assert [value is None for value in found] == [value is None for value in expected]
    for value, plain in zip(found, expected, strict=True):
        if value is not None:
            torch.testing.assert_close(value, plain)


def through_a_view(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.mul_(2)
    y[::2].mul_(x.mean())
    return x, y


def through_an_older_view(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
    row = y.t()[0]
    x.mul_(2)
    row += x[0, 0]
    return x, row


def through_two_views(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows = y[:1]
    x.mul_(2)
    rows[0].mul_(x.mean())
    rest = y[:, 1:]
    x.add_(1)
    rest.t().mul_(x.sum())
    return x, y


def two_arguments(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows, columns = y[:1], z.t()[:2]
    x.mul_(2)
    rows.mul_(x.mean())
    columns.mul_(y.mean())
    return x, y, z


def directly_and_detached(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
    detached = z.detach()
    row = detached[0]
    x.mul_(2)
    y.mul_(x.mean())
    row.mul_(x.mean())
    return x, y, detached


@pytest.mark.parametrize("function", [through_a_view, through_an_older_view, through_two_views, two_arguments,
                                      directly_and_detached])
@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_arguments_get_a_history_by_writes(function: Callable[..., Any], backend: str) -> None:
    def run(call: Callable[..., Any]) -> tuple[list[Any], list[torch.Tensor]]:
        leaf = torch.linspace(0.2, 1, 6).view(2, 3).requires_grad_()
        y, z = torch.ones(2, 3), torch.ones(2, 3)
        results = [*call(leaf * 1, y, z), y, z]
        gradients = [torch.autograd.grad(value.sum(), leaf, retain_graph=True)[0]
                     for value in results if value.requires_grad]
        return [(value.requires_grad, value.is_leaf) for value in results], gradients

    (kinds, gradients), (plain_kinds, plain_gradients) = run(fs.compile(function, backend=backend)), run(function)
    assert kinds == plain_kinds
    torch.testing.assert_close(gradients, plain_gradients)


def behind_a_break(x: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, ...]:
    fs.graph_break()
    y = y * 2
    x.add_(y)
    return y, x


def through_a_view_behind_a_break(x: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, ...]:
    view = x[:]
    fs.graph_break()
    y = y * 2
    view.add_(y)
    return y, x


def in_a_list_behind_a_break(x: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, ...]:
    kept = [[x]]
    fs.graph_break()
    y = y * 2
    x.add_(y)
    return y, kept[0][0]


def by_another_name(x: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = y * 2
    other.add_(y)
    return y, x


def _written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y = y * 2
    x.add_(y)
    fs.graph_break()
    return y


def in_a_function_called_for_itself(x: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return _written(x, y), x


@pytest.mark.parametrize("function", [behind_a_break, through_a_view_behind_a_break, in_a_list_behind_a_break,
                                      by_another_name, in_a_function_called_for_itself])
@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_changed_by_one_name_and_returned_by_another(function: Callable[..., Any], backend: str) -> None:
    compiled = fs.compile(function, backend=backend)
    for shared in (False, True, False):
        leaf = torch.linspace(0.2, 1, 6).view(2, 3).requires_grad_()
        x = leaf * 1
        y, changed = compiled(x, leaf * 3, x if shared else leaf * 1)
        found, = torch.autograd.grad(changed.sum(), y, allow_unused=True)
        assert (found is not None) == (shared or function is not by_another_name)
        if found is not None:
            torch.testing.assert_close(found, torch.ones(2, 3))


def test_changes_do_not_keep_graphs_whole() -> None:
    parts = []

    def backend(gm: torch.fx.GraphModule, examples: Any) -> Callable[..., Any]:
        stages = compile_in_stages(gm, examples, lambda module, _: module.forward)
        parts.append(None if stages is None else len(stages.stages))
        return stages or gm.forward

    for function in (changed_before, changed_behind, changed_behind_a_view, in_autocast, changed_input):
        x = torch.linspace(0.2, 1, 6).view(2, 3).requires_grad_() * 1
        for result, plain in zip(fs.compile(function, backend=backend)(x), function(x * 1), strict=True):
            if function is not changed_input:
                torch.testing.assert_close(result, plain)
    assert parts == [2, 3, 3, 3, 2]
