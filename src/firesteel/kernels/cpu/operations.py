"""One operation of the loop IR on operands of a function that is being written."""

from __future__ import annotations

import torch

from ...functional.graph import Unsupported
from ..operations import OPERATIONS
from .conversions import HALVES, cast
from .operands import Operand
from .operation_rules import is_number
from .scopes import Emitter


def emit(e: Emitter, op: str, dtype: torch.dtype, args: list[Operand]) -> Operand:
    """The result of an operation. All operands have one dtype and as many lanes as the result."""
    if op == "where":
        if dtype is torch.bfloat16 and any(arg.single is not None for arg in args[1:]):
            then, otherwise = [cast(e, arg, torch.float32) for arg in args[1:]]
            return cast(e, emit(e, op, torch.float32, [args[0], then, otherwise]), dtype)
        return _one_of(e.select(*args), args[1:])
    kind = args[0].dtype
    if kind in HALVES:
        single = [cast(e, arg, torch.float32) for arg in args]
        return cast(e, emit(e, op, torch.bool if dtype is torch.bool else torch.float32, single), dtype)
    operation = OPERATIONS[op]
    rule = operation.llvm.rule(kind)
    if rule is None:
        raise Unsupported(f"{op} of {kind}")
    result = rule(e, args)
    if operation.chooses:
        return _one_of(result, args)
    if operation.plain_nan:
        result.short_nan = kind is torch.float32 and all(arg.short_nan or is_number(arg) for arg in args)
    return result


def _one_of(result: Operand, args: list[Operand]) -> Operand:
    """A result that is one of the operands, which need not be rounded again if none of them need be."""
    if result.dtype is torch.float32:
        result.rounded = all(arg.rounded or _is_bfloat(arg) for arg in args)
        result.short_nan = all(arg.short_nan or is_number(arg) for arg in args)
    return result


def _is_bfloat(operand: Operand) -> bool:
    """Whether a float32 is known to be a bfloat16: zero or a power of two, of those that are constants."""
    if not operand.is_constant:
        return False
    text = operand.text.removeprefix("splat (float ").removesuffix(")")
    exponent = int(text[2:5], 16) & 0x7FF if text.startswith("0x") and text.endswith("0" * 13) else -1
    return exponent == 0 or 1023 - 126 <= exponent <= 1023 + 127
