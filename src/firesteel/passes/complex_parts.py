"""Arithmetic of complex numbers becomes arithmetic of their real and imaginary parts, which kernels can compute.

    mul: complex128[8] = aten.mul.Tensor(c, d)
    abs_1: f64[8] = aten.abs.default(mul)

becomes, with the parts of ``c`` and ``d`` read from memory as ``select(view_as_real(c), 1, 0)``,

    mul_re: f64[8] = aten.sub.Tensor(aten.mul.Tensor(c_re, d_re), aten.mul.Tensor(c_im, d_im))
    mul_im: f64[8] = aten.add.Tensor(aten.mul.Tensor(c_re, d_im), aten.mul.Tensor(c_im, d_re))
    abs_1: f64[8] = aten.hypot.default(mul_re, mul_im)

Where a complex tensor is needed after all, as a result or by an operator without a rule here, it is put together:
``aten.complex.default(mul_re, mul_im)``. The formulas are those of eager, for infinities and NaN too: a real operand is
a complex number whose imaginary part is 0. Division and functions other than exp are left to ATen.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from ..fake.tensor import FakeUnsupported
from ..functional.graph import FunctionalGraph
from .rewriting import ATEN, Rewriter, is_call, same_layout, same_sizes
from .settings import STRICT, Settings

Parts = tuple[torch.fx.Node, torch.fx.Node]
_PARTS_OF = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def complex_parts(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Compute with real and imaginary parts."""
    if not any(_is_complex(node) for node in functional.graph.nodes):
        return functional
    splitter = _Splitter(functional)
    for node in list(functional.graph.nodes):
        if node.op == "call_function":
            splitter.visit(node)
    splitter.put_together()
    return splitter.finish()


