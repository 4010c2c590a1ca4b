"""Parameters of libtorch's C functions are those that the header says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from firesteel import torch_compat
from firesteel.kernels.shared_object.operators import _FREQUENT, _SCALARS, parameter_types, shim_name
from firesteel.torch_compat import c_interface

FOLDER = Path(torch.__file__).parent / "include" / "torch" / "csrc" / "inductor" / "aoti_torch"
HEADERS = [FOLDER / "generated" / "c_shim_cpu.h", FOLDER / "c" / "shim_cpu.h"]
NAMES = sorted({*_SCALARS, *_FREQUENT, *c_interface.ONEDNN_FUNCTIONS})


def declared() -> dict[str, list[str]]:
    """The parameters of all functions in the headers, as LLVM types."""
    found = {}
    for header in HEADERS:
        text = re.sub(r"//.*", "", header.read_text())
        for name, parameters in re.findall(r"AOTITorchError\s+(aoti_torch_cpu_\w+)\((.*?)\)", text, re.DOTALL):
            found[name] = [llvm_type(one) for one in parameters.split(",")]
    return found


def llvm_type(parameter: str) -> str:
    if "*" in parameter or "Handle" in parameter:
        return "ptr"
    return {"int64_t": "i64", "int32_t": "i32", "double": "double"}[parameter.split()[-2]]


@pytest.mark.skipif(not all(header.exists() for header in HEADERS), reason="this torch comes without its headers")
@pytest.mark.parametrize("name", NAMES)
def test_functions_have_the_parameters_of_the_schema(name):
    space, short, overload = name.split(".")
    operator = getattr(getattr(getattr(torch.ops, space), short), overload)
    function = c_interface.symbol(shim_name(name))
    if torch_compat.library_function(function) is None:
        return  # goes through the dispatcher
    schema = torch_compat.schema_of(operator)
    outs = [argument for argument in schema.arguments if argument.is_out]
    rest = [argument for argument in schema.arguments if not argument.is_out]
    types = [kind for argument in (*outs, *rest) for kind in parameter_types(str(argument.real_type))]
    if not outs:
        types += ["ptr"] * len(schema.returns)
    assert declared()[function] == types
