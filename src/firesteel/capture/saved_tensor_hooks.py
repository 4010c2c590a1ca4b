"""``torch.autograd.graph.disable_saved_tensors_hooks`` in captured code.

Nobody enters hooks on saved tensors while a graph runs, so where that is refused makes no difference to the graph. It
is an effect of the program, which the entry has like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import torch_compat
from .call_handlers import handles
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue

if TYPE_CHECKING:
    from .tracer import Tracer


@handles(torch_compat.packing_refusal)
def call_packing_refusal(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What whoever enters such hooks is told."""
    if tx.packing_refusals:
        return ConstantValue(tx.packing_refusals[-1])
    known = torch_compat.packing_refusal()
    tx.guard(None, "global state", "{k[0]}() == {k[1]}", (torch_compat.packing_refusal, known))
    return ConstantValue(known)


@handles(torch_compat.refuse_packing)
def call_refuse_packing(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Nobody is to enter hooks on saved tensors from now on."""
    message = tx.constant_of(args[0])
    if torch_compat.packing_hooks(False) is not None:
        raise GraphBreak("hooks on saved tensors are refused where some have been entered")  # which raises
    tx.guard(None, "global state", "{k[0]}(False) is None", (torch_compat.packing_hooks,))
    tx.packing_refusals.append(message)
    tx.effects.replay(torch_compat.refuse_packing, [args[0]], {})
    return ConstantValue(None)


@handles(torch_compat.allow_packing)
def call_allow_packing(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Hooks on saved tensors may be entered again."""
    tx.packing_refusals.append(None)
    tx.effects.replay(torch_compat.allow_packing, [], {})
    return ConstantValue(None)
