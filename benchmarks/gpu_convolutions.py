"""Convolutions of single channels and in groups on an NVIDIA GPU, in both layouts: what `passes.image_layouts` goes by.

    python -m benchmarks.gpu_convolutions

Milliseconds of eager's calls, forward and backward (gradients of images and weight), on 32 images of EfficientNet-B0's,
ConvNeXt's and ResNeXt's sizes: contiguous, then channels last, then how much faster that is.
"""

from __future__ import annotations

import argparse
import math
import statistics

import torch

# Channels, groups, kernel, stride, pixels of a side
LAYERS = {
    "EfficientNet-B0": [
        (32, 32, 3, 1, 112), (96, 96, 3, 2, 112), (144, 144, 3, 1, 56), (144, 144, 5, 2, 56), (240, 240, 5, 1, 28),
        (240, 240, 3, 2, 28), (480, 480, 3, 1, 14), (480, 480, 5, 1, 14), (672, 672, 5, 1, 14), (672, 672, 5, 2, 14),
        (1152, 1152, 5, 1, 7), (1152, 1152, 3, 1, 7)],
    "ConvNeXt": [(96, 96, 7, 1, 56), (192, 192, 7, 1, 28), (384, 384, 7, 1, 14), (768, 768, 7, 1, 7)],
    "ResNeXt": [(128, 32, 3, 1, 56), (256, 32, 3, 1, 28), (512, 32, 3, 1, 14), (1024, 32, 3, 1, 7)],
    "few channels": [(3, 1, 3, 2, 224), (16, 1, 3, 1, 112), (8, 1, 1, 1, 112)],
}  # fmt: skip
LAYOUTS = (torch.contiguous_format, torch.channels_last)


def times(layer: tuple[int, int, int, int, int], dtype: torch.dtype, backward: bool) -> list[float]:
    """Milliseconds in both layouts."""
    from benchmarks.gpu import device_ms

    channels, groups, kernel, stride, side = layer
    found = []
    for layout in LAYOUTS:
        x = torch.randn(32, channels, side, side, device="cuda").to(dtype, memory_format=layout)
        results = channels if channels > 3 else 32
        weight = torch.randn(results, channels // groups, kernel, kernel, device="cuda").to(dtype, memory_format=layout)
        padding, strides = [kernel // 2] * 2, [stride] * 2
        out = torch.ops.aten.convolution(x, weight, None, strides, padding, [1, 1], False, [0, 0], groups)
        if backward:
            grad = torch.randn_like(out)
            found.append(device_ms(lambda _, x=x, grad=grad, weight=weight: torch.ops.aten.convolution_backward(  # type: ignore[misc]
                grad, x, weight, None, strides, padding, [1, 1], False, [0, 0], groups, [True, True, False]), 1, 0.03))
        else:
            found.append(device_ms(lambda _, x=x, weight=weight: torch.ops.aten.convolution(  # type: ignore[misc]
                x, weight, None, strides, padding, [1, 1], False, [0, 0], groups), 1, 0.03))
    return found


def main() -> None:
    """Command line."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for backward in (False, True):
            for net, layers in LAYERS.items():
                ratios = []
                for layer in layers:
                    first, last = times(layer, dtype, backward)
                    ratios.append(first / last)
                    print(f"{str(dtype)[6:]:9}{'backward' if backward else 'forward':9} {net:16} {layer!s:28}"
                          f"{first:8.3f}{last:8.3f}{ratios[-1]:7.2f}", flush=True)
                assert not math.isnan(sum(ratios))
                print(f"{'':20}{net:16} {statistics.geometric_mean(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
