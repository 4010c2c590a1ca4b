"""Every private name of torch that firesteel uses, the releases it was seen in, and what is lost without it.

A test compares this list with what the sources use and with the torch that it runs on. `check` is called before the
rest of this package is imported: a name that a release of torch has no more is an error that says so, and the gate in
`firesteel.support` makes of it a warning and programs that run uncompiled.

A name is a path from ``torch``; ``Class()`` in it stands for an instance. Names of functions in torch's libraries have
no dots.
"""

from __future__ import annotations

import enum
import importlib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

import torch

Releases = tuple[str, str]
ALL: Releases = ("2.11", "2.15")
"""The first and the last release that a name was seen in: here all that were looked at."""


class Need(enum.Enum):
    """What firesteel does without a name."""

    CAPTURE = "nothing is compiled"
    MACHINE_CODE = "graphs run operator by operator"
    GPU = "graphs run operator by operator, where torch is built for CUDA"
    NOTHING = "what uses it has another way, or the user's program cannot use it either"


def _all(prefix: str, names: str) -> dict[str, Releases]:
    return {prefix + name: ALL for name in names.split()}


_CAPTURE: dict[str, Releases] = {
    # Dispatch
    **_all("torch._C.", """
        DisableTorchFunction DispatchKey.CompositeImplicitAutograd DispatchKey.Meta DispatchKey.PythonDispatcher
        TensorBase _AutoDispatchBelowAutograd _DisableTorchDispatch
        _EnablePythonDispatcher _disabled_torch_function_impl _dispatch_get_registrations_for_dispatch_key
        _dispatch_has_kernel_for_dispatch_key _dispatch_keys _dispatch_tls_is_dispatch_key_included
        _get_dispatch_stack_at _get_function_stack_at _is_torch_function_enabled _len_torch_dispatch_stack
        _len_torch_function_stack _pop_torch_dispatch_stack _pop_torch_function_stack _push_on_torch_dispatch_stack
        _push_on_torch_function_stack DisableTorchFunctionSubclass"""),
    **_all("torch.nn.modules._functions.", "BackwardHookFunction"),
    **_all("torch.Tensor.", "_make_subclass _post_accumulate_grad_hooks"),
    **_all("torch._ops.", "HigherOrderOperator OpOverload OpOverloadPacket"),
    **_all("torch.ops.aten.add.", "_qualified_op_name"),
    **_all("torch.ops.aten.add.Tensor.", "_op _op_dk _schema"),
    **_all("torch.utils._python_dispatch.", "TorchDispatchMode _disable_current_modes"),
    **_all("torch.utils._device.", "DeviceContext"),
    **_all("torch._library.custom_ops.", "CustomOpDef OPDEFS"),
    **_all("torch.library.", "Library._destroy _keep_alive"),
    **_all("torch._library.fake_impl.", "set_ctx_getter"),
    **_all("torch._library.simple_registry.", "singleton"),
    **_all("torch._decomp.", "_core_aten_decompositions_post_autograd decomposition_table"),
    # State of the thread
    **_all("torch._C.", """
        _InferenceMode _get_deterministic_algorithms _get_tracing_state _is_any_autocast_enabled _is_tracing
        _set_grad_enabled _set_tracing_state _vmapmode_decrement_nesting _vmapmode_increment_nesting
        _functorch.is_functorch_wrapped_tensor _functorch.is_legacy_batchedtensor
        _functorch.get_interpreter_stack _functorch.peek_interpreter_stack
        _functorch._grad_decrement_nesting _functorch._grad_increment_nesting _functorch._unwrap_for_grad
        _functorch._wrap_for_grad _functorch.get_inplace_requires_grad_allowed
        _functorch.TransformType _functorch.set_inplace_requires_grad_allowed
        _autograd._get_creation_meta _autograd._get_current_graph_task_keep_graph _autograd._set_creation_meta
        _autograd._top_saved_tensors_default_hooks _autograd._unsafe_set_version_counter _current_graph_task_id
        _autograd._saved_tensors_hooks_disable _autograd._saved_tensors_hooks_enable
        _autograd._saved_tensors_hooks_get_disabled_error_message
        _current_autograd_node _autograd.SavedTensor"""),
    **_all("torch.", "_nested_view_from_jagged _nested_from_padded_tensor"),
    **_all("torch.nested._internal.", "nested_tensor"),
    **_all("torch.nested._internal.nested_tensor.", "_nt_view_dummy NestedTensor"),
    **_all("torch.nested._internal.nested_tensor.NestedTensor.", "_min_seqlen_tensor _max_seqlen_tensor"),
    **_all("torch._functorch.pyfunctorch.", "temporarily_clear_interpreter_stack"),
    **_all("torch.autograd.forward_ad.", "_current_level"),
    **_all("torch.autograd.Variable.", "_execution_engine"),
    **_all("torch.jit._state.", "_try_get_jit_cached_function"),
    # Tensors and storages
    **_all("torch.Tensor.", """
        _backward_hooks _base _cdata _fix_weakref _has_symbolic_sizes_strides _is_view _is_zerotensor
        _make_wrapper_subclass _use_count _version"""),
    **_all("torch.UntypedStorage.", "_cdata"),
    **_all("torch.", "_assert_async _functionalize_unsafe_set _foreach_copy_ _fused_sdp_choice _is_functional_tensor"),
    **_all("torch._C.", """
        _conv_determine_backend_memory_format _has_storage _select_conv_backend _storage_Use_Count"""),
    # Functions as C++ defines them
    **_all("torch._C.", """
        _VariableFunctions._pack_padded_sequence _VariableFunctions._pad_packed_sequence
        _VariableFunctions.corrcoef _VariableFunctions.cov _VariableFunctions.ctc_loss _VariableFunctions.istft
        _VariableFunctions.matmul _VariableFunctions.max_pool1d _nn.linear _nn.one_hot _nn.scaled_dot_product_attention
        _group_tensors_by_device_and_dtype"""),
    **_all("torch.", "_VF _int_mm"),
    # Modules, graphs, autograd's functions, containers
    **_all("torch.nn.Module.", "_call_impl"),
    **_all("torch.nn.Module().", "_buffers _modules _non_persistent_buffers_set _parameters"),
    **_all("torch.fx.Graph().", "_codegen _find_nodes_lookup_table _graph_namespace _insert _len"),
    **_all("torch.fx.node.", "_get_qualified_name"),
    **_all("torch.autograd.function.BackwardCFunction.", "_raw_saved_tensors _register_hook_dict"),
    **_all("torch.autograd.Function.", "_backward_cls"),
    **_all("torch.utils._pytree.", """
        SUPPORTED_NODES SUPPORTED_SERIALIZED_TYPES TreeSpec keystr tree_flatten tree_flatten_with_path
        tree_leaves tree_map tree_map_only tree_structure tree_unflatten"""),
    **_all("torch.optim.optimizer.", "_get_value"),
    **_all("torch.utils._pytree.", "NO_SERIALIZED_TYPE_NAME_FOUND SERIALIZED_TYPE_TO_PYTHON_TYPE"),
    # Operators
    **_all("torch._C.", "_get_max_operator_version"),
    **_all("torch.ops.aten.", """
        _conj_physical.default
        _addmm_activation.default _assert_async.msg _assert_scalar.default _log_softmax.default
        _native_batch_norm_legit.default _native_batch_norm_legit.no_stats _native_batch_norm_legit_no_training.default
        _scaled_dot_product_cudnn_attention.default _scaled_dot_product_efficient_attention.default
        _scaled_dot_product_flash_attention.default _scaled_dot_product_flash_attention_for_cpu.default
        _softmax.default _to_copy.default _unsafe_view.default"""),
    **_all("torch.ops.profiler.", "_record_function_enter_new _record_function_exit._RecordFunction"),
}

