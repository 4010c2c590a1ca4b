"""Layers and small networks: convolutions, recurrence, attention, embeddings, losses, with batches that vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from .record import ints, program, rand

KIND = "networks"


def batch(D: Any) -> Any:
    """The first size of one input varies."""
    return ({0: D("batch")},)


def _layer(name: str, make: Callable[[], nn.Module], example: tuple[int, ...], other: tuple[int, ...],
           **options: Any) -> None:
    kind = type(name, (nn.Module,), {"__init__": lambda self: (nn.Module.__init__(self),
                                                               setattr(self, "layer", make()))[0],
                                     "forward": _forward})
    program(KIND, rand(*example), shapes=batch, further=[(rand(*other),)], **options)(kind)


def _forward(self: Any, x: Any) -> Any:
    return self.layer(x)


_layer("Convolution", lambda: nn.Conv2d(3, 4, 3, padding=1, stride=2), (2, 3, 8, 8), (5, 3, 8, 8))
_layer("GroupedConvolution", lambda: nn.Conv1d(4, 8, 3, groups=2, dilation=2), (2, 4, 9), (3, 4, 9))
_layer("TransposedConvolution", lambda: nn.ConvTranspose2d(3, 4, 2, stride=2), (2, 3, 4, 4), (3, 3, 4, 4))
_layer("SmallImageNetwork", lambda: nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1),
    nn.Flatten(), nn.Linear(4, 2)), (2, 3, 8, 8), (4, 3, 8, 8))
_layer("ImageNetworkDecomposed", lambda: nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Hardswish(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 2)),
       (2, 3, 8, 8), (4, 3, 8, 8), after=lambda api, p: p.run_decompositions())
_layer("Upsampled", lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(2)),
       (2, 4, 3, 3), (3, 4, 3, 3))
_layer("Normed", lambda: nn.Sequential(nn.LayerNorm(6), nn.RMSNorm(6), nn.Softmax(-1)), (2, 3, 6), (5, 3, 6))
_layer("GroupNormed", lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.InstanceNorm1d(4)), (2, 4, 5), (3, 4, 5))
_layer("Activations", lambda: nn.Sequential(nn.GELU(), nn.SiLU(), nn.PReLU(), nn.Mish(), nn.GLU()), (3, 4), (5, 4))
_layer("Lstm", lambda: nn.LSTM(3, 4, 2, batch_first=True), (2, 5, 3), (4, 5, 3))
_layer("LstmDecomposed", lambda: nn.LSTM(3, 4, batch_first=True), (2, 3, 3), (4, 3, 3),
       after=lambda api, p: p.run_decompositions())
_layer("BidirectionalGru", lambda: nn.GRU(3, 4, bidirectional=True, batch_first=True), (2, 5, 3), (4, 5, 3))
_layer("PlainRnn", lambda: nn.RNN(3, 4, batch_first=True), (2, 5, 3), (4, 5, 3))
_layer("LstmCell", lambda: nn.LSTMCell(3, 4), (2, 3), (5, 3))
_layer("EncoderLayer", lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8), (3, 5, 8))
_layer("Encoder", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(
    8, 2, 16, batch_first=True, dropout=0.0), 2, enable_nested_tensor=False), (2, 5, 8), (3, 5, 8), train=True)
_layer("LstmInTraining", lambda: nn.LSTM(3, 4, 2, batch_first=True, dropout=0.5), (2, 5, 3), (2, 5, 3), train=True)


@program(KIND, rand(2, 5, 8), shapes=lambda D: ({0: D("b"), 1: D("t")},), further=[(rand(3, 7, 8),)])
class SelfAttention(nn.Module):
    """Heads, a causal mask, sizes that vary."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, 8))


@program(KIND, rand(2, 5, 8), further=[(rand(2, 5, 8, seed=1),)], after=lambda api, p: p.run_decompositions())
class MultiheadAttention(nn.Module):
    """torch's own attention, decomposed."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.attention(x, x, x, need_weights=False)[0]


@program(KIND, rand(2, 5, 8), rand(2, 7, 8),
         shapes=lambda D: (lambda b: ({0: b, 1: D("s")}, {0: b, 1: D("t")}))(D("b")),
         further=[(rand(3, 4, 8), rand(3, 6, 8))])
class CrossAttention(nn.Module):
    """Weights are returned."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Any, memory: Any) -> Any:
        return self.attention(x, memory, memory)


