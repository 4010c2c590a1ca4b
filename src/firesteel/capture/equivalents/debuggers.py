"""Functions that stop in a debugger, by their names: none of these modules is imported for it."""

from __future__ import annotations

from typing import Any

from .torch_functions import BY_NAME


def set_trace(*args: Any, **kwargs: Any) -> None:
    """``pdb.set_trace()`` and the like."""
    breakpoint()


for _module in ("pdb", "ipdb.__main__", "IPython.core.debugger", "pudb"):
    BY_NAME[_module, "set_trace"] = set_trace
