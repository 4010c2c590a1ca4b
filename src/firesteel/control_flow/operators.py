"""The operators of captured graphs that own graphs: plain functions of graph modules and flat operands.

    gt = x.sum() > 0
    true_graph_0, false_graph_0 = self.true_graph_0, self.false_graph_0
    cond = firesteel.control_flow.operators.cond(gt, true_graph_0, false_graph_0, (x,))
    getitem = cond[0]

The graphs are submodules, found through ``get_attr`` nodes; each takes the operands in order and returns a tuple.
Called with real tensors the functions here run the graphs, so a captured graph is an ordinary ``torch.fx`` program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .checks import in_layout_of
from .looping import begin
from .tracing import handler_of_thread

Graph = Callable[..., tuple[Any, ...]]


def cond(pred: Any, true_graph: Graph, false_graph: Graph, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The results of one of two graphs."""
    handler = handler_of_thread()
    if handler is not None:
        return handler(cond, (pred, true_graph, false_graph, tuple(operands)))
    return (true_graph if pred else false_graph)(*operands)


def while_loop(cond_graph: Graph, body_graph: Graph, carried: Sequence[Any],
               additional: Sequence[Any] = ()) -> tuple[Any, ...]:
    """What is carried when the condition has become false. Both graphs take ``(*carried, *additional)``."""
    handler = handler_of_thread()
    if handler is not None:
        return handler(while_loop, (cond_graph, body_graph, tuple(carried), tuple(additional)))
    first = current = tuple([begin(value) for value in carried])
    while cond_graph(*current, *additional)[0]:
        new = body_graph(*current, *additional)
        current = tuple([in_layout_of(old, value) for old, value in zip(first, new, strict=True)])
    return current


def scan(body_graph: Graph, init: Sequence[Any], xs: Sequence[Any], additional: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The last carry and the stacked results. The graph takes ``(*carry, *slices, *additional)``."""
    handler = handler_of_thread()
    if handler is not None:
        return handler(scan, (body_graph, tuple(init), tuple(xs), tuple(additional)))
    first = carry = tuple([begin(value) for value in init])
    rows = []
    for position in range(xs[0].shape[0]):
        results = body_graph(*carry, *[x.select(0, position) for x in xs], *additional)
        carry = tuple([in_layout_of(old, value) for old, value in zip(first, results[:len(first)], strict=True)])
        rows.append(results[len(first):])
    return (*carry, *[torch.stack(parts) for parts in zip(*rows, strict=True)])


def map(body_graph: Graph, xs: Sequence[Any], additional: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The stacked results. The graph takes ``(*slices, *additional)``."""
    handler = handler_of_thread()
    if handler is not None:
        return handler(map, (body_graph, tuple(xs), tuple(additional)))
    rows = [body_graph(*[x.select(0, position) for x in xs], *additional) for position in range(xs[0].shape[0])]
    return tuple([torch.stack(parts) for parts in zip(*rows, strict=True)])


OPERATORS = (cond, while_loop, scan, map)
