"""Recurrent networks over sequences of symbolic length: one node for a whole network, without its single steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import torch_compat
from ..fake import FakeMode
from .graph import Unsupported
from .recorder import Recorder

# Where the arguments dropout and train are, for padded and for packed sequences.
_DROPOUT, _TRAIN = (5, 6), (6, 7)


def recurrent_call(recorder: Recorder, name: str, rule: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Record ``torch.lstm`` and its like as a call of the ATen operator; ``rule`` describes its results."""
    packed = _is_packed(name, args)
    if args[_DROPOUT[packed]] and args[_TRAIN[packed]]:
        raise Unsupported(f"{name} with dropout and sizes that are symbols")
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors_in(args)):
        raise Unsupported(f"training of {name} with sizes that are symbols")
    described = FakeMode()
    described.shape_env = recorder.shape_env
    torch_compat.pop_dispatch_mode()
    try:
        results = described.run(rule, args)
    finally:
        torch_compat.push_dispatch_mode(recorder)
    recorder.record(getattr(getattr(torch.ops.aten, name), "data" if packed else "input"), tuple(args), {}, results)
    return results


def _is_packed(name: str, args: Sequence[Any]) -> bool:
    return isinstance(args[1] if name == "lstm" else args[2], torch.Tensor)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in a value, which may be a list or tuple of others."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in tensors_in(item)] if isinstance(value, (tuple, list)) else []
