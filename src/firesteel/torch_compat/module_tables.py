"""The tables in which a module keeps its own parameters, buffers and modules, by their names."""

from __future__ import annotations

from typing import Any

import torch


def own_parameters(module: torch.nn.Module) -> dict[str, Any]:
    """The parameters of a module, without those of modules in it; None where one was declared and not given."""
    return module._parameters


def own_buffers(module: torch.nn.Module) -> dict[str, Any]:
    """The buffers of a module, without those of modules in it; None where one was declared and not given."""
    return module._buffers


def own_modules(module: torch.nn.Module) -> dict[str, Any]:
    """The modules in a module."""
    return module._modules


def is_saved(module: torch.nn.Module, buffer: str) -> bool:
    """Whether a buffer is part of the module's ``state_dict``.

    >>> norm = torch.nn.BatchNorm1d(2)
    >>> norm.register_buffer("scratch", torch.zeros(2), persistent=False)
    >>> is_saved(norm, "running_mean"), is_saved(norm, "scratch")
    (True, False)
    """
    return buffer not in module._non_persistent_buffers_set


def share_modules(module: torch.nn.Module, other: torch.nn.Module) -> None:
    """Let one module have the modules of another, also those that are added or replaced later.

    >>> first, second = torch.nn.Module(), torch.nn.Module()
    >>> share_modules(second, first)
    >>> first.act = torch.nn.ReLU()
    >>> second.act
    ReLU()
    """
    vars(module)["_modules"] = own_modules(other)
