"""Backward in stages, for DistributedDataParallel: gradients of one bucket are reduced while the next are computed.

    token = stage 3 of (bucket 3)
    token = stage 2 of (token, bucket 2)
    results = the compiled forward of (token, all inputs)     its backward is stage 1

Autograd comes to the function of the results first, which runs the stages one after the other as autograd goes on to
their functions. In between it hands the gradients that are complete to the parameters, where DDP starts to reduce them.
The function of the results knows all inputs, so that everything but the compiled backward goes its usual way: where it
gives all gradients at once, the functions of later stages give none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..autodiff.partition import Partition, base_of
from ..autodiff.passed_gradients import PassedGradient
from ..autodiff.staged_backward import BackwardStage, take_apart
from ..functional.graph import FreshTensor, FunctionalGraph, SameAs
from ..logs import log
from ..torch_compat.autograd_functions import quick_apply
from .compiled_backward import CompiledBackward, keep_apart

if TYPE_CHECKING:
    from .replaying import Call
    from .training import TrainingUnit

Groups = tuple[tuple[int, ...], ...]
"""Inputs, by position, in the order in which their gradients are complete."""
MOST = 32
"""Into how many stages a backward is taken apart at most."""


def groups_of(parted: Partition, limits: Sequence[int]) -> Groups | None:
    """The inputs whose gradients are reduced together, for buckets of so many bytes; None where there is one group."""
    order = {node: at for at, node in enumerate(parted.backward.graph.nodes)}
    computed = iter(parted.backward.outputs)
    ready: dict[int, int] = {}
    for at, how in enumerate(parted.gradients):
        if how is True:
            output = next(computed)
            assert isinstance(output, FreshTensor)
            ready[at] = order[base_of(output.node)]  # those in one memory are given out together
        elif isinstance(how, PassedGradient):
            ready[at] = -1
    limits = list(limits)
    while len(groups := _grouped(parted, ready, limits)) > MOST:
        limits = [2 * limit for limit in limits]
    return groups if len(groups) > 1 else None


def _grouped(parted: Partition, ready: dict[int, int], limits: Sequence[int]) -> Groups:
    groups: list[list[int]] = [[]]
    filled = 0
    last = None
    for at in sorted(ready, key=lambda at: (ready[at], at)):
        if filled >= limits[min(len(groups), len(limits)) - 1] and ready[at] != last:
            groups.append([])
            filled = 0
        groups[-1].append(at)
        last = ready[at]
        example = parted.joint.inputs[at].example
        if example.is_leaf and not torch_compat.has_symbolic_layout(example):
            filled += example.numel() * example.dtype.itemsize
    place = {at: number for number, group in enumerate(groups) for at in group}
    for at, how in enumerate(parted.gradients):
        if isinstance(how, SameAs):
            groups[place[how.index]].append(at)
    return tuple(map(tuple, groups))


class StagedBackward(CompiledBackward):
    """A compiled backward that gives its gradients group by group."""

    def __init__(self, parted: Partition, fill: bool, numbers: list[Any], groups: Groups,
                 stages: Sequence[tuple[BackwardStage, Callable[..., Any]]]) -> None:
        super().__init__(parted, _no_whole, fill, numbers)
        self.groups = groups
        self.stages = stages
        last_use = {at: number for number, (stage, _) in enumerate(stages) for at in stage.takes}
        self.dropped = [{at for at, last in last_use.items() if last == number} for number in range(len(stages))]
        """What no stage behind each needs."""
        self.result_of = results_of(parted.gradients)
        self.last_of = {self.result_of[at]: at for group in groups for at in group if at in self.result_of}
        """The input that is the last to get each result."""
        self.passes_tangents = any(isinstance(how, PassedGradient) for how in parted.gradients)

    def in_groups(self, numbers: Sequence[Any], saved: list[torch.Tensor], tangents: Sequence[Any],
                  shapes: Sequence[Any]) -> Iterator[list[Any]]:
        """The gradients of all inputs, once for each group: None for those that are in another."""
        given, tangents, missing = self.given(numbers, saved, tangents, shapes)
        if not self.passes_tangents:
            tangents = ()
        values: dict[int, Any] = dict(enumerate(given))
        computed: dict[int, Any] = {}
        count = len(given)
        del given
        for (stage, run), dropped, group in zip(self.stages, self.dropped, self.groups, strict=True):
            taken = [values.pop(at) if at in dropped else values[at] for at in stage.takes]
            results = list(run(taken))
            del taken
            own = results[:len(stage.gradients)]
            for number, (result, value) in enumerate(zip(stage.gradients, own, strict=True)):
                computed[result] = value.detach() if any(value is other for other in own[:number]) else value
                del value
            for value in results[len(stage.gradients):]:
                values[count] = value
                count += 1
                del value
            del results, own
            yield self._gradients_of(group, computed, tangents, missing)

    def _gradients_of(self, group: Sequence[int], computed: dict[int, Any], tangents: Sequence[Any],
                      missing: set[int]) -> list[Any]:
        gradients: list[Any] = [None] * len(self.gradients)
        for at in group:
            how = self.gradients[at]
            if isinstance(how, SameAs):
                how = self.gradients[how.index]
            if isinstance(how, PassedGradient):
                gradients[at] = how(tangents)
            elif how:
                result = self.result_of[at]
                # autograd takes as it is what nobody else holds
                gradients[at] = computed.pop(result) if at == self.last_of[result] else computed[result]
        if missing:
            gradients = [None if behind <= missing else gradient
                         for gradient, behind in zip(gradients, self.behind, strict=True)]
        if self.shared:
            keep_apart([gradients[at] for at in self.shared])
        return gradients


def results_of(gradients: Sequence[bool | PassedGradient | SameAs]) -> dict[int, int]:
    """For each input that gets a result of the backward, the number of that."""
    results: dict[int, int] = {}
    for at, how in enumerate(gradients):
        if how is True:
            results[at] = len(results)
    return {**results, **{at: results[how.index] for at, how in enumerate(gradients)
                          if isinstance(how, SameAs) and how.index in results}}


def _no_whole(given: list[Any]) -> Any:
    raise AssertionError("a backward in stages has no whole")


def staged_backward(parted: Partition, fill: bool, numbers: list[Any], groups: Groups, read_from: Sequence[int],
                    compile_half: Callable[[FunctionalGraph, str, bool], Callable[..., Any]],
                    name: str) -> StagedBackward | None:
    """The backward in stages; None where it is better left whole.

    ``read_from``: for each tensor kept for the whole backward, the input that it is, or a number behind all inputs.
    """
    place = {at: number for number, group in enumerate(groups) for at in group}
    if any(at not in place for at, how in enumerate(parted.gradients) if how):
        return None  # gradients of other results, which these groups were not made for
    kept_at = range(len(parted.kept)) if parted.kept_at is None else parted.kept_at
    read_before = {len(parted.numbers) + at: place[read_from[number]] for at, number in enumerate(kept_at)
                   if read_from[number] in place}
    wanted: set[int] = set()
    results: list[list[int]] = []
    of_input = results_of(parted.gradients)
    for group in groups:
        results.append(sorted({of_input[at] for at in group if at in of_input} - wanted))
        wanted.update(results[-1])
    stages = take_apart(parted.backward, results, read_before)
    if stages is None:
        log("fallbacks", "%s is not taken apart for DistributedDataParallel", name)
        return None
    return StagedBackward(parted, fill, numbers, groups, [
        (stage, compile_half(stage.graph, f"{name}_stage{number}", True)) for number, stage in enumerate(stages, 1)])


class Later:
    """What later stages of one call's backward have to give, while it runs."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self._running: dict[Any, Iterator[list[Any]]] = {}

    def first(self, gradients: Iterator[list[Any]]) -> list[Any]:
        """The gradients of the first group; those of the others come from `after`."""
        self._running.clear()  # a pass that has not come to the last stage never will
        self._running[torch_compat.backward_pass()] = gradients
        return _next(gradients)

    def after(self, number: int) -> list[Any]:
        """The gradients of a group's inputs."""
        running = self._running.get(torch_compat.backward_pass())
        group = self.groups[number]
        if running is None:
            return [None] * len(group)
        if number == len(self.groups) - 1:
            self._running.clear()
        gradients = _next(running)
        return [gradients[at] for at in group]


