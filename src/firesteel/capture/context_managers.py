"""with statements over objects that capture enters itself. All others run their Python __enter__ and __exit__."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .values.base import Value

if TYPE_CHECKING:
    from .tracer import Tracer


def enter_known(tx: Tracer, manager: Value) -> list[Value] | None:
    """[bound __exit__, result of __enter__] when the manager is one that capture models as a whole."""
    return None
