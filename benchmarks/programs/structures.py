"""Programs on graphs, sets, experts, physics and statistics."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from tests.whole_programs.program import Call, Compile, program
from torch import nn


@program("gnn")
def gnn(compile: Compile) -> Call:
    """Message passing over graphs of different sizes, with index_add and a pooling over the batch."""

    class Layer(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.own, self.message = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            source, target = edges
            messages = self.message(x)[source]
            total = torch.zeros(len(x), messages.shape[1]).index_add_(0, target, messages)
            degree = torch.zeros(len(x)).index_add_(0, target, torch.ones(len(target))).clamp(min=1)
            return F.relu(self.own(x) + total / degree[:, None])

    layers, head = nn.ModuleList([Layer(16, 64), Layer(64, 64)]), nn.Linear(64, 3)
    optimizer = torch.optim.Adam([*layers.parameters(), *head.parameters()], 1e-3)

    @compile
    def step(x: torch.Tensor, edges: torch.Tensor, graph: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer(x, edges)
        pooled = torch.zeros(len(y), x.shape[1]).index_add_(0, graph, x)
        loss = F.cross_entropy(head(pooled), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def call(number: int) -> Any:
        nodes = torch.randint(60, 120, ()).item()
        edges = torch.randint(0, nodes, (2, 4 * nodes))
        graph = torch.randint(0, 8, (nodes,)).sort().values
        return step(torch.randn(nodes, 16), edges, graph, torch.randint(0, 3, (8,)))

    return call


@program("experts")
def experts(compile: Compile) -> Call:
    """A mixture of experts: each expert gets the tokens that chose it, as many as they are."""

    class Experts(nn.Module):
        def __init__(self, width: int = 64, count: int = 4) -> None:
            super().__init__()
            self.gate = nn.Linear(width, count)
            self.experts = nn.ModuleList(
                [nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, width)) for _ in range(count)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights, chosen = self.gate(x).softmax(-1).topk(2, dim=-1)
            weights = weights / weights.sum(-1, keepdim=True)
            result = torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                rows, places = torch.where(chosen == number)
                if rows.numel() == 0:
                    continue
                result.index_add_(0, rows, expert(x[rows]) * weights[rows, places, None])
            return result

    model = nn.Sequential(nn.Linear(32, 64), Experts(), nn.LayerNorm(64), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    batches = [(torch.randn(128, 32), torch.randint(0, 8, (128,))) for _ in range(4)]
    compiled = compile(model)

    def call(number: int) -> Any:
        x, y = batches[number % 4]
        loss = F.cross_entropy(compiled(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return call


@program("distributions")
def distributions(compile: Compile) -> Call:
    """Variational inference with torch.distributions: a reparametrised posterior, a divergence, an argument check."""
    from torch.distributions import Bernoulli, Independent, LogNormal, Normal, kl_divergence

    mean, log_spread = nn.Parameter(torch.zeros(12)), nn.Parameter(torch.zeros(12))
    rate = nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.Adam([mean, log_spread, rate], 0.02)
    x = torch.randn(200, 12)
    y = Bernoulli(logits=x @ torch.randn(12)).sample()

    @compile
    def step() -> Any:
        posterior = Independent(Normal(mean, log_spread.exp()), 1)
        weights = posterior.rsample((8,))
        prior = Independent(Normal(torch.zeros(12), LogNormal(rate, 0.1).rsample().expand(12)), 1)
        likelihood = Bernoulli(logits=weights @ x.T).log_prob(y).sum(-1).mean()
        loss = kl_divergence(posterior, prior) - likelihood
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda number: step()


@program("neural_ode")
def neural_ode(compile: Compile) -> Call:
    """A differential equation with a learnt field, in steps of Runge and Kutta."""
    field = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(field.parameters(), 1e-3)
    start = torch.randn(64, 2)
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    wanted = start @ torch.matrix_exp(turn)

    @compile
    def step(h: float) -> torch.Tensor:
        y = start
        for _ in range(5):
            k1 = field(y)
            k2 = field(y + h / 2 * k1)
            k3 = field(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(y + h * k3))
        loss = F.mse_loss(y, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda number: step(0.2)


@program("physics_informed")
def physics_informed(compile: Compile) -> Call:
    """A network that fulfils a differential equation: gradients of gradients inside of the step."""
    network = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    places = torch.linspace(0, 1, 64)[:, None].requires_grad_()

    @compile
    def step() -> torch.Tensor:
        u = network(places)
        (slope,) = torch.autograd.grad(u.sum(), places, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), places, create_graph=True)
        loss = (bend + u).square().mean() + (network(torch.zeros(1, 1)) - 1).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda number: step()


@program("contrastive")
def contrastive(compile: Compile) -> Call:
    """SimCLR's loss over two views of a batch, with a memory bank that is written in turn."""
    encoder = nn.Sequential(nn.Linear(128, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32))
    bank, place = F.normalize(torch.randn(256, 32), dim=1), [0]
    optimizer = torch.optim.SGD(encoder.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    batches = [torch.randn(64, 128) for _ in range(4)]

    @compile
    def step(x: torch.Tensor) -> torch.Tensor:
        a = F.normalize(encoder(x + 0.1 * torch.randn_like(x)), dim=1)
        b = F.normalize(encoder(x * (torch.rand_like(x) > 0.1)), dim=1)
        logits = torch.cat([a @ b.T, a @ bank.T], 1) / 0.2
        loss = F.cross_entropy(logits, torch.arange(len(x)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bank[place[0]:place[0] + 64] = b.detach()
        place[0] = (place[0] + 64) % 256
        return loss.detach()

    return lambda number: step(batches[number % 4])


@program("early_exit")
def early_exit(compile: Compile) -> Call:
    """Layers until the answer is sure enough: a branch on data in a loop."""
    layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(6)])
    exits = nn.ModuleList([nn.Linear(64, 10) for _ in range(6)])
    batches = [torch.randn(16, 64) * (1 + k) for k in range(6)]

    @compile
    @torch.no_grad()
    def answer(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        for depth, (layer, head) in enumerate(zip(layers, exits)):
            x = F.gelu(layer(x))
            chances = head(x).softmax(-1)
            if chances.max(-1).values.mean() > 0.35:
                break
        return chances, depth

    return lambda number: answer(batches[number % 6])


@program("kmeans")
def kmeans(compile: Compile) -> Call:
    """Clusters until nothing moves: distances of all pairs, means, a loop that ends by the data."""
    batches = [torch.cat([torch.randn(100, 8) + 4 * torch.randn(8) for _ in range(4)]) for _ in range(4)]

    @compile
    def cluster(points: torch.Tensor) -> tuple[torch.Tensor, int]:
        centres = points[:: len(points) // 4][:4].clone()
        for rounds in range(20):
            nearest = ((points[:, None] - centres[None]) ** 2).sum(-1).argmin(1)
            sums = torch.zeros_like(centres).index_add_(0, nearest, points)
            counts = torch.bincount(nearest, minlength=4).clamp(min=1)
            moved = sums / counts[:, None]
            if torch.allclose(moved, centres, atol=1e-4):
                break
            centres = moved
        return centres, rounds

    return lambda number: cluster(batches[number % 4])


@program("numpy_loader")
def numpy_loader(compile: Compile) -> Call:
    """A model behind NumPy: normalising and cropping arrays, then a prediction that goes back to NumPy."""
    import numpy as np

    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)).eval()
    pictures = [np.random.RandomState(k).randint(0, 256, (4, 40, 40, 3)).astype(np.uint8) for k in range(4)]

    @compile
    @torch.no_grad()
    def predict(pictures: Any, offset: int) -> Any:
        x = pictures[:, offset:offset + 32, offset:offset + 32].astype(np.float32) / 255.0
        x = (x - np.array([0.485, 0.456, 0.406], np.float32)) / np.array([0.229, 0.224, 0.225], np.float32)
        logits = model(torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2))))
        chances = logits.softmax(-1).numpy()
        return chances, np.argsort(-chances, axis=-1)[:, :3]

    return lambda number: predict(pictures[number % 4], number % 8)


