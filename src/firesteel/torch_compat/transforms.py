"""What transforms of functions are made of: levels at which tensors have gradients of their own, and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

_functorch: Any = torch._C._functorch


@contextmanager
def gradient_level() -> Iterator[int]:
    """Tensors wrapped for this level have a history of their own; what they wrap keeps the one that it has outside."""
    level: int = _functorch._grad_increment_nesting()
    try:
        yield level
    finally:
        _functorch._grad_decrement_nesting()


def wrap_for_level(x: Any, level: int) -> Any:
    """A tensor as a level sees it; anything else as it is."""
    return _functorch._wrap_for_grad(x, level) if isinstance(x, torch.Tensor) else x


def unwrap_from_level(x: Any, level: int) -> Any:
    """A tensor as it is outside of a level; anything else as it is."""
    return _functorch._unwrap_for_grad(x, level) if isinstance(x, torch.Tensor) else x


def require_gradient(x: torch.Tensor) -> None:
    """Make a wrapped tensor a leaf that needs a gradient; calls of a program are refused there."""
    allowed = _functorch.get_inplace_requires_grad_allowed()
    _functorch.set_inplace_requires_grad_allowed(True)
    try:
        x.requires_grad_()
    finally:
        _functorch.set_inplace_requires_grad_allowed(allowed)


def batches_first() -> bool:
    """Whether a vmap is around what runs now, whatever is between."""
    stack = _functorch.get_interpreter_stack() or ()
    return any(interpreter.key() == _functorch.TransformType.Vmap for interpreter in stack)


def vectorise(function: Callable[..., Any], in_dims: Sequence[int | None], out_dims: Sequence[int | None],
              randomness: str) -> Callable[..., Any]:
    """``torch.vmap`` of a function of flat arguments that returns a tuple."""
    results_at: Any = tuple(out_dims)
    return torch.vmap(function, tuple(in_dims), results_at, randomness)


def push_forward(function: Callable[..., Any], primals: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]) -> \
        tuple[Any, Any, Any]:
    """``torch.func.jvp`` of a function that returns a pair: what is differentiated, and what is not."""
    results: Any = torch.func.jvp(function, tuple(primals), tuple(tangents), has_aux=True)
    return results  # type: ignore[no-any-return]