@program(KIND, ints(2, 5), shapes=lambda D: ({0: D("b"), 1: D("t", max=16)},), further=[(ints(3, 7),), (ints(4, 16),)])
class LanguageModel(nn.Module):
    """Embeddings, positions, attention, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(10, 8), nn.Embedding(16, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)

    def forward(self, ids: Any) -> Any:
        t = ids.shape[1]
        x = self.tokens(ids) + self.positions(torch.arange(t, device=ids.device))
        mask = torch.triu(torch.full((t, t), float("-inf")), diagonal=1)
        x = x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]
        return self.norm(x) @ self.tokens.weight.T


@program(KIND, ints(6), torch.tensor([0, 2]), further=[(ints(6, high=5), torch.tensor([0, 3]))])
class BagOfWords(nn.Module):
    """EmbeddingBag."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(10, 4, mode="sum")

    def forward(self, words: Any, offsets: Any) -> Any:
        return self.bag(words, offsets)


@program(KIND, rand(4, 5), ints(4, high=5), shapes=lambda D: (lambda n: ({0: n}, {0: n}))(D("n")),
         further=[(rand(7, 5), ints(7, high=5))])
def losses(self: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(x, y), F.mse_loss(x, x * 2), F.nll_loss(x.log_softmax(1), y, reduction="none")


@program(KIND, rand(2, 3, 9, 9), shapes=lambda D: ({0: D("b"), 2: D("h", min=8, max=64), 3: D("w", min=8, max=64)},),
         further=[(rand(3, 3, 12, 8),)])
class AnyImageSize(nn.Module):
    """Height and width vary."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def forward(self, x: Any) -> Any:
        y = self.conv(x).relu()
        return F.interpolate(y, size=x.shape[-2:], mode="nearest"), y.mean((2, 3)), F.adaptive_avg_pool2d(y, 1)


@program(KIND, rand(2, 3, 8, 8).contiguous(memory_format=torch.channels_last),
         further=[(rand(2, 3, 8, 8, seed=1).contiguous(memory_format=torch.channels_last),)])
class ChannelsLast(nn.Module):
    """Images in another order of memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        return y, y.contiguous(), y.is_contiguous(memory_format=torch.channels_last)


@program(KIND, rand(5, 2, 3), torch.tensor([5, 3]), further=[(rand(5, 2, 3, seed=1), torch.tensor([5, 3]))])
class PackedSequence(nn.Module):
    """Sequences of different lengths in one recurrent network."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(3, 4)

    def forward(self, x: Any, lengths: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], total_length=5)[0]


@program(KIND, rand(2, 6, 3), shapes=lambda D: ({0: D("b")},), further=[(rand(5, 6, 3),)])
class LoopOverTime(nn.Module):
    """A recurrent network written as a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x: Any) -> Any:
        state = x.new_zeros(x.shape[0], 4)
        states = []
        for step in x.unbind(1):
            state = self.cell(step, state)
            states.append(state)
        return torch.stack(states, 1), state


@program(KIND, rand(2, 4), rand(3, 5), shapes=lambda D: ({0: D("a")}, {0: D("b")}), further=[(rand(4, 4), rand(2, 5))])
class Bilinear(nn.Module):
    """Two batches that vary on their own."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(5, 3)

    def forward(self, x: Any, y: Any) -> Any:
        return self.a(x) @ self.b(y).T, torch.cdist(self.a(x), self.b(y))


@program(KIND, rand(4, 6), shapes=lambda D: ({0: D("n", min=4)},), further=[(rand(9, 6),)])
def ordered(self: Any, x: Any) -> Any:
    values, at = x.sort(0)
    return values, at, x.topk(2, dim=0), x.argmax(1), x.max(1), torch.gather(x, 1, x.argsort(1))


@program(KIND, rand(4, 6), further=[(rand(4, 6, seed=1),)])
def views_and_strides(self: Any, x: Any) -> Any:
    return x.as_strided((2, 3), (6, 2)), x.unfold(1, 3, 2), x[..., None].squeeze(-1), x.T, x.view(2, 2, 6)


@program(KIND, rand(4, 6), shapes=lambda D: ({0: D("n")},), further=[(rand(9, 6),)])
class Experts(nn.Module):
    """A router over small networks."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(6, 3)
        self.experts = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        weights, chosen = self.router(x).softmax(-1).topk(2)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            weight = (weights * (chosen == number)).sum(-1, keepdim=True)
            result = result + weight * expert(x)
        return result


@program(KIND, rand(2, 6), further=[(rand(2, 6, seed=1),)])
class HooksOnModules(nn.Module):
    """Forward hooks are part of the program."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        self.layer.register_forward_hook(lambda module, args, result: result + 1)

    def forward(self, x: Any) -> Any:
        return self.layer(x)


@program(KIND, rand(2, 6), further=[(rand(2, 6, seed=1),)])
class CalledTwice(nn.Module):
    """One layer, two calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Any) -> Any:
        return self.layer(self.layer(x).relu())
