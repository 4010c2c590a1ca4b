"""Places that data decides on: bounds, negative indices, duplicates, and checks that are not needed."""

import pytest
import torch

from firesteel.kernels import ir
from firesteel.kernels.lowering import lower
from firesteel.kernels.lowering.index_checks import check_indices
from firesteel.kernels.verify import verify_lowered
from firesteel.repair.lowered_run import run
from kernels.lowering.recording import record

F = torch.nn.functional
X = torch.arange(20.0).view(4, 5)


def lowered(function, *inputs):
    module, expected = record(function, *inputs)
    graph = lower(module)
    verify_lowered(graph)
    assert not graph.fallbacks
    return graph, expected


def same(function, *inputs):
    graph, expected = lowered(function, *inputs)
    for result, want in zip(run(graph, list(inputs)), expected, strict=True):
        torch.testing.assert_close(result, want)
    return graph


def checks(graph):
    return [step for step in graph.operations if isinstance(step, ir.ExternCall) and step.target is check_indices]


READS = {
    "index": lambda x, i: x[i],
    "index of columns": lambda x, i: x[:, i],
    "embedding": lambda x, i: F.embedding(i, x),
    "gather": lambda x, i: x.gather(0, i.view(-1, 1)),
    "index_select": lambda x, i: x.index_select(0, i),
    "take": lambda x, i: x.take(i),
}
WRITES = {
    "index_put": lambda x, i: x.index_put((i,), x[: len(i)]),
    "index_add": lambda x, i: x.index_add(0, i, x[: len(i)]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[: len(i)]),
    "index_fill": lambda x, i: x.index_fill(0, i, 7.0),
    "scatter": lambda x, i: x.scatter(0, i.view(-1, 1), 3.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i.view(-1, 1), x),
}
WRAP = {"index", "index of columns", "take", "index_put", "index_fill"}


@pytest.mark.parametrize("name", [*READS, *WRITES])
@pytest.mark.parametrize("wrong", [100, -100, -1])
def test_an_index_out_of_range_raises_what_eager_raises(name, wrong):
    function = {**READS, **WRITES}[name]
    graph, _ = lowered(function, X, torch.tensor([1, 0]))
    bad = torch.tensor([1, wrong])
    if wrong == -1 and name in WRAP:
        torch.testing.assert_close(run(graph, [X, bad])[0], function(X, bad))
        return
    with pytest.raises((IndexError, RuntimeError)) as eager:
        function(X, bad)
    with pytest.raises(type(eager.value)) as ours:
        run(graph, [X, bad])
    assert str(ours.value) == str(eager.value)


def test_a_target_out_of_range_raises_but_an_ignored_one_does_not():
    graph = same(F.nll_loss, X, torch.tensor([1, -100, 4, 0]))
    with pytest.raises(IndexError, match="Target 5 is out of bounds"):
        run(graph, [X, torch.tensor([1, 5, 0, 0])])


def test_computed_positions_need_no_check():
    graph = same(lambda x: x[torch.arange(3) + 1], X)
    assert not checks(graph) and "t0" not in str(graph)


def test_one_check_for_equal_indices():
    graph = same(lambda x, y, i: x[i] + y[i], X, X * 2, torch.tensor([3, 0]))
    assert len(checks(graph)) == 1
    assert graph.operations[-1] is checks(graph)[0]


def test_indices_are_broadcast_and_may_be_apart():
    x = torch.randn(4, 5, 6)
    rows, columns = torch.tensor([[0], [3]]), torch.tensor([1, 2, -1])
    same(lambda x, i, j: x[i, :, j], x, rows, columns)
    same(lambda x, i, j: x[:, i, j], x, rows, columns)
    same(lambda x, i: x[..., None, i], x, columns)


def test_the_last_of_equal_places_wins_and_sums_meet_there():
    index = torch.tensor([2, 2, 0, 2])
    same(lambda x, i: torch.zeros(4, 5).index_copy(0, i, x), X, index)
    same(lambda x, i: torch.zeros(4, 5).index_add(0, i, x, alpha=2), X, index)
    same(lambda x, i: x.index_put((i,), x, accumulate=True), X, index)


def test_a_mask_with_one_value_is_a_choice():
    graph = same(lambda x, m: x.index_put((m,), torch.tensor(-1.0)), X, X > 3)
    assert len(graph.operations) == 1


def test_short_floats_are_added_up_in_float32():
    x = torch.full((2000,), 0.01, dtype=torch.bfloat16)
    graph, _ = lowered(lambda x, i: torch.zeros(1, dtype=x.dtype).index_add(0, i, x), x, torch.zeros(2000).long())
    result = run(graph, [x, torch.zeros(2000).long()])[0]
    torch.testing.assert_close(result, x.double().sum(0, keepdim=True).bfloat16())
