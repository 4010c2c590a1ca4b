"""Gradient mode, inference mode, autocast, and the state that compiled code depends on."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from ..devices import KINDS
from ..records import dataclass

#: ``set_grad_enabled(bool)`` without the object that the public function makes.
set_grad_enabled = torch._C._set_grad_enabled

#: ``with inference_mode_guard(True):`` is ``torch.inference_mode(True)`` without its decorator machinery.
inference_mode_guard = torch._C._InferenceMode

#: ``packing_hooks(False)`` is the pair of hooks on saved tensors that torch calls, the innermost, or None.
packing_hooks: Callable[[bool], tuple[Any, Any] | None] = torch._C._autograd._top_saved_tensors_default_hooks


#: ``packing_refusal()`` is what whoever enters hooks on saved tensors is told, or None where they may be entered.
packing_refusal: Callable[[], str | None] = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message
refuse_packing: Callable[[str], None] = torch._C._autograd._saved_tensors_hooks_disable
allow_packing: Callable[[], None] = torch._C._autograd._saved_tensors_hooks_enable


#: ``lacks_devices()`` says whether this process was forked from one that has asked for GPUs: then it cannot use any.
lacks_devices: Callable[[], bool] = getattr(torch.cuda, "_is_in_bad_fork", lambda: False)


@dataclass(frozen=True, slots=True)
class AutocastState:
    """What autocast does for one device type."""

    device_type: str
    enabled: bool
    dtype: torch.dtype
    cache_enabled: bool


def autocast_state(device_type: str) -> AutocastState:
    """The autocast state of this thread for a device type.

    >>> autocast_state("cpu").enabled
    False
    """
    return AutocastState(
        device_type,
        torch.is_autocast_enabled(device_type),
        torch.get_autocast_dtype(device_type),
        torch.is_autocast_cache_enabled(),
    )


def set_autocast_state(state: AutocastState) -> None:
    """Put back what :func:`autocast_state` returned. Does not touch the nesting count of autocast's cache."""
    torch.set_autocast_enabled(state.device_type, state.enabled)
    torch.set_autocast_dtype(state.device_type, state.dtype)
    torch.set_autocast_cache_enabled(state.cache_enabled)


def autocast_nesting() -> int:
    """How many autocast blocks this thread is in. The outermost empties the cache of weights that were cast.

    >>> with torch.autocast("cpu"):
    ...     autocast_nesting()
    1
    """
    torch.autocast_increment_nesting()  # type: ignore[no-untyped-call]
    return int(torch.autocast_decrement_nesting())  # type: ignore[no-untyped-call]


def set_autocast_nesting(count: int) -> None:
    """Put back what :func:`autocast_nesting` returned, with an empty cache outside of all blocks."""
    change = count - autocast_nesting()
    for _ in range(change):
        torch.autocast_increment_nesting()  # type: ignore[no-untyped-call]
    for _ in range(-change):
        torch.autocast_decrement_nesting()  # type: ignore[no-untyped-call]
    if change and not count:
        torch.clear_autocast_cache()  # type: ignore[no-untyped-call]


def leave_autocast_block() -> None:
    """Graph operation: count one block less, and empty the cache behind the outermost one.

    Whether a block is the outermost is another thing in each call, so that it is no constant of the graph.
    """
    if torch.autocast_decrement_nesting() == 0:  # type: ignore[no-untyped-call]
        torch.clear_autocast_cache()  # type: ignore[no-untyped-call]


#: Device types whose autocast state compiled code depends on.
AUTOCAST_DEVICES: tuple[str, ...] = tuple(KINDS)


@contextmanager
def autocast_disabled() -> Iterator[None]:
    """No casts on any device, for graphs whose casts are part of them."""
    with ExitStack() as stack:
        for device in AUTOCAST_DEVICES:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


#: Questions that guards ask, as torch's own C functions: no Python frame around them.
function_stack_length = torch._C._len_torch_function_stack
dispatch_stack_length = torch._C._len_torch_dispatch_stack
functorch_interpreter = torch._C._functorch.peek_interpreter_stack
deterministic_enabled = torch._C._get_deterministic_algorithms
any_autocast_enabled = torch._C._is_any_autocast_enabled
is_tracing = torch._C._is_tracing  # for TorchScript

#: Questions that run no Python code outside of function modes.
STATE_QUERIES: frozenset[Callable[[], Any]] = frozenset({
    function_stack_length, dispatch_stack_length, functorch_interpreter, deterministic_enabled, any_autocast_enabled,
    is_tracing,
    torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype, torch.get_num_threads,
})

#: Where torch says which level of forward-mode differentiation is active: -1 is none.
forward_ad_variables: dict[str, Any] = vars(torch.autograd.forward_ad)
FORWARD_AD_LEVEL = "_current_level"

