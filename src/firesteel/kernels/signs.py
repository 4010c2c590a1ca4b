"""Which index expressions may be negative: division rounds down in Python and towards zero in machine code."""

from __future__ import annotations

from collections.abc import Callable

from ..shapes import Call, Const, Expr, Product, Sum, Symbol


def may_be_negative(expr: Expr, natural: Callable[[Symbol], bool]) -> bool:
    """Whether an expression is not known to be at least 0; `natural` tells of a symbol that it is.

    >>> from ..shapes import symbol
    >>> i, n = symbol("i"), symbol("n")
    >>> [may_be_negative(expr, lambda symbol: symbol is i) for expr in (2 * i + 1, i - 1, i + n, n % 4, n * n)]
    [False, True, True, False, False]
    """
    if isinstance(expr, Const):
        return expr.value < 0
    if isinstance(expr, Symbol):
        return not natural(expr)
    if isinstance(expr, Sum):
        return expr.const < 0 or any(factor < 0 or may_be_negative(part, natural) for part, factor in expr.terms)
    if isinstance(expr, Product):
        return any(power % 2 and may_be_negative(base, natural) for base, power in expr.factors)
    assert isinstance(expr, Call)
    if expr.kind == "bool" or expr.op == "abs":
        return False
    operands = [may_be_negative(operand, natural) for operand in expr.operands]
    match expr.op:
        case "mod":
            return operands[1]
        case "max" | "bitand":
            return all(operands)
        case "min" | "floordiv" | "mul" | "bitor" | "bitxor":
            return any(operands)
        case "ifelse":
            return any(operands[1:])
        case "lshift" | "rshift":
            return operands[0]
    return True
