"""Forward and backward of a captured graph as one graph, and what is known of its results."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..functional.graph import (
    DetachedBase,
    FunctionalGraph,
    Input,
    Mutation,
    Output,
    StateChange,
    Unsupported,
    describe,
)
from ..functional.views import View
from ..records import dataclass
from ..shapes import Symbol

ALL_RESULTS = -1
"""The bits of all differentiable results, however many there are."""
_SEVERAL_VIEWS = frozenset({"UnbindBackward0", "SplitBackward0", "SplitWithSizesBackward0"})


class History(Enum):
    """What autograd knows of a result."""

    NONE = "it does not require grad"
    KNOWN = "it requires grad"
    UNKNOWN_VIEW = "a view made without grad mode: it requires grad and has no history"
    ONE_OF_SEVERAL = "a view out of several that one function returned: it must not be changed in place"

    @staticmethod
    def of(value: Any) -> History:
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return History.NONE
        try:
            made_without = value.grad_fn is None and torch_compat.view_base(value) is not None
        except RuntimeError as error:  # autograd cannot say what became of it
            raise Unsupported("a view from before its base was changed in place") from error
        if made_without:
            return History.UNKNOWN_VIEW
        one_of_several = value.grad_fn is not None and type(value.grad_fn).__name__ in _SEVERAL_VIEWS
        return History.ONE_OF_SEVERAL if one_of_several and torch_compat.view_base(value) is not None else History.KNOWN


class Tangent(Enum):
    """The gradient that comes back to a result."""

    NONE = "none comes"
    LIKE_RESULT = "in the layout of the result, by rows if that has gaps"
    BY_ROWS = "by rows"
    EXPANDED = "one number for all elements: operators lay out what they compute from it as they please"


Expected = Tangent | tuple[int, ...]
"""What gradient comes back to a result: dense with its dimensions in this order, where it is neither."""


@dataclass(frozen=True)
class Remade:
    """How a result is made again for autograd from the base that it is a view of."""

    history: History
    views: tuple[View, ...] | None = None
    """The operators that the program called; None where only the layout is known."""
    number: int = 0
    """Which of several views it is."""
    splits: str = ""
    """The function of autograd that made several views, where it is one of them."""
    symbolic: bool = False
    """Whether arguments of these operators are symbols."""
    creation: Any = None
    """How it came about as a view (`torch_compat.creation_of`), None where eager's is no view."""
    base: int | None = None
    """The result that it is a view of; None where that is the memory's first tensor, or an input."""


@dataclass(frozen=True)
class Carrier:
    """A tensor that the captured graph makes: its output at ``output`` or the base of that, or a changed input."""

    output: int | None = None
    base: bool = False
    changed: int | None = None


@dataclass(frozen=True)
class Differentiable:
    """A result that gradients come back to: the value of ``node``, or the new contents of a changed input.

    ``tangent`` is the placeholder of its gradient; None where none comes.
    """

    node: torch.fx.Node
    memory: int | None
    """The number of the result's memory."""
    mutation: int | None
    """The index of the changed input."""
    tangent: torch.fx.Node | None


@dataclass
class JointGraph:
    """Forward and backward in one graph, before they are parted.

    The graph's placeholders are those of ``inputs``, then the tangents. ``outputs``, ``mutated`` and so on describe the
    forward as they do in `FunctionalGraph`.
    """

    graph: torch.fx.Graph
    inputs: list[Input]
    outputs: list[Output]
    remade: list[Remade]
    """One for each output."""
    mutated: list[Mutation]
    differentiable: list[Differentiable]
    gradients: list[Output]
    """For each input; ``Constant(None)`` where there is none."""
    backward_nodes: set[torch.fx.Node]
    """What was recorded while autograd ran."""
    eager_saves: dict[torch.fx.Node, int]
    """Inputs and fresh results whose memory eager keeps for its backward too, with the differentiable results, as bits,
    whose gradients look at it."""
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    symbols: dict[Symbol, torch.fx.Node] = field(default_factory=dict)
    """The nodes of all symbols in the graph."""
    state_changes: list[StateChange] = field(default_factory=list)
    guards: list[Any] = field(default_factory=list)
    returns_tuple: bool = True
    carriers: list[Carrier | None] = field(default_factory=list)
    """For each differentiable result which tensor it is when the captured graph runs; None where that is not known."""
    eager_frees: frozenset[int] = frozenset()
    """One for each function of eager's history that saves tensors, equal ones once: a bit for each differentiable
    result that it lies behind. Backward of one such result frees what the others need as well."""
    walked: list[int] = field(default_factory=list)
    """For each input the differentiable results, as bits, from which eager's autograd gets there. Only where functions
    of the program's own are among the history: these may have no gradient for what autograd goes on to."""
    linked: bool = False
    """Whether autograd gets from one result to another: a function with its results side by side has no such way."""
    detached: dict[int, DetachedBase] = field(default_factory=dict)
    """As in `FunctionalGraph`."""

    def __str__(self) -> str:
        plain = FunctionalGraph(self.graph, self.inputs, self.outputs, self.mutated, self.constants,
                                self.state_changes, self.guards, self.returns_tuple)
        lines = str(plain).splitlines()
        tangents = [f"tangent {result.tangent.name}: {describe(result.tangent.meta['val'])} of {result.node.name}"
                    for result in self.differentiable if result.tangent is not None]
        names = [plain._result(output) for output in self.gradients]
        return "\n".join([lines[0], *tangents, *lines[1:], f"gradients {', '.join(names)}"])


def tangent_bits(joint: JointGraph) -> dict[torch.fx.Node, int]:
    """For each node the differentiable results, as bits, whose tangents it is computed from."""
    bits: dict[torch.fx.Node, int] = {
        item.tangent: 1 << number for number, item in enumerate(joint.differentiable) if item.tangent is not None}
    for node in joint.graph.nodes:
        if node not in bits:
            own_bits = 0
            for source in node.all_input_nodes:
                own_bits |= bits[source]
            bits[node] = own_bits
    return bits
