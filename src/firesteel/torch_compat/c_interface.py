"""The functions of torch's C interface for compiled models that machine code of ours calls.

Elsewhere they are called by the names in `FUNCTIONS`; only here it is known what torch's libraries call them.
"""

from __future__ import annotations

from typing import Any

from .dispatch import cuda_library_function, library_function

PREFIX = "aoti_torch_"
"""How torch begins the names of these functions."""
_TENSOR_AND_RESULT = ("i32", ("ptr", "ptr"))

FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "_alloc_from_pool": ("i32", ("ptr", "i64", "i32", "i64", "ptr", "ptr", "ptr")),
    "_reinterpret_tensor": ("i32", ("ptr", "i64", "ptr", "ptr", "i64", "ptr")),
    "clone": _TENSOR_AND_RESULT,
    "copy_": ("i32", ("ptr", "ptr", "i32")),
    "create_tensor_from_blob_v2": (
        "i32", ("ptr", "i64", "ptr", "ptr", "i64", "i32", "i32", "i32", "ptr", "i32", "ptr", "i64")),
    "delete_tensor_object": ("i32", ("ptr",)),
    "device_type_cpu": ("i32", ()),
    "device_type_cuda": ("i32", ()),
    "empty_strided": ("i32", ("i64", "ptr", "ptr", "i32", "i32", "i32", "ptr")),
    "get_current_device_index": ("i32", ("ptr",)),
    "get_data_ptr": _TENSOR_AND_RESULT,
    "get_device_index": _TENSOR_AND_RESULT,
    "get_device_type": _TENSOR_AND_RESULT,
    "get_dim": _TENSOR_AND_RESULT,
    "get_dtype": _TENSOR_AND_RESULT,
    "get_size": ("i32", ("ptr", "i64", "ptr")),
    "get_sizes": _TENSOR_AND_RESULT,
    "get_storage_offset": _TENSOR_AND_RESULT,
    "get_stride": ("i32", ("ptr", "i64", "ptr")),
    "get_strides": _TENSOR_AND_RESULT,
    "grad_mode_is_enabled": ("zeroext i1", ()),
    "grad_mode_set_enabled": ("void", ("i1 zeroext",)),
    "item_bool": _TENSOR_AND_RESULT,
    "item_float64": _TENSOR_AND_RESULT,
    "item_int64": _TENSOR_AND_RESULT,
    "layout_strided": ("i32", ()),
    "new_tensor_handle": _TENSOR_AND_RESULT,
    "scalar_to_tensor_complex128": ("i32", ("double", "double", "ptr")),
    "scalar_to_tensor_float64": ("i32", ("double", "ptr")),
    "scalar_to_tensor_int64": ("i32", ("i64", "ptr")),
}
"""Name to result and parameters, as LLVM writes types."""

STABLE_FUNCTIONS = ("torch_call_dispatcher", "torch_delete_list", "torch_list_get_item", "torch_list_push_back",
                    "torch_new_list_reserve_size", "torch_new_string_handle")
"""Functions of torch's stable interface, which are called by their own names."""

PARALLEL_FOR, THREAD_COUNT = "torch_parallel_for", "_ZN2at15get_num_threadsEv"  # at::get_num_threads()
"""What machine code shares work among torch's threads with, where it is exported."""

CUDA_FUNCTIONS = ("create_cuda_guard", "delete_cuda_guard", "get_current_cuda_stream")
"""Those that only builds of torch for CUDA have."""

ONEDNN_FUNCTIONS = {
    "mkldnn._linear_pointwise.default": "cpu__linear_pointwise",
    "mkldnn._convolution_pointwise.default": "cpu_mkldnn__convolution_pointwise",
    "mkldnn._convolution_pointwise.binary": "cpu_mkldnn__convolution_pointwise_binary",
}
"""Operators of oneDNN whose functions are not named like them."""


def symbol(name: str) -> str:
    """What torch's libraries call a function.

    >>> symbol("get_sizes"), symbol("torch_list_push_back")
    ('aoti_torch_get_sizes', 'torch_list_push_back')
    """
    return name if name in STABLE_FUNCTIONS else PREFIX + name


def operator_function_name(operator: str, device: str) -> str:
    """The function of an operator of ATen, if torch has one.

    >>> operator_function_name("aten.mm.out", "cpu"), operator_function_name("aten.cumsum.default", "cuda")
    ('cpu_mm_out', 'cuda_cumsum')
    """
    if operator in ONEDNN_FUNCTIONS:
        return ONEDNN_FUNCTIONS[operator]
    _, short, overload = operator.split(".")
    return f"{device}_{short}" + ("" if overload == "default" else f"_{overload}")


def c_function(name: str) -> Any:
    """The function for ctypes; None where torch's libraries do not export it."""
    on_gpu = name in CUDA_FUNCTIONS or name.startswith("cuda_")
    return (cuda_library_function if on_gpu else library_function)(symbol(name))
