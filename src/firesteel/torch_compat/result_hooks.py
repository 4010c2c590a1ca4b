"""Hooks on the results and arguments of functions with several: autograd calls them with None where no gradient comes.

In eager each result has a history of its own: autograd never gets to what only the others depend on.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch


class HooksForGradients(OrderedDict[int, Callable[..., Any]]):
    """The hooks of one tensor, each of which is called for gradients only."""

    def __setitem__(self, key: int, hook: Callable[..., Any]) -> None:
        called = functools.partial(_where_there_is_one, hook)
        if (name := getattr(hook, "__name__", None)) is not None:
            called.__name__ = name  # type: ignore[attr-defined]  # autograd's messages say it
        super().__setitem__(key, called)


def call_hooks_for_gradients(argument: torch.Tensor) -> None:
    """Hooks that are still to come on an argument without any are called for gradients only, where it is a leaf.

    Others may get another history, and with it other hooks.
    """
    if argument.is_leaf:
        argument._backward_hooks = HooksForGradients()  # type: ignore[assignment]


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
            result._backward_hooks = HooksForGradients()
        self.result_hooks = {**getattr(self, "result_hooks", {}), result.output_nr: result._backward_hooks}
        register(self, result)

    node._register_hook_dict = register_hooks
    if isinstance(torch.autograd.function.BackwardCFunction.__dict__.get("apply"), types.FunctionType):
        node.apply = function.backward  # what torch's own looks up in every call
    return function
