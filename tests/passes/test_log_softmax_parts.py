"""Cross entropy of short logits: what is kept for backward, and that loss and gradients stay those of eager."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.autodiff.joint import trace_training
from firesteel.autodiff.joint_graph import JointGraph
from firesteel.autodiff.partition import partition
from firesteel.functional import run
from firesteel.kernels.gpu.device import CudaTarget
from firesteel.passes.log_softmax_parts import log_softmax_parts
from firesteel.pipeline import joint_passes as joint_graphs
from passes.pass_checks import body, functional, operators, transformed

module = sys.modules[log_softmax_parts.__module__]


@pytest.fixture(autouse=True)
def small_ones_count(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(module, "LEAST_ELEMENTS", 1)


def rows(x0):
    return F.log_softmax(x0[:, 1:].float(), -1)


def test_graph_before_and_after():
    assert body(transformed(log_softmax_parts, rows, torch.randn(3, 9).bfloat16())) == (
        "slice_1: bf16[3, 8]/[9, 1] = aten.slice.Tensor(x0, 1, 1, 9223372036854775807)\n"
        "_to_copy: f32[3, 8] = aten._to_copy.default(slice_1, dtype=torch.float32)\n"
        "amax_default: f32[3, 1] = aten.amax.default(_to_copy, [-1], True)\n"
        "sub_tensor: f32[3, 8] = aten.sub.Tensor(_to_copy, amax_default)\n"
        "exp_default: f32[3, 8] = aten.exp.default(sub_tensor)\n"
        "sum_dim_int_list: f32[3, 1] = aten.sum.dim_IntList(exp_default, [-1], True)\n"
        "log_default: f32[3, 1] = aten.log.default(sum_dim_int_list)\n"
        "sub_tensor_1: f32[3, 8] = aten.sub.Tensor(sub_tensor, log_default)\n"
        "return sub_tensor_1")


@pytest.mark.parametrize("values", [
    [[-torch.inf, 0.0, 1.0]], [[torch.inf, 0.0, 1.0]], [[torch.nan, 0.0, 1.0]], [[-torch.inf] * 3],
    [[300.0, -300.0, 0.0]],
])
def test_what_is_not_finite(values):
    x = torch.tensor(values).bfloat16()
    graph = log_softmax_parts(functional(lambda x0: F.log_softmax(x0.float(), 1), (x,)))
    torch.testing.assert_close(run(graph, [x])[0], F.log_softmax(x.float(), 1), equal_nan=True)


def test_others_stay():
    for f, x in ((lambda x0: F.log_softmax(x0, 1), torch.randn(3, 9)),
                 (lambda x0: F.log_softmax(x0, 1), torch.randn(3, 9).bfloat16()),
                 (lambda x0: F.log_softmax(x0.float(), 1), torch.randint(9, (3, 9)))):
        assert "aten._log_softmax.default" in operators(log_softmax_parts(functional(f, (x,))))


def loss(hidden, weight, labels):
    logits = F.linear(hidden, weight)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=3)


def example():
    hidden = torch.randn(4, 9, 16).bfloat16().requires_grad_()
    return hidden, torch.randn(64, 16).bfloat16().requires_grad_(), torch.randint(0, 64, (4, 9))


def test_what_is_kept(monkeypatch):
    """The logits, two numbers a row, and none of what is twice as long as the logits."""
    monkeypatch.setattr(joint_graphs, "_device_of", lambda joint: torch.device("cuda"))
    gm = fs.capture_graph(loss)(*example()).graph_module
    saved = []
    for prepare in (joint_graphs.run_joint_passes, lambda joint: joint):
        joint = trace_training(gm, example())
        assert isinstance(joint, JointGraph)
        parted = partition(prepare(joint))
        saved.append(sum(item.nbytes for item in parted.kept if item.node.op != "placeholder"))
    logits = 4 * 8 * 64
    assert saved[0] <= 4 * 9 * 64 * 2 + 3 * 4 * 8 * 4 and saved[1] >= logits * 4


def test_training(monkeypatch):
    def found(function):
        given = example()
        result = function(*given)
        result.backward()
        return result.detach(), given[0].grad, given[1].grad

    torch.manual_seed(1)
    expected = found(loss)
    monkeypatch.setattr(joint_graphs, "target_for", CudaTarget)  # for the passes that it has
    torch.manual_seed(1)
    for ours, theirs in zip(found(fs.compile(loss)), expected, strict=True):
        torch.testing.assert_close(ours, theirs)
