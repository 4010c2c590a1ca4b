"""Programs with assert statements, in a module of their own because pytest rewrites those of test modules."""

from __future__ import annotations

import torch


def checks_its_data(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    log.append("start")
    assert (x > -10).all(), "too small"
    total = x.sum().item()
    assert total < 100 and total > -5, f"sum {total}"
    if torch.isnan(x).any():
        raise ValueError("nan")
    if total > 50:
        raise OverflowError(f"large: {total}")
    log.append("end")
    return x * total
