"""Layers of LSTMs over a step or two, as in decoders: products and gates in place of oneDNN's call.

    layer = aten.mkldnn_rnn_layer.default(x, w_ih, w_hh, b_ih, b_hh, h, c, False, [], 2, 32, ...)     x: f32[1, 3, 64]
    out, h1, c1 = layer[0], layer[1], layer[2]

becomes

    gates: f32[3, 128] = aten.addmm.default(b_ih, x[0], w_ih.t()) + aten.addmm.default(b_hh, h, w_hh.t())
    i, f, g, o = the four quarters of gates
    c1 = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h1 = sigmoid(o) * tanh(c1)
    out = h1[None]

oneDNN lays out the weights anew in each call, which takes longer than a few steps. Left alone are layers that train,
longer sequences, and dtypes other than float32.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from .rewriting import ATEN, Rewriter, is_call
from .settings import STRICT, Settings

STEPS = ((1, 8), (4, 4))
"""How many steps are written out at most, by the size of the batch."""
STEPS_OF_ANY = 2
LSTM = 2
"""The library's number for this kind of network."""
_REVERSE, _BATCHES, _KIND, _HAS_BIASES, _TRAIN = 7, 8, 9, 12, 15


def short_recurrences(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Write out the steps of LSTM layers that have few."""
    rewriter = Rewriter(functional)
    for node in list(functional.graph.nodes):
        if is_call(node, ATEN.mkldnn_rnn_layer.default) and _is_short(node):
            with rewriter.before(node):
                results = _steps(rewriter, node)
            for user in list(node.users):
                rewriter.replace(user, results[user.args[1]])
                rewriter.graph.erase_node(user)
            rewriter.graph.erase_node(node)
    return rewriter.finish()


def _is_short(node: torch.fx.Node) -> bool:
    tensors: Any = node.args[:7]
    kind: Any = node.args[_KIND]
    values = [tensor.meta["val"] for tensor in tensors]
    steps, batch = values[0].shape[:2]
    most = next((most for rows, most in STEPS if isinstance(batch, int) and batch <= rows), STEPS_OF_ANY)
    return bool(kind == LSTM) and node.args[_TRAIN] is False and not node.args[_BATCHES] \
        and isinstance(steps, int) and 1 <= steps <= most and all(value.dtype is torch.float32 for value in values) \
        and all(user.target is operator.getitem and user.args[1] in (0, 1, 2) for user in node.users)


def _steps(rewriter: Rewriter, node: torch.fx.Node) -> list[torch.fx.Node]:
    """The output of the layer, its last hidden state and its last cell state."""
    call = rewriter.call
    tensors: Any = node.args[:7]
    x, w_ih, w_hh, b_ih, b_hh, hidden, cell = tensors
    steps, size = x.meta["val"].shape[0], w_hh.meta["val"].shape[1]
    outputs: dict[int, torch.fx.Node] = {}
    from_input, from_hidden = call(ATEN.t.default, w_ih), call(ATEN.t.default, w_hh)
    for step in reversed(range(steps)) if node.args[_REVERSE] else range(steps):
        entering = call(ATEN.select.int, x, 0, step)
        if node.args[_HAS_BIASES]:
            parts = (call(ATEN.addmm.default, b_ih, entering, from_input),
                     call(ATEN.addmm.default, b_hh, hidden, from_hidden))
        else:
            parts = call(ATEN.mm.default, entering, from_input), call(ATEN.mm.default, hidden, from_hidden)
        gates = call(ATEN.add.Tensor, *parts)
        enter, forget, new, leave = (call(ATEN.slice.Tensor, gates, 1, part * size, (part + 1) * size)
                                     for part in range(4))
        kept = call(ATEN.mul.Tensor, call(ATEN.sigmoid.default, forget), cell)
        entered = call(ATEN.mul.Tensor, call(ATEN.sigmoid.default, enter), call(ATEN.tanh.default, new))
        cell = call(ATEN.add.Tensor, kept, entered)
        hidden = call(ATEN.mul.Tensor, call(ATEN.sigmoid.default, leave), call(ATEN.tanh.default, cell))
        outputs[step] = hidden
    return [call(ATEN.stack.default, [outputs[step] for step in range(steps)]), hidden, cell]