#: Whether the backward pass that runs now was asked to keep its graph: ``retain_graph=True``.
keeps_graph: Callable[[], bool] = torch._C._autograd._get_current_graph_task_keep_graph
#: A number of the backward pass that runs now, which no other has.
backward_pass: Callable[[], int] = torch._C._current_graph_task_id


def raise_freed() -> None:
    """Raise what autograd raises where a backward pass comes to memory that an earlier one has freed."""
    start = torch.ones((), requires_grad=True)
    with torch.enable_grad():
        result = start.exp()
    for _ in range(2):
        torch.autograd.grad(result, start)


def forward_ad_active() -> bool:
    """Whether tensors may carry tangents of forward-mode differentiation."""
    return bool(forward_ad_variables[FORWARD_AD_LEVEL] >= 0)


#: The function that autograd is running in this thread, None while it runs none.
current_autograd_node = torch._C._current_autograd_node

def saves_tensors(function: Any) -> bool:
    """Whether a function of autograd's graph has saved tensors, which a backward pass frees."""
    if isinstance(function, torch.autograd.function.BackwardCFunction):
        try:
            return len(function._raw_saved_tensors) > 0  # type: ignore[attr-defined]
        except RuntimeError:  # freed
            return True
    kind: Any = type(function)
    if kind.__name__ == "CopySlices":  # gives up the function that it wraps
        return True
    for name in _saved_names(kind):
        try:
            saved = getattr(function, name)
        except RuntimeError:  # changed since
            return True
        if saved is not None and (not isinstance(saved, tuple) or any(item is not None for item in saved)):
            return True
    return False


@functools.cache
def _saved_names(kind: type) -> tuple[str, ...]:
    start = "_raw_saved_"
    return tuple(name.replace(start, "_saved_", 1) for name in dir(kind) if name.startswith(start))


@contextmanager
def outside_batches() -> Iterator[None]:
    """Leave the mode in which autograd computes batches of gradients: it refuses to draw random numbers."""
    level = torch._C._vmapmode_increment_nesting() - 1
    for _ in range(level + 1):
        torch._C._vmapmode_decrement_nesting()
    try:
        yield
    finally:
        for _ in range(level):
            torch._C._vmapmode_increment_nesting()


def stops_recomputation(error: BaseException) -> bool:
    """Whether an exception is no failure: `torch.utils.checkpoint` ends the second run of a function with it."""
    kind = type(error)
    return kind.__name__ == "_StopRecomputationError" and kind.__module__ == "torch.utils.checkpoint"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A call of ``torch.utils.checkpoint.checkpoint`` that saves tensors by hooks."""

    frame: Any
    """Torch's own object for the call, which lives as long as it may run again."""
    runs_again: bool


def current_checkpoint() -> Checkpoint | None:
    """The innermost checkpoint around this call, unless other hooks on saved tensors come before it.

    >>> from torch.utils.checkpoint import checkpoint
    >>> def function(x):
    ...     print(current_checkpoint().runs_again)
    ...     return x.sin()
    >>> checkpoint(function, torch.ones(2, requires_grad=True), use_reentrant=False).sum().backward()
    False
    True
    >>> current_checkpoint() is None
    True
    """
    hooks = packing_hooks(False)
    if hooks is None or getattr(hooks[0], "__module__", "") != "torch.utils.checkpoint":
        return None
    pack = inspect.unwrap(hooks[0])
    names = dict(zip(pack.__code__.co_freevars, pack.__closure__ or (), strict=True))
    if "frame" in names:
        return Checkpoint(names["frame"].cell_contents, False)
    frame = names["target_frame_ref"].cell_contents() if "target_frame_ref" in names else None
    return Checkpoint(frame, True) if frame is not None else None


def after_backward(function: Callable[[], Any]) -> None:
    """Call a function when the backward pass that is running has ended."""
    torch.autograd.Variable._execution_engine.queue_callback(function)  # type: ignore[attr-defined]


def may_change_values(hooks: tuple[Any, Any]) -> bool:
    """Whether hooks on saved tensors may change what is saved, which those of torch's own do not.

    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
    ...     may_change_values(packing_hooks(False))
    True
    >>> with torch.autograd.graph.save_on_cpu():
    ...     may_change_values(packing_hooks(False))
    False
    """
    return not all(hook is _itself or str(getattr(hook, "__module__", "")).startswith("torch.") for hook in hooks)


@contextmanager
def without_user_packing() -> Iterator[None]:
    """Keep the user's hooks on saved tensors from being called: of nested hooks torch calls the innermost only."""
    if packing_hooks(False) is None:
        yield
        return
    with torch.autograd.graph.saved_tensors_hooks(_itself, _itself):
        yield


@contextmanager
def own_packing(pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> Iterator[None]:
    """Hooks of ours on saved tensors, also where the program allows none."""
    refusal = packing_refusal()
    if refusal is not None:
        allow_packing()
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield
    finally:
        if refusal is not None:
            refuse_packing(refusal)


def _itself(value: Any) -> Any:
    return value
