"""What is left to do when a compiled forward has run: changed inputs, views, the order of results.

Views that the program returns are made from their base by torch itself: for autograd they are views as in eager.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..autodiff.joint_graph import History, JointGraph, Remade
from ..autodiff.partition import Partition
from ..functional.graph import Constant, FreshTensor, InputAlias, Number, Output, SameAs, ViewLayout, needed_for
from ..functional.running import detach_views, known_number, symbols, view_of_base
from ..shapes import Symbol
from .overwriting import overwrite


class Assembly:
    """Makes what the program returns of what the compiled forward does."""

    def __init__(self, joint: JointGraph, made: Partition, module: torch.fx.GraphModule | None = None) -> None:
        """``module`` is the captured graph, which tells where views are made."""
        self.joint = joint
        memories: dict[int, int] = {}
        numbers = 0
        fresh = [output for output in joint.outputs if isinstance(output, FreshTensor)]
        for each in fresh:
            memories.setdefault(each.memory, len(memories))
        changed = [item.mutation for item in joint.differentiable if item.mutation is not None]
        writes = {change.index: change.writes for change in joint.mutated}
        self.changed = [(index, len(memories) + at, writes[index]) for at, index in enumerate(changed)]
        self.steps: list[tuple[Output, int, Remade | None]] = []
        """For each output: where its base is among the results, and what autograd has to do with it, if anything."""
        self.plain = not self.changed and not joint.state_changes and joint.returns_tuple
        for position, (output, remade) in enumerate(zip(joint.outputs, joint.remade, strict=True)):
            at: int = 0
            how: Remade | None = None
            if isinstance(output, FreshTensor):
                at = memories[output.memory]
                # A view of something that is no result itself must be one too: autograd may refuse to change it.
                if at in made.tangents_at and (output.view is not None or remade.history is not History.KNOWN
                                               or remade.creation is not None):
                    how = remade
                self.plain = self.plain and output.view is None and how is None and at == position
            elif isinstance(output, Number):
                at = len(memories) + len(self.changed) + numbers
                numbers += 1
                self.plain = self.plain and at == position
            else:
                self.plain = False
                if isinstance(output, InputAlias) and output.view is not None:
                    how = remade
            self.steps.append((output, at, how))
        changed_inputs = {change.index for change in joint.mutated}
        first = _made_first(module) if module is not None else set()
        self.early = [position for position, (output, _, how) in enumerate(self.steps) if position in first
                      and isinstance(output, InputAlias) and output.index not in changed_inputs
                      and how is not None and how.history is History.KNOWN and how.base is None]
        """Views of inputs that the program makes before all else: autograd goes through functions by their age."""
        bases = [output.index if isinstance(output, SameAs) else None if how is None else how.base
                 for output, _, how in self.steps]
        self.order: list[int] = []
        """Of the results: those that others are views of come before them."""
        for position in range(len(bases)):
            chain: list[int] = []
            step: int | None = position
            while step is not None and step not in self.order:
                chain.append(step)
                step = bases[step]
            self.order += reversed(chain)

    def made_before(self, inputs: Sequence[Any]) -> dict[int, Any]:
        """What is made before forward runs, by its place among the results."""
        return {position: self.result(self.steps[position][0], 0, self.steps[position][2], inputs, (), [])
                for position in self.early}

    def __call__(self, inputs: Sequence[Any], results: tuple[Any, ...], early: dict[int, Any] | None = None) -> Any:
        if self.plain:
            return results
        for index, at, writes in self.changed:
            overwrite(inputs[index], results[at], writes)
        returned: list[Any] = [None] * len(self.steps)
        for position in self.order:
            output, at, how = self.steps[position]
            value = early[position] if early and position in early \
                else self.result(output, at, how, inputs, results, returned)
            if isinstance(output, (FreshTensor, InputAlias)) and (output.view is not None or how is not None):
                value = torch_compat.created_as(value, self.joint.remade[position].creation)
            returned[position] = value
        if self.joint.detached:
            detach_views(returned, self.joint.detached)
            for position, (output, _, _) in enumerate(self.steps):
                if isinstance(output, SameAs):
                    returned[position] = returned[output.index]
        for change in self.joint.state_changes:
            change.function(*change.args)
        return tuple(returned) if self.joint.returns_tuple else returned[0]

    def result(self, output: Output, at: int, how: Remade | None, inputs: Sequence[Any], results: tuple[Any, ...],
               made: list[Any]) -> Any:
        match output:
            case Constant(value):
                return value
            case SameAs(index):
                return made[index]
            case Number():
                return results[at]
            case FreshTensor():
                base = results[at]
            case InputAlias(index):
                base = inputs[index]
        if how is not None and how.base is not None:
            base = made[how.base]
        view = output.view
        if how is None:
            return base if view is None else view_of_base(base, view, self.numbers(view, inputs))
        if how.history is History.NONE:
            if base.requires_grad:
                base = base.detach()
            # Otherwise a view of the base: what is written to it later may give both a history.
            return base if view is None else view_of_base(base, view, self.numbers(view, inputs))
        if view is None and how.base is None:  # another result need not have the sizes of the memory
            if how.history is History.ONE_OF_SEVERAL:
                return _one_of_several(base, how)
            # not view_as, which gives dimensions of size 1 new strides
            return torch.ops.aten.alias.default(base) if how.history is History.KNOWN else base
        with torch.set_grad_enabled(torch.is_grad_enabled() and how.history is not History.UNKNOWN_VIEW):
            if how.views is None:
                assert view is not None
                value = view_of_base(base, view, self.numbers(view, inputs))
            else:
                value = base
                known = symbols(self.joint.inputs, inputs, {}) if how.symbolic else {}
                for step in how.views:
                    args, kwargs = step.args, step.kwargs
                    if how.symbolic:
                        args, kwargs = _with_numbers(args, known), _with_numbers(kwargs, known)
                    value = step.func(value, *args, **kwargs)
            if how.history is History.ONE_OF_SEVERAL:
                value = _one_of_several(value, how)
            return value

    def numbers(self, view: ViewLayout, inputs: Sequence[Any]) -> Callable[[Any], int]:
        """What the numbers of a layout are in this call."""
        if all(type(number) is int for number in (*view.shape, *view.stride, view.offset)):
            return int
        return functools.partial(known_number, symbols(self.joint.inputs, inputs, {}))


def _made_first(module: torch.fx.GraphModule) -> set[int]:
    """The results, by their places, that no function of autograd's comes before but those that they are made of."""
    calls = [node for node in module.graph.nodes if node.op in ("call_function", "call_method", "call_module")
             and getattr(node.meta.get("example_value"), "requires_grad", True)]
    outputs: Any = module.graph.output_node().args[0]
    first: set[int] = set()
    for position, node in enumerate(outputs if isinstance(outputs, (tuple, list)) else (outputs,)):
        needed = needed_for([node]) if isinstance(node, torch.fx.Node) and node in calls else set()
        if needed and all(call in needed for call in calls[:calls.index(node)]):
            first.add(position)
    return first


def _one_of_several(value: torch.Tensor, how: Remade) -> torch.Tensor:
    """The same elements in a view that one function returned together with others.

    When autograd refuses to change it, it names that function and the view's number. Only of ``split(size)`` it takes
    ``split(sizes)`` for it, except in the first view.
    """
    number = how.number
    if how.splits == "UnbindBackward0":
        return value.expand(number + 1, *value.shape).unbind()[number]
    size = value.shape[0]
    if how.splits == "SplitBackward0" and not number:
        return torch.ops.aten.split.Tensor(value, size)[0]
    return value.split_with_sizes([0] * number + [size])[number]


def _with_numbers(value: Any, known: dict[Symbol, Any]) -> Any:
    """Arguments of an operator with the numbers of this call."""
    if isinstance(value, torch.SymInt):
        return known_number(known, value)
    if isinstance(value, (tuple, list)):
        return type(value)([_with_numbers(item, known) for item in value])
    if isinstance(value, dict):
        return {name: _with_numbers(item, known) for name, item in value.items()}
    return value
