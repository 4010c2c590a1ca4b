"""Symbolic sizes: expressions, what is known about them, and the guards that decisions on them need.

The bridges to torch, `symnode` and `expression_nodes`, are modules of their own: everything here works without torch.
"""

# The nodes come first: they and the constructors need each other.
from firesteel.shapes.expr import (
    Call,
    Const,
    Expr,
    ExprLike,
    Kind,
    Product,
    Scalar,
    Sum,
    Symbol,
    as_expr,
    const,
    symbol,
)

# isort: split
from firesteel.shapes.arithmetic import ceil, floor, maximum, minimum, pow_by_natural, to_float, trunc
from firesteel.shapes.env import (
    ContradictionError,
    LateDecisionError,
    Provenance,
    ShapeEnv,
    ShapeGuard,
    SymbolInfo,
    UndecidableError,
)
from firesteel.shapes.facts import Facts
from firesteel.shapes.layout import dense_order
from firesteel.shapes.parsing import ParseError, parse
from firesteel.shapes.printing import Printer, print_python
from firesteel.shapes.ranges import Interval
from firesteel.shapes.relations import and_, eq, ge, gt, if_else, le, lt, ne, not_, or_
from firesteel.shapes.simplify import simplify_under_ranges
