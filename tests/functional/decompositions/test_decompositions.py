"""Operators taken apart: the parts give what the operator gives."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from firesteel.functional import run, trace
from firesteel.functional.decompositions.torch_decompositions import BORROWED
from functional.programs import assert_equal_worlds, check

X = torch.linspace(-2, 2, 48).reshape(2, 2, 3, 4)
PROGRAMS = {
    "aten.binary_cross_entropy.default": lambda x: F.binary_cross_entropy(x.sigmoid(), (x > 0).to(x.dtype)),
    "aten.binary_cross_entropy_with_logits.default": lambda x: F.binary_cross_entropy_with_logits(x, x.sigmoid()),
    "aten.dist.default": lambda x: torch.dist(x, x * 2),
    "aten.huber_loss.default": lambda x: F.huber_loss(x, x * x, reduction="none"),
    "aten.im2col.default": lambda x: F.unfold(x, 2),
    "aten.isin.Tensor_Tensor": lambda x: torch.isin(x.round(), torch.tensor([0.0, 1.0]).to(x.dtype)),
    "aten.nll_loss_forward.default": lambda x: F.cross_entropy(x.view(-1, 4), torch.arange(12) % 4),
    "aten.nll_loss2d_forward.default": lambda x: F.cross_entropy(x, torch.arange(24).view(2, 3, 4) % 2),
    "aten.reflection_pad2d.default": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "aten.replication_pad2d.default": lambda x: F.pad(x, (1, 2, 0, 1), mode="replicate"),
    "aten.smooth_l1_loss.default": lambda x: F.smooth_l1_loss(x, x * x),
    "aten.trace.default": lambda x: torch.trace(x[0, 0]),
    "aten.tril_indices.default": lambda x: torch.tril_indices(3, 3),
    "aten.upsample_bilinear2d.default": lambda x: F.interpolate(x, size=(5, 6), mode="bilinear"),
    "aten.mse_loss.default": lambda x: F.mse_loss(x, x * x),
    "aten.soft_margin_loss.default": lambda x: F.soft_margin_loss(x, x.sign()),
    "aten.angle.default": lambda x: torch.angle(x),
}


def traced(program, x, taken_apart):
    graph = torch.fx.Graph()
    graph.output(graph.call_function(program, (graph.placeholder("x"),)))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    return trace(module, [x], is_core=lambda name: name not in taken_apart)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_give_the_same(name, dtype):
    program, x = PROGRAMS[name], X.to(dtype)
    try:
        expected = program(x)
    except RuntimeError as error:
        pytest.skip(f"eager cannot: {error}")
    whole, parts = traced(program, x, ()), traced(program, x, BORROWED | {"aten.angle.default"})
    used = {str(node.target) for node in whole.graph.nodes}
    assert name in used
    check(parts)
    if dtype is torch.float32:
        assert name not in {str(node.target) for node in parts.graph.nodes}
    assert_equal_worlds(expected, [], run(parts, [x]), [], exact=False)
