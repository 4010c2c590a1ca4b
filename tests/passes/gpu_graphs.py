"""Graphs that were traced on the CPU, as they would be with all tensors on a GPU."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch

from firesteel.fake.tensor import new_fake

GPU = torch.device("cuda", 0)


def on_gpu(graph: Any, on_host: Collection[str] = ()) -> Any:
    """A functional or joint graph, which is changed, with every fake tensor on a GPU.

    Inputs with the names ``on_host`` stay on the CPU, and so does what is computed from nothing but them.
    """
    host: set[Any] = set()
    for node in graph.graph.nodes:
        sources = node.all_input_nodes
        if node.name in on_host or sources and host.issuperset(sources) and "device" not in node.kwargs:
            host.add(node)
        elif "val" in node.meta:
            node.meta["val"] = _moved(node.meta["val"])
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": GPU}
    graph.inputs = [replace(entry, example=entry.node.meta["val"]) for entry in graph.inputs]
    return graph


def _moved(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return new_fake(value.shape, value.stride(), value.dtype, GPU)
    return type(value)(map(_moved, value)) if isinstance(value, (tuple, list)) else value
