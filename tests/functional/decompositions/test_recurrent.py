"""Recurrent networks and their cells with sizes that are symbols: one graph for all sequences and batches."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import firesteel as fs
from firesteel.autodiff.joint import trace_training
from firesteel.fake import FakeMode
from firesteel.functional import Unsupported, trace
from firesteel.torch_compat.recurrent_operators import recurrent_layer
from functional.programs import Traced

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


def gradients_of(function, module, batch_first, dtype, autocast):
    """Results, random numbers and gradients of a step, everything seeded."""
    torch.manual_seed(3)
    module.zero_grad()
    x = torch.randn(5, 3, 8, dtype=dtype, requires_grad=True)
    count = module.num_layers * (2 if module.bidirectional else 1)
    states = [torch.randn(count, 5 if batch_first else 3, 16, dtype=dtype, requires_grad=True) for _ in range(2)]
    with torch.autocast("cpu", enabled=autocast):
        output, (hidden, cell) = function(x, tuple(states))
    drawn = torch.rand(1)
    (output * torch.randn(output.shape)).sum().backward(retain_graph=True)
    hidden.sum().backward()
    return [output, hidden, cell, drawn, x.grad, *(t.grad for t in (*states, *module.parameters()))]


TRAINED = {
    "one layer": {},
    "batch first, no bias": {"batch_first": True, "bias": False},
    "dropout between layers": {"num_layers": 2, "dropout": 0.5},
    "both directions": {"num_layers": 2, "dropout": 0.5, "bidirectional": True, "batch_first": True},
}


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize(("name", "dtype", "autocast"), [
    *((name, torch.float32, False) for name in TRAINED),
    ("dropout between layers", torch.bfloat16, False), ("dropout between layers", torch.float64, False),
    ("dropout between layers", torch.float32, True)])
def test_training_equals_eager(name, dtype, autocast, backend):
    module = nn.LSTM(8, 16, **TRAINED[name]).to(dtype)
    compiled = fs.compile(module, backend=backend, fullgraph=True, dynamic=False)
    setting = module, module.batch_first, dtype, autocast
    for got, want in zip(gradients_of(compiled, *setting), gradients_of(module, *setting), strict=True):
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
def test_training_keeps_the_library_call():
    """One call forward and one backward for each layer, not hundreds of steps, and no more saved than in eager."""
    module = nn.LSTM(8, 16, 2)
    graphs = []

    def backend(gm, examples):
        graphs.append(trace_training(gm, examples))
        return gm.forward

    fs.compile(module, backend=backend, dynamic=False)(torch.randn(50, 3, 8))
    called = [str(node.target) for node in graphs[0].graph.nodes]
    assert called.count("firesteel.recurrent_layer.default") == 2
    assert called.count("aten.mkldnn_rnn_layer_backward.default") == 2
    assert len(called) < 100


def test_without_gradients_nothing_is_kept():
    module = nn.LSTM(8, 16).requires_grad_(False)
    graphs = []

    def backend(gm, examples):
        graphs.append(trace_training(gm, examples))
        return gm.forward

    fs.compile(module, backend=backend, dynamic=False)(torch.randn(5, 3, 8))
    assert "firesteel" not in str(graphs[0])


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_what_layers_return_is_known(dtype):
    """Sizes, strides and dtypes of a layer and its gradient, workspace included, without running it."""
    layer, backward = recurrent_layer(), torch.ops.aten.mkldnn_rnn_layer_backward.default
    sizes = (5, 3, 8), (64, 8), (64, 16), (64,), (64,), (1, 3, 16), (1, 3, 16)
    tensors = [torch.randn(size).to(dtype) for size in sizes]

    def both(*given):
        made = layer(*given, False, [], 2, 16, 1, True, False, False, True)
        return *made, *backward(*given, *made[:3], torch.ones_like(made[0]), None, None, False, 2, 16, 1, True, True,
                                False, [], False, made[3])

    try:
        real = both(*tensors)
    except RuntimeError:
        pytest.skip("this CPU has no such layer")
    mode = FakeMode()
    described = mode.run(both, [mode.from_real(tensor) for tensor in tensors])
    for got, want in zip(described, real, strict=True):
        assert (got.shape, got.stride(), got.dtype) == (want.shape, want.stride(), want.dtype)
