"""Layers of LSTMs over few steps: written out, with oneDNN's results, or left to it."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.passes.short_recurrences import short_recurrences
from passes.pass_checks import body, functional, operators, transformed

LAYER = "aten.mkldnn_rnn_layer.default"


@pytest.fixture(autouse=True)
def without_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def call(x0, x1, x2, x3, x4, x5, x6):
    output, hidden, cell = torch.lstm(x0, (x5, x6), [x1, x2, x3, x4], True, 1, 0.0, False, False, False)
    return output, hidden, cell


def arguments(steps, batch):
    return (torch.randn(steps, batch, 3), torch.randn(8, 3), torch.randn(8, 2), torch.randn(8), torch.randn(8),
            torch.randn(1, batch, 2), torch.randn(1, batch, 2))


def test_graph_before_and_after():
    given = arguments(1, 5)
    assert LAYER in operators(functional(call, given))
    text = body(transformed(short_recurrences, call, *given))
    assert text[text.index("addmm"):text.index("stack_default")] == (
        "addmm_default: f32[5, 8] = aten.addmm.default(x3, select_int, t_default)\n"
        "addmm_default_1: f32[5, 8] = aten.addmm.default(x4, select, t_default_1)\n"
        "add_tensor: f32[5, 8] = aten.add.Tensor(addmm_default, addmm_default_1)\n"
        "slice_tensor: f32[5, 2]/[8, 1] = aten.slice.Tensor(add_tensor, 1, 0, 2)\n"
        "slice_tensor_1: f32[5, 2]/[8, 1] = aten.slice.Tensor(add_tensor, 1, 2, 4)\n"
        "slice_tensor_2: f32[5, 2]/[8, 1] = aten.slice.Tensor(add_tensor, 1, 4, 6)\n"
        "slice_tensor_3: f32[5, 2]/[8, 1] = aten.slice.Tensor(add_tensor, 1, 6, 8)\n"
        "sigmoid_default: f32[5, 2] = aten.sigmoid.default(slice_tensor_1)\n"
        "mul_tensor: f32[5, 2] = aten.mul.Tensor(sigmoid_default, select_1)\n"
        "sigmoid_default_1: f32[5, 2] = aten.sigmoid.default(slice_tensor)\n"
        "tanh_default: f32[5, 2] = aten.tanh.default(slice_tensor_2)\n"
        "mul_tensor_1: f32[5, 2] = aten.mul.Tensor(sigmoid_default_1, tanh_default)\n"
        "add_tensor_1: f32[5, 2] = aten.add.Tensor(mul_tensor, mul_tensor_1)\n"
        "sigmoid_default_2: f32[5, 2] = aten.sigmoid.default(slice_tensor_3)\n"
        "tanh_default_1: f32[5, 2] = aten.tanh.default(add_tensor_1)\n"
        "mul_tensor_2: f32[5, 2] = aten.mul.Tensor(sigmoid_default_2, tanh_default_1)\n")


@pytest.mark.parametrize(("steps", "batch", "written"),
                         [(1, 1, True), (8, 1, True), (9, 1, False), (4, 4, True), (5, 4, False), (2, 50, True),
                          (3, 50, False)])
def test_how_many_steps_are_written_out(steps, batch, written):
    assert (LAYER not in operators(transformed(short_recurrences, call, *arguments(steps, batch)))) is written


@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"bidirectional": True, "num_layers": 2}, {"batch_first": True, "num_layers": 2},
    {"bidirectional": True, "batch_first": True, "bias": False}])
def test_networks(options):
    network = torch.nn.LSTM(6, 4, **options).eval()
    compiled = fs.compile(network, backend="native", fullgraph=True)
    x = torch.randn(2, 2, 6)
    state = compiled(x)[1]
    for _ in range(2):
        result, expected = compiled(x, state), network(x, state)
        torch.testing.assert_close(result, expected)
        for one, other in zip(torch.utils._pytree.tree_leaves(result), torch.utils._pytree.tree_leaves(expected),
                              strict=True):
            assert one.stride() == other.stride()
        state = result[1]


def test_results_do_not_share_memory():
    network = torch.nn.LSTM(3, 2).eval()
    output, (hidden, cell) = fs.compile(network, backend="native")(torch.randn(1, 1, 3))
    hidden.zero_()
    cell.zero_()
    assert output.abs().sum() > 0


def test_training_is_left_to_the_library():
    network = torch.nn.LSTM(3, 2)
    with torch.enable_grad():
        x = torch.randn(1, 4, 3, requires_grad=True)
        fs.compile(network, backend="native")(x)[0].square().sum().backward()
        gradient, x.grad = x.grad, None
        network(x)[0].square().sum().backward()
    torch.testing.assert_close(gradient, x.grad)
