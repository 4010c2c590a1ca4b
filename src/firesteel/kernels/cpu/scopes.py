"""Where code goes: scopes for the loops around a point, and for each value the outermost of them that can hold it.

Every loop has two scopes. One is in front of it, entered only if the loop runs at all, and takes what does not change
in the loop; the other is its body. A value is computed once in the scope of the innermost loop that it depends on, so a
load of `mean[i0]` inside a loop over `i1` is done before that loop:

    guard:   br (0 < n), before, after
    before:  %mean = load ...            <- depends on i0 only
    loop:    %x = load ...; fsub %x, %mean

Loads are hoisted only in front of loops that run, so that nothing is read that the kernel would not have read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ...shapes import Symbol
from ..llvm_writer import Block, Function, Module
from .operands import Operand, constant, element_type, mangled, type_of
from .target import Target


class Scope:
    """A stretch of code that dominates all inside it."""

    __slots__ = ("block", "found", "volatile")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.found: dict[Any, Operand] = {}
        """What has been computed here, by `Value`, expression or other key."""
        self.volatile: dict[Any, Operand] = {}
        """What has been computed here and a store may change, by key."""


class Emitter:
    """Writes instructions of one function."""

    def __init__(self, module: Module, function: Function, target: Target) -> None:
        self.module = module
        self.function = function
        self.target = target
        self.scopes = [Scope(function.entry)]
        self.place = 0
        """The scope that instructions go to now."""
        self.levels: dict[Any, int] = {}
        """The scope that a symbol or a local was bound in; those not here are parameters."""
        self.symbols: dict[Symbol, Operand] = {}
        self.signed: frozenset[Symbol] = frozenset()
        """The parameters that may be negative."""
        self.axis: Symbol | None = None
        """The loop variable whose consecutive values are the lanes of vectors, if code is being vectorised."""
        self.lanes = 1
        self.mask: Operand | None = None
        """The lanes that are really there, where not all of them are."""

    # instructions

    def line(self, text: str) -> None:
        self.scopes[self.place].block.lines.append(text)

    def instruction(self, text: str, dtype: torch.dtype, lanes: int) -> Operand:
        """An instruction with a result."""
        name = self.function.temporary()
        self.scopes[self.place].block.lines.append(f"{name} = {text}")
        return Operand(name, dtype, lanes, self.place)

    def raw(self, text: str) -> str:
        """An instruction whose result is no `Operand`, such as a pointer."""
        name = self.function.temporary()
        self.scopes[self.place].block.lines.append(f"{name} = {text}")
        return name

    def constant(self, value: bool | int | float, dtype: torch.dtype, lanes: int = 1) -> Operand:
        return Operand(constant(value, dtype, lanes), dtype, lanes)

    def integer(self, value: int) -> Operand:
        return Operand(str(value), torch.int64, 1)

    def binary(self, instruction: str, left: Operand, right: Operand, dtype: torch.dtype | None = None) -> Operand:
        """``instruction type left, right``."""
        return self.instruction(f"{instruction} {left.typed}, {right.text}", dtype or left.dtype, left.lanes)

    def compare(self, predicate: str, left: Operand, right: Operand) -> Operand:
        kind = "fcmp" if left.dtype.is_floating_point else "icmp"
        return self.instruction(f"{kind} {predicate} {left.typed}, {right.text}", torch.bool, left.lanes)

    def select(self, condition: Operand, then: Operand, otherwise: Operand) -> Operand:
        return self.instruction(f"select {condition.typed}, {then.typed}, {otherwise.typed}", then.dtype, then.lanes)

    def convert(self, instruction: str, value: Operand, dtype: torch.dtype) -> Operand:
        return self.instruction(f"{instruction} {value.typed} to {type_of(dtype, value.lanes)}", dtype, value.lanes)

    def intrinsic(self, name: str, *args: Operand) -> Operand:
        """``llvm.name`` of operands of one type."""
        first = args[0]
        called = self.module.declare(f"llvm.{name}.{mangled(first.dtype, first.lanes)}", first.type,
                                     ", ".join(arg.type for arg in args))
        return self.instruction(f"call {first.type} @{called}({', '.join(arg.typed for arg in args)})",
                                first.dtype, first.lanes)

    def fma(self, a: Operand, b: Operand, c: Operand) -> Operand:
        return self.intrinsic("fma", a, b, c)

    def call(self, name: str, *args: Operand, attributes: str = "nounwind willreturn memory(none)") -> Operand:
        """A function from outside that takes and gives operands of one type."""
        first = args[0]
        self.module.declare(name, first.type, ", ".join(arg.type for arg in args), attributes)
        return self.instruction(f"call {first.type} @{name}({', '.join(arg.typed for arg in args)})",
                                first.dtype, first.lanes)

    # lanes

    def splat(self, operand: Operand, lanes: int) -> Operand:
        """The operand in all lanes, done once where the operand is."""
        if operand.lanes == lanes:
            return operand
        if operand.is_constant:
            return Operand(f"splat ({operand.typed})", operand.dtype, lanes)
        scope = self.scopes[operand.scope]
        key = ("splat", operand.text, lanes)
        spread = scope.found.get(key)
        if spread is None:
            with self.at(operand.scope):
                element, vector = element_type(operand.dtype), type_of(operand.dtype, lanes)
                one = self.raw(f"insertelement {vector} poison, {element} {operand.text}, i64 0")
                spread = self.instruction(
                    f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer",
                    operand.dtype, lanes)
            scope.found[key] = spread
        return spread

    def iota(self, lanes: int, dtype: torch.dtype = torch.int64) -> Operand:
        element = element_type(dtype)
        return Operand("<" + ", ".join(f"{element} {lane}" for lane in range(lanes)) + ">", dtype, lanes)

    def shuffle(self, left: Operand, right: Operand | None, picks: list[int]) -> Operand:
        other = right.text if right is not None else "poison"
        indices = ", ".join(f"i32 {pick}" if pick >= 0 else "i32 poison" for pick in picks)
        return self.instruction(
            f"shufflevector {left.typed}, {left.type} {other}, <{len(picks)} x i32> <{indices}>",
            left.dtype, len(picks))

    def extract(self, vector: Operand, lane: int) -> Operand:
        return self.instruction(f"extractelement {vector.typed}, i64 {lane}", vector.dtype, 1)

    def insert(self, vector: Operand, element: Operand, lane: int) -> Operand:
        return self.instruction(f"insertelement {vector.typed}, {element.typed}, i64 {lane}", vector.dtype,
                                vector.lanes)

    def pieces(self, vector: Operand, lanes: int) -> list[Operand]:
        """A vector cut into vectors of `lanes`, or into single numbers."""
        if vector.lanes <= lanes:
            return [vector]
        if lanes == 1:
            parts = [self.instruction(f"extractelement {vector.typed}, i64 {lane}", vector.dtype, 1)
                     for lane in range(vector.lanes)]
        else:
            parts = [self.shuffle(vector, None, list(range(start, start + lanes)))
                     for start in range(0, vector.lanes, lanes)]
        for part in parts:
            part.rounded, part.short_nan = vector.rounded, vector.short_nan
        return parts

    def join(self, pieces: list[Operand]) -> Operand:
        """The vector that consists of these, as many as a power of two."""
        while len(pieces) > 1:
            count = 2 * pieces[0].lanes
            if pieces[0].lanes == 1:
                pieces = [self._pair(pieces[i], pieces[i + 1]) for i in range(0, len(pieces), 2)]
            else:
                pieces = [self.shuffle(pieces[i], pieces[i + 1], list(range(count)))
                          for i in range(0, len(pieces), 2)]
        return pieces[0]

    def _pair(self, left: Operand, right: Operand) -> Operand:
        return self.insert(self.insert(Operand("poison", left.dtype, 2), left, 0), right, 1)

    # scopes and control flow

    @contextmanager
    def at(self, scope: int) -> Iterator[None]:
        """Put what is written meanwhile into an outer scope."""
        before, self.place = self.place, scope
        try:
            yield
        finally:
            self.place = before

    def push(self, block: Block) -> None:
        self.scopes.append(Scope(block))
        self.place = len(self.scopes) - 1

    def pop(self, continues_in: Block) -> None:
        self.scopes.pop()
        self.place = len(self.scopes) - 1
        self.scopes[-1].block = continues_in
        self.scopes[-1].volatile.clear()

    @property
    def block(self) -> Block:
        return self.scopes[-1].block

    @contextmanager
    def guard(self, condition: Operand | None) -> Iterator[None]:
        """A scope that is entered only if the condition holds; None where it is known to hold."""
        inside = self.function.block("inside")
        if condition is None:
            self.block.terminator = f"br label %{inside.name}"
            self.push(inside)
            yield
            after = self.block
            # Straight-line code: go on in the same block.
            self.pop(after)
            return
        origin = self.block
        self.push(inside)
        yield
        after = self.function.block("after")
        origin.terminator = f"br i1 {condition.text}, label %{inside.name}, label %{after.name}"
        self.block.terminator = f"br label %{after.name}"
        self.pop(after)

    @contextmanager
    def loop(self, start: Operand, end: Operand, step: int, runs: bool = False) -> Iterator[Operand]:
        """``for i = start; i < end; i += step``. With `runs` it is known to run at least once.

        The body must begin at the variable; it is bound to nothing here.
        """
        condition = None if runs else self.compare("slt", start, end)
        with self.guard(condition):
            before = self.block
            head = self.function.block("loop")
            before.terminator = f"br label %{head.name}"
            variable = self.function.temporary()
            self.push(head)
            phi = len(head.lines)
            head.lines.append("")
            yield Operand(variable, torch.int64, 1, self.place)
            following = self.raw(f"add nsw i64 {variable}, {step}")
            again = self.raw(f"icmp slt i64 {following}, {end.text}")
            latch = self.block
            # The terminator of `before` stands, so code that is hoisted later still goes in front of it.
            head.lines[phi] = f"{variable} = phi i64 [ {start.text}, %{before.name} ], [ {following}, %{latch.name} ]"
            after = self.function.block("done")
            latch.terminator = f"br i1 {again}, label %{head.name}, label %{after.name}"
            self.pop(after)

    def bind(self, symbol: Symbol, operand: Operand) -> None:
        self.symbols[symbol] = operand
        self.levels[symbol] = len(self.scopes) - 1

    # memory for a value

    def variable(self, dtype: torch.dtype, lanes: int, start: Operand) -> str:
        """A variable that loops can change; `start` is stored here."""
        name = self.function.alloca(type_of(dtype, lanes))
        self.write(name, start)
        return name

    def read(self, name: str, dtype: torch.dtype, lanes: int) -> Operand:
        return self.instruction(f"load {type_of(dtype, lanes)}, ptr {name}", dtype, lanes)

    def write(self, name: str, value: Operand) -> None:
        self.line(f"store {value.typed}, ptr {name}")
