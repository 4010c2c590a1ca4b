"""Numbers that a program reads from tensors among its arguments, and decides on.

    def f(x, n):                          a number that is read from the argument before the graph runs, as if the
        for _ in range(n.item()):   ->    program had been given it: the entry is for so many rounds, and for others
            x = x.sin()                   there is another one

A graph reads numbers from tensors while it runs, and nothing may be decided on them then. But what an argument holds
can be looked at by guards. So where a decision cannot be taken for want of such a number, the capture begins again, and
the number is an input: a constant at first, a symbol when it was seen to change (`dynamism`). Only tensors in the
host's memory are looked at, which costs nothing worth mentioning, and only those that the program has not written to.

Where each call brings another number, each needs an entry. With ``fullgraph=True`` that is what was asked for;
otherwise a few are made, and then the graph ends where the number is needed.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from .. import shapes, torch_compat
from ..devices import kind_of
from .dynamism import DECLARED
from .signals import NumbersNeeded
from .source import ElementSource
from .undecidable import Undecidable
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from ..runtime.units import Unit
    from .tracer import Tracer
    from .values.base import Value

MOST_ENTRIES = 3
"""Entries of one function for different values of the same number, where it may break instead."""
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class EarlyNumbers:
    """The numbers in arguments of one capture: which are inputs, and which could be."""

    def __init__(self) -> None:
        self.wanted: frozenset[str] = frozenset()
        """Names of those that a decision is known to need."""
        self.read: dict[shapes.Symbol, ElementSource] = {}
        """Those that the graph reads, by the symbols that stand for them."""

    def input(self, tx: Tracer, tensor: TensorValue, path: tuple[int, ...] = ()) -> Value | None:
        """The number in a tensor, or at a place in it, as an input; None where the graph reads it."""
        if not self.wanted:
            return None
        place = place_of(tx, tensor, path)
        if place is None or place[1].name not in self.wanted:
            return None
        real, source = place
        with torch_compat.without_modes():
            return tx.wrap(number_at(real, source.path), source)

    def note(self, tx: Tracer, tensor: TensorValue, path: tuple[int, ...], number: Value) -> None:
        """The graph reads a number from a tensor: it may become an input when a decision needs it."""
        expr = getattr(number.realize(), "expr", None)
        if isinstance(expr, shapes.Symbol) and expr not in tx.shape_env.hints:
            place = place_of(tx, tensor, path)
            if place is not None:
                self.read[expr] = place[1]


def place_of(tx: Tracer, tensor: TensorValue, path: tuple[int, ...] = ()) -> tuple[torch.Tensor, ElementSource] | None:
    """The argument that a number is in, and its place there; None for what the program has computed or written to."""
    node: Any = tensor.node
    if tensor.source is None and node.target is operator.getitem and isinstance(node.args[0], Node):
        index = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
        argument = tx.tensor_of_fake.get(id(node.args[0].meta.get("example_value")))
        if not all(type(part) is int for part in index) or not isinstance(argument, TensorValue):
            return None
        tensor, path = argument, (*index, *path)
    real, fake = tensor.real, tensor.fake
    if tensor.source is None or tensor.node.op != "placeholder" or type(real) not in _PLAIN \
            or not kind_of(real).is_host or real.layout is not torch.strided or real.dtype.is_complex \
            or fake.storage_key in tx.fake.written or not fake.is_inference() and torch_compat.version_of(fake):
        return None
    if tx.torch_functions.modes or tx.compiler is None or tx.compiler.exports or DECLARED.get() is not None:
        return None
    single = len(path) == real.dim() if path else real.numel() == 1
    return (real, ElementSource(tensor.source, path)) if single else None


def number_at(tensor: torch.Tensor, path: tuple[int, ...]) -> Any:
    """A number in a tensor."""
    return (tensor[path] if path else tensor).item()


def number_of_argument(tx: Tracer, tensor: TensorValue) -> Value | None:
    """The number in a tensor, where a decision on it is possible: it is one that an argument has."""
    return tensor.number(tx, "item") if place_of(tx, tensor) is not None else None


def check_needed(tx: Tracer, unit: Unit, cause: BaseException) -> None:
    """Begin the capture again where what would end the graph is the want of numbers that arguments have."""
    error: BaseException | None = cause
    while error is not None and not isinstance(error, Undecidable):
        error = error.__cause__ or error.__context__
    if error is None:
        return
    sources = [tx.early_numbers.read.get(info.symbol) for info in error.error.symbols]
    needed = {source.name for source in sources if source is not None}
    if not needed or len(needed) < len(sources) or needed <= tx.early_numbers.wanted:
        return
    if not unit.compiler.fullgraph and any(
            sum(name in entry.numbers for entry in unit.entries) >= MOST_ENTRIES for name in needed):
        return
    raise NumbersNeeded(frozenset(needed))
