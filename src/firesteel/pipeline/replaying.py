"""Gradients of compiled code by eager's autograd: the captured graph runs again, operator by operator.

Compiled backward computes gradients that have no derivative. Where they are to be differentiated themselves
(``create_graph=True``: gradient penalties, hessians), where the gradients that come are no plain tensors (sparse ones,
those of a subclass, many at once by vmap), where a dispatch mode is to see the operators, and where a second backward
comes for results whose memory is gone but which eager could still differentiate, the graph runs again on the inputs of
the call, with the random numbers of the call, and autograd does the rest.

    inputs -> views of them, which get gradients -> the captured graph -> its results <- the gradients that came

What the graph changes in place is copied before, if its results depend on it, and so is what is small: the program may
change it later. An input that other compiled code has computed is neither kept nor copied, so that a stack of compiled
blocks keeps no more than it needs for a plain backward: where it is gone, the graph that computed it runs again as
well.
"""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from operator import getitem
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import torch_compat
from ..autodiff.gradients import leaf_gradients
from ..autodiff.joint_graph import ALL_RESULTS, Carrier, JointGraph, tangent_bits
from ..errors import UserCodeError
from ..functional.applied_functions import AppliedFunction
from ..functional.graph import FreshTensor
from ..functional.state import GlobalState
from ..records import dataclass
from .failing_graphs import RandomState, random_state, restore_random_state

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from .training import TrainingUnit

_BATCH_NORM = "aten._native_batch_norm_legit_functional.default"
_LIKE = re.compile(r"aten\.(\w+_like|new_\w+|sym_\w+)\.\w+")
_LOOKING = re.compile(r"aten\.as_strided")
_address: Callable[[torch.Tensor], int] = torch.Tensor.data_ptr
_storage: Callable[[torch.Tensor], torch.UntypedStorage] = torch.Tensor.untyped_storage
SMALL = 1024
"""Up to how many elements a copy of an input costs no more than to watch whether it changes."""
CHANGED = ("an input of a compiled function has been changed in place since the call, and a gradient that is to be "
           "differentiated again needs it as it was")


@dataclass(slots=True)
class Call:
    """What is remembered of one call, besides what is saved for backward."""

    held: list[Any]
    watched: dict[int, torch.Tensor]
    """Inputs, by index, that gradients are computed from."""
    versions: list[int]
    random: RandomState | None
    behind_results: list[tuple[torch.Tensor, int]]
    """What results depend on, but gradients do not, with its version."""
    spare: list[torch.Tensor]
    """For `Replay.saved_for_some`."""
    copied: set[int]
    """Inputs, by index, that were copied lest the program changes them."""
    places: list[int]
    """The addresses of `Replay.placed`."""
    memories: list[Any]
    """The storages of those that are `Replay.replaceable`, so that no others get their addresses."""
    layouts: list[tuple[Any, Any]] | None
    """Sizes and strides of these, where they depend on symbols."""
    packed: bool
    """Whether hooks of torch's own have seen what was saved: it may come back elsewhere, and with other strides."""
    inputs: list[Any] | None = None
    """All inputs, once what was saved has been freed and there are results left to differentiate."""
    changed: list[tuple[int, int, torch.Tensor, int]] = field(default_factory=list)
    """Changed inputs that eager saves: the number among what is saved, results as bits, the input and its version."""


@dataclass(slots=True)
class Produced:
    """An input that is a result of other compiled code: it can be computed again."""

    node: Any
    """The function that autograd knows for that code."""
    output: int
    """Which output of the captured graph it is."""
    number: int
    """Which result of the function."""
    version: int
    tensor: weakref.ref[torch.Tensor] | None
    """None where the graph changes it."""
    like: tuple[torch.Size, torch.dtype, torch.device]
    again: torch.Tensor | None = None

    def found(self) -> torch.Tensor | None:
        """The tensor as it was, with its history, if it is still there."""
        if self.again is None and self.tensor is not None:
            tensor = torch_compat.alive(self.tensor)
            if tensor is not None and torch_compat.version_of(tensor) == self.version and tensor.grad_fn is self.node:
                self.again = torch_compat.alias_with_history(tensor)
        return self.again

    def without_contents(self) -> torch.Tensor:
        """In its place, for gradients that do not depend on what it held."""
        shape, dtype, device = self.like
        return torch.zeros(shape, dtype=dtype, device=device, requires_grad=True)


