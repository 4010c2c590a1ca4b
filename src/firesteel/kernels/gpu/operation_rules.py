"""Operations of the loop IR as Triton expressions: what the table of operations (`kernels.operations`) refers to.

A rule takes the texts of the operands (names, calls, or in parentheses), their dtype, which is no short float unless
the table says so, and a function that gives the name of a helper and defines it in the kernel (`values.HELPERS`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ...functional.graph import Unsupported
from ...records import dataclass

Helper = Callable[[str], str]
Rule = Callable[[Sequence[str], torch.dtype, Helper], str]

DTYPES = {
    torch.float64: "tl.float64", torch.float32: "tl.float32", torch.float16: "tl.float16",
    torch.bfloat16: "tl.bfloat16", torch.int64: "tl.int64", torch.int32: "tl.int32", torch.int16: "tl.int16",
    torch.int8: "tl.int8", torch.uint8: "tl.uint8", torch.bool: "tl.int1",
}  # fmt: skip


@dataclass(frozen=True)
class Infix:
    """A sign between two operands."""

    sign: str
    bools: bool = True
    """Whether it is the same for bools, which Triton takes for numbers."""

    def __call__(self, args: Sequence[str], dtype: torch.dtype, helper: Helper) -> str:
        if dtype is torch.bool and not self.bools:
            raise Unsupported(f"{self.sign} of bools")
        return f"({args[0]} {self.sign} {args[1]})"


def call(name: str) -> Rule:
    """A function of Triton, or one of the helpers, which have no dot in their names."""

    def rule(args: Sequence[str], dtype: torch.dtype, helper: Helper) -> str:
        if dtype is torch.bool:
            raise Unsupported(f"{name} of bools")
        return f"{name if '.' in name else helper(name)}({', '.join(args)})"

    return rule


def pattern(text: str) -> Rule:
    """An expression in which ``{0}`` stands for the first operand, and so on."""
    return lambda args, dtype, helper: text.format(*args)


def integer_extreme(name: str, of_bools: str) -> Rule:
    """The larger or smaller of two; of bools that is one of them, or both."""

    def rule(args: Sequence[str], dtype: torch.dtype, helper: Helper) -> str:
        return f"({args[0]} {of_bools} {args[1]})" if dtype is torch.bool else f"{name}({args[0]}, {args[1]})"

    return rule


def inversion(args: Sequence[str], dtype: torch.dtype, helper: Helper) -> str:
    """All bits, or the one of a bool."""
    return f"({args[0]} == 0)" if dtype is torch.bool else f"(~{args[0]})"


def sign(args: Sequence[str], dtype: torch.dtype, helper: Helper) -> str:
    """-1, 0 or 1; 0 for NaN."""
    kind = DTYPES[dtype]
    return f"(({args[0]} > 0).to({kind}) - ({args[0]} < 0).to({kind}))"


def divided(args: Sequence[str], dtype: torch.dtype, helper: Helper) -> str:
    """A quotient. In float32 Triton's plain division and square root are not rounded correctly, as eager's are."""
    return f"tl.div_rn({args[0]}, {args[1]})" if dtype is torch.float32 else f"({args[0]} / {args[1]})"


def reciprocal(args: Sequence[str], dtype: torch.dtype, helper: Helper) -> str:
    return divided(("1.0", args[0]), dtype, helper)


def root(args: Sequence[str], dtype: torch.dtype, helper: Helper) -> str:
    return f"tl.sqrt_rn({args[0]})" if dtype is torch.float32 else f"libdevice.sqrt({args[0]})"


def sigmoid(args: Sequence[str], dtype: torch.dtype, helper: Helper) -> str:
    """1 / (1 + exp(-x))"""
    if dtype is torch.float32:
        return f"{helper('over_one_plus')}(1.0, libdevice.exp(-{args[0]}))"
    return divided(("1.0", f"(libdevice.exp(-{args[0]}) + 1.0)"), dtype, helper)
