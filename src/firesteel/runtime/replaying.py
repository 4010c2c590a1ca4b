"""Gradients of compiled code by eager's autograd: the captured graph runs again, operator by operator.

Compiled backward computes gradients that have no derivative. Where they are to be differentiated themselves
(``create_graph=True``: gradient penalties, hessians), where vmap hands over many gradients at once, and where a second
backward comes for results whose memory is gone but which eager could still differentiate, the graph runs again on the
inputs of the call, with the random numbers of the call, and autograd does the rest.

    inputs -> views of them, which get gradients -> the captured graph -> its results <- the gradients that came

What the graph changes in place is copied before, if its results depend on it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from operator import getitem
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import torch_compat
from ..autodiff.gradients import leaf_gradients
from ..autodiff.joint import Carrier, JointGraph
from ..autodiff.state import GlobalState
from ..capture.failing_graphs import RandomState, random_state, restore_random_state

if TYPE_CHECKING:
    from torch.fx import GraphModule

_BATCH_NORM = "aten._native_batch_norm_legit_functional.default"
CHANGED = ("an input of a compiled function has been changed in place since the call, and a gradient that is to be "
           "differentiated again needs it as it was")


@dataclass(slots=True)
class Call:
    """What is remembered of one call, besides what is saved for backward."""

    held: list[Any]
    watched: list[torch.Tensor]
    versions: list[int]
    random: RandomState | None
    inputs: list[Any] | None = None
    """All inputs, once what was saved has been freed and there are results left to differentiate."""


class _Holding(Enum):
    """How an input is remembered. Nothing that it may become a part of later must lead back to it."""

    ITSELF = "a leaf of autograd's graph, or a number"
    ALIAS = "its memory"
    HISTORY = "its memory and the history that it has now"
    COPY = "a copy: the graph changes it"
    WEAKLY = "the graph overwrites it before anything looks at it"


class Replay:
    """Runs a captured graph again. ``saved``: inputs that the compiled function saves for its backward anyway."""

    def __init__(self, module: GraphModule, examples: Sequence[Any], joint: JointGraph, state: GlobalState,
                 saved: set[int]) -> None:
        self.module = module
        self.state = state
        self.carriers: list[Carrier] = [carrier for carrier in joint.carriers if carrier is not None]
        self.possible = len(self.carriers) == len(joint.differentiable) and not any(
            node.target is leaf_gradients for node in module.graph.nodes)
        self.changed = {change.index for change in joint.mutated}
        copied = self.changed & _inputs_behind(joint) if self.changed else self.changed
        self.holding = {
            at: _Holding.COPY if at in copied else _Holding.WEAKLY if at in self.changed
            else _Holding.ITSELF if not isinstance(example, torch.Tensor) or example.requires_grad and example.is_leaf
            else _Holding.HISTORY if example.requires_grad else _Holding.ALIAS
            for at, example in enumerate(examples) if at not in saved or at in self.changed}
        self.unwatched = {at for at, example in enumerate(examples)
                          if not isinstance(example, torch.Tensor) or example.is_inference()}
        self.draws = self.possible and any(
            isinstance(node.target, torch_compat.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
            for node in joint.graph.nodes)

    def remember(self, inputs: Sequence[Any]) -> Call | None:
        """What the graph will need to run again; to be called before it runs, where grad mode is on."""
        if not self.possible:
            return None
        held, watched = [], []
        for at, how in self.holding.items():
            value = inputs[at]
            if how is _Holding.ITSELF:
                held.append(value)
            elif how is _Holding.WEAKLY:
                held.append(weakref.ref(value))
                continue
            elif how is _Holding.COPY:
                held.append(value.clone())
                continue
            else:
                alias = value.detach()
                held.append(alias if how is _Holding.ALIAS else torch_compat.alias_with_history(value))
                value = alias
            if at not in self.unwatched:
                watched.append(value)
        return Call(held, watched, [tensor._version for tensor in watched], random_state() if self.draws else None)

    def inputs(self, call: Call, saved: dict[int, Any]) -> list[Any]:
        """The inputs of the call; ``saved`` are those that were saved for backward."""
        if [tensor._version for tensor in call.watched] != call.versions:
            raise RuntimeError(CHANGED)
        values = {**saved, **dict(zip(self.holding, call.held, strict=True))}
        for at, how in self.holding.items():
            if how is _Holding.WEAKLY:
                value = values[at]()
                if value is None:
                    raise RuntimeError("a tensor that a compiled function has changed is gone, and a gradient that is "
                                       "to be differentiated again needs it")
                values[at] = value.detach()
        return [values[at] for at in range(len(values))]

    def gradients(self, call: Call, inputs: Sequence[Any], tangents: Sequence[torch.Tensor | None]) -> list[Any]:
        """The gradients of all inputs; differentiable themselves where grad mode is on."""
        create = torch.is_grad_enabled()
        with torch.enable_grad():
            sources = [value.view_as(value) if isinstance(value, torch.Tensor) and value.requires_grad else None
                       for value in inputs]
            given = [value if source is None else source for value, source in zip(inputs, sources, strict=True)]
            for at in self.changed:
                given[at] = given[at].clone()
            results = self.run(call, given)
        starts, gradients = [], []
        for carrier, tangent in zip(self.carriers, tangents, strict=True):
            start = _carried(carrier, results, given)
            if tangent is not None and start.requires_grad:
                starts.append(start)
                gradients.append(tangent)
        wanted = [source for source in sources if source is not None]
        found: list[Any] = [None] * len(wanted)
        if starts and wanted:
            found = list(torch.autograd.grad(starts, wanted, gradients, create_graph=create, allow_unused=True))
        order = iter(found)
        return [None if source is None else next(order) for source in sources]

    def run(self, call: Call, given: Sequence[Any]) -> Sequence[Any]:
        """The results of the captured graph under the global state of the call, which is put back."""
        now, random = GlobalState.current(), random_state() if self.draws else None
        self.state.restore()
        if call.random is not None:
            restore_random_state(call.random)
        try:
            results = self.module.forward(*given)
        finally:
            now.restore()
            if random is not None:
                restore_random_state(random)
        return results if isinstance(results, (tuple, list)) else (results,)


def _carried(carrier: Carrier, results: Sequence[Any], inputs: Sequence[Any]) -> torch.Tensor:
    if carrier.output is None:
        assert carrier.changed is not None
        changed: torch.Tensor = inputs[carrier.changed]
        return changed
    found: torch.Tensor = results[carrier.output]
    if carrier.base:
        base = torch_compat.view_base(found)
        assert base is not None
        return base
    return found


def _inputs_behind(joint: JointGraph) -> set[int]:
    """The inputs, by index, that differentiable results are computed from."""
    stack = [result.node for result in joint.differentiable]
    seen: set[torch.fx.Node] = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        sources = node.all_input_nodes
        if node.target is getitem:
            parent, position = node.args
            if isinstance(parent, torch.fx.Node) and str(parent.target) == _BATCH_NORM and position in (0, 1, 2):
                # running statistics have nothing to do with these results
                seen.add(parent)
                sources = [arg for arg in parent.args[:3] if isinstance(arg, torch.fx.Node)]
        stack += sources
    return {at for at, entry in enumerate(joint.inputs) if entry.node in seen}
