"""Functions with a meaning for the compiler: disable, allow_in_graph, graph_break and torch's own of those names.

torch's markers are recognised by name or attribute, without importing what stands behind them.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import shapes, torch_compat
from ..function_marks import (
    ALLOWED,
    COMPILED,
    CONSTANT_RESULT,
    DISABLED,
    DISALLOWED,
    ONLY_FRAME,
    compiled_by_torch,
    set_own_attributes,
)
from ..records import dataclass
from ..registry import Registry
from .assertions import assume, state, typical
from .break_reasons import written_name
from .graph_arguments import UngraphableArgument
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.functions import FunctionValue

if TYPE_CHECKING:
    from .tracer import Tracer

_BY_IDENTITY: dict[int, tuple[Any, str]] = {}


Apply = Callable[["Tracer", Value, list[Value], dict[str, Value]], Value]


@dataclass(frozen=True)
class Marker:
    """How a marked function is called during capture."""

    kind: str
    apply: Apply


def mark(function: Any, attribute: str) -> None:
    """Attach a marker; C functions, which take no attributes, are remembered by identity."""
    try:
        setattr(function, attribute, True)
    except (AttributeError, TypeError):
        _BY_IDENTITY[id(function)] = (function, attribute)


def unmark(function: Any, attribute: str) -> None:
    """Take a marker off again."""
    known = _BY_IDENTITY.get(id(function))
    if known is not None and known[1] == attribute:
        del _BY_IDENTITY[id(function)]
    elif has_mark(function, attribute):
        delattr(function, attribute)


def has_mark(function: Any, attribute: str) -> bool:
    known = _BY_IDENTITY.get(id(function))
    if known is not None and known[1] == attribute:
        return True
    return getattr(function, "__dict__", None) is not None and function.__dict__.get(attribute) is True


def disabled_frame(function: Any) -> Any:
    """The function behind one that is disabled without what it calls, in our words or in torch's; otherwise None."""
    table = getattr(function, "__dict__", None)
    if not table or not isinstance(table, dict):
        return None
    if table.get("_torchdynamo_disable") and table.get("_torchdynamo_disable_recursive") is False:
        return compiled_by_torch(function)
    return table.get(ONLY_FRAME)


