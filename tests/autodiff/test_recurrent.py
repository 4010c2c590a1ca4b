"""Recurrent networks and their cells with sizes that are symbols: one graph for all sequences and batches."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import firesteel as fs
from autodiff.programs import Traced
from firesteel.autodiff import Unsupported, trace

SIZES = ((5, 3), (7, 4), (4, 6))


class Packed(nn.Module):
    """An LSTM over sequences of several lengths."""

    def __init__(self):
        super().__init__()
        self.inner = nn.LSTM(8, 16)

    def forward(self, x):
        lengths = torch.tensor([x.shape[0], x.shape[0] - 1, x.shape[0] - 2])
        packed = nn.utils.rnn.pack_padded_sequence(x[:, :3], lengths)
        return self.inner(packed)[0].data


def sequence(steps, batch):
    return (torch.randn(steps, batch, 8),)


def one_step(states):
    return lambda steps, batch: (torch.randn(batch, 8), *states(batch))


NETWORKS = {
    "lstm": (lambda: nn.LSTM(8, 16), sequence),
    "lstm, batch first": (lambda: nn.LSTM(8, 16, batch_first=True), sequence),
    "lstm, both directions": (lambda: nn.LSTM(8, 16, 2, bidirectional=True), sequence),
    "gru": (lambda: nn.GRU(8, 16), sequence),
    "relu": (lambda: nn.RNN(8, 16, nonlinearity="relu"), sequence),
    "lstm cell": (lambda: nn.LSTMCell(8, 16), one_step(lambda n: ((torch.randn(n, 16), torch.randn(n, 16)),))),
    "lstm cell without bias": (lambda: nn.LSTMCell(8, 16, bias=False), one_step(lambda n: ())),
    "gru cell": (lambda: nn.GRUCell(8, 16), one_step(lambda n: (torch.randn(n, 16),))),
    "tanh cell": (lambda: nn.RNNCell(8, 16), one_step(lambda n: (torch.randn(n, 16),))),
    "relu cell": (lambda: nn.RNNCell(8, 16, nonlinearity="relu"), one_step(lambda n: (torch.randn(n, 16),))),
}


def tensors(value):
    return [value] if isinstance(value, torch.Tensor) else [t for part in value for t in tensors(part)]


@pytest.mark.parametrize("name", NETWORKS)
@torch.no_grad()
def test_one_graph_for_many_sizes(name):
    make, inputs = NETWORKS[name]
    module, backend = make().eval(), Traced()
    compiled = fs.compile(module, backend=backend, fullgraph=True, dynamic=True)
    for sizes in SIZES:
        given = inputs(*sizes)
        for got, want in zip(tensors(compiled(*given)), tensors(module(*given)), strict=True):
            torch.testing.assert_close(got, want)
            assert got.stride() == want.stride()
    assert len(backend.graphs) == 1


@torch.no_grad()
def test_compiled_with_kernels_around():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.GRU(8, 16, batch_first=True)
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            output, state = self.inner(x * 2 + 1)
            return torch.relu(self.head(output)), state.tanh()

    module = Tagger().eval()
    compiled = fs.compile(module, backend="native", fullgraph=True, dynamic=True)
    for batch, steps in SIZES:
        given = torch.randn(batch, steps, 8)
        torch.testing.assert_close(compiled(given), module(given))


@torch.no_grad()
def test_packed_sequences():
    module = Packed().eval()
    compiled = fs.compile(module, backend="native", dynamic=True)
    for steps in (5, 7, 9):
        given = torch.randn(steps, 4, 8)
        torch.testing.assert_close(compiled(given), module(given))


@pytest.mark.parametrize("training", [False, True])
def test_what_stays_with_eager(training):
    """Random numbers and gradients of a network whose steps are not written out."""
    module = nn.LSTM(8, 16, 2, dropout=0.5).train()
    reasons = []

    def backend(gm, examples):
        with pytest.raises(Unsupported) as caught:
            trace(gm, examples)
        reasons.append(str(caught.value))
        return gm.forward

    compiled = fs.compile(module.eval() if training else module, backend=backend, dynamic=True)
    with torch.set_grad_enabled(training):
        compiled(torch.randn(5, 3, 8))
    assert reasons == [f"{'training of ' if training else ''}lstm with {'' if training else 'dropout and '}"
                       "sizes that are symbols"]
