"""Exported programs on a GPU: run eagerly, compiled, saved and loaded, where there is one."""

from __future__ import annotations

import copy

import pytest
import torch

import firesteel as fs
from firesteel.export import Dim, export
from kernels.gpu.on_gpu import needs_gpu, strict

pytestmark = needs_gpu
__all__ = ["strict"]  # a fixture


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x)


def check_close(got, model, *args):
    """Equal to eager, and no further from the exact result than twice of what eager is."""
    want = model(*args)
    torch.testing.assert_close(got, want)
    exact = copy.deepcopy(model).double()(*(arg.double() for arg in args))
    assert (got - exact).abs().max() <= 2 * (want - exact).abs().max() + torch.finfo(want.dtype).eps


@pytest.mark.parametrize("strict", [True, False])
def test_a_program_is_exported_on_the_gpu_and_compiled(strict):
    x = torch.randn(2, 3, device="cuda")
    model = Linear().to(device="cuda")
    program = export(model, (x,), strict=strict)
    assert {tensor.device.type for tensor in program.state_dict.values()} == {"cuda"}
    assert all(node.meta["val"].device == x.device for node in program.graph.nodes if node.op != "output")
    check_close(program.module()(x), model, x)
    compiled = fs.compile(program.module())
    for _ in range(3):
        result = compiled(x)
        assert result.device == x.device and result.requires_grad
        check_close(result, model, x)
    result.sum().backward()
    wanted = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    for parameter, gradient in zip(compiled.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_sizes_and_changed_buffers():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).cuda()
    sizes = ({0: Dim("batch", min=2, max=64)},)
    program = export(model, (torch.randn(4, 3, 9, 9, device="cuda"),), dynamic_shapes=sizes)
    other = copy.deepcopy(model)
    exported = program.module()
    compiled = fs.compile(exported)
    with torch.no_grad():
        for batch in (2, 7, 64):
            x = torch.randn(batch, 3, 9, 9, device="cuda")
            torch.testing.assert_close(compiled(x), other(x))
    for (name, have), want in zip(exported.named_buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(have, want, msg=name)


def test_control_flow_is_compiled_on_the_gpu():
    class Branches(torch.nn.Module):
        def forward(self, x):
            return fs.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() - 1, (x,))

    x = torch.ones(4, device="cuda")
    compiled = fs.compile(export(Branches(), (x,)).module())
    for value in (x, -x):
        torch.testing.assert_close(compiled(value), Branches()(value))


def test_saved_on_the_gpu_and_loaded(tmp_path):
    x = torch.randn(5, 3, device="cuda")
    model = Linear().cuda()
    fs.export.save(export(model, (x,)), tmp_path / "linear.firesteel")
    loaded = fs.export.load(tmp_path / "linear.firesteel")
    result = loaded.module()(x)
    assert result.device == x.device
    check_close(result, model, x)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_resampled_images_of_all_sizes(mode):
    class Resample(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.interpolate(x * 1, scale_factor=2.0, mode=mode) + 1

    model, sizes = Resample(), ({2: Dim("h", min=4, max=64), 3: Dim("w", min=4, max=64)},)
    program = export(model, (torch.randn(2, 3, 8, 8, device="cuda"),), dynamic_shapes=sizes)
    compiled = fs.compile(model, dynamic=True, fullgraph=True)
    for height, width in ((8, 8), (7, 9)):
        for layout in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(2, 3, height, width, device="cuda").contiguous(memory_format=layout).requires_grad_()
            want = model(x)
            for made in (compiled(x), program.module()(x)):
                torch.testing.assert_close(made, want)
                assert made.stride() == want.stride()
                torch.testing.assert_close(*(torch.autograd.grad(one.sin().sum(), x, retain_graph=True)[0]
                                             for one in (made, want)))
