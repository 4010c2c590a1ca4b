"""What is kept between forward and backward: minimum cuts, prices, checkpointed regions, budgets."""

from __future__ import annotations

import itertools
import random

import torch
import torch.fx
import torch.nn.functional as F

from firesteel import torch_compat
from firesteel.autodiff.joint import trace_training
from firesteel.autodiff.joint_graph import Tangent
from firesteel.autodiff.min_cut import INFINITE, sink_side
from firesteel.autodiff.partition import part_again, partition


def joint_of(program, *examples):
    graph = torch.fx.Graph()
    places = [graph.placeholder(f"x{i}") for i in range(len(examples))]
    graph.output(graph.call_function(program, tuple(places)))
    return trace_training(torch.fx.GraphModule(torch.nn.Module(), graph), examples)


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def kept_names(made):
    return [item.node.name for item in made.kept]


def test_minimum_cuts_are_minimal():
    rng = random.Random(0)
    for _ in range(60):
        count = rng.randint(3, 7)
        edges = [(rng.randrange(count), rng.randrange(count), rng.choice((1, 2, 5, 9, INFINITE)))
                 for _ in range(rng.randint(3, 14))]
        edges = [(a, b, c) for a, b, c in edges if a != b and not (a == 0 and b == count - 1 and c == INFINITE)]
        best = min(_cost(edges, {count - 1, *side}) for size in range(count - 1)
                   for side in itertools.combinations(range(1, count - 1), size))
        if best >= INFINITE:
            continue
        side = sink_side(count, edges, 0, count - 1)
        assert not side[0] and side[count - 1]
        assert _cost(edges, {v for v in range(count) if side[v]}) == best


def _cost(edges, sink):
    return sum(capacity for a, b, capacity in edges if a not in sink and b in sink)


def test_cheap_operators_are_computed_again():
    made = partition(joint_of(lambda x, w: torch.sigmoid(torch.cos(x @ w).exp() * 2), leaf(8, 8), leaf(8, 8)))
    assert kept_names(made) == ["x0", "x1", "mm"]
    assert "cos" in str(made.backward) and "aten.mm.default(kept_x0, kept_x1)" not in str(made.backward)


def test_normalisations_keep_their_statistics():
    def program(x, w, b, v):
        return F.layer_norm(x @ v, (16,), w, b) @ v

    made = partition(joint_of(program, leaf(32, 16), leaf(16), leaf(16), leaf(16, 16)))
    assert made.saved_bytes < 2 * 32 * 16 * 4 + 16 * 16 * 4 + 4 * 32 * 4 + 16 * 8 + 1
    assert "native_layer_norm.default" not in str(made.backward)


def test_random_numbers_are_drawn_once_and_kept_small():
    made = partition(joint_of(lambda x: F.dropout(x.sin(), 0.5), leaf(64)))
    assert "bernoulli" in str(made.forward) and "bernoulli_strided.default" not in str(made.backward)
    assert made.saved_bytes == 64 * 4 + 64


def test_the_result_is_the_same_every_time():
    def program(x, w):
        for _ in range(3):
            x = F.gelu(F.layer_norm(x @ w, (8,))) + x
        return x

    torch.manual_seed(0)
    args = leaf(8, 8), leaf(8, 8)
    assert str(partition(joint_of(program, *args))) == str(partition(joint_of(program, *args)))


def test_a_small_budget_keeps_less():
    def program(x):
        return torch.softmax(x.exp().sum(-1, keepdim=True) * x, -1)

    joint = [joint_of(program, leaf(16, 64)) for _ in range(2)]
    assert partition(joint[0], 0.0).saved_bytes < partition(joint[1], 1.0).saved_bytes


def test_checkpointed_regions_keep_their_inputs_only():
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    h = x
    for region in range(3):
        a = graph.call_function(torch.matmul, (h, w))
        b = graph.call_function(torch.sin, (a,))
        h = graph.call_function(torch.matmul, (b, w))
        for node in (a, b, h):
            node.meta["recompute"] = region
    graph.output((h,))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    made = partition(trace_training(module, [leaf(8, 8), leaf(8, 8)]))
    assert kept_names(made) == ["x", "w", "mm_1", "mm_3"]


def test_changed_inputs_are_copied():
    def program(x, w):
        y = x.clone() * w
        with torch.no_grad():
            x.add_(1)
        return y

    made = partition(joint_of(program, torch.randn(4), leaf(4)))
    assert [item.copied for item in made.kept] == [True]


def test_numbers_that_gradients_decide_are_found_in_backward():
    def put(x, mask, value):
        return x.index_put_((mask,), value)

    x, value = torch.randn(4, 3, requires_grad=True) * 1, torch.randn(3, requires_grad=True)
    parted = partition(trace_training(
        torch.fx.symbolic_trace(put), [x, torch.tensor([True, False, True, True]), value]))
    assert not parted.numbers
    assert not any("index.Tensor" in str(node.target) for node in parted.forward.graph.nodes)


def test_another_trace_must_not_state_more_of_numbers_from_data():
    def program(x):
        return x.sin(), x.cos()

    x = torch.randn(3, requires_grad=True)
    first = partition(trace_training(torch.fx.symbolic_trace(program), [x]))
    again = trace_training(torch.fx.symbolic_trace(program), [x], tangents=[Tangent.LIKE_RESULT, Tangent.NONE])
    assert part_again(again, first) is not None
    with again.graph.inserting_before(next(node for node in again.graph.nodes if node.op != "placeholder")):
        again.graph.call_function(torch_compat.assert_number, (True, "the graph is for the case that u0 != 1"))
    assert part_again(again, first) is None
