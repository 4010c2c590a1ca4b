"""Backward graphs taken apart: what each stage computes, takes and passes on."""

from __future__ import annotations

import torch
import torch.fx

from firesteel.autodiff.joint import trace_training
from firesteel.autodiff.partition import partition
from firesteel.autodiff.staged_backward import take_apart


def parted(program, *examples):
    graph = torch.fx.Graph()
    places = [graph.placeholder(f"x{i}") for i in range(len(examples))]
    graph.output(graph.call_function(program, tuple(places)))
    return partition(trace_training(torch.fx.GraphModule(torch.nn.Module(), graph), examples))


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def body(stage):
    return [line for line in str(stage.graph).splitlines() if " = " in line or line.startswith("return")]


def test_each_stage_computes_what_its_gradients_need():
    made = parted(lambda w1, w2, x: ((x * w1).sin() * w2).sum(), leaf(4), leaf(4), torch.randn(4))
    assert [how is True for how in made.gradients] == [True, True, False]
    stages = take_apart(made.backward, [[1], [0]], {})
    assert [stage.gradients for stage in stages] == [(1,), (0,)]
    assert body(stages[0])[-1].startswith("return mul_") and "cos" not in "".join(body(stages[0]))
    assert "cos" in "".join(body(stages[1]))
    count = len(made.backward.inputs)
    passed_on = [at for at in stages[1].takes if at >= count]
    assert [at - count for at in passed_on] == list(range(len(stages[0].graph.outputs) - 1))


def test_inputs_are_read_before_they_may_change():
    made = parted(lambda w1, w2, x: ((x * w1).sin() * w2).sum(), leaf(4), leaf(4), torch.randn(4))
    kept = next(at for at, entry in enumerate(made.backward.inputs) if entry.name == "kept_x1")
    late, early = (take_apart(made.backward, [[1], [0]], read) for read in ({}, {kept: 0}))
    assert kept in late[1].takes and kept not in early[1].takes
    assert len(body(early[0])) == len(body(late[0])) + 1


def test_what_is_passed_on_is_no_gradient():
    made = parted(lambda w, x: (w * x).sum() + (w.exp() * 2).sum(), leaf(4), leaf(4))
    for groups in ([[0], [1]], [[1], [0]]):
        stages = take_apart(made.backward, groups, {})
        for stage in stages:
            results = [output.node for output in stage.graph.outputs]
            assert len(set(results)) == len(results)
            assert not any(node.op == "placeholder" for node in results)


def test_numbers_from_data_are_left_whole():
    made = parted(lambda w, v: (w.sin() * v).sum(), leaf(4), leaf(4))
    assert take_apart(made.backward, [[0], [1]], {}) is not None
    graph = made.backward.graph
    with graph.inserting_before(graph.output_node()):
        graph.call_function(torch.ops.aten._local_scalar_dense.default, (made.backward.inputs[0].node,))
    assert take_apart(made.backward, [[0], [1]], {}) is None
