"""What the passes that lay images out with channels last have in common: a plan of new layouts, made before any change.

Library calls that gain by it (convolutions) read and write the new layout. What comes after them follows where it can;
where it cannot, it reads a copy with the old layout.
"""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake import FakeError
from ..functional.graph import FunctionalGraph
from ..functional.operators import operator_of
from ..shapes import ContradictionError, UndecidableError
from .rewriting import ATEN, fake_result, is_call, size_hint

LAST = torch.channels_last
IN_ANOTHER_ORDER = 0.5
"""What a copy costs of something that a kernel computes for nobody else: it is only stored in another order."""
_NEED_STRIDES = (ATEN.as_strided.default, ATEN.view.dtype, ATEN.sym_stride.int, ATEN.as_strided_scatter.default)
_FAILURES = (FakeError, RuntimeError, UndecidableError, ContradictionError, ValueError)


def with_channels_last(value: torch.Tensor) -> torch.Tensor:
    """A fake tensor like another, but with channels last.

    It is asked of the rules and not of torch, which imports its distributed tensors, and sympy with them (0.25 s), when
    it first meets a fake tensor outside of a mode.
    """
    like: torch.Tensor = fake_result(ATEN.empty_like.default, (value,), {"memory_format": LAST})
    return like


class LayoutPlan:
    """The layouts that nodes would have."""

    library: tuple[Any, ...] = (ATEN.convolution.default,)
    """Operators that have the new layout where that is wanted, and otherwise the old one."""

    def __init__(self, functional: FunctionalGraph) -> None:
        self.functional = functional
        self.values: dict[torch.fx.Node, Any] = {}
        """New fake results of nodes whose layout changes."""
        self.to_last: dict[torch.fx.Node, list[torch.fx.Node]] = {}
        """Library calls and which of their arguments are copied."""
        self.back: dict[torch.fx.Node, list[torch.fx.Node]] = {}
        """Nodes that need the old layout of some arguments."""

    def value(self, node: torch.fx.Node) -> Any:
        return self.values.get(node, node.meta["val"])

    def make(self) -> bool:
        """False when an old layout that is needed cannot be had by a plain copy."""
        for node in self.functional.graph.nodes:
            if self.is_wanted(node):
                self.library_call(node)
                continue
            changed = [source for source in node.all_input_nodes if source in self.values]
            if not changed or self.follows(node, changed):
                continue
            if not all(self.can_be_copied_back(source.meta["val"]) for source in changed):
                return False
            self.back[node] = changed
            self.count_copies(node, changed)
        return True

    def follows(self, node: torch.fx.Node, changed: list[torch.fx.Node]) -> bool:
        """Whether a node can take its arguments in their new layout."""
        if node.op != "call_function" or hasattr(node.target, "bodies") or is_call(node, *_NEED_STRIDES, *self.library):
            return False
        if isinstance(node.target, torch_compat.OpOverload) and operator_of(node.target).random:
            return False  # numbers are drawn in the order of the memory
        old = node.meta["val"]
        if not isinstance(old, (torch.Tensor, tuple, list)):
            return True  # sizes stay as they are
        if node.target is getitem:
            source, at = node.args
            new = self.values[source][at]  # type: ignore[index]
        else:
            try:
                new = fake_result(node.target, node.args, node.kwargs, self.value)
            except _FAILURES:
                return False
        self.follow(node, changed, new)
        return True

    def is_wanted(self, node: torch.fx.Node) -> bool:
        """Whether a node is a library call that is to have the new layout."""
        raise NotImplementedError

    def library_call(self, node: torch.fx.Node) -> None:
        """Note the new layout of such a call, and which arguments are copied for it."""
        raise NotImplementedError

    def follow(self, node: torch.fx.Node, changed: list[torch.fx.Node], new: Any) -> None:
        """Note the result of a node that takes its arguments in their new layout."""
        raise NotImplementedError

    def can_be_copied_back(self, value: Any) -> bool:
        """Whether a copy can have the layout of this value."""
        raise NotImplementedError

    def count_copies(self, node: torch.fx.Node, changed: list[torch.fx.Node]) -> None:
        """Count the copies with the old layout that a node needs."""
        raise NotImplementedError


def copy_cost(copied: torch.fx.Node) -> float:
    """What a copy of a node's result costs, in elements."""
    alone = len(copied.users) == 1 and copied.op == "call_function" and not is_call(copied, ATEN.convolution.default)
    return (IN_ANOTHER_ORDER if alone else 1.0) * size_hint(copied.meta["val"])
