"""Compiled forward and backward as one function that autograd knows.

    results = CompiledFunction.apply(unit, *inputs)     the compiled forward; what backward needs is saved with autograd
    ...                                          changed inputs, views of inputs and of results: made by torch itself

Tensors are saved as autograd saves them, so that hooks on saved tensors, ``retain_graph``, anomaly mode and the check
for changes in place all work. Views that the program returns are made from their base after the function has run: for
autograd they are views as in eager. So are changes of inputs that gradients flow through: they are copies, which
autograd records.

Backward is compiled when it first runs, for those results that get a gradient: a model that returns a loss and logits
gets one for the loss only, and no zeros are computed for the rest.

Where results have nothing to do with each other there is a function for each part of them, behind one compiled forward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..autodiff.independent import Part, parts_of, tangents_behind
from ..autodiff.joint import trace_training
from ..autodiff.joint_graph import Expected, JointGraph, Tangent
from ..autodiff.partition import Partition, changed_and_kept, kept_value, part_again, partition
from ..autodiff.passed_gradients import is_by_rows, is_transposed_for_arithmetic
from ..events import span
from ..functional.graph import Unsupported
from ..functional.running import with_counts
from ..functional.state import GlobalState
from ..interruptions import uninterrupted
from ..locks import new_lock
from ..logs import log
from ..shapes import LateDecisionError
from ..torch_compat.autograd_functions import quick_apply
from .assembly import Assembly
from .collecting import collection_paused
from .compiled_backward import CompiledBackward, TangentLayout, keep_apart, order_of
from .replaced_data import settle_replaced
from .replaying import CHANGED, Call, Replay, inputs_of, needs_operators, versions_of
from .staged_training import Groups, Later, StagedBackward, apply_in_stages, groups_of, staged_backward
from .waiting_errors import naming_function

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from ..functional.graph import FunctionalGraph
    from .recording import Stack

MOST_BACKWARDS = 8
"""How many a unit has at most before gradients in yet another order are copied into one that is known."""
Prepare = Callable[[JointGraph], JointGraph]
"""Improves a joint graph before it is parted."""
Compile = Callable[["FunctionalGraph", str, bool], Callable[..., Any]]
"""Makes a function of a functional graph; the text is its name. With True it takes its inputs in one list that it may
empty, so that they are freed as soon as they are not needed."""


class TrainingUnit:
    """A captured graph whose results need gradients, compiled."""

    def __init__(self, module: GraphModule, examples: Sequence[Any], joint: JointGraph, compile_half: Compile,
                 memory_budget: float = 1.0, prepare: Prepare | None = None, machine_code: bool = False,
                 as_captured: Callable[[GraphModule], Callable[..., Any]] | None = None) -> None:
        """``machine_code``: backward takes what was saved for what forward has seen, and looks at its memory only.

        ``as_captured`` makes the function that runs a captured graph operator by operator.
        """
        self.module = module
        self.as_captured = as_captured
        self.examples = list(examples)
        self.name = type(module).__name__
        self.compile_half = compile_half
        self.prepare = prepare
        if joint.linked:
            raise Unsupported("a result is computed from another, and the graph is not taken apart there")
        if prepare is not None:
            with span("joint passes"):
                joint = prepare(joint)
        behind = tangents_behind(joint) if len(joint.differentiable) > 1 or joint.walked else []
        if any(walked & ~sum(1 << number for number in numbers)
               for walked, numbers in zip(joint.walked, behind, strict=False)):
            raise Unsupported("a function of the program's own has no gradient for what autograd goes on to from it")
        self.lock = new_lock()
        self.state = GlobalState.current()
        with span("partition"):
            parted = self.parted = partition(joint, memory_budget)
        log("kernels", "%s keeps %d bytes for backward; parting took %.1f ms", self.name, parted.saved_bytes,
            1000 * parted.seconds)
        self.forward = compile_half(parted.forward, f"{self.name}_forward", False)
        self.backwards: dict[tuple[tuple[Expected, ...], Groups | None], CompiledBackward] = {}
        self.result_count = len(parted.results)
        self.numbers_at = len(parted.forward.outputs) - len(parted.numbers)
        taken = self.result_count
        self.saved_from: list[int] = []
        """Where saved tensors come from: an input's index, or behind all inputs a value of forward."""
        positions = {entry.node: index for index, entry in enumerate(joint.inputs)}
        for item in parted.kept:
            if item.node in positions and not item.copied and item.narrow is None:
                self.saved_from.append(positions[item.node])
            else:
                self.saved_from.append(len(positions) + taken)
                taken += 1
        self.machine_code = machine_code
        self.tangents_at = parted.tangents_at
        self.results_saved_apart: frozenset[int] = frozenset()
        """Those of `saved_from` that are results. Autograd gives out its function's own results only together with all
        else that is saved, which may have been changed where a backward does not need it."""
        if len(joint.differentiable) > 1:
            self.results_saved_apart = frozenset(at for at, item in zip(self.saved_from, parted.kept, strict=True)
                                                 if at >= len(positions) and item.node in parted.results)
        self.unreached = [at for at, (how, example) in enumerate(zip(parted.gradients, self.examples, strict=True))
                          if any(parted.gradients) and not how and isinstance(example, torch.Tensor)
                          and example.requires_grad]
        """Inputs that have a history which no gradient flows back to, where others get gradients."""
        self.parts = parts_of(parted, {at for at, example in enumerate(self.examples)
                                       if isinstance(example, torch.Tensor) and not example.is_leaf})
        pieces = [set(part.results) for part in self.parts] or [set(range(len(joint.differentiable)))]
        self.reached_by_some = [at for at, numbers in enumerate(behind)
                                if any(0 < len(numbers & piece) < len(piece) for piece in pieces)]
        """Inputs that get gradients from some of the differentiable results of one function only."""
        self.others_at = [index for index, node in enumerate(parted.results) if index not in set(self.tangents_at)
                          and isinstance(node.meta["val"], torch.Tensor)]
        self.by_columns = [result.tangent is not None and not is_by_rows(result.tangent.meta["val"])
                           for result in joint.differentiable]
        """For each differentiable result whether its tangent is expected in another order than by rows."""
        self.tangent_examples: list[Any] = [None if result.tangent is None else result.tangent.meta["val"]
                                            for result in joint.differentiable]
        self.assembly = Assembly(joint, parted, module)
        changed = [(change.index, self.examples[change.index]) for change in joint.mutated]
        self.changed_with_history = [at for at, example in changed if example.requires_grad and not example.is_leaf]
        self.eager_frees = tuple(joint.eager_frees)
        saved = {at for at in self.saved_from if at < len(positions) and not self.parts}
        self.placed = [number for number, at in enumerate(self.saved_from) if at < len(positions)]
        self.replay = Replay(module, self.examples, joint, self.state, saved, [] if self.parts else self.unreached,
                             [self.saved_from[number] for number in self.placed])
        self.recordings: Stack | None = None
        """Where forward and backward are recorded as CUDA graphs, if they are."""
        if hasattr(self.forward, "as_forward"):
            self.recordings = self.forward.as_forward(self.result_count, self.elsewhere)
        self.forward = with_counts(self.forward, parted.forward.mutated)

    @functools.cached_property
    def transposed(self) -> list[bool]:
        """For each differentiable result whether its tangent is transposed before anything is computed from it."""
        tangents = [item.tangent for item in self.parted.joint.differentiable]
        return [tangent is not None and is_transposed_for_arithmetic(tangent) for tangent in tangents]

    @functools.cached_property
    def captured(self) -> Callable[..., Any]:
        """What runs operator by operator."""
        return self.module.forward if self.as_captured is None else self.as_captured(self.module)

    @functools.cached_property
    def changed_and_kept(self) -> list[tuple[int, int, int]]:
        """For what is saved of changed inputs, as eager does: its number, the input, and for which results, as bits."""
        joint = self.parted.joint
        eager_keeps = changed_and_kept(joint)
        return [(number, at, joint.eager_saves[joint.inputs[at].node]) for number, item in enumerate(self.parted.kept)
                if (at := eager_keeps.get(item.node)) is not None]

    @functools.cached_property
    def kept_layouts(self) -> list[TangentLayout]:
        """The strides of what is saved, which copies of views have of their own."""
        return [TangentLayout.of(kept_value(item)) for item in self.parted.kept]

    @functools.cached_property
    def elsewhere(self) -> set[int]:
        """Inputs that hold data: others are parameters and the like, which stay where they are from call to call."""
        nodes = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        return {at for at, (node, example) in enumerate(zip(nodes, self.examples, strict=True))
                if not node.meta.get("module_state", True)
                and isinstance(example, torch.Tensor) and not example.requires_grad}

    def __call__(self, *inputs: Any) -> Any:
        packing = torch_compat.packing_hooks(False)
        if packing is not None and torch_compat.may_change_values(packing):
            log("fallbacks", "%s runs operator by operator: hooks may change what it saves for backward", self.name)
            return self.captured(*inputs)
        for at in self.reached_by_some:
            hooks = torch_compat.gradient_hooks(inputs[at])
            if type(hooks) is not torch_compat.HooksForGradients:
                if hooks:
                    # Autograd would call them with None in backward passes that eager does not come by in.
                    return self.captured(*inputs)
                torch_compat.call_hooks_for_gradients(inputs[at])
        for at in self.changed_with_history:
            if inputs[at].retains_grad or torch_compat.gradient_hooks(inputs[at]):
                # What the graph computes from it after the change does not come by the changed input itself, and where
                # autograd has not noticed the change, it takes views of what has changed for others.
                return self.captured(*inputs)
        early = self.assembly.made_before(inputs) if self.assembly.early else None
        if self.parts:
            call, results = self._call_parts(inputs, packing is not None)
        elif self.tangents_at:
            given: Sequence[Any] = inputs
            if self.unreached:
                # Autograd would walk through their histories all the same, where memory may have been freed or tensors
                # changed since: eager never looks there.
                given = [*inputs]
                for at in self.unreached:
                    given[at] = inputs[at].detach()
            call = self.replay.remember(given, packing is not None)
            limits = torch_compat.bucket_limits()
            groups = None if limits is None else self.groups_for(limits)
            results = _apply(self, call, *given) if groups is None \
                else apply_in_stages(_apply_staged, self, call, groups, given)
        else:
            with torch.no_grad():
                results = without_autocast(self.forward, inputs)
            return self.assembly(inputs, results, early)
        assembled = self.assembly(inputs, results, early)
        for number, at, behind in self.changed_and_kept:
            if not inputs[at].is_inference():
                call.changed.append((number, behind, inputs[at].detach(), torch_compat.version_of(inputs[at])))
        return assembled

    def _call_parts(self, inputs: Sequence[Any], packed: bool) -> tuple[Call, tuple[Any, ...]]:
        call = self.replay.remember(inputs, packed)
        with torch.no_grad():
            values = without_autocast(self.forward, inputs)
            results = _own_results(values[:self.result_count])
        everything = (*inputs, *results, *values[self.result_count:])
        freed: list[tuple[int, int]] = []
        for part in self.parts:
            own = [inputs[at] for at in part.inputs]
            _apply_part(self, call, part, everything, freed, *own)
        return call, tuple(results)

    def prepare_backward(self) -> None:
        """Compile backward before it runs, for gradients of all results."""
        if not self.tangents_at:
            return
        count = len(self.by_columns)
        for numbers in [part.results for part in self.parts] or [tuple(range(count))]:
            kinds = tuple([Tangent.LIKE_RESULT if number in numbers else Tangent.NONE for number in range(count)])
            with self.lock:
                if (kinds, None) not in self.backwards:
                    self.backwards[kinds, None] = self._make_backward(kinds)

    @functools.cached_property
    def groups(self) -> dict[tuple[int, ...], Groups | None]:
        """The groups for buckets of so many bytes, as far as they have been asked for."""
        return {}

    def groups_for(self, limits: tuple[int, ...]) -> Groups | None:
        """The inputs whose gradients are given out together, where buckets of so many bytes are reduced at once."""
        if self.recordings is not None:
            return None
        if limits not in self.groups:
            self.groups[limits] = groups_of(self.parted, limits)
        return self.groups[limits]

    def backward_for(self, tangents: Sequence[torch.Tensor | None], groups: Groups | None = None) -> CompiledBackward:
        """The backward for those tangents that are there; in stages for groups of inputs."""
        kinds: tuple[Expected, ...] = tuple([
            Tangent.NONE if tangent is None else self._order(number, tangent) if not tangent.is_contiguous()
            else Tangent.BY_ROWS if self.by_columns[number] else Tangent.LIKE_RESULT
            for number, tangent in enumerate(tangents)])
        key = (kinds, groups)
        backward = self.backwards.get(key)
        if backward is None:
            with self.lock:
                backward = self.backwards.get(key)
                if backward is None:
                    with uninterrupted(), collection_paused(), span("backward", "graph", self.module):
                        backward = self.backwards[key] = self._make_backward(kinds, groups)
        return backward

    def _order(self, number: int, tangent: torch.Tensor) -> Expected:
        """What a tangent is that is not contiguous."""
        columns = self.by_columns[number]
        if not any(tangent.stride()):
            return Tangent.EXPANDED if columns or self.transposed[number] else Tangent.LIKE_RESULT
        order = order_of(tangent)
        if order is None or columns and order == order_of(self.tangent_examples[number]):
            return Tangent.LIKE_RESULT
        return order if len(self.backwards) < MOST_BACKWARDS else Tangent.LIKE_RESULT

    def _make_backward(self, kinds: tuple[Expected, ...], groups: Groups | None = None) -> CompiledBackward:
        number = len(self.backwards)
        name = f"{self.name}_backward{number or ''}"
        whole = self.parted
        there = [number for number, kind in enumerate(kinds) if kind is not Tangent.NONE]
        for part in self.parts:
            if there[0] in part.results:
                whole = part.parted
        wanted = [item.tangent is not None for item in whole.joint.differentiable]
        parted: Partition | None = whole
        if any(kind is not (Tangent.LIKE_RESULT if want else Tangent.NONE)
               for kind, want in zip(kinds, wanted, strict=True)):
            parted = self._part_for(kinds)
            if parted is not None and whole.kept_at is not None and not set(parted.kept_at or ()) <= set(whole.kept_at):
                parted = None
        # Otherwise zeros stand for what is missing, which is slower.
        fill = parted is None and sum(wanted) > len(there)
        parted = parted or whole
        if groups is not None:
            staged = staged_backward(parted, fill, self.parted.numbers, groups, self.saved_from, self.compile_half,
                                     name)
            if staged is not None:
                return staged
        run = self.compile_half(parted.backward, name, True)
        if hasattr(run, "as_backward"):
            kept = self.saved_from if parted.kept_at is None else [self.saved_from[at] for at in parted.kept_at]
            first, saved_at = len(parted.numbers), len(self.examples) + self.result_count
            data = [first + at for at, source in enumerate(kept) if source in self.elsewhere]
            run.as_backward([*data, *range(first + len(kept), len(parted.backward.inputs))],
                            [first + at for at, source in enumerate(kept) if source >= saved_at], self.recordings)
        run = naming_function(run, parted.backward, f"backward of {self.name}")
        return CompiledBackward(parted, run, fill, self.parted.numbers)

    def _part_for(self, kinds: tuple[Expected, ...]) -> Partition | None:
        now = GlobalState.current()
        self.state.restore()
        try:
            joint = trace_training(self.module, self.examples, tangents=kinds)
        except (Unsupported, LateDecisionError) as error:
            log("fallbacks", "%s: backward is not traced for the gradients that came: %s", self.name, error)
            return None
        finally:
            now.restore()
        if not isinstance(joint, JointGraph) or joint.guards:
            return None
        return part_again(joint if self.prepare is None else self.prepare(joint), self.parted)


