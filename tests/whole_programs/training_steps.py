"""Training steps as tutorials write them, compiled whole, from the batch to the optimizer."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from tests.whole_programs.program import Call, Compile, program
from torch import nn


def classifier(width: int = 256, depth: int = 2, inputs: int = 64, classes: int = 10) -> nn.Sequential:
    """A multilayer perceptron."""
    layers: list[nn.Module] = []
    for number in range(depth):
        layers += [nn.Linear(inputs if number == 0 else width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, classes))


def convolutional() -> nn.Sequential:
    """A small network for images of 16 by 16."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Dropout(0.1), nn.Linear(32, 10))


def labelled(size: int = 128, inputs: int = 64, classes: int = 10) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Eight batches to learn."""
    return [(torch.randn(size, inputs), torch.randint(0, classes, (size,))) for _ in range(8)]


@program("train_step")
def train_step(compile: Compile) -> Call:
    """The tutorial's training step, which returns its loss with the history that backward has used up."""
    model, batches = classifier(), labelled()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda number: step(*batches[number % 8])


@program("train_step_logits")
def train_step_logits(compile: Compile) -> Call:
    """A step that returns the loss as a number and the logits, for the accuracy."""
    model, batches = classifier(), labelled()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad(set_to_none=False)
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        return loss.item(), logits, (logits.argmax(-1) == y).float().mean()

    return lambda number: step(*batches[number % 8])


@program("images_epochs")
def images_epochs(compile: Compile) -> Call:
    """A compiled model in a plain loop: train(), four steps, eval(), a validation batch, each round."""
    model = convolutional()
    images = [(torch.randn(16, 3, 16, 16), torch.randint(0, 10, (16,))) for _ in range(5)]
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, nesterov=True)
    compiled = compile(model)

    def epoch(number: int) -> Any:
        compiled.train()
        losses = []
        for x, y in images[:4]:
            loss = F.cross_entropy(compiled(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        compiled.eval()
        with torch.no_grad():
            x, y = images[4]
            return losses, F.cross_entropy(compiled(x), y).item()

    return epoch


@program("accumulate_and_clip")
def accumulate_and_clip(compile: Compile) -> Call:
    """Gradients of four small batches add up, are clipped, and the step is skipped when their norm is wild."""
    model, batches = classifier(), labelled(32)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    @compile
    def micro_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y) / 4
        loss.backward()
        return loss.detach()

    @compile
    def update() -> torch.Tensor:
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if norm > 50:
            optimizer.zero_grad()
            return norm
        optimizer.step()
        optimizer.zero_grad()
        return norm

    return lambda number: ([micro_step(*batches[(4 * number + k) % 8]) for k in range(4)], update())


@program("grad_scaler")
def grad_scaler(compile: Compile) -> Call:
    """Mixed precision with an enabled GradScaler, which skips steps with infinite gradients."""
    model, batches = classifier(), labelled()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10, growth_interval=5)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    return lambda number: step(*batches[number % 8])


@program("schedulers")
def schedulers(compile: Compile) -> Call:
    """A warm-up and a cosine after it, stepped inside of the compiled step."""
    model, batches = classifier(), labelled()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [5])

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def call(number: int) -> Any:
        loss = step(*batches[number % 8])
        schedule.step()
        return loss, schedule.get_last_lr()

    return call


@program("two_optimizers")
def two_optimizers(compile: Compile) -> Call:
    """Embeddings with SparseAdam's usual companion: two optimizers with rates of their own in one step."""
    embedding, head = nn.Embedding(500, 64), classifier(128, 1, 64, 2)
    tokens = [(torch.randint(0, 500, (64, 12)), torch.randint(0, 2, (64,))) for _ in range(8)]
    slow = torch.optim.Adagrad(embedding.parameters(), 0.02)
    fast = torch.optim.RMSprop(head.parameters(), 1e-3)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        slow.zero_grad()
        fast.zero_grad()
        loss = F.cross_entropy(head(embedding(x).mean(1)), y)
        loss.backward()
        slow.step()
        fast.step()
        return loss

    return lambda number: step(*tokens[number % 8])


