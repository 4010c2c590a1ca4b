"""Recurrent networks in single steps, for decompositions of programs whose batches vary.

    output, h, c = lstm.input(x, [h, c], ...)

becomes, for each step of each layer, two products, the gates and their nonlinearities. In C++, torch takes these
networks apart too, but asks for sizes that are numbers. A network over sequences whose length varies has no number of
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..fake.functions import CELLS, is_symbolic

Cell = Callable[..., Any]


def by_steps(name: str, args: Sequence[Any]) -> Any:
    """The results of ``lstm.input``, ``gru.input``, ``rnn_tanh.input`` or ``rnn_relu.input`` on tensors with symbolic
    sizes; NotImplemented where torch's own composition will do, or nothing does.
    """
    network, _, overload = name.partition(".")
    if f"{network}_cell" not in CELLS or overload != "input" or not is_symbolic(args[0]):
        return NotImplemented
    x, states, parameters, has_biases, layers, dropout, train, bidirectional, batch_first = args
    if x.dim() != 3:
        return NotImplemented
    if batch_first:
        x = x.transpose(0, 1)
    directions = 2 if bidirectional else 1
    several = network == "lstm"
    if len(parameters) != layers * directions * (4 if has_biases else 2) or not isinstance(x.size(0), int):
        return NotImplemented
    starts = list(zip(*[state.unbind(0) for state in (states if several else [states])], strict=True))
    size = len(parameters) // len(starts)
    ends: list[tuple[Any, ...]] = []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            output, end = _layer(CELLS[f"{network}_cell"], x, starts[at], parameters[at * size : (at + 1) * size],
                                 backwards=direction == 1)
            outputs.append(output)
            ends.append(end)
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if dropout and train and layer < layers - 1:
            x = torch.nn.functional.dropout(x, dropout, True)
    return (x.transpose(0, 1) if batch_first else x, *[torch.stack(parts) for parts in zip(*ends, strict=True)])


def _layer(
    cell: Cell, x: torch.Tensor, state: tuple[Any, ...], parameters: Sequence[torch.Tensor], backwards: bool
) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """The hidden states of all steps, and the state at the end."""
    outputs = []
    steps = x.unbind(0)
    for step in reversed(steps) if backwards else steps:
        result = cell(step, state if len(state) > 1 else state[0], *parameters)
        state = result if isinstance(result, tuple) else (result,)
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if backwards else outputs), state
