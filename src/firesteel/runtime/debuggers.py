"""Whether a debugger watches the lines of the program: functions that are not compiled yet run as plain Python then."""

from __future__ import annotations

import sys
from typing import Any

_DEBUGGERS = frozenset({"bdb", "pdb", "ipdb", "IPython", "pudb", "pydevd", "_pydevd_bundle", "_pydevd_frame_eval",
                        "_pydevd_sys_monitoring", "debugpy"})


def debugger_traces() -> bool:
    """Whether a debugger's trace function is installed in this thread, or it watches through `sys.monitoring`."""
    trace: Any = sys.gettrace()
    if trace is not None:
        owner = getattr(trace, "__self__", None)
        kinds = type(owner).__mro__ if owner is not None else (type(trace),)
        modules = {getattr(trace, "__module__", None), *(kind.__module__ for kind in kinds)}
        if any(str(module).partition(".")[0] in _DEBUGGERS for module in modules):
            return True
    monitoring: Any = getattr(sys, "monitoring", None)
    return monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None