@program("lbfgs")
def lbfgs(compile: Compile) -> Call:
    """A closure that LBFGS calls as often as its line search likes."""
    x = torch.randn(200, 8)
    y = x @ torch.randn(8, 1) + 0.1 * torch.randn(200, 1)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), 0.5, max_iter=4, line_search_fn="strong_wolfe")

    @compile
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    return lambda number: optimizer.step(closure)


@program("adafactor")
def adafactor(compile: Compile) -> Call:
    """Adafactor, whose step depends on the root mean square of what it updates."""
    model, batches = classifier(), labelled()
    optimizer = torch.optim.Adafactor(model.parameters(), 0.01)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return lambda number: step(*batches[number % 8])


@program("ema")
def ema(compile: Compile) -> Call:
    """AveragedModel with an exponential average, updated inside of the compiled step."""
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    model, batches = classifier(96, 8), labelled()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        return loss.detach()

    return lambda number: (step(*batches[number % 8]), average.module[0].weight.sum())


@program("swa")
def swa(compile: Compile) -> Call:
    """Stochastic weight averaging: the plain average of AveragedModel, with SWALR."""
    from torch.optim.swa_utils import SWALR, AveragedModel

    model, batches = classifier(96, 6), labelled()
    average = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    rate = SWALR(optimizer, swa_lr=0.01, anneal_epochs=20)
    compiled, update = compile(model), compile(average.update_parameters)

    def call(number: int) -> Any:
        x, y = batches[number % 8]
        loss = F.cross_entropy(compiled(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update(model)
        rate.step()
        return loss, average.n_averaged.clone(), average.module[0].weight.sum()

    return call


@program("vae")
def vae(compile: Compile) -> Call:
    """A variational autoencoder: sampling, two losses, a compiled step."""
    encoder, decoder = nn.Linear(256, 128), nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 256))
    mean, logvar = nn.Linear(128, 16), nn.Linear(128, 16)
    model = nn.ModuleList([encoder, decoder, mean, logvar])
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    images = [torch.rand(64, 256) for _ in range(8)]

    @compile
    def step(x: torch.Tensor) -> Any:
        hidden = F.relu(encoder(x))
        mu, spread = mean(hidden), logvar(hidden)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * spread)
        reconstruction = F.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum") / len(x)
        divergence = -0.5 * torch.mean(torch.sum(1 + spread - mu.pow(2) - spread.exp(), 1))
        loss = reconstruction + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), reconstruction.detach(), divergence.detach()

    return lambda number: step(images[number % 8])


@program("gan")
def gan(compile: Compile) -> Call:
    """A generator and a discriminator in turn, each with its optimizer."""
    generator = nn.Sequential(nn.Linear(32, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 256), nn.Tanh())
    critic = nn.Sequential(nn.Linear(256, 128), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(128, 1))
    for_generator = torch.optim.Adam(generator.parameters(), 2e-4, (0.5, 0.999))
    for_critic = torch.optim.Adam(critic.parameters(), 2e-4, (0.5, 0.999))
    images = [torch.randn(64, 256).tanh() for _ in range(8)]

    @compile
    def step(real: torch.Tensor) -> Any:
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = generator(torch.randn(len(real), 32))
        for_critic.zero_grad()
        loss_critic = F.binary_cross_entropy_with_logits(critic(real), ones) + \
            F.binary_cross_entropy_with_logits(critic(fake.detach()), zeros)
        loss_critic.backward()
        for_critic.step()
        for_generator.zero_grad()
        loss_generator = F.binary_cross_entropy_with_logits(critic(fake), ones)
        loss_generator.backward()
        for_generator.step()
        return loss_critic, loss_generator

    return lambda number: step(images[number % 8])
