"""Operators of functional graphs that own graphs: branches and loops around functional bodies.

    body (carry, x) -> (add, mul):                     cond(pred, x, w) = true(x, w) if pred else false(x, w)
        add = aten.add.Tensor(carry, x)
        mul = aten.mul.Tensor(carry, x)
    last, ys = scan(init, xs)                          one call of the body for each slice

Each is an object that can be called with tensors; the loops are Python, the bodies run operator by operator, or as
whatever `with_bodies` puts in their place. Gradients are operators of the same kind: they run the forward bodies again
for what the backward bodies need.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ..records import dataclass
from ..shapes import Expr
from ..shapes.symnode import expr_of
from ..torch_compat import OpOverload
from .graph import FunctionalGraph
from .operators import operator_of, raises_on_data
from .running import run, symbols

Results = tuple[Any, ...]


@dataclass(frozen=True)
class Body:
    """A functional graph and how it is run."""

    name: str
    graph: FunctionalGraph
    compiled: Callable[..., Results] | None = None

    @functools.cached_property
    def run(self) -> Callable[..., Results]:
        """The function of inputs that lie in memory as the graph says."""
        return self.compiled if self.compiled is not None else lambda *inputs: run(self.graph, inputs)

    @functools.cached_property
    def strides(self) -> list[tuple[int | Expr, ...] | None]:
        """Of every input; None for numbers. Expressions, since comparing symbolic numbers decides what they are."""
        examples = [entry.example for entry in self.graph.inputs]
        return [tuple([step if type(step) is int else expr_of(step) for step in example.stride()])
                if isinstance(example, torch.Tensor) else None for example in examples]

    def __call__(self, *inputs: Any) -> Results:
        """Run it; inputs that lie in memory in another way are copied."""
        return self.run(*[value if stride is None or value.stride() == stride else self.fit(number, inputs)
                          for number, (value, stride) in enumerate(zip(inputs, self.strides, strict=True))])

    def fit(self, number: int, inputs: Sequence[Any]) -> torch.Tensor:
        """An input with the strides that the graph was made for."""
        value: torch.Tensor = inputs[number]
        stride: Any = self.strides[number]
        if not all(type(step) is int for step in stride):
            known = symbols(self.graph.inputs, inputs, {})
            stride = tuple([step if type(step) is int else int(step.evaluate(known)) for step in stride])
        if all(size == 1 or a == b for size, a, b in zip(value.shape, value.stride(), stride, strict=True)):
            return value
        return torch.empty_strided(value.shape, stride, dtype=value.dtype, device=value.device).copy_(value)


@dataclass(frozen=True, eq=False)
class Subprogram:
    """An operator that owns graphs. It takes flat operands and returns a tuple of new tensors."""

    bodies: tuple[Body, ...]
    title: str = "subprogram"
    returns_several = True

    def __call__(self, *operands: Any) -> Results:
        raise NotImplementedError

    def __post_init__(self) -> None:
        # what torch.fx asks functions for
        object.__setattr__(self, "__name__", self.title)
        object.__setattr__(self, "__qualname__", self.title)

    def __str__(self) -> str:
        return f"control_flow.{self.title}"

    def with_bodies(self, compile_body: Callable[[FunctionalGraph, str], Callable[..., Results]]) -> Subprogram:
        """The same with compiled bodies."""
        return replace(self, bodies=tuple([
            replace(body, compiled=compile_body(body.graph, f"{self.title}_{body.name}")) for body in self.bodies]))

    @property
    def random(self) -> bool:
        """Whether a body draws random numbers."""
        return any(_is_random(node) for body in self.bodies for node in body.graph.graph.nodes)

    @property
    def tags(self) -> tuple[torch.Tag, ...]:
        """As operators of torch have them."""
        return (torch.Tag.nondeterministic_seeded,) if self.random else ()

    @property
    def has_effect(self) -> bool:
        """Whether it matters even if nobody reads its results: it draws random numbers or may raise."""
        return any(_matters(node) for body in self.bodies for node in body.graph.graph.nodes)

    def describe(self) -> list[str]:
        """The bodies as text."""
        return [line for body in self.bodies
                for line in (f"{body.name}:", *(f"    {text}" for text in str(body.graph).splitlines()))]


def _is_random(node: torch.fx.Node) -> bool:
    if isinstance(node.target, Subprogram):
        return node.target.random
    return isinstance(node.target, OpOverload) and operator_of(node.target).random


def _matters(node: torch.fx.Node) -> bool:
    if isinstance(node.target, Subprogram):
        return node.target.has_effect
    if not isinstance(node.target, OpOverload):
        return False
    operator = operator_of(node.target)
    return operator.random or operator.has_effect or raises_on_data(node)


@dataclass(frozen=True, eq=False)
class Cond(Subprogram):
    """``(pred, *operands)``: one of two bodies. Its gradient is one as well, of the backward bodies."""

    def __call__(self, *operands: Any) -> Results:
        # tangents, the operands of a backward, may lie in memory in any way
        return self.bodies[0 if operands[0] else 1](*operands[1:])


@dataclass(frozen=True, eq=False)
class WhileLoop(Subprogram):
    """``(*carried, *additional)``: the second body while the first gives true."""

    carried: int = 0

    def __call__(self, *operands: Any) -> Results:
        test, body = self.bodies[0].run, self.bodies[1].run
        current, additional = operands[:self.carried], operands[self.carried:]
        turned = False
        while test(*current, *additional)[0]:
            current = body(*current, *additional)
            turned = True
        return tuple(current) if turned else tuple([value.clone() for value in current])


@dataclass(frozen=True, eq=False)
class Scan(Subprogram):
    """``(*carry, *xs, *additional)``: one call for each slice; the last carry, then stacked results."""

    carried: int = 0
    sliced: int = 0

    def __call__(self, *operands: Any) -> Results:
        body = self.bodies[0].run
        carry, xs, additional = _parts(operands, self.carried, self.sliced)
        rows = []
        for position in range(xs[0].shape[0]):
            results = body(*carry, *[x.select(0, position) for x in xs], *additional)
            carry = results[:self.carried]
            rows.append(results[self.carried:])
        return (*carry, *[torch.stack(parts) for parts in zip(*rows, strict=True)])


@dataclass(frozen=True, eq=False)
class WhileLoopBackward(Subprogram):
    """``(*carried, *additional, *tangents)``: gradients of what is wanted.

    Bodies: the condition, the loop's body and its backward, which takes ``(*carried, *additional, *tangents)`` and
    gives gradients of the carried values in ``differentiable`` and of the additional ones in ``wanted``.
    """

    carried: int = 0
    additional: int = 0
    differentiable: tuple[int, ...] = ()
    wanted: tuple[int, ...] = ()

    def __call__(self, *operands: Any) -> Results:
        # what is kept for backward may have been copied, and lie in another way
        test, body, backward = self.bodies
        current, additional, tangents = _parts(operands, self.carried, self.additional)
        turns = []
        while test(*current, *additional)[0]:
            turns.append(current)
            current = body(*current, *additional)
        sums = [torch.zeros_like(additional[at], memory_format=torch.contiguous_format) for at in self.wanted]
        for given in reversed(turns):
            of_turn = backward(*given, *additional, *tangents)
            tangents = of_turn[:len(self.differentiable)]
            sums = [total + part for total, part in zip(sums, of_turn[len(tangents):], strict=True)]
        if not turns:
            tangents = tuple([tangent.clone(memory_format=torch.contiguous_format) for tangent in tangents])
        return (*tangents, *sums)


@dataclass(frozen=True, eq=False)
class ScanBackward(Subprogram):
    """``(*carry, *xs, *additional, *tangents of the carry, *tangents of the results)``: gradients of what is wanted.

    Bodies: the scan's body and its backward, which takes ``(*carry, *slices, *additional, *tangents)`` and gives
    gradients of the carried values in ``differentiable``, of ``slices`` and of the additional operands in ``wanted``.
    """

    carried: int = 0
    sliced: int = 0
    additional: int = 0
    differentiable: tuple[int, ...] = ()
    slices: tuple[int, ...] = ()
    wanted: tuple[int, ...] = ()

    def __call__(self, *operands: Any) -> Results:
        # what is kept for backward may have been copied, and lie in another way
        body, backward = self.bodies
        carry, xs, rest = _parts(operands, self.carried, self.sliced)
        additional, tangents = rest[:self.additional], rest[self.additional:]
        count = len(self.differentiable)
        gradients, of_results = tangents[:count], tangents[count:]
        turns = []
        for position in range(xs[0].shape[0]):
            given = (*carry, *[x.select(0, position) for x in xs], *additional)
            turns.append(given)
            if self.carried and position + 1 < xs[0].shape[0]:
                carry = body(*given)[:self.carried]
        sums = [torch.zeros_like(additional[at], memory_format=torch.contiguous_format) for at in self.wanted]
        rows: list[Results] = []
        for position in reversed(range(len(turns))):
            of_turn = backward(*turns[position], *gradients, *[tangent.select(0, position) for tangent in of_results])
            gradients = of_turn[:count]
            rows.append(of_turn[count:count + len(self.slices)])
            sums = [total + part for total, part in zip(sums, of_turn[count + len(self.slices):], strict=True)]
        stacked = [torch.stack(parts) for parts in zip(*reversed(rows), strict=True)]
        return (*gradients, *stacked, *sums)


def _parts(operands: Sequence[Any], first: int, second: int) -> tuple[Any, Any, Any]:
    return tuple(operands[:first]), tuple(operands[first:first + second]), tuple(operands[first + second:])
