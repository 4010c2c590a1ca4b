"""The tensors that functions of autograd save, one by one: where one has been changed since, the others are as good."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch

from .tensors import version_of

SAVED_ONE_BY_ONE = hasattr(torch._C._autograd.SavedTensor, "unpack")
"""Whether a function gives out one of the tensors that it has saved where another has been changed since."""


def note_versions(ctx: Any, saved: Iterable[torch.Tensor]) -> None:
    """Note what an autograd function saves, for `saved_tensors_at` of releases that give out all or nothing."""
    ctx.versions = [version_of(tensor) for tensor in saved]
    ctx.with_hooks = set()
    ctx.changed_since = set()


def all_saved_tensors(ctx: Any) -> Any:
    """The tensors that an autograd function saved; a RuntimeError if one has been changed since."""
    if not SAVED_ONE_BY_ONE and getattr(ctx, "changed_since", None):
        raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace "
                           "operation")
    return ctx.saved_tensors


def _without_changed(ctx: Any, wanted: set[int]) -> list[Any] | None:
    """`saved_tensors_at` where autograd itself gives out all or nothing: those that are not wanted get hooks, and of
    such tensors autograd does not ask whether they have been changed."""
    def pack(at: int, tensor: torch.Tensor) -> torch.Tensor:
        if version_of(tensor) != ctx.versions[at]:
            ctx.changed_since.add(at)
        return tensor

    try:
        for at, saved in enumerate(ctx._raw_saved_tensors):
            if at not in wanted and at not in ctx.with_hooks:
                saved.register_hooks(functools.partial(pack, at), _itself)
                ctx.with_hooks.add(at)
        if not wanted.isdisjoint(ctx.changed_since):
            return None
        return [tensor if at in wanted else None for at, tensor in enumerate(ctx.saved_tensors)]
    except (AttributeError, RuntimeError):  # changed since, a result of the function, one that has hooks, or freed
        return None


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def saved_tensors_at(ctx: Any, positions: Iterable[int]) -> list[Any] | None:
    """Some of the tensors that an autograd function saved, and None for the others; None if one cannot be had."""
    if not SAVED_ONE_BY_ONE:
        return _without_changed(ctx, set(positions))
    saved = getattr(ctx, "_raw_saved_tensors", ())
    tensors: list[Any] = [None] * len(saved)
    try:
        for at in positions:
            tensors[at] = saved[at].unpack()
    except (AttributeError, IndexError, RuntimeError):  # changed since, a result of the function, or freed
        return None
    return tensors
