"""What eager does operator by operator, and whether the rules for fake tensors say the same of sizes and dtypes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .. import torch_compat
from ..errors import is_own_file
from ..fake.mode import FakeMode
from ..fake.tensor import DataDependentError, FakeUnsupported
from ..torch_compat import pytrees

_TORCH = os.path.dirname(torch.__file__ or "") + os.sep


@dataclass(frozen=True)
class Misjudged:
    """An operator of which a rule for fake tensors says something wrong."""

    operator: str
    text: str
    line: str


class RuleCheck(torch_compat.DispatchMode):
    """Compares the rules for fake tensors with what operators give, while a program runs."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Misjudged] = []
        self.calls: list[tuple[str, str]] = []
        """The operators that ran, each with the user's line."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        line = user_line()
        self.calls.append((str(func), line))
        told: Any = None
        if not torch_compat.mutates_arguments(func) and not self.found:
            told = _said_by_rules(func, args, kwargs)
        result = func(*args, **kwargs)
        if told is not None:
            text = told if isinstance(told, str) else _disagreement(told, result)
            if text:
                self.found.append(Misjudged(str(func), text, line))
        return result


def _said_by_rules(func: Any, args: Any, kwargs: Any) -> Any:
    mode = FakeMode()

    def fake(leaf: Any) -> Any:
        return mode.from_real(leaf.detach()) if isinstance(leaf, torch.Tensor) else leaf

    try:
        return mode.run(func, pytrees.tree_map(fake, args), pytrees.tree_map(fake, kwargs))
    except (FakeUnsupported, DataDependentError, NotImplementedError):
        return None
    except Exception as error:
        return f"its rule raises {type(error).__name__}: {error}"


def _disagreement(told: Any, result: Any) -> str:
    for said, real in zip(pytrees.tree_leaves(told), pytrees.tree_leaves(result), strict=False):
        if not isinstance(real, torch.Tensor) or not isinstance(said, torch.Tensor):
            continue
        if any(type(size) is not int for size in said.shape):
            continue
        if said.dtype is not real.dtype:
            return f"its rule says {said.dtype}, and it gives {real.dtype}"
        if tuple(said.shape) != tuple(real.shape):
            return f"its rule says the size {list(said.shape)}, and it gives {list(real.shape)}"
        if real.numel() and any(size > 1 and a != b for size, a, b in
                                zip(real.shape, said.stride(), real.stride(), strict=True)):
            return f"its rule says the strides {list(said.stride())}, and it gives {list(real.stride())}"
    return ""


def user_line() -> str:
    """The line of the program that runs now."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not is_own_file(name) and not name.startswith((_TORCH, "<")):
            import linecache

            text = linecache.getline(name, frame.f_lineno).strip()
            return f"{os.path.basename(name)}:{frame.f_lineno}: {text}"
        frame = frame.f_back
    return ""


def check_rules(call: Callable[[], Any]) -> RuleCheck:
    """Run something in eager, backward included where it runs one, and compare the rules."""
    check = RuleCheck()
    try:
        with check:
            call()
    except Exception:  # the program's own, or of a rule that is noted
        pass
    return check