def _replayed(unit: TrainingUnit, call: Call, inputs: Sequence[Any], tangents: Sequence[Any],
              hooks: dict[int, list[Any]]) -> Sequence[Any]:
    """The gradients of all inputs by running the captured graph again."""
    gradients = unit.replay.gradients(call, inputs, tangents, hooks)
    if not torch.is_grad_enabled() and not torch_compat.functorch_active():
        memories: dict[int, list[Any]] = {}
        for gradient in gradients:
            if gradient is not None and torch_compat.is_plain_memory(gradient):
                memories.setdefault(torch_compat.storage_address(gradient), []).append(gradient)
        for shared in memories.values():
            keep_apart(shared)
    return gradients


@torch_compat.hooks_see_gradients_only
class CompiledFunction(torch.autograd.Function):
    """The function that autograd knows."""

    @staticmethod
    def forward(ctx: Any, unit: TrainingUnit, call: Call, *inputs: Any) -> Any:
        """Run the compiled forward and save what backward needs."""
        ctx.set_materialize_grads(False)
        values = without_autocast(unit.forward, inputs)
        count = unit.result_count
        results = _own_results(values[:count])
        everything = (*inputs, *results, *values[count:])
        ctx.unit = unit
        ctx.call = call
        ctx.freed = 0
        ctx.freed_by_all = []
        ctx.part = None
        ctx.numbers = values[unit.numbers_at:]
        ctx.shapes = [results[at].shape for at in unit.tangents_at]
        _save(ctx, [everything[at].detach() if at in unit.results_saved_apart else everything[at]
                    for at in unit.saved_from])
        if unit.others_at:
            ctx.mark_non_differentiable(*[results[at] for at in unit.others_at])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> Any:
        """Run the compiled backward."""
        unit: TrainingUnit = ctx.unit
        given = [tangents[at] for at in unit.tangents_at]
        if all(tangent is None for tangent in given):
            return (None, None, *_without_tangents(ctx, given))
        return (None, None, *_run_backward(ctx, given))


