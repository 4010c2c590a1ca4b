"""``torch.autograd.profiler.record_function`` in captured code: a region's ends are operations of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.profiler import record_function

from ..torch_compat import begin_profiler_region, end_profiler_region
from .call_handlers import handles
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue
from .values.objects import ObjectValue

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer


class RegionValue(Value):
    """An open region; an output of the graph when the graph ends inside it."""

    __slots__ = ("node",)
    fixed_type = torch.ScriptObject

    def __init__(self, node: Any) -> None:
        super().__init__(None)
        self.node = node

    def emit(self, code: EntryCode) -> str:
        return code.graph_output(self)  # type: ignore[arg-type]


@handles(record_function.__enter__)
def enter(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``record_function.__enter__``."""
    manager = args[0].realize()
    if not isinstance(manager, ObjectValue):
        raise GraphBreak("a profiler region that capture cannot look into")
    label = tuple(tx.constant_of(tx.get_attr(manager, part)) for part in ("name", "args"))
    manager.store_attr(tx, "record", RegionValue(tx.graph.call(begin_profiler_region, label, {}, tx.user_frames())))
    return manager


@handles(record_function.__exit__)
def leave(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``record_function.__exit__``."""
    region = tx.get_attr(args[0], "record").realize()
    if not isinstance(region, RegionValue):
        raise GraphBreak("the end of a profiler region that began before this graph")
    if tx.truth(tx.get_attr(args[0], "run_callbacks_on_exit")):
        tx.graph.call(end_profiler_region, (region.node,), {}, tx.user_frames())
        tx.effects.version += 1
    return ConstantValue(None)
