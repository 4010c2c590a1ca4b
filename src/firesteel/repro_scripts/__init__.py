"""Scripts that fail as firesteel has just failed: written where ``config.repro`` says so, run with plain ``python``.

    FIRESTEEL_REPRO=1 python train.py          into the folder firesteel_repro
    fs.config.repro = "somewhere"              into that folder

A script has the graph, or the user's function with what it needs of its file; inputs and weights are drawn after one
seed. Its last line is a call of `fs.check`, which compiles the function without caches, compares it with eager, and
raises what goes wrong. Nothing of it is imported before something fails.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch.fx


def graph_script(module: torch.fx.GraphModule, examples: Sequence[Any], error: BaseException,
                 options: Any = None) -> str | None:
    """Write the script of a graph that could not be compiled, where scripts are asked for. Its path, or None."""
    from .scripts import graph_script

    return graph_script(module, examples, error, options)


def remember_call(code: types.CodeType, globals_: Mapping[str, Any], args: Sequence[Any], given: Mapping[str, Any],
                  backend: Any) -> None:
    """Keep what the script of a call would be, should it fail now or behind a break.

    ``args``: as a unit has them, its closure first. ``given``: the arguments of `compile`. ``backend``: its name, or
    the function that is one.
    """
    from .scripts import remember_call

    remember_call(code, globals_, args, given, backend)


def function_script(code: types.CodeType, error: BaseException) -> str | None:
    """Write the script of the last remembered call of a function, which has failed. Its path, or None."""
    from .scripts import function_script

    return function_script(code, error)
