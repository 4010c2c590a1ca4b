"""The operation of captured graphs that stands for ``MyFunction.apply``."""

from __future__ import annotations

from typing import Any

import torch

from ..fake import FakeTensor, FakeUnsupported
from ..torch_compat.autograd_functions import BACKWARD_HOOK_FUNCTION


class AppliedFunction:
    """The operation that the graph calls.

    ``traceable``: its backward can be run on fake tensors, too, and does then what it will do on real ones.
    ``inner``: the operations that its forward and backward call.
    """

    def __init__(self, cls: type, traceable: bool, inner: tuple[AppliedFunction, ...] = ()) -> None:
        self.function = cls
        self.traceable = traceable
        self.inner = inner
        self.__name__ = f"{cls.__name__}_apply"
        self.__qualname__ = self.__name__
        # code of graphs takes names in torch for what torch has under them
        self.__module__ = cls.__module__ if cls.__module__.partition(".")[0] != "torch" else __name__

    def __call__(self, *args: Any) -> Any:
        if not self.traceable and any(isinstance(arg, FakeTensor) for arg in args):
            raise FakeUnsupported(self.__name__, "its backward is Python that cannot be followed")
        return self.function.apply(*args)  # type: ignore[attr-defined]

    def defines(self, rule: str) -> bool:
        """Whether the program has written a static method that a transform calls, ``vmap`` or ``jvp``."""
        return getattr(self.function, rule) is not getattr(torch.autograd.Function, rule)

    def why_not_in(self, transform: str) -> str | None:
        """Why the Function is no part of a graph that a transform works on: code that nobody has followed would run
        while the graph is traced, and never again."""
        rule = "jvp" if transform == "linearize" else transform
        if rule in ("vmap", "jvp") and self.defines(rule):
            return f"{self.function.__name__}, an autograd.Function with a {rule} of its own"
        if not self.traceable:
            return f"{self.function.__name__}, an autograd.Function whose backward cannot be followed"
        for function in self.inner:  # what is around them is differentiated and vectorised with them
            for each in ("vmap", "jvp"):
                if (reason := function.why_not_in(each)) is not None:
                    return reason
        return None


def pass_hooked(tensor: torch.Tensor) -> torch.Tensor:
    """The operation for a tensor that goes into or comes out of a module with backward hooks: the same elements.

    torch's own function does it, where there are tensors; when the graph is traced, it is a view like others.
    """
    if isinstance(tensor, FakeTensor):
        return tensor.view_as(tensor)
    (passed,) = BACKWARD_HOOK_FUNCTION.apply(tensor)
    return passed  # type: ignore[no-any-return]
