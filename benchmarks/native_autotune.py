"""What max-autotune gains: steady calls compiled with and without it, side by side in one process.

    python -m benchmarks.native_autotune
    OMP_NUM_THREADS=1 FIRESTEEL_LOGS=autotune python -m benchmarks.native_autotune --only linear

The first call is timed too: it holds the measuring, unless the cache on disk knows the answers already.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import firesteel as fs


def programs() -> dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]:
    """Functions with their arguments."""
    weight, bias = torch.randn(64, 64) / 8, torch.randn(64)
    mlp = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    wide = torch.nn.Linear(256, 256).eval()
    return {
        "small mlp": (mlp, (torch.randn(4, 16),)),
        "one row linear": (lambda x: F.gelu(F.linear(x, weight, bias)), (torch.randn(1, 64),)),
        "batched 4x4 products": (lambda x, y: x @ y, (torch.randn(32, 4, 4), torch.randn(32, 4, 4))),
        "linear": (wide, (torch.randn(64, 256),)),
        "softmax": (lambda x: torch.softmax(x, -1), (torch.randn(256, 1024),)),
        "layer norm": (lambda x: F.layer_norm(x, (768,)), (torch.randn(512, 768),)),
        "pointwise": (lambda x, y: (x.sin() + y * x).relu(), (torch.randn(1 << 18), torch.randn(1 << 18))),
        "column sums": (lambda x: x.sum(0), (torch.randn(1024, 512),)),
        "transposed sum": (lambda x, y: x.t() + y, (torch.randn(512, 512), torch.randn(512, 512))),
    }


def seconds(f: Callable[[], Any], repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        f()
    return (time.perf_counter() - started) / repeats


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    torch.manual_seed(0)
    ratios = []
    print(f"{'program':24} {'first call':>12} {'tuned':>12} {'default':>12} {'tuned':>12} {'ratio':>7}")
    with torch.no_grad():
        for name, (f, args) in programs().items():
            if options.only not in name:
                continue
            compiled, first = [], []
            for mode in (None, "max-autotune"):
                made = fs.compile(f, backend="native", mode=mode)
                first.append(seconds(lambda made=made, args=args: made(*args), 1))
                torch.testing.assert_close(made(*args), f(*args), rtol=1e-4, atol=1e-4)
                compiled.append(lambda made=made, args=args: made(*args))
            repeats = max(1, min(int(2e-3 / seconds(compiled[0], 3)), 2000))
            best = [math.inf, math.inf]
            for _ in range(options.rounds):
                for k, run in enumerate(compiled):
                    best[k] = min(best[k], seconds(run, repeats))
            ratios.append(best[0] / best[1])
            print(f"{name:24} {1e3 * first[0]:9.0f} ms {1e3 * first[1]:9.0f} ms {1e6 * best[0]:9.2f} us "
                  f"{1e6 * best[1]:9.2f} us {ratios[-1]:6.2f}x")
    if ratios:
        print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
