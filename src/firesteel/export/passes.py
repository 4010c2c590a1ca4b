"""Passes over exported programs: moving one to another device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.fx

from ..torch_compat.pytrees import tree_map
from .program import ExportedProgram

Location = torch.device | str | Mapping[str, str]


def move_to_device_pass(program: ExportedProgram, location: Location) -> ExportedProgram:
    """Move a program's tensors, and the devices that its operators name, to another device; the program itself.

    A mapping goes from the names of devices to the names of others, and leaves all that it does not have.

    >>> from firesteel.export import export
    >>> class Shift(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x + torch.ones(2, device="cpu")
    >>> moved = move_to_device_pass(export(Shift(), (torch.zeros(2),)), "meta")
    >>> moved.module()(torch.zeros(2, device="meta")).device
    device(type='meta')
    """

    def device_for(device: torch.device | str) -> torch.device:
        if isinstance(location, Mapping):
            return torch.device(location.get(str(device), str(device)))
        return torch.device(location)

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or device_for(value.device) == value.device:
            return value
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(value.detach().to(device_for(value.device)), value.requires_grad)
        return value.to(device_for(value.device))

    tensors: dict[int, Any] = {}

    def moved_once(value: Any) -> Any:  # a tensor under two names stays one tensor
        if id(value) not in tensors:
            tensors[id(value)] = (value, moved(value))
        return tensors[id(value)][1]

    program.state_dict = {name: moved_once(tensor) for name, tensor in program.state_dict.items()}
    program.constants = {name: moved_once(tensor) for name, tensor in program.constants.items()}
    if program.example_inputs is not None:
        program.example_inputs = tree_map(moved, program.example_inputs)
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                if any(isinstance(value, torch.device) for value in (*node.args, *node.kwargs.values())):
                    node.args, node.kwargs = _with_devices(node, device_for)
                if "val" in node.meta:
                    node.meta["val"] = tree_map(moved_once, node.meta["val"])
            part.recompile()
    program.validate()
    return program


def _with_devices(node: torch.fx.Node, device_for: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    def changed(value: Any) -> Any:
        return device_for(value) if isinstance(value, torch.device) else value

    return tuple(map(changed, node.args)), {key: changed(value) for key, value in node.kwargs.items()}