_MACHINE_CODE: dict[str, Releases] = {
    **_all("torch._C._aoti.", """
        alloc_tensor_by_stealing_from_void_ptr unsafe_alloc_void_ptr_from_tensor
        unsafe_alloc_void_ptrs_from_tensors"""),
    **_all("aoti_torch_", """
        _alloc_from_pool _reinterpret_tensor clone copy_ create_tensor_from_blob_v2 delete_tensor_object device_type_cpu
        device_type_cuda empty_strided get_current_device_index get_data_ptr get_device_index get_device_type get_dim
        get_dtype get_size get_sizes get_storage_offset get_stride get_strides grad_mode_is_enabled
        grad_mode_set_enabled item_bool item_float64 item_int64 layout_strided new_tensor_handle
        scalar_to_tensor_complex128 scalar_to_tensor_float64 scalar_to_tensor_int64"""),
    **_all("torch_", """
        call_dispatcher delete_list list_get_item list_push_back new_list_reserve_size new_string_handle"""),
}

_GPU: dict[str, Releases] = {
    **_all("torch._C.", """
        _cuda_beginAllocateCurrentThreadToPool _cuda_clearCublasWorkspaces _cuda_endAllocateToPool
        _cuda_getCurrentRawStream _cuda_releasePool"""),
    **_all("aoti_torch_", "create_cuda_guard delete_cuda_guard get_current_cuda_stream"),
}

