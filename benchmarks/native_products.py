"""Matrix products of the models: our own machine code against what eager calls, alternating in one process.

    python -m benchmarks.native_products                      # one thread and all
    python -m benchmarks.native_products --threads 1 --clock cpu   # time of the processor, for a machine that is shared

For each product: billions of floating-point operations a second of both, the ratio of their best times, and our
rounding error (root of the mean square, against float64) as a multiple of eager's.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import torch

from firesteel.kernels.cpu.product import product

SIZES: list[tuple[str, int, int, int, str, bool]] = [
    ("BERT attention", 1024, 768, 768, "NT", True),
    ("BERT up", 1024, 768, 3072, "NT", True),
    ("BERT down", 1024, 3072, 768, "NT", True),
    ("GPT-2 attention", 512, 768, 2304, "NN", True),
    ("GPT-2 up", 512, 768, 3072, "NN", True),
    ("GPT-2 down", 512, 3072, 768, "NN", True),
    ("GPT-2 vocabulary", 512, 768, 50257, "NT", False),
    ("Llama attention", 256, 512, 512, "NT", False),
    ("Llama up", 256, 512, 1408, "NT", False),
    ("Llama down", 256, 1408, 512, "NT", False),
    ("T5 up", 256, 512, 2048, "NT", False),
    ("T5 down", 256, 2048, 512, "NT", False),
    ("ViT attention", 1576, 384, 1152, "NT", True),
    ("ViT up", 1576, 384, 1536, "NT", True),
    ("ViT down", 1576, 1536, 384, "NT", True),
    ("ConvNeXt first up", 12544, 96, 384, "NT", True),
    ("ConvNeXt first down", 12544, 384, 96, "NT", True),
    ("ConvNeXt third up", 784, 384, 1536, "NT", True),
    ("ConvNeXt last up", 196, 768, 3072, "NT", True),
    ("BERT gradient up", 3072, 1024, 768, "TN", False),
    ("Llama gradient", 512, 256, 512, "TN", False),
]
"""Name, rows, depth, columns, whether the left and the right matrix are transposed, whether there is a bias."""


def best_times(ways: list[Callable[[], object]], clock: Callable[[], float], seconds: float) -> list[float]:
    """The shortest time of each, measured in turn for about so long."""
    best = [math.inf] * len(ways)
    for way in ways:
        way()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for number, way in enumerate(ways):
            begun = clock()
            way()
            best[number] = min(best[number], clock() - begun)
    return best


def measure(threads: int, clock: Callable[[], float], seconds: float) -> float:
    """Print one table; the geometric mean of the ratios is returned."""
    torch.set_num_threads(threads)
    print(f"\n{threads} thread{'s' * (threads > 1)}")
    print(f"{'':22}{'rows':>6}{'depth':>6}{'columns':>8}{'eager':>8}{'own':>8}{'ratio':>7}{'error':>7}  bits")
    logs = []
    for name, rows, depth, columns, layout, has_bias in SIZES:
        left = torch.randn(depth, rows).t() if layout[0] == "T" else torch.randn(rows, depth)
        right = torch.randn(columns, depth).t() if layout[1] == "T" else torch.randn(depth, columns)
        bias = torch.randn(columns) if has_bias else None

        def eager(left=left, right=right, bias=bias) -> torch.Tensor:
            return torch.mm(left, right) if bias is None else torch.addmm(bias, left, right)

        def own(left=left, right=right, bias=bias) -> torch.Tensor:
            return product(left, right, bias)

        theirs, ours = best_times([eager, own], clock, seconds)
        exact = left.double() @ right.double() + (0 if bias is None else bias.double())
        errors = [float((way().double() - exact).pow(2).mean().sqrt()) for way in (own, eager)]
        work = 2e-9 * rows * depth * columns
        logs.append(math.log(theirs / ours))
        print(f"{name:22}{rows:6}{depth:6}{columns:8}{work / theirs:8.1f}{work / ours:8.1f}{theirs / ours:7.2f}"
              f"{errors[0] / errors[1]:7.2f}  {'equal' if torch.equal(own(), eager()) else 'differ'}", flush=True)
    mean = math.exp(sum(logs) / len(logs))
    print(f"geometric mean of the ratios: {mean:.3f}")
    return mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, help="only with so many threads")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each product")
    options = parser.parse_args()
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    torch.manual_seed(0)
    every = sorted({1, torch.get_num_threads()})
    with torch.no_grad():
        for threads in [options.threads] if options.threads else every:
            measure(threads, clock, options.seconds)


if __name__ == "__main__":
    main()
