"""What tracing needs of packages that stand above this one, which hand it over: `pipeline`, when it is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _missing(*given: Any) -> Any:
    raise RuntimeError("firesteel.pipeline was never imported: tracing does not know what kernels can do")


class Handed:
    """Functions of other packages."""

    is_lowered: Callable[[str], bool] = staticmethod(_missing)
    """Whether kernels have a lowering for an operator, given its full name."""
    trace_control_flow: Callable[..., tuple[Any, ...]] = staticmethod(_missing)
    """Records the call of an operator that owns graphs; takes the tracing, the operator and its arguments."""
