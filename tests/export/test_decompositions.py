"""run_decompositions: mutation removed, operators written in simpler ones, results as before."""

from __future__ import annotations

import copy

import pytest
import torch

from firesteel.export import Dim, default_decompositions, export

ATEN = torch.ops.aten


def targets(program):
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    return [str(node.target) for node in nodes if "getitem" not in node.name]


class Writes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        y = x * 2
        y[0].add_(1)
        y.t().mul_(3)
        self.seen[1:3].copy_(y[1, :2])
        x.relu_()
        return y, x.view(-1), self.seen * 2


def test_writes_become_values():
    program = export(Writes(), (torch.randn(3, 4),))
    functional = program.run_decompositions({})
    assert not any(name.split(".")[1].endswith("_") for name in targets(functional))
    signature = functional.graph_signature
    assert list(signature.buffers_to_mutate.values()) == ["seen"]
    assert list(signature.user_inputs_to_mutate.values()) == ["x"]
    module, eager = functional.module(), Writes()
    for _ in range(2):
        x = torch.randn(3, 4)
        mine, theirs = x.clone(), x.clone()
        torch.testing.assert_close(module(mine), eager(theirs))
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(module.seen, eager.seen)


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = torch.nn.LayerNorm(8)
        self.feed = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))

    def forward(self, x):
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.feed(self.norm(x)).log_softmax(-1)


@pytest.mark.parametrize("strict", [True, False])
def test_core_operators(strict):
    model = Layers()
    program = export(model, (torch.randn(2, 5, 8),), dynamic_shapes={"x": {0: Dim("b"), 1: Dim("s")}}, strict=strict)
    functional, core = program.run_decompositions({}), program.run_decompositions()
    assert "aten.linear.default" in targets(functional) and "aten.layer_norm.default" in targets(functional)
    assert not {"aten.linear.default", "aten.layer_norm.default", "aten.log_softmax.int"} & set(targets(core))
    assert "aten.native_layer_norm.default" in targets(core)
    x = torch.randn(3, 7, 8)
    for made in (program, functional, core, functional.run_decompositions()):
        made.validate()
        got, wanted = x.clone().requires_grad_(), x.clone().requires_grad_()
        ours, theirs = made.module()(got), model(wanted)
        torch.testing.assert_close(ours, theirs)
        ours.sum().backward(), theirs.sum().backward()
        torch.testing.assert_close(got.grad, wanted.grad)


def test_own_functions():
    program = export(torch.nn.Linear(3, 2), (torch.randn(4, 3),))
    own = program.run_decompositions({ATEN.linear.default: lambda x, weight, bias: x @ weight.t() - bias})
    assert targets(own) == ["aten.t.default", "aten.matmul.default", "aten.sub.Tensor"]
    refusing = program.run_decompositions({ATEN.linear.default: lambda *args: NotImplemented})
    assert targets(refusing) == ["aten.linear.default"]


def test_the_table_is_a_copy():
    table = default_decompositions()
    del table[ATEN.linear.default]
    program = export(torch.nn.Linear(3, 2), (torch.randn(4, 3),))
    assert "aten.linear.default" in targets(program.run_decompositions(table))
    assert "aten.linear.default" not in targets(program.run_decompositions())


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.instance = torch.nn.InstanceNorm1d(3, affine=True, track_running_stats=True)

    def forward(self, x):
        return self.norm(x), self.instance(x)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("table", [{}, None], ids=["functional", "core"])
def test_running_statistics(training, table):
    model = Counting().train(training)
    eager = copy.deepcopy(model)
    module = export(model, (torch.randn(4, 3, 5),)).run_decompositions(table).module()
    for _ in range(2):
        x = torch.randn(4, 3, 5)
        torch.testing.assert_close(module(x), eager(x))
    torch.testing.assert_close(dict(module.state_dict()), dict(eager.state_dict()))


class Network(torch.nn.Module):
    def __init__(self, kind, **settings):
        super().__init__()
        self.network = kind(3, 4, **settings)

    def forward(self, x):
        return self.network(x)


@pytest.mark.parametrize("kind, settings", [
    (torch.nn.LSTM, {"num_layers": 2, "batch_first": True}), (torch.nn.GRU, {"bidirectional": True, "bias": False}),
    (torch.nn.RNN, {"nonlinearity": "relu"}), (torch.nn.LSTM, {"proj_size": 2}),
])  # fmt: skip
def test_recurrent_networks_of_varying_sizes(kind, settings):
    model = Network(kind, **settings).eval()
    x = torch.rand(5, 6, 3)
    time = 1 if settings.get("batch_first") else 0
    for dim, stays in ((1 - time, "proj_size" in settings), (time, True)):
        program = export(model, (x,), dynamic_shapes=({dim: Dim("n", max=20)},)).run_decompositions()
        assert sum(name.endswith(".input") for name in targets(program)) == stays
        for size in (2, 9):
            given = x.repeat_interleave(2, dim).narrow(dim, 0, size)
            found, expected = program.module()(given), model(given)
            torch.testing.assert_close(found, expected)
            assert found[0].stride() == expected[0].stride()