def _is_complex(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dtype in _PARTS_OF


class _Splitter(Rewriter):
    def __init__(self, functional: FunctionalGraph) -> None:
        super().__init__(functional)
        self.parts: dict[torch.fx.Node, Parts] = {}
        """Of complex tensors that are computed: what they are made of."""
        self.read: dict[torch.fx.Node, Parts] = {}
        """Of tensors in memory: their parts as they were read once."""

    def visit(self, node: torch.fx.Node) -> None:
        rules = _rules()
        if _is_complex(node):
            rule = rules.complex.get(node.target)
            if rule is None or not node.meta["val"].is_contiguous():
                return
            with self.before(node):
                parts = rule(self, node)
            if parts is not None and _fit(node, parts):
                self.parts[node] = parts
        elif any(_is_complex(argument) for argument in node.all_input_nodes):
            real_rule = rules.real.get(node.target)
            if real_rule is None:
                return
            with self.before(node):
                result = real_rule(self, node)
            if result is not None and same_layout(node.meta["val"], result.meta["val"]):
                self.replace(node, result)

    def put_together(self) -> None:
        """Make those complex tensors that are still used, last ones first: others may be used by these alone."""
        used = set(self.graph.output_node().all_input_nodes)
        for node in reversed(list(self.graph.nodes)):
            replaced = node in self.parts or node in self.results or is_call(node, ATEN.view_as_real.default)
            if replaced and node not in used:
                continue
            if node in self.parts:
                with self.before(node):
                    whole = self.call(ATEN.complex.default, *self.parts[node])
                if same_layout(node.meta["val"], whole.meta["val"]):
                    self.replace(node, whole)
                    used.update(self.parts[node])
                    continue
            used.update(node.all_input_nodes)

    # Parts of operands

    def of(self, node: torch.fx.Node) -> Parts:
        """The parts of a tensor, those of a real one being itself and 0."""
        known = self.parts.get(node) or self.read.get(node)
        if known is None:
            if _is_complex(node):
                pairs = self.call(ATEN.view_as_real.default, node)
                known = (self.call(ATEN.select.int, pairs, -1, 0), self.call(ATEN.select.int, pairs, -1, 1))
            else:
                known = (node, self.call(ATEN.full_like.default, node, 0.0))
            self.read[node] = known
        return known

    def operand(self, value: Any, dtype: torch.dtype) -> Parts | None:
        """The parts of an operand, a tensor or a number, as a dtype."""
        if isinstance(value, torch.fx.Node):
            if not isinstance(value.meta["val"], torch.Tensor):
                return None
            if not _is_complex(value):
                if value.meta["val"].dtype is not dtype:
                    value = self.call(ATEN._to_copy.default, value, dtype=dtype)
                return self.of(value)
            if _PARTS_OF[value.meta["val"].dtype] is dtype:
                return self.of(value)
            real, imaginary = self.of(value)
            return (self.call(ATEN._to_copy.default, real, dtype=dtype),
                    self.call(ATEN._to_copy.default, imaginary, dtype=dtype))
        if not isinstance(value, (int, float, complex)):
            return None
        number = complex(value)
        return self.number(number.real, dtype), self.number(number.imag, dtype)

    def number(self, value: float, dtype: torch.dtype) -> torch.fx.Node:
        return self.call(ATEN.full.default, [], value, dtype=dtype, device=self.device)

    @functools.cached_property
    def device(self) -> torch.device:
        return next(node.meta["val"].device for node in self.graph.nodes if _is_complex(node))


def _fit(node: torch.fx.Node, parts: Parts) -> bool:
    """Whether parts are those of a tensor like this."""
    wanted = node.meta["val"]
    return all(part.meta["val"].dtype is _PARTS_OF[wanted.dtype] and same_sizes(wanted, part.meta["val"])
               and part.meta["val"].device == wanted.device for part in parts)


# ---------------------------------------------------------------------------------------------------------------------
# operators that give complex numbers

ComplexRule = Callable[[_Splitter, torch.fx.Node], "Parts | None"]
RealRule = Callable[[_Splitter, torch.fx.Node], "torch.fx.Node | None"]


def _part_dtype(node: torch.fx.Node) -> torch.dtype:
    return _PARTS_OF[node.meta["val"].dtype]


def _operands(s: _Splitter, node: torch.fx.Node) -> list[Parts] | None:
    parts = [s.operand(value, _part_dtype(node)) for value in node.args[:2]]
    return None if node.kwargs or None in parts else parts  # type: ignore[return-value]


def _sum(factor: float) -> ComplexRule:
    """a + factor * b, where eager multiplies as with a complex number: infinite parts make others NaN."""
    def rule(s: _Splitter, node: torch.fx.Node) -> Parts | None:
        operands = _operands(s, node)
        if operands is None:
            return None
        (a, b), second = operands
        c, d = _multiplied(s, second, (s.number(factor, _part_dtype(node)),
                                       s.number(math.copysign(0.0, factor), _part_dtype(node))))
        return s.call(ATEN.add.Tensor, a, c), s.call(ATEN.add.Tensor, b, d)

    return rule


def _product(s: _Splitter, node: torch.fx.Node) -> Parts | None:
    operands = _operands(s, node)
    return None if operands is None else _multiplied(s, *operands)


def _multiplied(s: _Splitter, x: Parts, y: Parts) -> Parts:
    """(a + bi)(c + di) = (ac - bd) + (ad + bc)i"""
    (a, b), (c, d) = x, y
    return (s.call(ATEN.sub.Tensor, s.call(ATEN.mul.Tensor, a, c), s.call(ATEN.mul.Tensor, b, d)),
            s.call(ATEN.add.Tensor, s.call(ATEN.mul.Tensor, a, d), s.call(ATEN.mul.Tensor, b, c)))


def _square(s: _Splitter, node: torch.fx.Node) -> Parts | None:
    if node.args[1:] not in ((2,), ()) or type(node.args[-1]) is float:
        return None
    x = s.operand(node.args[0], _part_dtype(node))
    return None if x is None else _multiplied(s, x, x)


def _negated(s: _Splitter, node: torch.fx.Node) -> Parts:
    real, imaginary = s.of(node.args[0])  # type: ignore[arg-type]
    return s.call(ATEN.neg.default, real), s.call(ATEN.neg.default, imaginary)


def _conjugate(s: _Splitter, node: torch.fx.Node) -> Parts:
    real, imaginary = s.of(node.args[0])  # type: ignore[arg-type]
    return real, s.call(ATEN.neg.default, imaginary)


def _exp(s: _Splitter, node: torch.fx.Node) -> Parts:
    """exp(a + bi) = exp(a) cos b + (exp(a) sin b)i, which is real where b is 0, though exp(a) may be infinite.

    Where a is infinite and b is no number to turn by, the real part is exp(a); so is the imaginary one if that is 0.
    """
    real, imaginary = s.of(node.args[0])  # type: ignore[arg-type]
    size = s.call(ATEN.exp.default, real)
    across = s.call(ATEN.mul.Tensor, size, s.call(ATEN.cos.default, imaginary))
    turned = s.call(ATEN.mul.Tensor, size, s.call(ATEN.sin.default, imaginary))
    # 0 times what is not finite is no number
    unturned = s.call(ATEN.ne.Scalar, s.call(ATEN.mul.Scalar, imaginary, 0), 0)
    nothing = s.call(ATEN.logical_and.default, unturned, s.call(ATEN.eq.Scalar, real, -math.inf))
    endless = s.call(ATEN.logical_and.default, unturned,
                     s.call(ATEN.eq.Scalar, s.call(ATEN.abs.default, real), math.inf))
    on_axis = s.call(ATEN.eq.Scalar, imaginary, 0)
    return (s.call(ATEN.where.self, endless, size, across),
            s.call(ATEN.where.self, on_axis, imaginary, s.call(ATEN.where.self, nothing, size, turned)))


def _where(s: _Splitter, node: torch.fx.Node) -> Parts | None:
    condition = node.args[0]
    a, b = (s.operand(value, _part_dtype(node)) for value in node.args[1:])
    if a is None or b is None:
        return None
    return s.call(ATEN.where.self, condition, a[0], b[0]), s.call(ATEN.where.self, condition, a[1], b[1])


def _converted(s: _Splitter, node: torch.fx.Node) -> Parts | None:
    if set(node.kwargs) - {"dtype"}:
        return None
    source = node.args[0]
    assert isinstance(source, torch.fx.Node)
    return s.operand(source, _part_dtype(node)) if source in s.parts or not _is_complex(source) else None


def _filled(s: _Splitter, node: torch.fx.Node) -> Parts | None:
    size, value = node.args
    if not isinstance(value, (int, float, complex)) or set(node.kwargs) - {"dtype", "device"}:
        return None
    number = complex(value)
    options: dict[str, Any] = {**node.kwargs, "dtype": _part_dtype(node)}
    return (s.call(ATEN.full.default, size, number.real, **options),
            s.call(ATEN.full.default, size, number.imag, **options))


def _of_parts(s: _Splitter, node: torch.fx.Node) -> Parts | None:
    real, imaginary = node.args
    assert isinstance(real, torch.fx.Node) and isinstance(imaginary, torch.fx.Node)
    return (real, imaginary) if same_sizes(real.meta["val"], imaginary.meta["val"]) else None


def _of_pairs(s: _Splitter, node: torch.fx.Node) -> Parts:
    return s.call(ATEN.select.int, node.args[0], -1, 0), s.call(ATEN.select.int, node.args[0], -1, 1)


def _polar(s: _Splitter, node: torch.fx.Node) -> Parts | None:
    size, angle = node.args
    return (s.call(ATEN.mul.Tensor, size, s.call(ATEN.cos.default, angle)),
            s.call(ATEN.mul.Tensor, size, s.call(ATEN.sin.default, angle)))


def _moved(s: _Splitter, node: torch.fx.Node) -> Parts | None:
    """The same of both parts, if they are not in memory together: copies and views of memory stay what they are."""
    known = s.parts.get(node.args[0])  # type: ignore[arg-type]
    if known is None:
        return None
    options: dict[str, Any] = dict(node.kwargs)
    try:
        real, imaginary = (s.call(node.target, part, *node.args[1:], **options) for part in known)
    except (FakeUnsupported, RuntimeError):  # parts may lie in memory in another order, of which this is no view
        return None
    return real, imaginary


def _summed(s: _Splitter, node: torch.fx.Node) -> Parts | None:
    if node.kwargs:
        return None
    real, imaginary = (s.call(node.target, part, *node.args[1:]) for part in s.of(node.args[0]))  # type: ignore[arg-type]
    return real, imaginary


def _mean(s: _Splitter, node: torch.fx.Node) -> Parts | None:
    """Eager divides by a complex number of elements: what is not finite in one part is no number in the other."""
    parts = _summed(s, node)
    if parts is None:
        return None
    real, imaginary = parts
    return (s.call(ATEN.add.Tensor, real, s.call(ATEN.mul.Scalar, imaginary, 0)),
            s.call(ATEN.sub.Tensor, imaginary, s.call(ATEN.mul.Scalar, real, 0)))


# ---------------------------------------------------------------------------------------------------------------------
# operators that give something else


def _size(s: _Splitter, node: torch.fx.Node) -> torch.fx.Node:
    return s.call(ATEN.hypot.default, *s.of(node.args[0]))  # type: ignore[arg-type]


def _angle(s: _Splitter, node: torch.fx.Node) -> torch.fx.Node | None:
    if not node.args[0].meta["val"].is_contiguous():  # type: ignore[union-attr]
        return None  # eager lays the result out by rows
    real, imaginary = s.of(node.args[0])  # type: ignore[arg-type]
    return s.call(ATEN.atan2.default, imaginary, real)


def _pairs(s: _Splitter, node: torch.fx.Node) -> torch.fx.Node | None:
    """The parts for those who take one of each, and pairs of them for others."""
    known = s.parts.get(node.args[0])  # type: ignore[arg-type]
    for user in list(node.users) if known is not None else ():
        if is_call(user, ATEN.select.int) and user.args[1] in (-1, node.meta["val"].ndim - 1):
            part = known[user.args[2]]  # type: ignore[index]
            if _takes_any_layout(user) or same_layout(user.meta["val"], part.meta["val"]):
                s.replace(user, part)
    if known is None or not any(user not in s.results for user in node.users):
        return None
    return s.call(ATEN.stack.default, list(known), -1)


def _takes_any_layout(node: torch.fx.Node) -> bool:
    """Whether all users of a node give the same for any strides of it."""
    return bool(node.users) and all(
        user.op == "call_function" and torch.Tag.pointwise in getattr(user.target, "tags", ()) for user in node.users)


def _compared(target: Any, both: Any) -> RealRule:
    def rule(s: _Splitter, node: torch.fx.Node) -> torch.fx.Node | None:
        wide = [value.meta["val"].dtype for value in node.args if _is_complex(value)]  # type: ignore[union-attr]
        dtype = torch.float64 if torch.complex128 in wide else torch.float32
        parts = [s.operand(value, dtype) for value in node.args]
        if None in parts or any(isinstance(value, torch.fx.Node) and not _is_complex(value) for value in node.args):
            return None
        (a, b), (c, d) = parts  # type: ignore[misc]
        return s.call(both, s.call(target, a, c), s.call(target, b, d))

    return rule


class _Rules:
    """What is known of operators, by whether they give complex numbers or only take them."""

    complex: dict[Any, ComplexRule]
    real: dict[Any, RealRule]


@functools.cache
def _rules() -> _Rules:
    rules = _Rules()
    moves = (ATEN.clone.default, ATEN.alias.default, ATEN.detach.default, ATEN.view.default, ATEN._unsafe_view.default,
             ATEN.expand.default, ATEN.unsqueeze.default, ATEN.squeeze.dim, ATEN.permute.default,
             ATEN.transpose.int, ATEN.select.int, ATEN.slice.Tensor)  # fmt: skip
    rules.complex = {
        ATEN.add.Tensor: _sum(1.0), ATEN.sub.Tensor: _sum(-1.0), ATEN.mul.Tensor: _product,
        ATEN.pow.Tensor_Scalar: _square, ATEN.neg.default: _negated,
        ATEN._conj_physical.default: _conjugate, ATEN.exp.default: _exp,
        ATEN.where.self: _where, ATEN._to_copy.default: _converted, ATEN.full.default: _filled,
        ATEN.complex.default: _of_parts, ATEN.view_as_complex.default: _of_pairs, ATEN.polar.default: _polar,
        ATEN.sum.default: _summed, ATEN.sum.dim_IntList: _summed, ATEN.mean.default: _mean, ATEN.mean.dim: _mean,
        **dict.fromkeys(moves, _moved),
    }  # fmt: skip
    rules.real = {
        ATEN.abs.default: _size, ATEN.angle.default: _angle, ATEN.view_as_real.default: _pairs,
        ATEN.eq.Tensor: _compared(ATEN.eq.Tensor, ATEN.logical_and.default),
        ATEN.ne.Tensor: _compared(ATEN.ne.Tensor, ATEN.logical_or.default),
        ATEN.eq.Scalar: _compared(ATEN.eq.Tensor, ATEN.logical_and.default),
        ATEN.ne.Scalar: _compared(ATEN.ne.Tensor, ATEN.logical_or.default),
    }  # fmt: skip
    return rules
