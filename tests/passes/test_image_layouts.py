"""Channels last on GPUs: what graphs look like, which are left alone, and that forward and backward agree on it."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import firesteel as fs
from firesteel.autodiff.joint import trace_training
from firesteel.autodiff.partition import part_again, partition
from firesteel.functional import run
from firesteel.functional.graph import FreshTensor, Number
from firesteel.passes.image_layouts import image_layouts
from firesteel.pipeline.joint_passes import run_joint_passes
from passes.gpu_graphs import on_gpu
from passes.pass_checks import body, functional, operators, transformed

module = sys.modules[image_layouts.__module__]
CLONE, CONVOLUTION = "aten.clone.default", "aten.convolution.default"


@pytest.fixture(autouse=True)
def small_convolutions_count(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(module, "LEAST_WORK", 1)
    monkeypatch.setattr(module, "MANY_CHANNELS", 1)


def chain(x0, x1, x2):
    return F.conv2d(F.conv2d(x0, x1, None, 1, 1).relu(), x2)


def chain_args(dtype=torch.float32):
    shapes = (2, 8, 6, 6), (4, 8, 3, 3), (8, 4, 1, 1)
    return tuple(torch.randn(shape, dtype=dtype) for shape in shapes)


def test_graph_before_and_after():
    assert body(transformed(image_layouts, chain, *chain_args())) == (
        "x0_last: f32[2, 8, 6, 6]/[288, 1, 48, 8] = aten.clone.default(x0, memory_format=torch.channels_last)\n"
        "x1_last: f32[4, 8, 3, 3]/[72, 1, 24, 8] = aten.clone.default(x1, memory_format=torch.channels_last)\n"
        "convolution: f32[2, 4, 6, 6]/[144, 1, 24, 4] = aten.convolution.default"
        "(x0_last, x1_last, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)\n"
        "relu: f32[2, 4, 6, 6]/[144, 1, 24, 4] = aten.relu.default(convolution)\n"
        "convolution_1: f32[2, 8, 6, 6]/[288, 1, 48, 8] = aten.convolution.default"
        "(relu, x2, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)\n"
        "convolution_1_back: f32[2, 8, 6, 6] = aten.clone.default"
        "(convolution_1, memory_format=torch.contiguous_format)\n"
        "return convolution_1_back")


def test_a_second_run_changes_nothing():
    graph = image_layouts(functional(chain, chain_args()))
    assert str(image_layouts(graph)) == str(graph)


def branches(x0, x1, x2, x3):
    first = F.conv2d(x0, x1, None, 1, 1)
    pooled, places = F.max_pool2d(first.relu(), 3, 2, 1, return_indices=True)
    second = F.conv_transpose2d(pooled, x2, None, 2)
    joined = torch.cat([second, first[:, :2]], 1)
    third = F.conv2d(joined, x3)
    return third.view(2, -1), places, first.flatten(2).softmax(-1), joined[:, 1], third.mean((2, 3)), first


def test_views_results_and_other_operators():
    args = torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3), torch.randn(6, 3, 2, 2), torch.randn(7, 5, 1, 1)
    graph = transformed(image_layouts, branches, *args)
    assert "x0_last" in str(graph)


def test_random_numbers_are_drawn_in_the_old_order():
    def program(x0, x1, x2):
        hidden = F.conv2d(x0, x1, None, 1, 1)
        return F.conv2d(torch.bernoulli(hidden.sigmoid()), x2)

    args = chain_args()
    graph = image_layouts(functional(program, args))
    [drawn] = [node for node in graph.graph.nodes if "bernoulli" in str(node.target)]
    assert drawn.meta["val"].is_contiguous() and drawn.args[0].meta["val"].is_contiguous()
    assert "x0_last" in str(graph)


def test_one_copy_for_several_convolutions():
    def both(x0, x1, x2):
        return F.conv2d(F.conv2d(x0, x1, None, 1, 1) + F.conv2d(x0, x1, None, 1, 1), x2)

    assert operators(transformed(image_layouts, both, *chain_args())).count(CLONE) == 3


def single(x0, x1):
    return F.conv2d(x0, x1, None, 1, 1)


def grouped(x0, x1, x2):
    return F.conv2d(F.conv2d(x0, x1, None, 1, 1, 1, 2).relu(), x2)


@pytest.mark.parametrize("program, args", [
    (single, (torch.randn(2, 8, 6, 6), torch.randn(8, 8, 3, 3))),
    (grouped, (torch.randn(2, 8, 6, 6), torch.randn(4, 4, 3, 3), torch.randn(8, 4, 1, 1))),
    (grouped, (torch.randn(2, 8, 6, 6).half(), torch.randn(4, 4, 3, 3).half(), torch.randn(8, 4, 1, 1).half())),
    (chain, chain_args(torch.float64)),
    (chain, tuple(t.to(memory_format=torch.channels_last) for t in chain_args())),
], ids=["as much copied as won", "groups", "groups of short floats", "double precision", "already"])  # fmt: skip
def test_others_stay(program, args):
    graph = functional(program, args)
    before = str(graph)
    assert str(image_layouts(graph)) == before


def test_single_channels_of_short_floats():
    def program(x0, x1, x2):
        return F.conv2d(F.conv2d(x0, x1, None, 1, 1, 1, 8).relu(), x2)

    args = torch.randn(2, 8, 6, 6), torch.randn(8, 1, 3, 3), torch.randn(8, 8, 1, 1)
    assert CLONE not in operators(image_layouts(functional(program, args)))
    args = tuple(arg.bfloat16() for arg in args)
    graph = image_layouts(functional(program, args))
    [first, second] = [node for node in graph.graph.nodes if str(node.target) == CONVOLUTION]
    assert all(module.is_last(node.args[0].meta["val"]) for node in (first, second))
    with torch.backends.cudnn.flags(enabled=False):
        assert CLONE not in operators(image_layouts(functional(program, args)))


def test_single_precision_that_is_not_rounded_stays():
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        assert CLONE not in operators(image_layouts(functional(chain, chain_args())))
        assert CLONE in operators(image_layouts(functional(chain, chain_args(torch.bfloat16))))


@pytest.mark.parametrize("name, value", [("LEAST_WORK", 1 << 28), ("MANY_CHANNELS", 32)])
def test_single_precision_stays_where_the_library_would_not_round(name, value, monkeypatch):
    monkeypatch.setattr(module, name, value)
    assert CLONE not in operators(image_layouts(functional(chain, chain_args())))
    assert CLONE in operators(image_layouts(functional(chain, chain_args(torch.bfloat16))))


def test_sizes_that_change():
    fs.reset()
    found = []

    def backend(module, examples):
        from firesteel.functional import trace

        found.append(image_layouts(trace(module, examples)))
        return lambda *args: run(found[-1], list(args))

    with torch.no_grad():
        compiled = fs.compile(chain, backend=backend, fullgraph=True, dynamic=True)
        for size in (6, 9):
            args = torch.randn(3, 8, size, size + 1), *chain_args()[1:]
            expected = chain(*args)
            torch.testing.assert_close(compiled(*args), expected)
    assert len(found) == 1 and CLONE in operators(found[0])


# ---------------------------------------------------------------------------------------------------------------------
# forward and backward


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.third = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.Conv2d(8, 6, 1)
        self.head = nn.Linear(6 * 16, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        x = F.relu(x + self.second(x))
        x = self.third(x)
        return self.head(x.flatten(1)), x


def joint_of(net, x, tangents=None):
    found = []

    def backend(module, examples):
        found.append((trace_training(module, examples, tangents=tangents), module, examples))
        return module.forward

    fs.reset()
    fs.compile(net, backend=backend, fullgraph=True)(x)
    [(joint, module, examples)] = found
    return on_gpu(joint), module, examples


def inputs_of(joint, net, x):
    named = {f"self_{name.replace('.', '_')}": value for name, value in (*net.named_parameters(), *net.named_buffers())}
    return [named.get(entry.name, x).detach().clone() for entry in joint.inputs]


def test_forward_and_backward_compute_in_one_layout():
    net, x = Net(), torch.randn(2, 3, 8, 8, requires_grad=True)
    joint, _, _ = joint_of(net, x)
    made = partition(run_joint_passes(joint))
    given = inputs_of(joint, net, x)
    values = list(run(made.forward, given))
    want = net(x)
    tangents = [torch.randn_like(part) for part in want]
    leaves = [x, *net.parameters()]
    expected = dict(zip(map(id, leaves), torch.autograd.grad(want, leaves, tangents), strict=True))
    torch.testing.assert_close(values[:2], list(want))
    assert [part.stride() for part in values[:2]] == [part.stride() for part in want]
    kept = values[len(made.results):]
    saved, rest = [], iter(kept)
    positions = {entry.node: at for at, entry in enumerate(joint.inputs)}
    for item in made.kept:
        at = positions.get(item.node)
        value = given[at] if at is not None and not item.copied and item.narrow is None else next(rest)
        assert value.stride() == tuple(item.node.meta["val"].stride())
        saved.append(value)
    gradients = iter(run(made.backward, [*saved, *tangents]))
    named = {f"self_{name.replace('.', '_')}": parameter for name, parameter in net.named_parameters()}
    compared = 0
    for entry, how in zip(joint.inputs, made.gradients, strict=True):
        if how:
            found = next(gradients)
            one = expected[id(named.get(entry.name, x))]
            torch.testing.assert_close(found, one, rtol=1e-4, atol=1e-5)
            assert found.stride() == one.stride()
            compared += 1
    assert compared == len(leaves)
    # The library is given channels last everywhere, and adds no bias.
    for half in (made.forward, made.backward):
        for node in half.graph.nodes:
            if node.op == "call_function" and "convolution" in str(node.target):
                images = [arg.meta["val"] for arg in node.args[:3] if isinstance(arg, torch.fx.Node)]
                assert all(image.is_contiguous(memory_format=torch.channels_last) for image in images)
    # Weights are not laid out anew in backward.
    assert not any("weight" in node.name and node.name.endswith("_last") and node.op != "placeholder"
                   for node in made.backward.graph.nodes)
    # Running statistics are not kept for a gradient that does not read them.
    assert not any(isinstance(item.node.meta["val"], torch.Tensor) and "running" in item.node.name
                   for item in made.kept)


def test_another_backward_finds_what_is_kept():
    from firesteel.autodiff.joint_graph import Tangent

    net, x = Net(), torch.randn(2, 3, 8, 8)
    joint, module, examples = joint_of(net, x)
    made = partition(run_joint_passes(joint))
    other = on_gpu(trace_training(module, examples, tangents=[Tangent.LIKE_RESULT, Tangent.NONE]))
    assert part_again(run_joint_passes(other), made) is not None
    # Parted without the passes, forward keeps other layouts than it would read.
    assert part_again(on_gpu(trace_training(module, examples, tangents=[Tangent.LIKE_RESULT, Tangent.NONE])),
                      made) is None


def test_results_are_named_as_they_are_now():
    net, x = Net(), torch.randn(2, 3, 8, 8)
    joint = run_joint_passes(joint_of(net, x)[0])
    known = set(joint.graph.nodes)
    described = [*joint.outputs, *joint.gradients]
    assert all(output.node in known for output in described if isinstance(output, (FreshTensor, Number)))
    assert all(result.node in known for result in joint.differentiable)
    gradients = [node for node in joint.graph.nodes if "convolution_backward" in str(node.target)]
    assert len(gradients) == 3 and joint.backward_nodes.issuperset(gradients)
