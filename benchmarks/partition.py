"""How long parting forward and backward takes, and how many bytes are kept, beside eager.

    python -m benchmarks.partition                    # a graph of 5,000 nodes, and two models
    python -m benchmarks.partition --torch            # beside torch.compile (takes minutes)

Bytes are those of distinct memory that autograd is given to keep, parameters and buffers left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from tests.models import zoo

import firesteel as fs
from firesteel.autodiff.joint import trace_training
from firesteel.autodiff.joint_graph import JointGraph
from firesteel.autodiff.partition import partition

MODELS = ("transformers/gpt2", "timm/resnet18")


def deep_network(layers: int) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """A residual network of normalisations, activations and matrix products."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    weights = [(graph.placeholder(f"w{i}"), graph.placeholder(f"v{i}")) for i in range(layers)]
    for w, v in weights:
        h = graph.call_function(F.layer_norm, (x, (8,)))
        h = graph.call_function(F.gelu, (graph.call_function(F.linear, (h, w)),))
        h = graph.call_function(F.dropout, (graph.call_function(F.linear, (h, v)), 0.1))
        x = graph.call_function(torch.add, (x, h))
    graph.output((x,))
    examples = [torch.randn(4, 8)]
    for _ in range(layers):
        examples += [torch.randn(32, 8, requires_grad=True), torch.randn(8, 32, requires_grad=True)]
    return torch.fx.GraphModule(torch.nn.Module(), graph), examples


def time_of_parting(nodes: int) -> dict[str, Any]:
    """Seconds for a joint graph of about so many nodes."""
    layers = nodes // 31
    module, examples = deep_network(layers)
    joint = trace_training(module, examples)
    assert isinstance(joint, JointGraph)
    best = min(_timed(lambda: partition(joint)) for _ in range(3))
    return {"nodes": len(joint.graph.nodes), "seconds": best}


def _timed(run: Callable[[], Any]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def kept_bytes(run: Callable[[], Any], parameters: set[int]) -> int:
    """Bytes of distinct memory saved with autograd while a function runs."""
    found: dict[int, int] = {}

    def pack(t: torch.Tensor) -> torch.Tensor:
        storage = t.untyped_storage()
        if storage.data_ptr() not in parameters:
            found[storage.data_ptr()] = storage.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = run()
    del result
    return sum(found.values())


def model_bytes(name: str, with_torch: bool) -> dict[str, Any]:
    """Bytes kept for a model in training mode."""
    module, args, kwargs = zoo.build(name)
    module.train()
    parameters = {t.untyped_storage().data_ptr() for t in (*module.parameters(), *module.buffers())}
    compiled = {"eager": module, "firesteel": fs.compile(module, backend="native")}
    if with_torch:
        compiled["torch.compile"] = torch.compile(module)
    row: dict[str, Any] = {"model": name}
    for label, function in compiled.items():
        for _ in range(2):
            loss = sum(t.float().sum() for t in pytree.tree_leaves(function(*args, **kwargs))
                       if isinstance(t, torch.Tensor) and t.requires_grad)
            loss.backward()
        row[label] = kept_bytes(lambda function=function: function(*args, **kwargs), parameters)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--torch", action="store_true", help="also compile with torch.compile")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    parted = time_of_parting(options.nodes)
    print(f"{parted['nodes']} nodes parted in {parted['seconds']:.3f} s")
    rows = []
    for name in MODELS:
        rows.append(model_bytes(name, options.torch))
        print("  ".join(f"{key} {value:,} bytes" if isinstance(value, int) else str(value)
                        for key, value in rows[-1].items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"parting": parted, "models": rows}, file, indent=1)


if __name__ == "__main__":
    main()