class _Holding(Enum):
    """How an input is remembered. Nothing that it may become a part of later must lead back to it."""

    ITSELF = "a leaf of autograd's graph, or a number"
    ALIAS = "its memory"
    HISTORY = "its memory and the history that it has now"
    COPY = "a copy: the graph changes it"
    LAYOUT = "nothing of its contents: the graph changes it, and neither results nor gradients depend on what it was"


class _WithoutGradient(torch.autograd.Function):
    """Lets autograd come to a tensor without a gradient for it."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        """A number to start from."""
        return tensor.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """No gradient."""
        return None


def _makes_zeros(target: Any) -> bool:
    """Whether autograd hands zeros to a function where no gradient comes, as it does for those that are not its own."""
    return isinstance(target, AppliedFunction) or isinstance(target, torch_compat.OPERATOR_TYPES) \
        and not str(target).startswith(("aten.", "prims."))


class Replay:
    """Runs a captured graph again.

    ``saved``: inputs that the compiled function saves for its backward anyway; ``without_history``: those that autograd
    does not know as its inputs, though they have a history; ``placed``: those whose memory backward looks at without
    asking what tensors they are.
    """

    def __init__(self, module: GraphModule, examples: Sequence[Any], joint: JointGraph, state: GlobalState,
                 saved: set[int], without_history: Sequence[int], placed: Sequence[int] = ()) -> None:
        self.placed = placed
        self.placed_examples = [examples[at] for at in placed]
        self.replaceable = [number for number, example in enumerate(self.placed_examples) if example.is_leaf]
        """Those of `placed` that autograd saves as the objects they are: the program may give them other data."""
        self.placed_by_symbols = any(type(number) is not int for example in self.placed_examples
                                     for number in (*example.shape, *example.stride()))
        self.module = module
        self.state = state
        self.without_history = without_history
        self.carriers = joint.carriers
        self.needed_for = _needed_for(joint)
        """For each input the differentiable results, as bits, whose gradients are computed from its contents."""
        self.changed = {change.index for change in joint.mutated}
        self.checked_for = [joint.eager_saves.get(entry.node, 0) & results
                            for entry, results in zip(joint.inputs, self.needed_for, strict=True)]
        """The same, where eager looks at these contents too: it refuses to if they have been changed since."""
        every = (1 << len(joint.differentiable)) - 1
        self.saved_for_some = [at for at in sorted(saved - self.changed) if every & ~self.checked_for[at]]
        """Inputs that are saved for the gradients of some results: for others they may be changed."""
        if self.saved_for_some and not torch_compat.SAVED_ONE_BY_ONE:
            saved, self.saved_for_some = set(), []
        self.holds_all = not saved
        """Whether nothing of what the compiled function saves is needed."""
        copied = self.changed & _inputs_behind(joint) if self.changed else self.changed
        # What is overwritten may be differentiated as before: behind autograd's back, say, through detach().
        copied = copied | {at for at in self.changed if examples[at].requires_grad}
        self.holding = {
            at: _Holding.COPY if at in copied else _Holding.LAYOUT if at in self.changed
            else _Holding.ITSELF if not isinstance(example, torch.Tensor) or example.requires_grad and example.is_leaf
            else _Holding.HISTORY if example.requires_grad else _Holding.ALIAS
            for at, example in enumerate(examples) if at not in saved or at in self.changed}
        # Gradients of any order are made of the values that those of the first order are made of.
        self.unwatched = {at for at, example in enumerate(examples)
                          if not isinstance(example, torch.Tensor) or example.is_inference()
                          or not self.needed_for[at]}
        aliases = {at for at, how in self.holding.items() if how in (_Holding.ALIAS, _Holding.HISTORY)
                   and not examples[at].is_inference()}
        self.changeable = aliases & _inputs_behind(joint) if aliases else aliases
        """Inputs that a program may change after the call, because eager has no need of them any more."""
        leaves = {at for at, how in self.holding.items() if how is _Holding.ITSELF
                  and isinstance(examples[at], torch.Tensor) and not self.checked_for[at]}
        self.changeable_leaves = leaves & _inputs_behind(joint) if leaves else leaves
        self.looks_around = any(_LOOKING.match(str(node.target)) for node in joint.graph.nodes)
        self.makes_zeros = any(_makes_zeros(node.target) for node in module.graph.nodes)
        """Whether functions of the program's own, or operators, may have gradients where none come to the results."""
        self.draws = any(
            isinstance(node.target, torch_compat.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
            for node in joint.graph.nodes)

    @functools.cached_property
    def forward(self) -> Callable[..., Any]:
        """The captured graph. Where it asks for gradients, those of its own inputs are meant, not of leaves behind."""
        if not any(node.target is leaf_gradients for node in self.module.graph.nodes):
            return self.module.forward
        graph = torch.fx.Graph()
        graph.output(graph.graph_copy(self.module.graph, {}))
        for node in graph.nodes:
            if node.target is leaf_gradients:
                node.target = _gradients
        return torch.fx.GraphModule(self.module, graph).forward

    def remember(self, inputs: Sequence[Any], packed: bool) -> Call:
        """What the graph will need to run again; to be called before it runs, where grad mode is on."""
        held: list[Any] = []
        behind_results: list[tuple[torch.Tensor, int]] = []
        watched: dict[int, torch.Tensor] = {}
        copied: set[int] = set()
        for at, how in self.holding.items():
            value = inputs[at]
            if how is _Holding.ITSELF:
                # Parameters are left out: optimizers change them when all is done, and a copy of each costs.
                if at in self.changeable_leaves and type(value) is torch.Tensor and self._is_small(value):
                    held.append(value.clone())
                    continue
                held.append(value)
            elif how is _Holding.LAYOUT:
                held.append((value.shape, value.stride(), value.dtype, value.device))
                continue
            elif (value.grad_fn is not None
                  and (produced := _produced(value, how is _Holding.HISTORY)) is not None):
                held.append(produced)
                continue
            elif how is _Holding.COPY:
                held.append(value.clone())
                continue
            elif at in self.changeable and self._is_small(value):
                held.append(value.clone())
                if not self.checked_for[at]:
                    continue
                copied.add(at)
                value = value.detach()
            else:
                alias = value.detach()
                held.append(alias if how is _Holding.ALIAS else torch_compat.alias_with_history(value))
                value = alias
                if at in self.unwatched and at in self.changeable:
                    behind_results.append((value, torch_compat.version_of(value)))
            if at not in self.unwatched:
                watched[at] = value
        spare = []
        for at in self.saved_for_some:
            value = inputs[at]
            if self.needed_for[at] != self.checked_for[at] and self._is_small(value):
                copied.add(at)
                spare.append(value.clone())
            else:
                spare.append(value.detach())
        placed = [inputs[at] for at in self.placed]
        layouts = [(value.shape, value.stride()) for value in placed] if self.placed_by_symbols else None
        return Call(held, watched, versions_of(watched), random_state() if self.draws else None, behind_results, spare,
                    copied, list(map(_address, placed)),
                    [] if packed else [_storage(placed[number]) for number in self.replaceable], layouts, packed)

    def stays(self, call: Call, saved: Sequence[Any]) -> bool:
        """Whether `placed` are where they were: ``data`` of a tensor may have become another.

        ``saved`` are these tensors as they are now, None where one is not needed.
        """
        try:
            return list(map(_address, saved)) == call.places
        except TypeError:
            return False

    def fits(self, call: Call, saved: Sequence[Any]) -> bool:
        """Whether the memory of `placed` is laid out as it was."""
        for number, (value, place, example) in enumerate(zip(saved, call.places, self.placed_examples, strict=True)):
            if value is not None and _address(value) != place:
                wanted = (example.shape, example.stride()) if call.layouts is None else call.layouts[number]
                if (value.shape, value.stride()) != wanted or value.dtype is not example.dtype \
                        or value.device != example.device:
                    return False
        return True

    def _is_small(self, value: torch.Tensor) -> bool:
        return value.numel() <= SMALL and value.is_contiguous() and not self.looks_around

    def needs_unchanged(self, call: Call, at: int, results: int) -> bool:
        """Whether an input must not have been changed since for the gradients of some results, as bits."""
        return bool((self.checked_for if at in call.copied else self.needed_for)[at] & results)

    def check(self, call: Call, results: int) -> None:
        """Raise if something has been changed that the gradients of some differentiable results, as bits, need."""
        if (now := versions_of(call.watched)) != call.versions and any(
                current != version and self.needs_unchanged(call, at, results)
                for at, current, version in zip(call.watched, now, call.versions, strict=True)):
            raise RuntimeError(CHANGED)

    def inputs(self, call: Call, saved: dict[int, Any], results: int) -> list[Any]:
        """The inputs of the call, or how to get them, for the gradients of some differentiable results, as bits;
        ``saved`` are those that were saved for backward."""
        self.check(call, results)
        values = {**saved, **dict(zip(self.holding, call.held, strict=True))}
        for at, how in self.holding.items():
            if how is _Holding.LAYOUT:
                shape, stride, dtype, device = values[at]
                values[at] = torch.empty_strided(shape, stride, dtype=dtype, device=device).zero_()
        return [values[at] for at in range(len(values))]

    def gradients(self, call: Call, inputs: Sequence[Any], tangents: Sequence[torch.Tensor | None],
                  hooks: Mapping[int, Sequence[Callable[..., Any]]]) -> list[Any]:
        """The gradients of all inputs; differentiable themselves where grad mode is on.

        ``hooks`` are those of differentiable results: they have seen the tangents, and are to see the gradients that
        come to such a result when these gradients are differentiated.
        """
        create = torch.is_grad_enabled()
        asked = sum(1 << number for number, tangent in enumerate(tangents) if tangent is not None)
        with torch.enable_grad(), torch_compat.outside_dispatch_modes():
            inputs = _remade([self._unless_freed(at, value, asked) for at, value in enumerate(inputs)])
            sources = [value.view_as(value) if isinstance(value, torch.Tensor) and value.requires_grad else None
                       for value in inputs]
            given = [value if source is None else source for value, source in zip(inputs, sources, strict=True)]
            results = self.run(call, given)
        starts: list[Any] = []
        gradients: list[Any] = []
        nothing = all(tangent is None for tangent in tangents)
        for carrier, tangent in zip(self.carriers, tangents, strict=True):
            if (nothing or tangent is not None) and (start := _carried(carrier, results, given)).requires_grad:
                if nothing:
                    with torch.enable_grad():
                        start = _WithoutGradient.apply(start)  # type: ignore[no-untyped-call]
                starts.append(start)
                gradients.append(tangent)
        wanted = [source for source in sources if source is not None]
        placed: list[Any] = [None] * len(wanted)
        if starts and wanted:
            placed = list(torch.autograd.grad(starts, wanted, gradients, create_graph=create, allow_unused=True))
            for number, called in hooks.items() if create else ():
                result = _carried(self.carriers[number], results, given)
                for hook in called if result.requires_grad else ():
                    result.register_hook(hook)
        order = iter(placed)
        return [None if source is None else next(order) for source in sources]

    def _unless_freed(self, at: int, value: Any, asked: int) -> Any:
        """An input, or where it cannot be computed again and the gradients of the results ``asked`` for do not need
        what it held, as in eager, something in its place."""
        if not isinstance(value, Produced) or not asked or self.needed_for[at] & asked:
            return value
        try:
            return _remade([value])[0]
        except RuntimeError:  # what it is computed from has been freed or changed since
            return value.without_contents()

    def run(self, call: Call, given: list[Any]) -> Sequence[Any]:
        """The results of the captured graph under the global state of the call, which is put back.

        What the graph changes is replaced by copies in ``given``.
        """
        for at in self.without_history:
            # No gradient flows back to it, and it was remembered without its history. But the graph may ask for one.
            # No view: the graph may write its own contents to it.
            given[at] = torch_compat.alias_with_history(given[at].detach().requires_grad_())
        for at in self.changed:
            given[at] = given[at].clone()
        now, random = GlobalState.current(), random_state() if self.draws else None
        self.state.restore()
        if call.random is not None:
            restore_random_state(call.random)
        try:
            with torch_compat.outside_batches():
                results = self.forward(*given)
        finally:
            now.restore()
            if random is not None:
                restore_random_state(random)
        return results if isinstance(results, (tuple, list)) else (results,)


def _produced(value: torch.Tensor, unchanged: bool) -> Produced | None:
    """How to compute an input again, if it is a result of compiled code as the captured graph returns it."""
    node: Any = value.grad_fn
    if not isinstance(getattr(node, "call", None), Call):
        return None
    unit: TrainingUnit = node.unit
    part, number = node.part, value.output_nr
    carrier = unit.replay.carriers[unit.tangents_at.index(number) if part is None else part.results[number]]
    if carrier is None or carrier.output is None or carrier.base:
        return None
    return Produced(node, carrier.output, number, torch_compat.version_of(value),
                    weakref.ref(value) if unchanged else None, (value.shape, value.dtype, value.device))


def _remade(inputs: Sequence[Any]) -> list[Any]:
    """The inputs of a call. Those that are gone are computed again, and first what they are computed from."""
    waiting = [value for value in inputs if isinstance(value, Produced)]
    while waiting:
        produced = waiting[-1]
        if produced.found() is None:
            node = produced.node
            call: Call | None = node.call
            if call is None:
                node.saved_tensors  # noqa: B018  (raises, and says how to keep them)
                raise RuntimeError(CHANGED)
            if any(torch_compat.version_of(tensor) != version for tensor, version in call.behind_results):
                raise RuntimeError(CHANGED)
            needed = inputs_of(node, call)
            missing = [value for value in needed if isinstance(value, Produced) and value.found() is None]
            if missing:
                waiting += missing
                continue
            replay: Replay = node.unit.replay
            given: list[Any] = [value.found() if isinstance(value, Produced) else value for value in needed]
            produced.again = replay.run(call, given)[produced.output]
            hooks = getattr(node, "result_hooks", {}).get(produced.number, {})
            for hook in hooks.values() if produced.again.requires_grad else ():
                produced.again.register_hook(hook)
        waiting.pop()
    return [value.found() if isinstance(value, Produced) else value for value in inputs]


def needs_operators(tangents: Sequence[torch.Tensor | None]) -> bool:
    """Whether eager's operators have to run on these gradients: kernels know plain memory, and no mode sees them."""
    return torch_compat.torch_dispatch_stack_length() > 0 or any(
        tangent is not None and (type(tangent) is not torch.Tensor or not torch_compat.is_plain_memory(tangent))
        for tangent in tangents)


def versions_of(tensors: Mapping[int, torch.Tensor]) -> list[int]:
    """Autograd's counts of changes in place."""
    return list(map(torch_compat.version_of, tensors.values()))


def inputs_of(ctx: Any, call: Call, results: int = ALL_RESULTS) -> list[Any]:
    """The inputs of the call, out of what was saved and remembered; `Produced` where they may have to be computed.

    ``results``: the differentiable results, as bits, whose gradients are wanted. What these do not look at may have
    been changed since.
    """
    unit: TrainingUnit = ctx.unit
    replay = unit.replay
    count = len(unit.examples)
    if call.inputs is not None:
        replay.check(call, results)
        return call.inputs
    if replay.holds_all:
        return replay.inputs(call, {}, results)
    changeable: dict[int, Any] = {}
    try:
        saved = torch_compat.all_saved_tensors(ctx)
    except RuntimeError:
        # A result of the function that was saved may have been changed since: the graph will compute it again.
        changeable = {at: value if at in call.copied else value.requires_grad_(unit.examples[at].requires_grad)
                      for at, value in zip(replay.saved_for_some, call.spare, strict=True)
                      if not replay.needs_unchanged(call, at, results)}
        saved = torch_compat.saved_tensors_at(ctx, [at for at, source in enumerate(unit.saved_from)
                                                    if source < count and source not in changeable])
        if saved is None:
            raise
    values = {at: value for at, value in zip(unit.saved_from, saved, strict=True) if at < count}
    return replay.inputs(call, {**values, **changeable}, results)


def _gradients(outputs: Sequence[torch.Tensor], grad_outputs: Sequence[torch.Tensor | None] | None,
               leaves: Sequence[torch.Tensor], retain_graph: bool | None = None, create_graph: bool = False,
               only: bool = False) -> tuple[torch.Tensor | None, ...]:
    """`leaf_gradients` with respect to tensors that are no leaves."""
    return torch.autograd.grad(outputs, leaves, grad_outputs, retain_graph, create_graph, allow_unused=True)


def _carried(carrier: Carrier | None, results: Sequence[Any], inputs: Sequence[Any]) -> torch.Tensor:
    if carrier is None:
        raise UserCodeError(
            "a gradient is to be differentiated again that belongs to memory shared by several results",
            "compile this function with backend=\"eager\", whose backward can be differentiated as often as you like, "
            "or leave it out of what is compiled")
    if carrier.output is None:
        assert carrier.changed is not None
        changed: torch.Tensor = inputs[carrier.changed]
        return changed
    carried: torch.Tensor = results[carrier.output]
    if carrier.base:
        base = torch_compat.view_base(carried)
        assert base is not None
        return base
    return carried


def _needed_for(joint: JointGraph) -> list[int]:
    """For each input the differentiable results, as bits, whose gradients are computed from its contents. New tensors
    like others depend on sizes only."""
    every = (1 << len(joint.differentiable)) - 1
    behind = tangent_bits(joint)
    needed = dict.fromkeys(joint.graph.nodes, 0)
    for output in joint.gradients:
        if isinstance(output, FreshTensor):
            needed[output.node] = behind[output.node] or every
    for node in reversed(joint.graph.nodes):
        if needed[node]:
            like = node.args[0] if _LIKE.fullmatch(str(node.target)) else None
            for source in node.all_input_nodes:
                if source is not like:
                    # without its tangents it is nothing, whatever it is computed from besides
                    needed[source] |= needed[node] & (behind[source] or every)
    return [needed[entry.node] for entry in joint.inputs]


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
