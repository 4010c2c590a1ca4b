"""What logs say of an entry when it has been captured: its break, its guards, its graph, its code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import format_user_stack
from ..logs import detailed, enabled, log
from ..torch_compat.graph_modules import code_of

if TYPE_CHECKING:
    from ..runtime.units import Unit
    from .entries import Entry


def log_entry(unit: Unit, entry: Entry) -> None:
    """Write what was captured to the logs that are switched on."""
    reason = entry.break_reason
    if reason is not None and enabled("graph_breaks"):
        log("graph_breaks", "%s: %s%s%s", unit.name, reason,
            "\n" + format_user_stack(reason.frames) if detailed("graph_breaks") else "",
            f"\n  What to do: {reason.hint}" if reason.hint else "")
    if enabled("guards"):
        lines = [f"  {guard}" + (f"\n{format_user_stack(frames, '      ')}" if detailed("guards") else "")
                 for guard, frames in (*((guard, guard.frames) for guard in entry.guards),
                                       *((guard, guard.provenance.frames) for guard in entry.shape_guards))]
        log("guards", "%s\n%s", unit.name, "\n".join(lines))
    if enabled("graphs") and entry.graph is not None:
        log("graphs", "%s\n%s", unit.name, code_of(entry.graph.module).strip())
    log("code", "%s (%s)\n%s", unit.name, unit.user_frame, entry.text)