def _refuse(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    real = function.as_constant() if function.is_constant() else getattr(function, "real", None)
    behind: Any = getattr(real, "_torchdynamo_orig_callable", None) or getattr(real, "__wrapped__", None)
    name = f"function {behind.__qualname__}" if hasattr(behind, "__qualname__") else function.describe()
    reason = getattr(real, "_torchdynamo_disable_msg", None)
    raise GraphBreak(f"{name} is marked as disabled" + (f" ({reason})" if isinstance(reason, str) else ""),
                     "remove the disable marker to compile it")


def _disallowed(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    real = function.as_constant() if function.is_constant() else getattr(function, "real", None)
    raise GraphBreak(f"{written_name(real) or function.describe()} is marked with disallow_in_graph",
                     "remove the mark, or accept the break")


def _in_graph(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    real = function.real if hasattr(function, "real") else function.as_constant()
    try:
        return tx.call_torch(_as_target(real), args, kwargs)
    except UngraphableArgument:  # an object of the program's, which its Python may know what to do with
        if not isinstance(function, FunctionValue):
            raise
        return tx.inline(function, args, kwargs)


def _as_target(function: Any) -> Any:
    """A function as a node's target. Generated code names torch's functions, so one that cannot be named is copied."""
    module = getattr(function, "__module__", None) or ""
    if not isinstance(function, types.FunctionType) or module.partition(".")[0] != "torch" \
            or getattr(sys.modules.get(module), function.__name__, None) is function:
        return function
    target = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__,
                                function.__closure__)
    target.__kwdefaults__ = function.__kwdefaults__
    target.__module__ = __name__
    return target


def _constant_result(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    real = getattr(function, "real", None) or function.as_constant()
    plain = [tx.constant_of(arg) if not hasattr(arg.realize(), "real") else arg.realize().real for arg in args]  # type: ignore[attr-defined]
    keywords = {k: tx.constant_of(v) for k, v in kwargs.items()}
    with torch_compat.below_python_key():  # capture's own mode would make its tensors fake
        return tx.fold(real, plain, keywords)


def _original(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    real = getattr(function, "real", None) or function.as_constant()
    inner = real.__dict__.get(COMPILED) or compiled_by_torch(real)
    return tx.call(tx.python_object(inner), args, kwargs)


_MARKERS = {
    DISABLED: Marker("disabled", _refuse),
    DISALLOWED: Marker("disallowed", _disallowed),
    ALLOWED: Marker("allowed", _in_graph),
    CONSTANT_RESULT: Marker("constant", _constant_result),
}
_COMPILED_MARKER = Marker("compiled", _original)


def _break_here(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    raise GraphBreak("graph_break() was called", "remove the call")


def _without_effect(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx.python_object(None)


def _check_with(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What torch's checks come down to: an error type, a condition, a function that makes the message."""
    condition = (args[1] if len(args) > 1 else kwargs["cond"]).realize()
    if isinstance(condition, NumberValue) and condition.python_type() is bool:
        condition = ConstantValue(state(tx, condition.expr))
        args, kwargs = [args[0], condition, *args[2:]] if len(args) > 1 else args, {**kwargs}
        if "cond" in kwargs:
            kwargs["cond"] = condition
    if isinstance(condition, ConstantValue) and condition.value is True:
        return tx.constant(None)
    return tx.inline(function, args, kwargs)  # type: ignore[arg-type]


def _check_is_size(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    # the warning of newer releases, that it goes away, is left to code that is not compiled
    inner = inspect.unwrap(function.real)  # type: ignore[attr-defined]
    check = tx.python_object(inner.__globals__["_check"])
    size, message = args[0] if args else kwargs["i"], args[1] if len(args) > 1 else kwargs.get("message")
    rest = [] if message is None else [message]
    tx.call(check, [tx.compare(">=", size, tx.constant(0)), *rest], {})
    largest = kwargs.get("max")
    if largest is not None and not (largest.is_constant() and largest.as_constant() is None):
        tx.call(check, [tx.compare("<=", size, largest), *rest], {})
    return tx.constant(None)


def _or_assumed(answer: bool | None) -> Apply:
    """What is known of a condition on sizes; where data decides, an answer that the graph asserts. None: as for most
    sizes."""

    def apply(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        condition = [*args, *kwargs.values()][0].realize()
        if not isinstance(condition, NumberValue) or condition.python_type() is not bool or condition.hint is not None:
            return tx.constant(tx.truth(condition))
        known = tx.shape_env.decide(condition.expr)
        if known is None:
            known = typical(tx.shape_env, condition.expr) if answer is None else answer
            if not assume(tx, condition.expr if known else shapes.not_(condition.expr)):
                known = not known
        return tx.constant(known)

    return apply


def _known_true(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Whether a condition holds for all sizes and data, which nothing is to rely on."""
    condition = [*args, *kwargs.values()][0].realize()
    if isinstance(condition, NumberValue) and condition.python_type() is bool:
        return tx.constant(tx.shape_env.decide(condition.expr) is True)
    return tx.constant(tx.truth(condition))


CONTROL_FLOW: Registry[str, Apply] = Registry(
    "control flow operator", __package__, ("control_flow", "vectorised", "differentiated"))
"""How control flow operators are called during capture. Most programs have none: they are imported when one is met."""
control_flow_operator = CONTROL_FLOW.register


def _control_flow(name: str) -> Marker:
    def apply(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        call = CONTROL_FLOW.find(name)
        assert call is not None
        return call(tx, function, args, kwargs)

    return Marker("control flow", apply)


def _collective(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from . import collectives  # most programs have none

    return collectives.call(tx, function, args, kwargs)


def _spread(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from . import distributed_tensors  # most programs have none

    return distributed_tensors.call(tx, function, args, kwargs)


_C10D = "torch.distributed.distributed_c10d"
_COLLECTIVES = {
    **{(_C10D, name): Marker("collective", _collective)
       for name in ("all_reduce", "broadcast", "all_gather_into_tensor", "all_gather_single", "_all_gather_base",
                    "reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base", "all_to_all_single",
                    "all_gather", "get_rank", "get_world_size", "get_process_group_ranks", "get_backend",
                    "get_group_rank", "get_global_rank", "is_initialized", "_get_default_group",
                    "_get_group_size_by_name")},
    **{("torch.distributed._functional_collectives", name): Marker("collective", _collective)
       for name in ("_resolve_group", "_resolve_group_name", "_maybe_wrap_tensor", "permute_tensor")},
    **{("torch.distributed.device_mesh", f"DeviceMesh.{name}"): Marker("collective", _collective)
       for name in ("get_group", "size", "get_rank", "get_local_rank", "get_coordinate")},
    **{("torch.distributed.tensor._api", f"DTensor.{name}"): Marker("distributed tensor", _spread)
       for name in ("from_local", "to_local", "redistribute", "full_tensor")},
}


# Control flow operators: ours, those of captured graphs, and torch's.
_CONTROL_FLOW = {
    **{(f"firesteel.control_flow.{module}", name): _control_flow(name)
       for module, name in (("conditional", "cond"), ("looping", "while_loop"), ("scanning", "scan"),
                            ("mapping", "map"), ("associative", "associative_scan"))},
    **{(f"torch._higher_order_ops.{name}", name): _control_flow(name)
       for name in ("cond", "while_loop", "scan", "map", "associative_scan")},
    **{("torch", name): _control_flow(name) for name in ("cond", "while_loop")},
    **{("firesteel.control_flow.operators", name): _control_flow(handler)
       for name, handler in (("cond", "cond"), ("while_loop", "while_loop"), ("scan", "operators.scan"),
                             ("map", "operators.map"))},
}


def own_control_flow(function: Any) -> Any:
    """Our function for one of torch's control flow operators, which would import what stands behind it; or None."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or module.partition(".")[0] != "torch" or (module, name) not in _CONTROL_FLOW:
        return None
    from .. import control_flow

    return getattr(control_flow, str(name))


def _call_first(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx.call(args[0], args[1:], kwargs)


# Markers that are plain functions, by where they are defined: they need not be imported yet.
_TORCH_MARKERS = {
    ("torch._functorch.vmap", "vmap_impl"): _control_flow("vmap"),
    **{("torch._functorch.eager_transforms", name): _control_flow(handler)
       for name, handler in (("grad_and_value_impl", "grad_and_value"), ("_vjp_with_argnums", "vjp"),
                             ("_jvp_with_argnums", "jvp"))},
    **{("torch.func", name): _control_flow(name) for name in ("linearize", "functionalize")},
    # what torch.compiler.nested_compile_region is in plain Python: the call of a function
    ("torch._higher_order_ops.invoke_subgraph", "invoke_subgraph_placeholder"): Marker("region", _call_first),
    **_CONTROL_FLOW,
    **_COLLECTIVES,
    ("torch._dynamo.decorators", "graph_break"): Marker("break", _break_here),
    ("torch", "_check_with"): Marker("check", _check_with),
    ("torch", "_check_is_size"): Marker("check", _check_is_size),
    **{("torch.fx.experimental.symbolic_shapes", name): Marker("hint", apply)
       for name, apply in (("guard_or_false", _or_assumed(False)), ("guard_or_true", _or_assumed(True)),
                           ("guard_size_oblivious", _or_assumed(None)), ("statically_known_true", _known_true))},
    **{("torch._dynamo.decorators", name): Marker("hint", _without_effect)
       for name in ("mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_unbacked", "mark_static_address")},
    **{("firesteel.shape_markers", name): Marker("hint", _without_effect)
       for name in ("mark_dynamic", "maybe_mark_dynamic", "mark_static")},
    # what stands in for torch's
    **{("firesteel.unchanged.answers", name): Marker("hint", _without_effect)
       for name in ("mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_unbacked", "mark_static_address")},
    **{("firesteel.unchanged.answers", name): Marker("break", _break_here) for name in ("graph_break", "skip_frame")},
}


def is_disallowed(function: Any) -> bool:
    """Whether `disallow_in_graph`, ours or torch's, was said of a function, which may be one of torch's operations."""
    dynamo = sys.modules.get("torch._dynamo.trace_rules")
    return has_mark(function, DISALLOWED) or \
        dynamo is not None and id(function) in vars(dynamo).get("_disallowed_callable_ids", ())


def marker_of(function: Any) -> Marker | None:
    """The marker of a callable, if it has one."""
    torch_marker = _TORCH_MARKERS.get((getattr(function, "__module__", None), getattr(function, "__qualname__", None)))  # type: ignore[arg-type]
    if torch_marker is not None:
        return torch_marker
    known = _BY_IDENTITY.get(id(function))
    if known is not None and known[0] is function:
        return _MARKERS[known[1]]
    dynamo = sys.modules.get("torch._dynamo.trace_rules")
    if dynamo is not None:  # or what stands for it, which would load it for other attributes
        if id(function) in vars(dynamo).get("_nonstrict_trace_callable_ids", ()):
            return None  # its Python is followed, which takes and gives any objects
        if id(function) in vars(dynamo).get("_allowed_callable_ids", ()):
            return _MARKERS[ALLOWED]
        if id(function) in vars(dynamo).get("_disallowed_callable_ids", ()):
            return _MARKERS[DISALLOWED]
    table = getattr(function, "__dict__", None)
    if not table or not isinstance(table, dict):
        return None
    for attribute, marker in _MARKERS.items():
        if table.get(attribute) is True:
            return marker
    if COMPILED in table:
        return _COMPILED_MARKER
    if table.get("_torchdynamo_disable"):
        return _MARKERS[DISABLED]
    if compiled_by_torch(function) is not None:
        return _COMPILED_MARKER
    if table.get("_dynamo_marked_constant"):
        return _MARKERS[CONSTANT_RESULT]
    return None


def disable(function: Callable[..., Any], reason: str | None = None) -> Callable[..., Any]:
    """A wrapper that runs `function` uncompiled, also when compiled code calls it."""
    @functools.wraps(function)
    def uncompiled(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    set_own_attributes(uncompiled, **{DISABLED: True})
    return uncompiled
