"""Functions of torch that look at values to raise errors, and leave that out when tensors have no values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import torch_compat
from ..devices import kind_of
from ..fake import functions


def one_hot(x: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """``torch.nn.functional.one_hot`` of a given number of classes, which raises for others when the graph runs."""
    if not isinstance(num_classes, int | torch.SymInt) or num_classes <= 0 or not kind_of(x).raises_for_values:
        return functions.one_hot(x, num_classes)
    result = functions.one_hot(x, num_classes)  # which also refuses other dtypes
    torch_compat.check_when_run((x >= 0).all(), "Class values must be non-negative.")
    torch_compat.check_when_run((x < num_classes).all(), "Class values must be smaller than num_classes.")
    return result


def quantile(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``torch.quantile`` or ``torch.nanquantile``, which raises for what is no quantile when the graph runs."""

    def checked(*args: Any, **kwargs: Any) -> torch.Tensor:
        result = function(*args, **kwargs)  # which also refuses other dtypes
        q = kwargs["q"] if "q" in kwargs else args[1]
        if isinstance(q, torch.Tensor) and kind_of(q).raises_for_values:
            torch_compat.check_when_run((q >= 0).logical_and(q <= 1).all(),
                                        "quantile() q values must be in the range [0, 1]")
        return result

    return checked


QUANTILES = {"quantile": quantile(torch.quantile), "nanquantile": quantile(torch.nanquantile)}