@torch_compat.hooks_see_gradients_only
class _PartFunction(torch.autograd.Function):
    """The function that autograd knows for some results, which have nothing to do with the others in backward."""

    @staticmethod
    def forward(ctx: Any, unit: TrainingUnit, call: Call, part: Part, everything: Sequence[Any],
                freed: list[tuple[int, int]], *inputs: Any) -> Any:
        """Save what backward needs of all inputs, results and other values of the compiled forward.

        ``freed`` is what all parts of this call have freed.
        """
        ctx.set_materialize_grads(False)
        first = len(unit.examples)
        ctx.unit = unit
        ctx.call = call
        ctx.freed = 0
        ctx.freed_by_all = freed
        ctx.part = part
        ctx.numbers = everything[first + unit.numbers_at:]
        ctx.shapes = [everything[first + at].shape for at in unit.tangents_at]
        own = set(part.inputs)
        # The history of an input that this part does not differentiate is not its business.
        _save(ctx, [
            everything[at].detach() if at < first and at not in own or at in unit.results_saved_apart
            else everything[at] for at in _kept_from(unit, part)])
        return tuple([everything[first + unit.tangents_at[number]] for number in part.results])

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> Any:
        """Run the compiled backward of these results."""
        unit: TrainingUnit = ctx.unit
        part: Part = ctx.part
        given: list[Any] = [None] * len(unit.tangents_at)
        for number, tangent in zip(part.results, tangents, strict=True):
            given[number] = tangent
        gradients = (_without_tangents(ctx, given) if all(tangent is None for tangent in tangents)
                     else _run_backward(ctx, given, part))
        return (None, None, None, None, None, *[gradients[at] for at in part.inputs])


