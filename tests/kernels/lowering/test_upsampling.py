"""Images that become larger: rows are resampled once, and each is used for several rows of the result."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.kernels.options import Options
from firesteel.pipeline.compile import compile_graph

ENLARGED: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "bilinear twice": ((2, 3, 7, 9), {"scale_factor": 2, "mode": "bilinear"}),
    "bilinear to corners": ((2, 3, 7, 9), {"scale_factor": 3, "mode": "bilinear", "align_corners": True}),
    "bilinear to a size": ((1, 2, 5, 6), {"size": (11, 7), "mode": "bilinear"}),
    "only wider": ((1, 2, 5, 6), {"size": (5, 20), "mode": "bilinear"}),
    "only higher": ((1, 2, 5, 6), {"size": (20, 6), "mode": "bilinear"}),
    "higher and narrower": ((1, 2, 5, 6), {"size": (20, 4), "mode": "bilinear"}),
    "one column": ((1, 2, 5, 1), {"size": (20, 4), "mode": "bilinear"}),
    "bicubic": ((2, 2, 6, 5), {"scale_factor": 2, "mode": "bicubic"}),
    "trilinear": ((1, 2, 3, 4, 5), {"scale_factor": 2, "mode": "trilinear"}),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ENLARGED)
def test_enlarged(name: str, dynamic: bool) -> None:
    shape, options = ENLARGED[name]

    def f(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, **options)

    compiled = fs.compile(f, backend="native", dynamic=dynamic)
    x = torch.randn(shape)
    exact = f(x.double())
    result = compiled(x)
    torch.testing.assert_close(result, f(x))
    assert (result - exact).abs().max() <= 2 * (f(x) - exact).abs().max() + 1e-7
    x.flatten()[3] = float("inf")
    x.flatten()[-1] = float("nan")
    torch.testing.assert_close(compiled(x), f(x), equal_nan=True)


def test_short_floats_and_channels_last() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=2, mode="bilinear")

    for x in (torch.randn(1, 3, 6, 5, dtype=torch.bfloat16),
              torch.randn(1, 3, 6, 5).to(memory_format=torch.channels_last)):
        expected, result = f(x), fs.compile(f, backend="native")(x)
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result, expected)


def test_rows_are_resampled_once() -> None:
    def shapes(size: tuple[int, int]) -> list[tuple[int, ...]]:
        module = torch.fx.symbolic_trace(lambda x: F.interpolate(x, size, mode="bilinear"))
        lowered = compile_graph(module, [torch.randn(1, 2, 8, 6)], Options()).lowered
        assert lowered is not None
        return [tuple(map(int, buffer.shape)) for buffer in lowered.buffers.values()]  # type: ignore[call-overload]

    assert (1, 2, 8, 12) in shapes((16, 12))
    assert (1, 2, 8, 3) not in shapes((4, 3))  # fewer rows in the result: most would be for nothing
