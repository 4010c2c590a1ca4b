"""What capture must recognise in users' programs."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import _VF

from .dispatch import without_modes
from .global_state import leave_autocast_block
from .stand_ins import loaded_module

#: Objects that call one operator each.
OPERATOR_TYPES: tuple[type, ...] = (
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    torch._library.custom_ops.CustomOpDef,
)


#: Sorts lists of tensors by device and dtype of the first list's.
group_tensors = torch._C._group_tensors_by_device_and_dtype

#: The product of matrices of 8 bits, in 32 bits.
product_of_bytes = torch._int_mm


def begin_profiler_region(name: str, args: str | None) -> Any:
    """What ``record_function(name, args).__enter__()`` does; the result keeps the region open."""
    return torch.ops.profiler._record_function_enter_new(name, args)


def end_profiler_region(region: Any) -> None:
    """Close what :func:`begin_profiler_region` opened."""
    torch.ops.profiler._record_function_exit._RecordFunction(region)


def _those_there(space: Any, *names: str) -> list[Any]:
    """The functions of these names that this torch has: what it has no more, no program calls."""
    return [getattr(space, name) for name in names if hasattr(space, name)]


def operator_of_definition(target: Any) -> Any:
    """The operator that a function decorated with ``torch.library.custom_op`` calls; anything else as it is."""
    is_definition = isinstance(target, torch._library.custom_ops.CustomOpDef)
    return getattr(target, "_opoverload", target) if is_definition else target


def name_in_torch(target: Any) -> str:
    """The name of a function, method or operator of torch's own; "" for those of the program, whatever they are called.

    >>> name_in_torch(torch.matmul), name_in_torch(torch.ops.aten.linear), name_in_torch("matmul")
    ('matmul', 'linear', 'matmul')
    >>> def matmul(x, y): ...
    >>> name_in_torch(matmul)
    ''
    """
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OpOverloadPacket) and not target._qualified_op_name.startswith("aten::"):
        return ""
    if isinstance(target, torch._ops.OpOverload) and target.namespace != "aten":
        return ""
    if isinstance(target, types.FunctionType) and (target.__module__ or "").partition(".")[0] != "torch":
        return ""
    return getattr(target, "__name__", "")


def operation_namespaces() -> list[Any]:
    """Namespaces of C functions that are tensor operations."""
    return [torch._C._VariableFunctions, torch._C._nn, _VF,
            *_those_there(torch._C, "_linalg", "_fft", "_special", "_nested", "_sparse")]


def _settings() -> dict[Callable[[], Any], Callable[[Any], Any]]:
    """What is set once for many operators, the getter with its setter: the dtype of new tensors, how products round,
    which kernels attention may use."""
    settings: dict[Callable[[], Any], Callable[[Any], Any]] = {
        torch.get_default_dtype: torch._C._set_default_dtype,
        torch._C._get_float32_matmul_precision: torch._C._set_float32_matmul_precision,
    }
    for kind in ("math", "flash", "mem_efficient", "cudnn", "overrideable"):
        settings[getattr(torch._C, f"_get_{kind}_sdp_enabled")] = getattr(torch._C, f"_set_sdp_use_{kind}")
    settings[torch._C._get_sdp_priority_order] = torch._C._set_sdp_priority_order
    for flags in (torch.backends.cudnn, torch.backends.mkldnn):
        settings.update(_flags_of(type(flags)))
    return settings


def _flags_of(cls: type) -> dict[Callable[[], Any], Callable[[Any], Any]]:
    """The flags of a module of ``torch.backends`` that are functions written in C."""
    flags = [value for value in vars(cls).values() if isinstance(value, torch.backends.ContextProp)]
    return {flag.getter: flag.setter for flag in flags
            if all(isinstance(way, types.BuiltinFunctionType) for way in (flag.getter, flag.setter))}


def backend_flag(module: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], Any]] | None:
    """How to read and to set ``torch.backends.cudnn.benchmark`` and its like; None for all that is no such flag, or
    that torch does not let anybody set now."""
    flag = vars(type(module)).get(name)
    if not isinstance(flag, torch.backends.ContextProp) or flag.getter not in SETTINGS or torch.backends.flags_frozen():
        return None
    return flag.getter, flag.setter


SETTINGS = _settings()
ATTENTION_BACKEND: type = torch._C._SDPBackend
"""The kinds of kernels that attention may use."""


def current_settings() -> tuple[Any, ...]:
    """What all settings are, in their order."""
    if torch.cuda.is_initialized():
        _settle_order()
    return tuple([get() for get in SETTINGS])


@functools.cache
def _settle_order() -> None:
    """torch chooses the order of attention's kernels when it is first asked for one on a GPU. Whoever puts settings
    back must not take that from it."""
    with without_modes(), contextlib.suppress(RuntimeError):
        query = torch.empty(1, 1, 8, 8, dtype=torch.float16, device=torch.cuda.current_device())
        torch._fused_sdp_choice(query, query, query)


def restore_settings(settings: tuple[Any, ...]) -> None:
    """Put settings back to what they were, as `current_settings` tells them."""
    for (get, put), value in zip(SETTINGS.items(), settings, strict=True):
        if get() != value:
            put(value)


def state_setters() -> list[Callable[..., Any]]:
    """Functions that change global state which graphs may change as well."""
    return [
        leave_autocast_block,
        torch._C._set_grad_enabled,
        torch.set_autocast_enabled,
        torch.set_autocast_dtype,
        torch.set_autocast_cache_enabled,
        torch.autocast_increment_nesting,
        torch.autocast_decrement_nesting,
        torch.clear_autocast_cache,
        torch.set_autocast_cpu_enabled,
        torch.set_autocast_cpu_dtype,
        torch.set_autocast_gpu_dtype,
        *SETTINGS.values(),
    ]


_QUESTIONS = ("_is_torch_function_mode_enabled", "_are_functorch_transforms_active", "_is_autocast_available",
              "_get_privateuse1_backend_name", "_log_api_usage_once")


def state_getters() -> list[Callable[..., Any]]:
    """Functions that read global state which every compiled entry guards."""
    return [
        torch.is_grad_enabled,
        torch.is_inference_mode_enabled,
        torch.is_autocast_enabled,
        torch.is_autocast_cache_enabled,
        torch.get_autocast_dtype,
        torch.is_autocast_cpu_enabled,
        torch.get_autocast_cpu_dtype,
        torch.get_autocast_gpu_dtype,
        *SETTINGS,
        torch.get_num_threads,
        torch.are_deterministic_algorithms_enabled,
        torch.is_deterministic_algorithms_warn_only_enabled,
        torch._C._get_deterministic_algorithms,
        torch._C._len_torch_function_stack,
        torch._C._is_torch_function_enabled,
        torch._C._len_torch_dispatch_stack,
        torch._C._functorch.peek_interpreter_stack,
        torch.cuda.is_available,
        torch.cuda.device_count,
        torch.backends.cuda.is_built,
        torch.backends.mps.is_available,
        torch.amp.is_autocast_available,
        torch._C._get_tracing_state,
        torch._C._is_tracing,
        torch.get_default_device,
        torch.get_float32_matmul_precision,
        torch.distributed.is_available,
        *_those_there(torch._C, *_QUESTIONS),
        *_those_there(torch._C._functorch, "maybe_current_level"),
    ]


def always_true_while_compiling() -> list[Callable[..., Any]]:
    """Questions that captured code must see answered with yes."""
    compiler = sys.modules.get("torch.compiler")
    functions = [getattr(compiler, name) for name in ("is_compiling", "is_dynamo_compiling") if hasattr(compiler, name)]
    utilities = sys.modules.get("torch._utils")
    if utilities is not None and hasattr(utilities, "is_compiling"):
        functions.append(utilities.is_compiling)
    return functions


@contextlib.contextmanager
def answering_as_exporting() -> Iterator[None]:
    """While this is entered, ``torch.compiler.is_compiling()`` and ``is_exporting()`` say yes."""
    compiler = sys.modules.get("torch.compiler")
    flags = [name for name in ("_is_compiling_flag", "_is_exporting_flag") if hasattr(compiler, name)]
    before = [getattr(compiler, name) for name in flags]
    for name in flags:
        setattr(compiler, name, True)
    try:
        yield
    finally:
        for name, value in zip(flags, before, strict=True):
            setattr(compiler, name, value)


def is_torchscript_class(cls: type) -> bool:
    """Whether objects of a class are scripted or traced modules, functions or methods."""
    script = sys.modules["torch.jit._script"]
    return issubclass(cls, (script.ScriptModule, torch._C.ScriptFunction, torch._C.ScriptMethod, torch._C.ScriptModule))


def script_original(value: Any) -> str | None:
    """The attribute in which a scripted function keeps the Python function that it was made from. Traced functions do
    what that function did once, which is not always the same."""
    original = getattr(value, "_torchdynamo_inline", None) if isinstance(value, torch._C.ScriptFunction) else None
    scripted = sys.modules["torch.jit._state"]._try_get_jit_cached_function(original) if original is not None else None
    return "_torchdynamo_inline" if scripted is not None and scripted.qualified_name == value.qualified_name else None


def is_torchscript(value: Any) -> bool:
    """Whether something is a scripted or traced module, function or method."""
    return is_torchscript_class(type(value))


def always_false_while_compiling() -> list[Callable[..., Any]]:
    """Questions about other ways of tracing."""
    scripting = sys.modules["torch._jit_internal"].is_scripting
    return [scripting, sys.modules["torch.jit._trace"].is_tracing]


def true_while_exporting() -> list[Callable[..., Any]]:
    """Questions that captured code must see answered with yes when it is exported."""
    compiler = sys.modules.get("torch.compiler")
    return [compiler.is_exporting] if compiler is not None and hasattr(compiler, "is_exporting") else []


def torch_function_checks() -> list[Callable[..., Any]]:
    """Functions that ask whether ``__torch_function__`` must be consulted."""
    return _those_there(torch._C, "_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic")


def size_inference() -> list[Callable[..., Any]]:
    """The function that says what two sizes broadcast to."""
    return _those_there(torch._C, "_infer_size")


def rng_state_functions() -> list[Callable[..., Any]]:
    """Functions that read or write the state of random number generators."""
    return [torch.manual_seed, torch.seed, torch.initial_seed, torch.get_rng_state, torch.set_rng_state]


def graph_break_functions() -> list[Callable[..., Any]]:
    """torch's own ``graph_break``, if somebody imported it."""
    decorators = loaded_module("torch._dynamo.decorators")
    return [decorators.graph_break] if decorators is not None else []


