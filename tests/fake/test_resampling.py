"""Images resampled by factors: sizes stay symbols, and are those of eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.export import Dim, export
from firesteel.fake.resampling import scaled_size


class Resample(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, x):
        return F.interpolate(x, **self.options)


OPTIONS = [
    {"scale_factor": 2.0, "mode": "bilinear"}, {"scale_factor": 1.7}, {"scale_factor": (2, 1.5), "mode": "bicubic"},
    {"scale_factor": 0.5, "mode": "bilinear", "recompute_scale_factor": True, "align_corners": True},
    {"scale_factor": 2.0, "mode": "area"}, {"size": (5, 6), "mode": "bilinear"},
]  # fmt: skip


def test_sizes_are_those_of_torch():
    for factor in (2, 0.5, 1.5, 1.7, 0.1, 3.0, 1 / 3, 0.0009765625):
        for size in (1, 2, 3, 7, 10, 49, 1000, 12345):
            if int(size * factor):
                assert scaled_size(size, factor) == F.interpolate(torch.empty(1, 1, size), scale_factor=factor).shape[2]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_exported_for_all_sizes(options, strict):
    model = Resample(**options)
    sizes = {"x": {2: Dim("h", min=4, max=64), 3: Dim("w", min=4, max=64)}}
    program = export(model, (torch.rand(1, 3, 8, 8),), dynamic_shapes=sizes, strict=strict)
    for made in (program, program.run_decompositions()):
        for shape in ((1, 3, 8, 8), (1, 3, 7, 9), (1, 3, 4, 20)):
            x = torch.rand(shape)
            torch.testing.assert_close(made.module()(x), model(x))


@pytest.mark.parametrize("options", OPTIONS[:4], ids=str)
def test_compiled_for_several_sizes(options):
    model = Resample(**options)
    compiled = fs.compile(model, dynamic=True, fullgraph=True)
    for shape in ((2, 3, 8, 8), (2, 3, 7, 9)):
        x = torch.rand(shape, requires_grad=True)
        made, want = compiled(x), model(x)
        torch.testing.assert_close(made, want)
        torch.testing.assert_close(*(torch.autograd.grad(result.sin().sum(), x)[0] for result in (made, want)))