def _next(gradients: Iterator[list[Any]]) -> list[Any]:
    if not torch_compat.any_autocast_enabled():
        return next(gradients)
    with torch_compat.autocast_disabled():
        return next(gradients)


class LaterStage(torch.autograd.Function):
    """The function that autograd knows for a stage behind the first."""

    @staticmethod
    def forward(ctx: Any, later: Later, number: int, token: Any, *inputs: torch.Tensor) -> torch.Tensor:
        """What leads autograd here."""
        ctx.set_materialize_grads(False)
        ctx.later = later
        ctx.number = number
        return torch.empty(0, device=inputs[0].device)

    @staticmethod
    def backward(ctx: Any, *_nothing: Any) -> Any:
        """Run the stage."""
        return (None, None, None, *ctx.later.after(ctx.number))


_apply_later = quick_apply(LaterStage)


def apply_in_stages(apply: Callable[..., Any], unit: TrainingUnit, call: Call, groups: Groups,
                    inputs: Sequence[Any]) -> Any:
    """The results of a function whose backward is stage 1, with functions for the other stages behind it.

    ``apply`` takes the unit, the call, `Later`, what leads autograd to the later stages, and the inputs.
    """
    later = Later(groups)
    token = None
    for number in range(len(groups) - 1, 0, -1):
        token = _apply_later(later, number, token, *[inputs[at] for at in groups[number]])
    return apply(unit, call, later, token, *inputs)
