"""Control flow operators: eager, firesteel and, with --torch, torch.compile, as times of one call on one thread.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/control_flow.py [--torch]

Each program is run by all sides in turn, and the best of several rounds counts (CPU time of the process).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

import firesteel as fs
from firesteel import control_flow as ours


def programs() -> dict[str, tuple[Callable[[Any], Callable[..., Any]], tuple[Any, ...], bool]]:
    """Name to (maker of a function from the operators, arguments, whether gradients are taken)."""
    torch.manual_seed(0)
    weight = torch.randn(64, 64) / 8

    def branch(operators: Any) -> Callable[..., Any]:
        def f(x: torch.Tensor) -> Any:
            return operators.cond(x.sum() > 0, lambda x: torch.relu(x @ weight) + x, lambda x: x.sin() * 2 + x, (x,))

        return f

    def recurrence(operators: Any) -> Callable[..., Any]:
        def f(xs: torch.Tensor) -> Any:
            def step(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                h = torch.tanh(h @ weight + x) * 0.9 + h * 0.1
                return h, h * 2

            return operators.scan(step, torch.zeros(4, 64), xs)

        return f

    def newton(operators: Any) -> Callable[..., Any]:
        def f(x: torch.Tensor) -> Any:
            return operators.while_loop(lambda i, y: i < 30, lambda i, y: (i + 1, 0.5 * (y + x / y)),
                                        (torch.zeros((), dtype=torch.int64), torch.ones_like(x)))

        return f

    def prefix(operators: Any) -> Callable[..., Any]:
        def f(a: torch.Tensor, b: torch.Tensor) -> Any:
            return operators.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, b), 0)

        return f

    return {
        "cond, 64 x 64": (branch, (torch.rand(64, 64),), False),
        "scan, 100 steps of 4 x 64": (recurrence, (torch.randn(100, 4, 64),), False),
        "scan with gradients": (recurrence, (torch.randn(100, 4, 64, requires_grad=True),), True),
        "while_loop, 30 turns of 4096": (newton, (torch.rand(4096) + 1,), False),
        "associative_scan, 256 x 64": (prefix, (torch.rand(256, 64), torch.rand(256, 64)), False),
    }


class _TorchOperators:
    """torch's operators, for torch.compile."""

    def __init__(self) -> None:
        from torch._higher_order_ops import associative_scan, cond, scan, while_loop

        self.cond, self.while_loop = cond, while_loop
        # torch allows "pointwise" on GPUs only
        self.associative_scan = lambda f, xs, dim: associative_scan(f, xs, dim, combine_mode="generic")
        # torch does not allow one result to be a view of another
        self.scan = scan


def timed(function: Callable[..., Any], args: tuple[Any, ...], gradients: bool) -> float:
    started = time.process_time()
    result = function(*args)
    if gradients:
        result[1].sum().backward()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", action="store_true", help="torch.compile as well")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    print(f"{'milliseconds of CPU':32}{'eager':>10}{'firesteel':>12}{'torch':>10}")
    for name, (make, args, gradients) in programs().items():
        sides: dict[str, Callable[..., Any]] = {"eager": make(ours), "firesteel": fs.compile(make(fs), fullgraph=True)}
        if options.torch:
            sides["torch"] = torch.compile(make(_TorchOperators()), fullgraph=True)
        for side in list(sides):
            try:
                for _ in range(3):
                    timed(sides[side], args, gradients)
            except Exception as error:
                print(f"  {side} fails: {type(error).__name__} {str(error).splitlines()[0][:90]}")
                del sides[side]
        best = dict.fromkeys(sides, float("inf"))
        for _ in range(options.rounds):
            for side, function in sides.items():
                best[side] = min(best[side], timed(function, args, gradients))
        cells = [f"{best[side] * 1e3:.3f}" if side in best else "" for side in ("eager", "firesteel", "torch")]
        print(f"{name:32}{cells[0]:>10}{cells[1]:>12}{cells[2]:>10}", flush=True)


if __name__ == "__main__":
    main()