_NOTHING: dict[str, Releases] = {
    # What programs ask: a function that torch has no more is not in programs either
    **_all("torch._C.", """
        _SDPBackend _get_cudnn_sdp_enabled _get_flash_sdp_enabled _get_float32_matmul_precision _get_math_sdp_enabled
        _get_mem_efficient_sdp_enabled _get_overrideable_sdp_enabled _get_sdp_priority_order _set_default_dtype
        _set_float32_matmul_precision _set_sdp_priority_order _set_sdp_use_cudnn _set_sdp_use_flash _set_sdp_use_math
        _set_sdp_use_mem_efficient _set_sdp_use_overrideable
        _are_functorch_transforms_active _functorch.maybe_current_level _get_privateuse1_backend_name
        _has_torch_function _has_torch_function_unary _has_torch_function_variadic _is_autocast_available
        _infer_size _is_torch_function_mode_enabled _log_api_usage_once _fft _linalg _nested _sparse _special"""),
    **_all("torch.", """
        _foreach_addcdiv _foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_ _fused_adagrad_ _fused_adam_ _fused_adamw_
        _fused_sgd_"""),
    **_all("torch.cuda.", "_is_in_bad_fork"),
    # Buckets of gradients, see `data_parallel`
    **_all("torch.", "nn.parallel.DistributedDataParallel._active_ddp_module distributed._DEFAULT_FIRST_BUCKET_BYTES"),
    **_all("torch.distributed._composable_state.", "_module_state_mapping"),
    # Collectives, see `collectives`
    **_all("torch.", """
        _C._distributed_c10d._create_work_from_future distributed._functional_collectives
        distributed.ProcessGroup._get_sequence_number_for_group ops._c10d_functional
        ops._c10d_functional.wait_tensor"""),
    **_all("torch.distributed.", "tensor._api.DTensor"),  # see `distributed_tensors`
    **_all("torch.distributed.distributed_c10d.", """
        _get_default_store _get_process_group_name _resolve_process_group _world"""),
    # What backends built on torch's AOTAutograd are given, see `torch_symbols`
    **_all("torch.", "_guards.TracingContext _guards.tracing _subclasses.fake_tensor.FakeTensorMode"),
    # What keeps torch's own compiler from being imported, see `dynamo_imports`
    **_all("torch.", "_compile._disable_dynamo _disable_dynamo _prims_common.elementwise_dtypes"),
    **_all("torch.optim.optimizer.", "_use_grad_for_differentiable"),
    **_all("torch._C.", "DispatchKeySet FunctionSchema"),  # in annotations
    # What counts operators outside of graphs, see `operator_records`
    **_all("torch._C.", """
        _autograd._disable_profiler_legacy _autograd._enable_profiler_legacy _autograd._profiler_enabled
        _profiler.ProfilerConfig _profiler.ProfilerState _profiler._ExperimentalConfig
        _profiler._RecordFunctionFast"""),
    **_all("torch.autograd.profiler.",
           "_enable_profiler _is_profiler_enabled _prepare_profiler _set_is_profiler_enabled"),
    # C++ functions that make calls faster
    "_Z16THPVariable_WrapRKN2at10TensorBaseE": ALL,
    "_ZNK3c1010TensorImpl13requires_gradEv": ALL,
    "_ZNK3c1010TensorImpl13autograd_metaEv": ALL,
    "_ZN2at15get_num_threadsEv": ALL,
    "_ZN3c108GradMode10is_enabledEv": ALL,
    "_ZN3c1013InferenceMode10is_enabledEv": ALL,
    "_ZN3c104impl31tls_is_dispatch_keyset_excludedENS_14DispatchKeySetE": ALL,
    "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv": ALL,
    "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv": ALL,
    "torch._C._dispatch_tls_local_exclude_set": ALL,
    "torch_parallel_for": ALL,
    "torch_exception_get_what_without_backtrace": ("2.13", "2.15"),
}