def guarded_state_getters() -> frozenset[Callable[..., Any]]:
    """Those of :func:`state_getters` whose answers follow from what every compiled entry checks, or never change."""
    return frozenset({
        torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.is_autocast_enabled,
        torch.is_autocast_cpu_enabled,
        torch.get_default_dtype, torch.get_num_threads, torch.are_deterministic_algorithms_enabled,
        torch._C._get_deterministic_algorithms, torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack,
        torch._C._functorch.peek_interpreter_stack, torch.cuda.is_available, torch.cuda.device_count,
        torch.backends.cuda.is_built, torch.backends.mps.is_available, torch.amp.is_autocast_available,
        torch._C._get_tracing_state, torch._C._is_tracing, torch.get_default_device, torch.distributed.is_available,
        *_those_there(torch._C, *_QUESTIONS), *_those_there(torch._C._functorch, "maybe_current_level"),
    })


def fused_optimizer_steps() -> list[Callable[..., Any]]:
    """Functions that carry out one step of an optimizer for lists of parameters."""
    return _those_there(torch, "_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_")


def products_of_lists() -> list[Callable[..., Any]]:
    """Functions of lists of tensors whose fourth argument is a factor, a list of factors or a tensor of them."""
    return _those_there(torch, "_foreach_addcdiv", "_foreach_addcdiv_", "_foreach_addcmul", "_foreach_addcmul_")


def optimizer_number() -> Callable[..., Any]:
    """With which optimizers read a number out of a tensor."""
    from torch.optim import optimizer

    return optimizer._get_value  # type: ignore[attr-defined,no-any-return]