@torch_compat.hooks_see_gradients_only
class StagedFunction(torch.autograd.Function):
    """The function that autograd knows where backward runs in stages; see `staged_training`."""

    @staticmethod
    def forward(ctx: Any, unit: TrainingUnit, call: Call, later: Later, token: Any, *inputs: Any) -> Any:
        """Run the compiled forward, as `CompiledFunction` does."""
        ctx.later = later
        return CompiledFunction.forward(ctx, unit, call, *inputs)

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> Any:
        """Run the first stage of the compiled backward."""
        return (None, None, *CompiledFunction.backward(ctx, *tangents))


_apply, _apply_part, _apply_staged = map(quick_apply, (CompiledFunction, _PartFunction, StagedFunction))


def _save(ctx: Any, tensors: list[torch.Tensor]) -> None:
    ctx.save_for_backward(*tensors)
    if not torch_compat.SAVED_ONE_BY_ONE:
        torch_compat.note_versions(ctx, tensors)


def _kept_from(unit: TrainingUnit, part: Part | None) -> list[int]:
    """Those of `TrainingUnit.saved_from` that a function saves."""
    if part is None or part.parted.kept_at is None:
        return unit.saved_from
    return [unit.saved_from[at] for at in part.parted.kept_at]


def _own_results(values: Sequence[Any]) -> list[Any]:
    """Results that autograd may give a history to."""
    return [value.detach() if isinstance(value, torch.Tensor) and torch_compat.view_base(value) is not None
            else value for value in values]


