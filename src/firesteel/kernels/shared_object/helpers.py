"""Small functions that host programs call: releasing what lies in slots, comparing and changing layouts."""

from __future__ import annotations

from ...native.templates import filled
from ...torch_compat import c_interface
from .checked_code import PackageModule

_TORCH = ("delete_tensor_object", "item_bool", "get_strides", "copy_", "get_data_ptr", "empty_strided")


def add_helpers(module: PackageModule) -> None:
    """The functions that programs call."""
    module.declare("free", "void", "ptr")
    for name in _TORCH:
        module.declare_torch(name)
    module.functions.append(filled("kernels/shared_object/helpers.ll", {"torch": c_interface.PREFIX}))
