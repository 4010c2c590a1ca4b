"""Which functions of torch are operations of graphs, and what those with a certain name need in a call."""

from __future__ import annotations

import functools
import operator
import types
from typing import Any

import torch

from .. import torch_compat

# Functions of torch's namespaces that are no tensor operations.
NOT_OPERATIONS = frozenset({
    "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "save", "load", "compile", "is_tensor",
    "is_storage", "set_default_device", "get_default_device", "set_default_dtype", "set_default_tensor_type",
    "get_default_dtype", "set_printoptions", "is_grad_enabled", "is_inference_mode_enabled", "set_num_threads",
    "get_num_threads", "set_num_interop_threads", "get_num_interop_threads", "is_autocast_enabled",
    "set_autocast_enabled", "is_autocast_cpu_enabled", "set_autocast_cpu_enabled", "is_autocast_cache_enabled",
    "set_autocast_cache_enabled", "get_autocast_dtype", "set_autocast_dtype", "get_autocast_gpu_dtype",
    "set_autocast_gpu_dtype", "get_autocast_cpu_dtype", "set_autocast_cpu_dtype", "autocast_increment_nesting",
    "autocast_decrement_nesting", "clear_autocast_cache", "use_deterministic_algorithms", "typename",
    "are_deterministic_algorithms_enabled", "is_deterministic_algorithms_warn_only_enabled", "get_file_path",
    "set_float32_matmul_precision", "get_float32_matmul_precision", "set_warn_always", "is_warn_always_enabled",
    "set_deterministic_debug_mode", "get_deterministic_debug_mode", "prepare_multiprocessing_environment", "from_numpy",
    "frombuffer", "from_file", "from_dlpack", "to_dlpack", "set_flush_denormal", "set_vital", "read_vitals", "fork",
    "wait", "is_anomaly_enabled", "set_anomaly_enabled", "vmap", "cond", "while_loop", "classproperty", "sym_int",
    "sym_float", "sym_max", "sym_min", "sym_not", "sym_ite", "sym_sqrt", "sym_sum", "thread_safe_generator",
    "get_device_module",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "handle_torch_function",
    "boolean_dispatch", "assert_int_or_pair", "_get_softmax_dim", "multi_head_attention_forward", "is_warn_always",
    "_pad_packed_sequence",
})
# Functions in which a Python number is only a value: it decides neither shapes nor types.
VALUE_ONLY = frozenset({
    "add", "sub", "mul", "truediv", "div", "pow", "rsub", "eq", "ne", "lt", "le", "gt", "ge", "iadd", "isub", "imul",
    "itruediv", "add_", "sub_", "mul_", "div_", "fill_", "clamp", "clamp_", "lerp", "lerp_", "where", "masked_fill",
    "masked_fill_", "full_like", "addcmul", "addcdiv", "addcmul_", "addcdiv_", "sum_number", "tensor", "as_tensor",
    "scalar_tensor", "new_tensor",
    *(f"_foreach_{name}{end}" for end in ("", "_")
      for name in ("add", "sub", "mul", "div", "addcmul", "addcdiv", "lerp", "maximum", "minimum")),
})
# What stands for a number that data decides on where its value does not matter.
PLACEHOLDERS: dict[type, Any] = {int: 2, float: 2.5, bool: True}
# Functions whose result is a truth value that data decides on.
TRUTHS = frozenset({"equal", "allclose"})
# What raises or warns, whatever the device, while deterministic algorithms are asked for, and what gives new memory.
NOT_DETERMINISTIC = frozenset({"put", "put_", "max_unpool1d", "max_unpool2d", "max_unpool3d", "resize_", "resize_as_"})
UNINITIALISED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
LAYOUT_QUESTIONS = frozenset({"stride", "is_contiguous", "storage_offset", "dim_order"})
# Views of some sizes, copies of others.
RESHAPES = frozenset({"reshape", "reshape_as", "flatten", "unflatten", "ravel"})
# Functions with sizes among their arguments, in whose places torch takes tensors of one integer too.
TAKES_SIZES = frozenset({
    "view", "reshape", "expand", "repeat", "zeros", "ones", "empty", "full", "rand", "randn", "new_zeros", "new_ones",
    "new_empty", "new_full", "narrow", "unflatten", "arange", "split", "tile", "broadcast_to", "as_strided",
})
FACTORIES = frozenset({"zeros", "ones", "empty", "full", "rand", "randn", "arange"})
LAZINESS = frozenset({"is_conj", "is_neg", "resolve_conj", "resolve_neg"})
INTEGERS = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})
ITEM_METHODS = (operator.getitem, operator.setitem)
FROM_DATA = frozenset({"tensor", "as_tensor", "asarray"})
DEVIATIONS = frozenset({"std", "var", "std_mean", "var_mean"})


@functools.cache
def operations() -> dict[int, Any]:
    """All torch functions that are recorded in graphs as they are, by identity."""
    table: dict[int, Any] = {}

    def scan(namespace: Any, names: Any) -> None:
        for name in names:
            if name in NOT_OPERATIONS or (name.startswith("_") and not name.startswith("__") and namespace is torch):
                continue
            obj = getattr(namespace, name, None)
            if obj is None or isinstance(obj, (type, types.ModuleType)) or not callable(obj):
                continue
            if isinstance(obj, types.FunctionType) and not _operation_module(obj):
                continue
            table[id(obj)] = obj

    scan(torch, dir(torch))
    for space in torch_compat.operation_namespaces():
        scan(space, [n for n in dir(space) if not n.startswith("__")])
    for space in (torch.nn.functional, torch.functional, torch.linalg, torch.fft, torch.special):
        scan(space, [n for n in dir(space) if not n.startswith("_")])
    return table


def _operation_module(obj: types.FunctionType) -> bool:
    module = obj.__module__ or ""
    return module.startswith(("torch._C", "torch._jit_internal")) or module in (
        "torch", "torch.functional", "torch.nn.functional", "torch._tensor", "torch._lobpcg", "torch.linalg",
        "torch.fft", "torch.special", "torch._linalg_utils")


def is_graph_function(obj: Any) -> bool:
    """Whether calling `obj` is one operation of the graph."""
    if operations().get(id(obj)) is obj:
        return True
    return isinstance(obj, torch_compat.OPERATOR_TYPES)
