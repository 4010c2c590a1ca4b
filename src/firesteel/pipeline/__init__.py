"""From a captured graph to something that runs: the stages in order, and what stands around a compiled graph.

Importing this package hands tracing what it needs of the stages behind it.
"""

from __future__ import annotations

from typing import Any

from ..functional.handed import Handed


def _is_lowered(name: str) -> bool:
    from ..kernels.lowering.registry import is_lowered

    return is_lowered(name)


def _trace_control_flow(*given: Any) -> tuple[Any, ...]:
    from ..autodiff.control_flow import trace_call

    return trace_call(*given)


Handed.is_lowered = staticmethod(_is_lowered)
Handed.trace_control_flow = staticmethod(_trace_control_flow)
