"""The operation of captured graphs that stands for ``MyFunction.apply``."""

from __future__ import annotations

from typing import Any

from ..fake import FakeTensor, FakeUnsupported


class AppliedFunction:
    """The operation that the graph calls.

    ``traceable``: its backward can be run on fake tensors, too, and does then what it will do on real ones.
    """

    def __init__(self, cls: type, traceable: bool) -> None:
        self.function = cls
        self.traceable = traceable
        self.__name__ = f"{cls.__name__}_apply"
        self.__qualname__ = self.__name__
        self.__module__ = cls.__module__

    def __call__(self, *args: Any) -> Any:
        if not self.traceable and any(isinstance(arg, FakeTensor) for arg in args):
            raise FakeUnsupported(self.__name__, "its backward is Python that cannot be followed")
        return self.function.apply(*args)  # type: ignore[attr-defined]
