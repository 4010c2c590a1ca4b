"""What a capture knows of the classes that the program makes (see `class_bodies`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .source import ConstantSource, Source

if TYPE_CHECKING:
    from .values.base import Value


class MadeClasses:
    """The stand-ins of classes that the program makes, and of their members."""

    def __init__(self) -> None:
        #: each class with the step of the root frame at which the program makes it
        self.steps: dict[type, int] = {}
        #: what members of classes stand for, by the identity of the member
        self.stand_ins: dict[int, Value] = {}

    def __contains__(self, cls: object) -> bool:
        return cls in self.steps

    def own(self, source: Source | None) -> bool:
        """Whether a source leads to something of such a class: the program makes it anew in every call."""
        if not self.steps:
            return False
        while source is not None and source.base is not None:
            source = source.base
        return isinstance(source, ConstantSource) and isinstance(source.holder.obj, type) \
            and source.holder.obj in self.steps