def _run_backward(ctx: Any, tangents: Sequence[Any], part: Part | None = None) -> Sequence[Any]:
    """The gradients of all inputs, by compiled code, or where that cannot be by running the captured graph again."""
    unit: TrainingUnit = ctx.unit
    call: Call | None = ctx.call
    keeps = torch_compat.keeps_graph()
    kept = _kept_from(unit, part)
    now = torch_compat.backward_pass()
    freed = 0
    for when, bits in ctx.freed_by_all:
        freed |= bits if when != now else 0
    if freed and _is_freed(unit, freed, tangents) or ctx.freed and call is None and kept:
        ctx.saved_tensors  # noqa: B018  (raises, and says how to keep them)
        torch_compat.raise_freed()  # by the function of other results
    if call is not None and (ctx.freed and kept or torch.is_grad_enabled() or torch_compat.functorch_active()
                             or needs_operators(tangents)):
        if ctx.freed and kept and call.inputs is None:
            raise RuntimeError(CHANGED)
        inputs = inputs_of(ctx, call, _bits(tangents))
        if not keeps:
            _free(ctx, tangents, inputs)
        hooks = {unit.tangents_at.index(at) if part is None else part.results[at]: list(gradients.values())
                 for at, gradients in getattr(ctx, "result_hooks", {}).items()}
        return _replayed(unit, call, inputs, tangents, hooks)
    later: Later | None = getattr(ctx, "later", None)
    run = unit.backward_for(tangents, None if later is None else later.groups)
    saved = _saved_for(run, ctx, part) if kept else []
    if call is not None and saved:
        _read_changed(unit, call, saved, _bits(tangents))
        if call.packed and unit.machine_code:
            saved = [None if value is None else layout.lay_out(value)
                     for layout, value in zip(unit.kept_layouts, saved, strict=True)]
        placed = [saved[at] for at in unit.placed]
        if not unit.replay.stays(call, placed) and not _settle_moved(run, unit, call, saved, placed):
            # Eager's operators see what the tensors are now, and raise.
            return _replayed(unit, call, inputs_of(ctx, call, _bits(tangents)), tangents, {})
    if not keeps:
        _free(ctx, tangents)
        ctx.maybe_clear_saved_tensors()
    del call  # the inputs that it holds may go now
    if later is not None and isinstance(run, StagedBackward):
        return later.first(run.in_groups(ctx.numbers, saved, tangents, ctx.shapes))
    gradients: Sequence[Any] = without_autocast(run, (ctx.numbers, saved, tangents, ctx.shapes))
    return gradients