@program("hooks_and_logging")
def hooks_and_logging(compile: Compile) -> Call:
    """A model with forward hooks that note statistics, a step with a logger and a running mean in Python."""
    import logging

    from tests.whole_programs.training_steps import classifier, labelled

    logger = logging.getLogger("training")
    model, batches, seen = classifier(), labelled(), {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.ReLU):
            layer.register_forward_hook(
                lambda module, args, out, name=name: seen.__setitem__(name, out.detach().mean()))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    history: list[float] = []

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> float:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
        if len(history) % 50 == 0:
            logger.info("loss %.3f", sum(history) / len(history))
        return sum(history[-5:]) / len(history[-5:])

    return lambda number: (step(*batches[number % 8]), dict(seen))


@program("padded_transformer")
def padded_transformer(compile: Compile) -> Call:
    """nn.TransformerEncoder with padded batches of different lengths, in training."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
    model, head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(64, 4)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], 1e-3)

    @compile
    def step(x: torch.Tensor, lengths: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        padding = torch.arange(x.shape[1])[None] >= lengths[:, None]
        states = model(x, src_key_padding_mask=padding).masked_fill(padding[..., None], 0.0)
        loss = F.cross_entropy(head(states.sum(1) / lengths[:, None]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def call(number: int) -> Any:
        lengths = torch.randint(4, 24, (8,))
        return step(torch.randn(8, int(lengths.max()), 64), lengths, torch.randint(0, 4, (8,)))

    return call
