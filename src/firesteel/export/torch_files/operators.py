"""The functions that graphs of torch's files call, and what becomes of those that own graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ... import torch_compat
from ..saving.targets import read_target

POSITIONAL, KEYWORD = 1, 2
_HIGHER_ORDER = "torch.ops.higher_order."


@dataclass(frozen=True)
class Operator:
    """A function: its name in saved programs, or in the table of those that own graphs."""

    name: str
    target: str
    higher_order: str | None = None

    def is_positional(self, argument: str, kind: Any) -> bool:
        """Whether an argument is passed by position."""
        if kind in (POSITIONAL, KEYWORD) or not argument:
            return kind != KEYWORD
        found = read_target(self.target)
        if not isinstance(found, torch_compat.OpOverload):
            return True
        known = {entry.name: entry for entry in torch_compat.schema_of(found).arguments}
        return argument in known and not known[argument].kwarg_only and not known[argument].has_default_value()


@functools.cache
def target_of(name: str) -> Operator:
    """The function of a name in torch's files. Raises ValueError for those that are not known."""
    if name.startswith(_HIGHER_ORDER):
        short = name[len(_HIGHER_ORDER):]
        if short not in HIGHER_ORDER:
            raise ValueError(_REFUSED.get(short, f"the operator {short[:80]} is not supported"))
        return Operator(short, "", short)
    if name.startswith("torch.ops."):
        space, _, rest = name[len("torch.ops."):].partition(".")
        base, _, overload = rest.partition(".")
        target = f"{space}::{base}.{overload or 'default'}"
        return Operator(base, target)
    if name.startswith(_TRANSFORMS):
        raise ValueError(f"a transform of torch.func ({name[:80]}). {_IN_TORCH}")
    module, _, function = name.rpartition(".")
    return Operator(function, f"{module.removeprefix('_')}.{function}")


_TRANSFORMS = ("torch._functorch.", "torch._C._functorch.")
_IN_TORCH = ("Call run_decompositions({}) of the program in torch before saving it, which writes its operators into "
             "the graph")
_REFUSED = {
    "wrap_with_autocast": f"a region under torch.autocast, whose casts are not in the graph. {_IN_TORCH}",
    "with_effects": "calls in an order that tokens keep",
}  # fmt: skip


HIGHER_ORDER: dict[str, Callable[[Any, Any], list[Any]]] = {}
"""What writes a call of an operator that owns graphs, and returns its results."""
