"""``while_loop``: a function that is applied to its own results as long as a condition holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..torch_compat import pytrees as pytree
from .checks import check_callable, check_carry, flatten, in_layout_of, refuse, run_function, truth_of
from .tracing import FlatFunction, handler_of_thread


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any],
               carried_inputs: tuple[Any, ...] | list[Any]) -> Any:
    """Apply ``body_fn`` to ``carried_inputs``, then to its results, while ``cond_fn`` of them is true.

    Args:
        cond_fn: a function of what is carried; it returns a bool or a bool tensor with one element.
        body_fn: a function of what is carried; it returns new tensors of the same structure, shapes and dtypes.
        carried_inputs: the first values, in a tuple; any pytrees of tensors (numbers only outside of compiled code).

    The result never shares memory with ``carried_inputs``, also when the body does not run at all.

    >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.tensor(1.0)))
    (tensor(3), tensor(8.))
    """
    check_callable("while_loop", cond_fn=cond_fn, body_fn=body_fn)
    if not isinstance(carried_inputs, (tuple, list)):
        raise refuse(f"while_loop: carried_inputs is a {type(carried_inputs).__name__}",
                     "pass the values that are carried in a tuple")
    first, spec = flatten("while_loop", "carried_inputs", carried_inputs, numbers=True)
    if handler_of_thread() is not None:
        from . import operators

        spec = pytree.tree_structure(tuple(carried_inputs))
        return pytree.tree_unflatten(list(operators.while_loop(
            FlatFunction(cond_fn, spec), FlatFunction(body_fn, spec), first)), spec)
    carried = first = [begin(leaf) for leaf in first]
    while truth_of("while_loop", run_function("while_loop", "cond_fn", cond_fn, pytree.tree_unflatten(carried, spec))):
        result = run_function("while_loop", "body_fn", body_fn, pytree.tree_unflatten(carried, spec))
        result = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        new, structure = flatten("while_loop", "the result of body_fn", type(carried_inputs)(result), numbers=True)
        if structure != spec:
            raise refuse("while_loop: body_fn returns another structure than carried_inputs has")
        check_carry("while_loop", "body_fn", first, new)
        carried = [in_layout_of(old, value) if isinstance(value, torch.Tensor) else value
                   for old, value in zip(first, new, strict=True)]
    return pytree.tree_unflatten(carried, spec)


def begin(value: Any) -> Any:
    """The first value that a loop carries: its own tensor, without gaps."""
    return value.clone() if isinstance(value, torch.Tensor) else value
