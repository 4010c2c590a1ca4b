"""``torch.utils.checkpoint.checkpoint`` in captured code: its function is inlined, and its part of the graph is marked.

Nodes of a region have the same number under ``node.meta["recompute"]``: what they compute should be computed again in
the backward pass, not kept. ``node.meta["checkpoint"]`` says how the program asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.utils.checkpoint

from .. import torch_compat
from ..records import dataclass
from .call_handlers import handles
from .data_facts import function_name
from .regions import reachable
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue
from .values.mappings import DictValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

REGION, SETTINGS = "recompute", "checkpoint"
KEPT = frozenset({"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "scaled_dot_product_attention",
                  "conv1d", "conv2d", "conv3d"})
"""What selective checkpoints are there to keep. Policies speak of operators that the captured functions become later;
what is kept changes no result."""


@dataclass
class Checkpoints:
    """The checkpointed regions of one capture."""

    count: int = 0
    #: whether one is being captured
    inside: bool = False
    #: whether one is asking what its contexts are
    asks_for_contexts: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """How a region is to be recomputed."""

    use_reentrant: bool
    preserve_rng_state: bool = True
    determinism_check: str = "default"
    early_stop: bool = True
    selective: bool = False


@handles(torch.utils.checkpoint.checkpoint)
def call_checkpoint(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``checkpoint(function, *args, use_reentrant=..., **kwargs)``."""
    if not args:
        raise GraphBreak("checkpoint() without a positional function")
    function, inputs, named = args[0], args[1:], dict(kwargs)
    settings = _settings(tx, named)
    if not torch.is_grad_enabled() or tx.checkpoints.inside:
        # nothing is kept for a backward pass, or the region around this one is recomputed as a whole
        return tx.call(function, inputs, named)
    if any(isinstance(value := each.realize(), TensorValue) and value.fake.is_inference() for each in inputs):
        raise GraphBreak("checkpoint() of a tensor made in inference mode, which cannot be saved")
    if settings.use_reentrant:
        _check_reentrant(inputs, named)
    last = next(iter(reversed(tx.graph.graph.nodes)), None)
    known = {id(value): (value, torch_compat.version_of(value.fake)) for value in tx.tensor_of_fake.values()
             if not value.fake.is_inference()}
    outer, tx.effects.changes = tx.effects.changes, []
    tx.checkpoints.inside = True
    try:
        result = tx.call(function, inputs, named)
    finally:
        tx.checkpoints.inside = False
        changes, tx.effects.changes = tx.effects.changes, outer
    if changes and _was_there_before(tx, changes, (function, inputs, named)):
        raise GraphBreak("a checkpointed function changes something besides its result: it runs twice")
    found_inside = [entry for entry in tx.graph.inputs if id(tx.tensor_of_fake.get(id(entry.example))) not in known]
    if any(torch_compat.version_of(value.fake) != version for value, version in known.values()) or \
            any(entry.mutated for entry in found_inside):
        raise GraphBreak("a checkpointed function writes to a tensor from outside: it runs twice")
    if settings.use_reentrant:
        _check_results(result)
    tx.checkpoints.count += 1
    for node in reversed(tx.graph.graph.nodes):
        if node is last or node.op == "placeholder":
            break
        if not settings.selective or function_name(node) not in KEPT:
            node.meta[REGION], node.meta[SETTINGS] = tx.checkpoints.count, settings
    return result


def _was_there_before(tx: Tracer, changes: list[Any], given: Any) -> bool:
    """Whether a checkpointed function changed something that it has not made itself: the program's, or its caller's."""
    if any(value is None or value.source is not None for value in changes):
        return True
    reached = reachable([given, *([frame.stack, frame.locals, frame.cells] for frame in tx.frames)])
    return any(id(value) in reached for value in changes)


def _settings(tx: Tracer, named: dict[str, Value]) -> Checkpoint:
    """Take the settings out of the arguments."""
    settings: dict[str, Any] = {}
    for name in ("use_reentrant", "preserve_rng_state", "determinism_check", "early_stop"):
        if name in named:
            settings[name] = tx.constant_of(named.pop(name))
    if settings.get("use_reentrant") is None:
        raise GraphBreak("checkpoint() without use_reentrant warns", "pass use_reentrant=False")
    if "debug" in named and tx.truth(named["debug"]):
        raise GraphBreak("checkpoint() with debug")
    named.pop("debug", None)
    if "context_fn" in named:
        settings["selective"] = _is_selective(tx, named.pop("context_fn"))
    return Checkpoint(**settings)


def _is_selective(tx: Tracer, context_fn: Value) -> bool:
    """Whether the contexts of a checkpoint say what to keep; breaks for others, which may do anything."""
    function = getattr(context_fn.realize(), "real", None)
    if function is torch.utils.checkpoint.noop_context_fn:
        return False
    tx.checkpoints.asks_for_contexts = True
    try:
        contexts = tx.call(context_fn, [], {}).realize()
    finally:
        tx.checkpoints.asks_for_contexts = False
    if not isinstance(contexts, TupleValue) or not all(isinstance(each.realize(), _Keeping) for each in contexts.items):
        raise GraphBreak("checkpoint() with contexts of the program's own",
                         "use torch.utils.checkpoint.create_selective_checkpoint_contexts")
    return True


class _Keeping(Value):
    """A context in which a policy says which results are kept."""

    __slots__ = ()
    fixed_type = object


@handles(torch.utils.checkpoint.create_selective_checkpoint_contexts)
def call_selective_contexts(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What a checkpoint asks for; its policy is for single operators, and is not asked (see `KEPT`)."""
    if not tx.checkpoints.asks_for_contexts:
        raise GraphBreak("create_selective_checkpoint_contexts() outside of a checkpoint")
    return TupleValue([_Keeping(None), _Keeping(None)])


def _check_reentrant(inputs: list[Value], named: dict[str, Value]) -> None:
    """Only gradients of direct arguments are looked at, which must be there."""
    if named:
        raise GraphBreak("a reentrant checkpoint() with keyword arguments")
    values = [value.realize() for value in inputs]
    if any(isinstance(value, (TupleValue, ListValue, DictValue)) for value in values):
        raise GraphBreak("a reentrant checkpoint() of containers")
    if not any(isinstance(value, TensorValue) and value.fake.requires_grad for value in values):
        raise GraphBreak("a reentrant checkpoint() without an argument that needs a gradient",
                         "pass use_reentrant=False")


def _check_results(result: Value) -> None:
    """All results of a reentrant checkpoint need gradients."""
    result = result.realize()
    for value in result.items if isinstance(result, TupleValue) else [result]:
        value = value.realize()
        if not isinstance(value, (TensorValue, ConstantValue)) or isinstance(value, TensorValue) and \
                not value.fake.requires_grad:
            raise GraphBreak("a reentrant checkpoint() with a result that needs no gradient",
                             "pass use_reentrant=False")
