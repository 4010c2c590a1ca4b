"""Models that train: modules whose call is a loss, with dropout where they have it. Sizes are those of `native_models`.

>>> sorted(SUITE)
['bert', 'gpt2', 'lstm', 'moe', 'resnet18', 'unet', 'vit_small']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tests.models.zoo import UNet, prepare_torchvision
from torch import nn
from torch.nn import functional as F

from benchmarks import native_models

Trainable = tuple[nn.Module, tuple[torch.Tensor, ...]]
"""A module that gives a loss, and a batch."""

SUITE: dict[str, Callable[[], Trainable]] = {}


def entry(builder: Callable[[], Trainable]) -> Callable[[], Trainable]:
    """Register a model by the name of its builder."""
    SUITE[builder.__name__] = builder
    return builder


def build(name: str) -> Trainable:
    """A model in training mode, with reproducible weights and data."""
    prepare_torchvision()
    torch.manual_seed(0)
    module, batch = SUITE[name]()
    return module.train(), batch


class Classifier(nn.Module):
    """A model whose result are scores of classes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.model(x), target)


@entry
def resnet18() -> Trainable:
    model, args, _ = native_models.SUITE["resnet18"]()
    return Classifier(model), (args[0], torch.randint(0, 1000, (args[0].shape[0],)))


@entry
def vit_small() -> Trainable:
    import timm

    model = timm.create_model("vit_small_patch16_224", pretrained=False, proj_drop_rate=0.1, drop_rate=0.1)
    return Classifier(model), (torch.randn(8, 3, 224, 224), torch.randint(0, 1000, (8,)))


class WithLabels(nn.Module):
    """A model of transformers that computes its own loss."""

    def __init__(self, model: nn.Module, **settings: Any) -> None:
        super().__init__()
        self.model = model
        self.settings = settings

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model(tokens, labels=labels, **self.settings).loss
        return loss


@entry
def gpt2() -> Trainable:
    from transformers import GPT2Config, GPT2LMHeadModel

    tokens = torch.randint(3, 50000, (4, 128))
    return WithLabels(GPT2LMHeadModel(GPT2Config(n_layer=4)), use_cache=False), (tokens, tokens)


@entry
def bert() -> Trainable:
    from transformers import BertConfig, BertForSequenceClassification

    tokens, labels = torch.randint(3, 30000, (8, 128)), torch.randint(0, 2, (8,))
    return WithLabels(BertForSequenceClassification(BertConfig(num_hidden_layers=4))), (tokens, labels)


class LanguageLSTM(nn.Module):
    """Two layers with dropout between them, and a prediction of the next token."""

    def __init__(self, vocabulary: int = 10000, width: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, dropout=0.2)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.lstm(self.dropout(self.embedding(tokens[:-1])))
        return F.cross_entropy(self.head(self.dropout(hidden)).flatten(0, 1), tokens[1:].flatten())


@entry
def lstm() -> Trainable:
    return LanguageLSTM(), (torch.randint(0, 10000, (33, 16)),)


class Segmenter(nn.Module):
    """The U-Net with dropout before its head."""

    def __init__(self) -> None:
        super().__init__()
        self.model = UNet((32, 64, 128))
        self.model.head = nn.Sequential(nn.Dropout2d(0.1), self.model.head)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(self.model(x), target)


@entry
def unet() -> Trainable:
    return Segmenter(), (torch.randn(4, 3, 96, 96), (torch.rand(4, 1, 96, 96) > 0.5).float())


class ExpertLayer(nn.Module):
    """Every token goes to the experts that its number names, and takes as much of what they make as a gate says."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.router = nn.Linear(width, experts, bias=False)
        self.first = nn.Parameter(torch.randn(experts, width, 2 * width) * width**-0.5)
        self.second = nn.Parameter(torch.randn(experts, 2 * width, width) * (2 * width) ** -0.5)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        tokens = self.norm(x)
        gates = self.router(tokens).softmax(-1).t().gather(1, chosen)
        hidden = F.silu(torch.bmm(tokens[chosen], self.first))
        made = self.dropout(torch.bmm(hidden, self.second)) * gates.unsqueeze(-1)
        return x.index_add(0, chosen.flatten(), made.flatten(0, 1))


class ExpertModel(nn.Module):
    """Tokens through layers of experts to classes.

    Which tokens an expert gets follows from their numbers, not from scores: two scores that differ by a rounding would
    make two runs of one training part.
    """

    def __init__(self, width: int = 128, experts: int = 8, layers: int = 3) -> None:
        super().__init__()
        self.experts = experts
        self.embedding = nn.Embedding(1000, width)
        self.layers = nn.ModuleList(ExpertLayer(width, experts) for _ in range(layers))
        self.head = nn.Linear(width, 1000)

    def forward(self, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for number, layer in enumerate(self.layers):
            places = torch.argsort(tokens * (17 + 30 * number) % 1009, stable=True)
            x = layer(x, torch.cat([places, places.flip(0)]).view(self.experts, -1))
        return F.cross_entropy(self.head(x), target)


@entry
def moe() -> Trainable:
    return ExpertModel(), (torch.randint(0, 1000, (1024,)), torch.randint(0, 1000, (1024,)))
