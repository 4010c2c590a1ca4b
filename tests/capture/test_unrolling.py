"""Long loops: those whose rounds repeat themselves end the graph, those over the layers of a model do not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import firesteel as fs


def _repeated(x, weight):
    h = x
    for number in range(900):
        h = torch.tanh(h @ weight) * 0.5 + x
    return h + 1


def _in_a_callee(x, weight):
    return _repeated(x * 2, weight) * 3


def _comprehension(x, weight):
    return torch.stack([torch.sin(x[number % 2]) * number + weight[0] for number in range(800)]).sum(0)


def _nested(x, weight):
    for number in range(3):
        for _ in range(500):
            x = torch.tanh(x @ weight) + number
    return x


def _leaves_early(x, weight):
    for number in range(5000):
        x = torch.tanh(x @ weight) + 0.1
        if number == 5:
            break
    return x, number


def _over_a_list(x, weight):
    results = []
    for row in [x[0]] * 700:
        results.append(torch.tanh(row @ weight) * 2 + 1)
    return sum(results)


def _arguments():
    torch.manual_seed(0)
    return torch.randn(2, 4), torch.randn(4, 4) / 2


@pytest.mark.parametrize("function", [_repeated, _in_a_callee, _comprehension, _nested, _leaves_early, _over_a_list])
def test_long_loops_have_small_graphs_and_the_results_of_eager(function):
    graphs = []

    def counting(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    compiled = fs.compile(function, backend=counting)
    x, weight = _arguments()
    for _ in range(2):
        torch.testing.assert_close(compiled(x, weight), function(x, weight))
    assert max(len(gm.graph.nodes) for gm in graphs) < 2_500
    assert len(graphs) < 20


def test_the_break_says_why_and_where():
    reasons = fs.explain(_repeated)(*_arguments()).break_reasons
    assert reasons[0].reason.startswith("a loop that would become 3600 operations or more")
    assert reasons[0].frames[-1].source == "for number in range(900):"


def test_short_loops_are_unrolled():
    def short(x, weight):
        for _ in range(100):
            x = torch.tanh(x @ weight) + 1
        return x

    assert fs.explain(short)(*_arguments()).graph_count == 1


def test_layers_of_a_model_are_unrolled():
    layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh()) for _ in range(600)])

    def by_number(x):
        for number in range(len(layers)):
            x = layers[number](x)
        return x

    explanation = fs.explain(by_number)(torch.ones(1, 4))
    assert (explanation.graph_count, explanation.op_count) == (1, 2400)


def test_one_graph_where_somebody_insists():
    x, weight = _arguments()
    compiled = fs.compile(_repeated, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, weight), _repeated(x, weight))


def test_gradients_flow_through_the_rounds():
    def loss(x, weight):
        return _repeated(x, weight).square().mean()

    gradients = []
    for function in (loss, fs.compile(loss)):
        x, weight = (tensor.requires_grad_() for tensor in _arguments())
        function(x, weight).backward()
        gradients.append((x.grad, weight.grad))
    torch.testing.assert_close(gradients[1], gradients[0])


def test_hundreds_of_parts_are_joined():
    def joined(x):
        return torch.cat([x * 2, *x.split(1)], 0), torch.stack(list(x.unbind()), 1)

    x = torch.randn(300, 3)
    torch.testing.assert_close(fs.compile(joined, fullgraph=True)(x), joined(x))
