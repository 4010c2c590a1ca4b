"""Hooks on the results of a function with several: autograd calls them with None where no gradient comes."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch


class _Hooks(OrderedDict[int, Callable[..., Any]]):
    """The hooks of one result, each of which is called for gradients only."""

    def __setitem__(self, key: int, hook: Callable[..., Any]) -> None:
        super().__setitem__(key, functools.partial(_where_there_is_one, hook))


def _where_there_is_one(hook: Callable[..., Any], gradient: torch.Tensor | None) -> Any:
    return None if gradient is None else hook(gradient)


def hooks_see_gradients_only(function: type[torch.autograd.Function]) -> type[torch.autograd.Function]:
    """Hooks on results of ``function`` are not called in a backward that comes to other results only.

    In eager each result has a function of its own, which such a backward never reaches. The function's context has
    them as ``result_hooks``, by the number of the result.
    """
    node: Any = function._backward_cls  # type: ignore[attr-defined]
    register = node._register_hook_dict

    def register_hooks(self: Any, result: torch.Tensor) -> None:
        if not result._backward_hooks:
            result._backward_hooks = _Hooks()
        self.result_hooks = {**getattr(self, "result_hooks", {}), result.output_nr: result._backward_hooks}
        register(self, result)

    node._register_hook_dict = register_hooks
    return function
