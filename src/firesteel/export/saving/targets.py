"""The functions that a saved graph may call: operators that are registered with torch, and a fixed list of others.

Names are looked up and never imported or evaluated, so that a file from elsewhere can name nothing else.

>>> import operator, torch
>>> write_target(torch.ops.aten.add.Tensor), write_target(operator.getitem)
('aten::add.Tensor', 'operator.getitem')
>>> read_target("os.system")
Traceback (most recent call last):
    ...
ValueError: os.system is not a function that programs call
"""

from __future__ import annotations

import re
from typing import Any

from ... import torch_compat
from ..graph_functions import functions, names
from .errors import SavedProgramError

_OPERATOR = re.compile(r"(\w+)::(\w+)\.(\w+)", re.ASCII)
_REFUSED = frozenset({"aten::from_file", "aten::_pin_memory", "aten::set_data", "aten::save"})
"""Operators that reach beyond tensors: files and memory that is not theirs."""


def write_target(target: Any) -> str:
    """The name of a function in saved graphs."""
    if isinstance(target, torch_compat.OpOverload):
        return torch_compat.operator_name(target).replace(".", "::", 1)
    name = names().get(target)
    if name is None:
        raise SavedProgramError(f"a call of {getattr(target, '__qualname__', target)} cannot be saved",
                                "Register it as an operator (torch.library.custom_op) and export again.")
    return name


def read_target(name: str) -> Any:
    """The function of that name. Raises ValueError."""
    target = functions().get(name)
    if target is not None:
        return target
    match = _OPERATOR.fullmatch(name)
    if match is None or f"{match[1]}::{match[2]}" in _REFUSED:
        raise ValueError(f"{name[:200]} is not a function that programs call")
    target = torch_compat.find_operator(*match.groups())
    if target is None:
        raise ValueError(f"there is no operator {name[:200]}: import the library that registers it first")
    return target
