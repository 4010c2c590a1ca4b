"""What torch's own classes define, as it was when firesteel was imported, and cheap ways to see that it still is.

Libraries and tests replace methods of ``torch.Tensor`` and ``torch.nn.Module``. Compiled code stands for the methods of
torch itself, so every call asks whether they are still there. CPython gives a class a new number, its version tag,
after each change of it or of a base, so two numbers are compared; only when they differ are the members looked at.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import types
from typing import Any

import torch

_VERSION_TAG = 384
"""Offset of the version tag in a class; `_tags_work` tries it before it is used."""

_NO_TAG = 0xFFFFFFFF

TEXTS = frozenset({"__repr__", "__str__", "__format__", "_repr_html_", "__dir__", "__reduce_ex__", "__deepcopy__"})
"""Methods that never run inside of compiled code: libraries that show tensors nicely replace them."""

MODULE_PROTOCOL = frozenset({"__call__", "_call_impl", "_wrapped_call_impl", "__getattr__", "__setattr__",
                             "__delattr__"})
"""The methods of ``nn.Module`` that compiled code does the work of."""


class Stamp:
    """A fact about the members of a class, and the version tag of the class when it was last known to hold.

    ``current`` shows the tag as it is now and ``known`` holds the one that has been checked: as long as their values
    are equal, nothing has changed. Otherwise `holds` decides.
    """

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.recheck = self.holds  # one object, which guards can be told apart by
        self.known = ctypes.c_uint32(_NO_TAG)
        self.current = ctypes.c_uint32.from_address(id(cls) + _VERSION_TAG) if _tags_work() else ctypes.c_uint32(0)

    def is_true(self) -> bool:
        """Look at the members."""
        raise NotImplementedError

    def holds(self) -> bool:
        """The slow answer, which makes the next one quick."""
        if not self.is_true():
            return False
        type.__getattribute__(self.cls, "__sizeof__")  # a class that was changed gets its new tag at the next lookup
        self.known.value = self.current.value or _NO_TAG
        return True

    def quick(self) -> bool:
        """The same answer, at the price of comparing two numbers."""
        return self.current.value == self.known.value or self.holds()


class NamesStamp(Stamp):
    """No name was added to a class or taken away."""

    def __init__(self, cls: type) -> None:
        super().__init__(cls)
        self.names = frozenset(vars(cls))
        self.holds()

    def is_true(self) -> bool:
        return vars(self.cls).keys() == self.names


class ClassStamp(Stamp):
    """The members of a class of torch are torch's own."""

    def __init__(self, cls: type, names: frozenset[str] | None, base: type | None = None) -> None:
        super().__init__(cls)
        self._hidden = frozenset(vars(base)) - TEXTS if base is not None else frozenset[str]()
        members = {name: member for name, member in vars(cls).items() if name not in TEXTS
                   and (names is None or name in names)}
        self._foreign = frozenset(name for name, member in members.items() if not _is_from_torch(member))
        self._original = members

    def replaced(self) -> str | None:
        """The name of a member that is not torch's own; None when there is none."""
        members = vars(self.cls)
        for name in self._foreign:
            if members.get(name) is self._original[name]:
                return name
        for name, original in self._original.items():
            if name not in self._foreign and members.get(name) is not original:
                return name
        for name in members:
            if name in self._hidden and name not in self._original:
                return name
        return None

    def is_true(self) -> bool:
        return self.replaced() is None

    def added(self, name: str) -> Any:
        """A member that somebody gave the class after firesteel was imported; None when there is none of this name."""
        torchs_own = name in TEXTS or name in self._original and name not in self._foreign
        return None if torchs_own else vars(self.cls).get(name)


def _is_from_torch(member: Any) -> bool:
    """Whether torch defines a member; one that was there before firesteel may be somebody else's."""
    function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    if not isinstance(function, types.FunctionType):
        return True
    return function.__globals__.get("__name__", "torch").partition(".")[0] in ("torch", "functools", "contextlib")


@functools.cache
def _tags_work() -> bool:
    """Whether classes of this Python have their version tags where they are expected."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8 or hasattr(sys, "gettotalrefcount"):
        return False

    class Sample:
        member = 1

    tag = ctypes.c_uint32.from_address(id(Sample) + _VERSION_TAG)
    seen: list[int] = []
    for value in range(3):
        Sample.member = value
        changed = tag.value
        if getattr(Sample, "member") != value or changed != 0 or tag.value in (0, *seen):  # noqa: B009
            return False
        if getattr(Sample, "member") != value or tag.value == 0:  # noqa: B009
            return False
        seen.append(tag.value)
    return True


TENSOR_METHODS = ClassStamp(torch.Tensor, None, torch._C.TensorBase)
PARAMETER_METHODS = ClassStamp(torch.nn.Parameter, None, torch.Tensor)
MODULE_METHODS = ClassStamp(torch.nn.Module, MODULE_PROTOCOL)


def calls_forward(module: torch.nn.Module) -> bool:
    """Whether calling a module runs torch's own ``__call__``, which without hooks calls `forward`."""
    return type(module).__call__ is torch.nn.Module.__call__ and MODULE_METHODS.quick()
