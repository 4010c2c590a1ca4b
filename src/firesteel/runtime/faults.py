"""The warning about code that fails where plain Python does not: who is at fault, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import config
from ..errors import WrongFakeKernel, failure_report, how_to_report

if TYPE_CHECKING:
    from .units import Unit


def fault_report(unit: Unit, error: Exception, script: str | None, of_graph: bool) -> str:
    """``of_graph``: what was made of a graph has failed, and not the capture."""
    what = f"firesteel failed while compiling {unit.name}; this function runs uncompiled."
    to_do = how_to_report(script)
    if isinstance(error, WrongFakeKernel):
        what = f"{error.operator} has a wrong fake kernel; {unit.name} runs uncompiled."
        to_do = f"make {error.place} return what the operator returns"
    elif of_graph and not unit.compiler.backend_is_own:
        what = f"What the backend {unit.compiler.backend_name!r} returned failed; {unit.name} runs uncompiled."
        to_do = "config.verbose = True shows the traceback of the backend"
        if script is not None:
            to_do += f"; {script} fails in the same way, and firesteel minify makes it smaller"
    return failure_report(what, [unit.user_frame], error, to_do, config.verbose)
