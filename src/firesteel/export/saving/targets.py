"""The functions that a saved graph may call: operators that are registered with torch, and a fixed list of others.

Names are looked up and never imported or evaluated, so that a file from elsewhere can name nothing else.

>>> import operator
>>> write_target(torch.ops.aten.add.Tensor), write_target(operator.getitem)
('aten::add.Tensor', 'operator.getitem')
>>> read_target("os.system")
Traceback (most recent call last):
    ...
ValueError: os.system is not a function that programs call
"""

from __future__ import annotations

import functools
import operator
import re
from typing import Any

import torch

from ... import torch_compat
from ...shapes.expression_nodes import BINARY, COMPARED_WITH_ZERO, UNARY
from ...torch_compat.below_autograd import set_grad_mode
from .errors import SavedProgramError

_OPERATOR = re.compile(r"(\w+)::(\w+)\.(\w+)", re.ASCII)
_REFUSED = frozenset({"aten::from_file", "aten::_pin_memory", "aten::set_data", "aten::save"})
"""Operators that reach beyond tensors: files and memory that is not theirs."""


@functools.cache
def _functions() -> dict[str, Any]:
    from ...control_flow.operators import OPERATORS

    found: dict[str, Any] = {f"operator.{known.__name__}": known for known in (operator.getitem, operator.neg)}
    others = (operator.gt, torch.sym_sum, torch.sym_int)
    for known in (*BINARY.values(), *UNARY.values(), *COMPARED_WITH_ZERO.values(), *others):
        module = getattr(known, "__module__", None) or "torch"
        found[f"{module.removeprefix('_')}.{known.__name__}"] = known
    found["torch.is_grad_enabled"] = torch.is_grad_enabled
    found["torch.set_grad_enabled"] = set_grad_mode
    found.update({f"firesteel.{known.__name__}": known for known in OPERATORS})
    return found


@functools.cache
def _names() -> dict[Any, str]:
    return {known: name for name, known in _functions().items()}


def write_target(target: Any) -> str:
    """The name of a function in saved graphs."""
    if isinstance(target, torch_compat.OpOverload):
        return torch_compat.operator_name(target).replace(".", "::", 1)
    name = _names().get(target)
    if name is None:
        raise SavedProgramError(f"a call of {getattr(target, '__qualname__', target)} cannot be saved",
                                "Register it as an operator (torch.library.custom_op) and export again.")
    return name


def read_target(name: str) -> Any:
    """The function of that name. Raises ValueError."""
    found = _functions().get(name)
    if found is not None:
        return found
    match = _OPERATOR.fullmatch(name)
    if match is None or f"{match[1]}::{match[2]}" in _REFUSED:
        raise ValueError(f"{name[:200]} is not a function that programs call")
    found = torch_compat.find_operator(*match.groups())
    if found is None:
        raise ValueError(f"there is no operator {name[:200]}: import the library that registers it first")
    return found
