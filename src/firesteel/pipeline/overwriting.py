"""New contents for a tensor that autograd knows, and with them a new history."""

from __future__ import annotations

from typing import Any

import torch

from .. import torch_compat


def overwrite(target: torch.Tensor, contents: torch.Tensor, writes: int) -> None:
    """``target.copy_(contents)``, but the history that ends here gets no gradient, and autograd counts ``writes``.

    The backward of ``copy_`` sends zeros there, laid out by rows whatever the layout of the gradient is, and the sum
    with what comes from elsewhere takes their layout. Only of a view does the history go on: its base has other parts.
    """
    before = torch_compat.version_of(target)
    if torch.is_grad_enabled() and target.grad_fn is not None and torch_compat.view_base(target) is None:
        _Overwrite.apply(target, contents)  # type: ignore[no-untyped-call]
    else:
        target.copy_(contents)
    torch_compat.set_versions([target], [before + writes])


class _Overwrite(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, target: torch.Tensor, contents: torch.Tensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        ctx.mark_dirty(target)
        return target.copy_(contents)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, gradients[0]
