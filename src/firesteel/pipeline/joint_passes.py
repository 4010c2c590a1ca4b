"""Passes over forward and backward together, before they are parted.

What they change holds on both sides: a layout that forward gives to what it keeps is the one that backward reads. The
joint graph is looked at as one functional graph whose results are those of forward, the gradients, and what else has to
stay known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ..autodiff.joint_graph import JointGraph
from ..devices import CPU, kind_of
from ..functional.graph import FreshTensor, FunctionalGraph, Number, Output
from ..kernels.targets import target_for
from ..passes.rewriting import ATEN, is_call
from ..passes.settings import Settings
from ..records import dataclass


@dataclass
class WholeGraph(FunctionalGraph):
    """Forward and backward as one graph."""

    backward_nodes: frozenset[torch.fx.Node] = frozenset()
    """What belongs to backward."""


def run_joint_passes(joint: JointGraph, recorded: bool = False) -> JointGraph:
    """The joint graph, which is changed, behind the passes that know its device; ``recorded`` as in `Settings`."""
    device = _device_of(joint)
    passes = target_for(device).joint_passes()
    if not passes:
        return joint
    settings = Settings(device=device, recorded=recorded)
    _forget_running_statistics(joint)
    extra: list[Output] = [*joint.gradients, *(Number(node) for node in joint.symbols.values()),
                           *(FreshTensor(result.node) for result in joint.differentiable)]
    whole = WholeGraph(
        joint.graph, joint.inputs, [*joint.outputs, *extra], joint.mutated, joint.constants, joint.state_changes,
        joint.guards, joint.returns_tuple, backward_nodes=frozenset(joint.backward_nodes))
    for each in passes:
        known = set(whole.graph.nodes)
        passed = each(whole, settings)
        assert isinstance(passed, WholeGraph)
        whole = passed
        whole.backward_nodes = _with_new_nodes(whole, known)
    count, gradients = len(joint.outputs), len(joint.gradients)
    outputs, tail = whole.outputs[:count], whole.outputs[count:]
    names = [output.node for output in tail[gradients:] if isinstance(output, (Number, FreshTensor))]
    return replace(
        joint, graph=whole.graph, outputs=outputs, mutated=whole.mutated, gradients=tail[:gradients],
        symbols=dict(zip(joint.symbols, names, strict=False)), constants=whole.constants,
        backward_nodes=set(whole.backward_nodes),
        eager_saves=_renamed(joint.eager_saves, joint.outputs, outputs),
        differentiable=[replace(result, node=node)
                        for result, node in zip(joint.differentiable, names[len(joint.symbols):], strict=True)])


def _with_new_nodes(whole: WholeGraph, known: set[torch.fx.Node]) -> frozenset[torch.fx.Node]:
    """What belongs to backward, with those of the nodes that were not known before that need something of it."""
    backward = set(whole.backward_nodes)
    for node in whole.graph.nodes:
        if node not in known and any(source in backward for source in node.all_input_nodes):
            backward.add(node)
    return frozenset(backward)


def _forget_running_statistics(joint: JointGraph) -> None:
    """The gradient of a normalisation by the batch's own statistics names the running ones, and does not read them."""
    for node in joint.graph.nodes:
        if is_call(node, ATEN.native_batch_norm_backward.default) and len(node.args) == 10 and node.args[7] is True:
            node.args = (*node.args[:3], None, None, *node.args[5:])


def _renamed(nodes: dict[torch.fx.Node, int], before: list[Output], now: list[Output]) -> dict[torch.fx.Node, int]:
    """Those of the nodes that results have not been replaced by something else. A copy is not what eager keeps."""
    left = {old.node: new.node for old, new in zip(before, now, strict=True)
            if isinstance(old, FreshTensor) and isinstance(new, FreshTensor)}
    return {node: behind for node, behind in nodes.items() if left.get(node, node) is node}


def _device_of(joint: JointGraph) -> torch.device:
    """The device that one of the inputs is on, unless all are on the CPU."""
    for entry in joint.inputs:
        example: Any = entry.example
        if isinstance(example, torch.Tensor) and not kind_of(example).is_host:
            return example.device
    return torch.device(CPU.name)
