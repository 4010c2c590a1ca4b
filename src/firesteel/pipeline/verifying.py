"""`config.verify`: what a stage of the pipeline made is checked before the next one takes it."""

from __future__ import annotations

from typing import Any

from .. import config


def verify(made: Any, after: str) -> None:
    """Check a functional graph, a lowered graph or a plan, where settings ask for it; ``after`` names the stage."""
    if not config.verify:
        return
    from ..functional.graph import FunctionalGraph
    from ..functional.verify import MalformedError, verify_functional
    from ..kernels.plan import KernelPlan
    from ..kernels.verify import verify_lowered, verify_plan

    if isinstance(made, FunctionalGraph):
        verify_functional(made, after)
        return
    try:
        (verify_plan if isinstance(made, KernelPlan) else verify_lowered)(made)
    except MalformedError as error:
        raise MalformedError(f"after {after}: {error}") from None
