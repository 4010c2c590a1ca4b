"""The operation that stands for ``loss.backward()`` in graphs: gradients as autograd would put them into ``.grad``.

It gives them to the program instead of adding them to ``.grad``; what is there already, and what becomes of it, is the
affair of the graph that calls it. On fake tensors it runs autograd as well, so that a recorder sees the operators of
the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import torch_compat
from ..fake import FakeTensor
from ..fake.dims import contiguous_strides, is_one, known_equal, layout_of

Gradients = tuple[torch.Tensor | None, ...]


def leaf_gradients(
    outputs: Sequence[torch.Tensor],
    grad_outputs: Sequence[torch.Tensor | None] | None,
    leaves: Sequence[torch.Tensor],
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only: bool = False,
) -> Gradients:
    """What ``torch.autograd.backward(outputs, grad_outputs)`` would put into ``.grad`` of leaves that have none.

    ``only``: nothing but these leaves gets a gradient. A leaf that gets none has None in the result.

    >>> x = torch.ones(2, requires_grad=True)
    >>> leaf_gradients([(x * 3).sum()], None, [x]), x.grad
    ((tensor([3., 3.]),), None)
    """
    if any(isinstance(leaf, FakeTensor) for leaf in leaves) and not create_graph and not _in_python(outputs):
        return _without_accumulation(outputs, grad_outputs, leaves, retain_graph)
    kept = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    try:
        torch.autograd.backward(list(outputs), None if grad_outputs is None else list(grad_outputs), retain_graph,
                                create_graph, inputs=list(leaves) if only else None)
        return tuple(leaf.grad for leaf in leaves)
    finally:
        for leaf, grad in zip(leaves, kept, strict=True):
            leaf.grad = grad


def _without_accumulation(
    outputs: Sequence[torch.Tensor],
    grad_outputs: Sequence[torch.Tensor | None] | None,
    leaves: Sequence[torch.Tensor],
    retain_graph: bool | None,
) -> Gradients:
    """The same without the copies that autograd makes of tensors which somebody else, such as a recorder, refers to."""
    gradients = torch.autograd.grad(list(outputs), list(leaves), None if grad_outputs is None else list(grad_outputs),
                                    retain_graph, allow_unused=True)
    taken = {torch_compat.storage_address(t) for t in grad_outputs or () if t is not None}
    results: list[torch.Tensor | None] = []
    with torch.no_grad():
        for leaf, grad in zip(leaves, gradients, strict=True):
            if grad is not None:
                grad = _own(leaf, grad, taken)
                taken.add(torch_compat.storage_address(grad))
            results.append(grad)
    return tuple(results)


def _own(leaf: torch.Tensor, grad: torch.Tensor, taken: set[int]) -> torch.Tensor:
    """The gradient in the leaf's layout (rows if that has holes), in memory of its own."""
    shape, stride = layout_of(leaf)
    wanted = stride if _is_dense(shape, stride) else contiguous_strides(shape)
    fits = all(is_one(size) or known_equal(have, want)
               for size, have, want in zip(shape, layout_of(grad)[1], wanted, strict=True))
    if fits and torch_compat.storage_address(grad) not in taken:
        return grad
    return torch.empty_strided(leaf.shape, wanted, dtype=grad.dtype, device=grad.device).copy_(grad)


def _is_dense(shape: Sequence[Any], stride: Sequence[Any]) -> bool:
    """Whether every element of the memory between first and last belongs to exactly one index."""
    if all(is_one(size) or known_equal(have, want)
           for size, have, want in zip(shape, stride, contiguous_strides(shape), strict=True)):
        return True
    expected: Any = 1
    for step, size in sorted((int(step), size) for step, size in zip(stride, shape, strict=True) if not is_one(size)):
        if step != expected:
            return False
        expected = expected * size
    return True


def _in_python(outputs: Sequence[torch.Tensor]) -> bool:
    """Whether Python code of the user is part of the backward pass: it may give away tensors that it keeps."""
    return any(isinstance(node, torch.autograd.function.BackwardCFunction) for node in history(outputs))


def history(outputs: Sequence[torch.Tensor], ends: Sequence[torch.Tensor] = ()) -> list[Any]:
    """All nodes of autograd's graph behind tensors, but not those of ``ends`` and what is behind these alone."""
    seen: dict[Any, None] = {}
    last = {t.grad_fn for t in ends}
    queue: list[Any] = [t.grad_fn for t in outputs if t.grad_fn is not None]
    while queue:
        node = queue.pop()
        if node in seen or node in last:
            continue
        seen[node] = None  # also keeps it alive: autograd would make a new object for the same node otherwise
        queue.extend(parent for parent, _ in node.next_functions if parent is not None)
    return list(seen)
