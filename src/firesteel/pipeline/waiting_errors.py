"""What compiled code says when another process does not answer: which function waited, for which group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import torch_compat

if TYPE_CHECKING:
    from ..functional.graph import FunctionalGraph


def name_function(error: BaseException, function: str, groups: Sequence[str]) -> None:
    """Add to an error that came while collectives were under way which compiled function had begun them."""
    talked = ", ".join(f"{name!r}" for name in groups)
    error.add_note(f"firesteel: raised in the compiled {function}, whose graph had begun collectives of the group "
                   f"{talked}; another process may be gone, late, or calling other collectives")


def naming_function(run: Callable[..., Any], functional: FunctionalGraph, function: str) -> Callable[..., Any]:
    """What runs a graph, and has errors name the function if the graph begins collectives."""
    groups = [torch_compat.group_called(node.target, node.args) for node in functional.graph.nodes]
    names = tuple(dict.fromkeys(name for name in groups if name is not None))
    if not names:
        return run

    def run_or_name(*args: Any) -> Any:
        before = torch_compat.started(names)
        try:
            return run(*args)
        except Exception as error:
            if torch_compat.has_started(names, before):
                name_function(error, function, names)
            raise

    return run_or_name
