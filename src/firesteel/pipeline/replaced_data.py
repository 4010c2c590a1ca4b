"""Saved inputs whose ``data`` has become another tensor between forward and backward.

    loss = model(x).sum()
    weight.data = weight.data * 2
    loss.backward()             eager: from the old weight where a view of it was saved (nn.Linear), else from the new

Backward takes for old what eager has saved a view of, and for new what eager has saved itself. Where it computes parts
of forward again, neither is right: that is an error. Forward's memory is kept until then, which costs no copy.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from .. import torch_compat

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from .replaying import Call, Replay

REPLACED = ("a tensor that the gradients are computed from was given other data since (tensor.data = ...), and "
            "compiled code computes with both the old and the new; assign it after backward()")
FREED = ("the memory of a tensor that the gradients are computed from was freed since (tensor.untyped_storage()."
         "resize_(0)); allocate and fill it before backward()")
_LINEAR = frozenset({torch.nn.functional.linear})
# What saves its operands themselves, and multiplies incoming gradients with them.
_DIRECT: frozenset[Any] = frozenset({operator.mul, torch.mul, "mul", torch.conv1d, torch.conv2d, torch.conv3d})


def settle_replaced(replay: Replay, call: Call, placed: list[Any], kept: list[Node | None]) -> list[Any]:
    """The tensors of `Replay.placed` that backward is to use, in the place of those that were saved.

    ``kept`` are their nodes in the graph of backward, None where it does not take them.
    """
    settled = list(placed)
    for number, memory in zip(replay.replaceable, call.memories, strict=True):
        value, node = placed[number], kept[number]
        if value is None or node is None or value.data_ptr() == call.places[number]:
            continue
        if torch_compat.lies_in(value, memory):
            # its memory was freed and allocated anew, as that of sharded parameters is: eager reads what is there now
            if value.numel() and not memory.nbytes():
                raise RuntimeError(FREED)
            continue
        example = replay.placed_examples[number]
        shape, stride = (example.shape, example.stride()) if call.layouts is None else call.layouts[number]
        offset = (call.places[number] - memory.data_ptr()) // example.element_size()
        before = torch.empty(0, dtype=example.dtype, device=memory.device).set_(memory, offset, shape, stride)
        after = value.detach()
        if _users_are(replay.module, replay.placed[number], _LINEAR):
            settled[number] = before
        elif (after.shape, after.stride(), after.dtype, after.device) == (shape, stride, before.dtype, before.device) \
                and not torch.equal(before, after) \
                and not (_users_are(replay.module, replay.placed[number], _DIRECT) and _meets_gradients_only(node)):
            raise RuntimeError(REPLACED)
    return settled


def _users_are(module: GraphModule, at: int, functions: frozenset[Any]) -> bool:
    """Whether the program does nothing else with an input of the captured graph."""
    node = [node for node in module.graph.nodes if node.op == "placeholder"][at]
    return all(user.target in functions and (functions is not _LINEAR or user.args[1:2] == (node,))
               and user.all_input_nodes.count(node) == 1 for user in node.users)


def _meets_gradients_only(node: Node) -> bool:
    """Whether all that backward computes with an input involves a gradient that comes in."""
    graph = node.graph
    placeholders = [each for each in graph.nodes if each.op == "placeholder"]
    behind = {each for each in placeholders if each.name.startswith("tangent")}
    for each in graph.nodes:
        if any(used in behind for used in each.all_input_nodes):
            behind.add(each)
    return bool(behind) and all(user in behind for user in node.users)
