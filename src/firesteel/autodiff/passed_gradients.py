"""Gradients that backward only passes on: the gradient of both ``x`` and ``y`` in ``x + y`` is that of the sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake.dims import contiguous_strides, known_equal, layout_of
from ..functional.views import same_layout
from ..records import dataclass

_ATEN = torch.ops.aten
_PASSING = frozenset({
    "aten.alias.default", "aten.detach.default", "aten.expand.default", "aten.permute.default", "aten.select.int",
    "aten.slice.Tensor", "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.t.default",
    "aten.transpose.int", "aten.unsqueeze.default", "aten.view.default"})


@dataclass(frozen=True)
class PassedGradient:
    """A gradient that is a tangent, or a view of one: backward computes nothing for it.

    It is made of what autograd brings, whatever the strides of that are, as eager does.
    """

    tangent: int
    """Which of the tangents that are not None."""
    views: tuple[tuple[Callable[..., torch.Tensor], tuple[Any, ...], dict[str, Any]], ...]

    @staticmethod
    def of(node: torch.fx.Node, tangents: list[torch.fx.Node]) -> PassedGradient | None:
        """How the gradient is passed on, if it is."""
        steps = []
        gradient = node
        while isinstance(node.target, torch_compat.OpOverload) and torch_compat.operator_name(node.target) in _PASSING:
            source, *args = node.args
            if not isinstance(source, torch.fx.Node):
                return None
            # what is a view of a dense tensor may need a copy of another
            function: Any = torch.reshape if node.target is _ATEN.view.default else node.target
            steps.append((function, tuple(args), dict(node.kwargs)))
            node = source
        if node not in tangents:
            return None
        if not any(isinstance(part, torch.fx.Node) for _, args, _ in steps for part in _flat(args)):
            return PassedGradient(tangents.index(node), tuple(reversed(steps)))
        # Sizes are not known when the gradient is passed on, but there and back again is nowhere.
        if all(function is torch.reshape for function, _, _ in steps) \
                and same_layout(gradient.meta["val"], node.meta["val"]):
            return PassedGradient(tangents.index(node), ())
        return None

    def __call__(self, tangents: Sequence[torch.Tensor]) -> torch.Tensor:
        value = tangents[self.tangent]
        for function, args, kwargs in self.views:
            value = function(value, *args, **kwargs)
        return value


def is_transposed_for_arithmetic(tangent: torch.fx.Node) -> bool:
    """Whether an operator on elements takes a view of a tangent that does not lie by rows, if the tangent does.

    What it computes is laid out like the view then, and by rows where the tangent is one number, expanded: the layout
    of gradients depends on it.
    """
    views = [tangent]
    for view in views:
        for user in view.users:
            if not isinstance(user.target, torch_compat.OpOverload):
                continue
            if torch_compat.operator_name(user.target) in _PASSING and user.args[0] is view:
                views.append(user)
            elif torch.Tag.pointwise in user.target.tags and not is_by_rows(view.meta["val"]):
                return True
    return False


def is_by_rows(tensor: torch.Tensor) -> bool:
    """Whether eager lays out what it computes from a tensor by rows: those of expanded numbers have no order either."""
    stride = tensor.stride()
    if any(type(number) is not int for number in (*tensor.shape, *stride)):
        shape, steps = layout_of(tensor)
        return any(known_equal(size, 0) for size in shape) or all(
            known_equal(size, 1) or known_equal(step, row)
            for size, step, row in zip(shape, steps, contiguous_strides(shape), strict=True))
    return tensor.is_contiguous() or not any(stride)


def _flat(value: Any) -> list[Any]:
    return [part for item in value for part in _flat(item)] if isinstance(value, (tuple, list)) else [value]