PRIVATE_NAMES: Mapping[str, tuple[Need, Releases]] = MappingProxyType({
    name: (need, releases)
    for need, names in ((Need.CAPTURE, _CAPTURE), (Need.MACHINE_CODE, _MACHINE_CODE), (Need.GPU, _GPU),
                        (Need.NOTHING, _NOTHING))
    for name, releases in names.items()
})
"""Name to what is done without it, and the first and the last release that it was seen in."""

CONVENTIONS = frozenset({
    "__dynamo_disable", "_config", "_is_compiling_flag", "_is_default", "_is_exporting_flag", "_is_param",
    "_dynamic_spec", "_entries", "_fields", "_named_args", "_params", "_specs", "_varargs", "_varkw",
    "_lineno_map", "_num_yielded", "_prologue_start", "_code", "_opoverload", "_set_stance", "_stance",
    "_torchdynamo_orig_callable",
})
"""Attributes that are looked for where they may be missing, that are set for torch to look for, or that are of classes
in modules that only users import (``torch.fx.experimental.dynamic_spec``)."""


class MissingTorchName(ImportError):
    """torch has no longer what firesteel needs of it."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        shown = ", ".join(self.names)
        super().__init__(f"torch {torch.__version__} has no {shown}, which firesteel needs: "
                         f"install torch {ALL[0]} to {ALL[1]}, or a newer firesteel")


def is_there(name: str) -> bool:
    """Whether this torch has a name.

    >>> is_there("torch.Tensor._version"), is_there("torch.nn.Module()._parameters"), is_there("torch._C._nothing")
    (True, True, False)
    """
    if "." not in name:
        return _exported(name)
    here: Any = torch
    path = "torch"
    for part in name.split(".")[1:]:
        plain = part.removesuffix("()")
        path += f".{plain}"
        try:
            here = getattr(here, plain)
        except AttributeError:
            if not isinstance(here, ModuleType) or here.__name__ == "torch._C":
                return False
            try:
                here = importlib.import_module(path)
            except ImportError:
                return False
        if plain is not part:
            here = here()
    return True


def _exported(name: str) -> bool:
    from .dispatch import cuda_library_function, library_function

    on_gpu = PRIVATE_NAMES[name][0] is Need.GPU
    return (cuda_library_function if on_gpu else library_function)(name) is not None


def missing(need: Need) -> tuple[str, ...]:
    """The names of one need that this torch does not have, except those that it never had."""
    if need is Need.GPU and torch.version.cuda is None:
        return ()
    version = _version(torch.__version__)
    return tuple(name for name, (its_need, (first, last)) in PRIVATE_NAMES.items()
                 if its_need is need and not (version < _version(first) or _version(last) < version <= _version(ALL[1]))
                 and not is_there(name))


def _version(text: str) -> tuple[int, int]:
    """Major and minor version; a build from source without a number counts as new."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (99, 0)


def check() -> None:
    """Raise `MissingTorchName` where nothing can be compiled."""
    absent = missing(Need.CAPTURE)
    if absent:
        raise MissingTorchName(absent)
