"""What calls of a function were given that ran uncompiled, before its first compilation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import torch

from ..capture.dynamism import TensorSeen, changes
from ..capture.learned import Learned
from ..capture.source import LocalSource
from ..records import dataclass


@dataclass(frozen=True)
class FirstCall:
    """The layouts of tensors and the numbers among the arguments of a call."""

    tensors: dict[str, TensorSeen]
    numbers: dict[str, Any]

    @staticmethod
    def of(parameters: Sequence[str], args: Sequence[Any]) -> FirstCall:
        """Look at the arguments of a call."""
        looks = [(tuple(value.shape), value.stride())
                 if isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_nested
                 else value if type(value) in {int, float} or isinstance(value, numpy.number) else None
                 for value in args]
        return FirstCall.seen(parameters, looks)

    @staticmethod
    def seen(parameters: Sequence[str], looks: Sequence[Any]) -> FirstCall:
        """From sizes and strides of the tensors, the numbers, and None for all other arguments."""
        tensors: dict[str, TensorSeen] = {}
        numbers: dict[str, Any] = {}
        for parameter, look in zip(parameters, looks, strict=False):  # the last may have been left out
            source = LocalSource(parameter)
            if isinstance(look, tuple):
                tensors[source.name] = TensorSeen(source, *look)
            elif look is not None:
                numbers[source.name] = look
        return FirstCall(tensors, numbers)

    def changed(self, parameters: Sequence[str], args: Sequence[Any]) -> Learned:
        """What differs in another call."""
        named = {LocalSource(parameter).name: value for parameter, value in zip(parameters, args, strict=True)}
        now = {name: value for name, value in named.items() if isinstance(value, torch.Tensor) and name in self.tensors}
        numbers = frozenset(name for name, before in self.numbers.items()
                            if type(named.get(name)) is type(before) and named[name] != before)
        return changes(self.tensors, now) | Learned(numbers=numbers)
