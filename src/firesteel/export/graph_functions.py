"""The functions that graphs of exported programs call besides operators: arithmetic on sizes, modes, control flow.

One list for the verifier and for saved programs.

>>> import operator
>>> functions()["operator.getitem"] is operator.getitem, is_graph_function(operator.add), is_graph_function(print)
(True, True, False)
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping
from typing import Any

import torch

from ..shapes.expression_nodes import BINARY, COMPARED_WITH_ZERO, UNARY
from ..torch_compat.below_autograd import set_grad_mode
from .functional_calls import written_copies

_ARITHMETIC = ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "neg", "pos", "abs", "and_", "or_", "xor",
               "not_", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge", "getitem")


@functools.cache
def functions() -> Mapping[str, Any]:
    """The functions by the names that they have in files."""
    from ..control_flow.operators import OPERATORS

    by_name: dict[str, Any] = {}
    symbolic = [getattr(torch, name) for name in dir(torch) if name.startswith("sym_")]
    for known in (*(getattr(operator, name) for name in _ARITHMETIC), math.sqrt, *BINARY.values(), *UNARY.values(),
                  *COMPARED_WITH_ZERO.values(), *symbolic):
        module = getattr(known, "__module__", None) or "torch"
        by_name[f"{module.removeprefix('_')}.{known.__name__}"] = known
    by_name["torch.is_grad_enabled"] = torch.is_grad_enabled
    by_name["torch.set_grad_enabled"] = set_grad_mode
    by_name["firesteel.written_copies"] = written_copies
    by_name.update({f"firesteel.{known.__name__}": known for known in OPERATORS})
    return by_name


@functools.cache
def names() -> Mapping[Any, str]:
    """The names of the functions."""
    return {known: name for name, known in functions().items()}


def is_graph_function(target: Any) -> bool:
    """Whether a function may stand in a graph."""
    return target in names()