def _read_changed(unit: TrainingUnit, call: Call, saved: list[Any], results: int) -> None:
    """Put changed inputs as they are now in the place of what was saved of them, where eager saves them for the
    gradients of these results, as bits. It refuses to use them if autograd knows of changes since."""
    for number, behind, value, version in call.changed:
        if behind & results and saved[number] is not None:
            if (now := torch_compat.version_of(value)) != version:
                raise RuntimeError(
                    f"one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"[{value.type()} {list(value.shape)}] is at version {now}; expected version {version} instead.")
            saved[number] = unit.kept_layouts[number].lay_out(value) if unit.machine_code else value


def _settle_moved(run: CompiledBackward, unit: TrainingUnit, call: Call, saved: list[Any], placed: list[Any]) -> bool:
    """Put forward's data in the place of saved inputs that have other data now, where eager has kept it; False where
    compiled code cannot work with what there is."""
    if call.memories:
        placed = settle_replaced(unit.replay, call, placed, [run.nodes.get(at) for at in unit.placed])
        for at, value in zip(unit.placed, placed, strict=True):
            saved[at] = value
    return not unit.machine_code or unit.replay.fits(call, placed)


def _without_tangents(ctx: Any, tangents: Sequence[Any]) -> Sequence[Any]:
    """The gradients of all inputs where autograd comes by without any for the results: none, or what functions of the
    program's own make of zeros."""
    unit: TrainingUnit = ctx.unit
    call: Call | None = ctx.call
    if call is not None and unit.replay.makes_zeros:
        try:
            return _replayed(unit, call, inputs_of(ctx, call), tangents, {})
        except RuntimeError as error:  # changed or freed since
            log("fallbacks", "%s: no gradients where none came: %s", unit.name, error)
    return (None,) * len(unit.examples)


def _is_freed(unit: TrainingUnit, freed: int, tangents: Sequence[Any]) -> bool:
    """Whether eager would have freed what these gradients need, in backward passes for the results of ``freed``."""
    now = _bits(tangents)
    return any(behind & freed and behind & now for behind in unit.eager_frees)


def _bits(tangents: Sequence[Any]) -> int:
    bits = 0
    for number, tangent in enumerate(tangents):
        if tangent is not None:
            bits |= 1 << number
    return bits


def _free(ctx: Any, tangents: Sequence[Any], inputs: list[Any] | None = None) -> None:
    """Autograd is about to free what was saved. Keep the inputs if eager could still differentiate a result then."""
    unit: TrainingUnit = ctx.unit
    call: Call | None = ctx.call
    part: Part | None = ctx.part
    bits = _bits(tangents)
    ctx.freed |= bits
    ctx.freed_by_all.append((torch_compat.backward_pass(), bits))
    if call is None:
        return
    lost = 0
    for behind in unit.eager_frees:
        if behind & ctx.freed:
            lost |= behind
    own = (1 << len(unit.tangents_at)) - 1 if part is None else sum(1 << number for number in part.results)
    if lost & own == own:
        ctx.call = None
        return
    if inputs is None:
        try:
            inputs = inputs_of(ctx, call, own & ~lost)
        except RuntimeError:
            inputs = None  # changed since: a backward that needs them will say so
    watched = {at: value for at, value in enumerate(inputs or ())
               if isinstance(value, torch.Tensor) and at not in unit.replay.unwatched}
    ctx.call = replace(call, inputs=inputs, watched=watched, versions=versions_of(watched), memories=[])


def _saved_for(run: CompiledBackward, ctx: Any, part: Part | None) -> list[Any]:
    """What forward has saved. What this backward does not look at may have been changed since: None stands for it."""
    count = len(ctx.unit.saved_from)
    places = range(count) if part is None or part.parted.kept_at is None else part.parted.kept_at
    saved: list[Any] | None
    try:
        saved = list(torch_compat.all_saved_tensors(ctx))
    except RuntimeError:
        wanted = set(range(count) if run.kept_at is None else run.kept_at)
        saved = torch_compat.saved_tensors_at(ctx, [at for at, place in enumerate(places) if place in wanted])
        if saved is None:
            raise
    if part is None:
        return saved
    placed: list[Any] = [None] * count
    for at, place in enumerate(places):
        placed[place] = saved[at]
    return placed


def without_autocast(run: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call a function without autocast. Casts are part of the graph already."""
    if not torch_compat.any_autocast_enabled():
        return run(*args)
    with torch_compat.autocast_disabled():
        return run(*args)
