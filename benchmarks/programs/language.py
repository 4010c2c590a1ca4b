"""Language models: nanoGPT's training step, encoders of transformers, recurrent ones."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from tests.models import zoo
from tests.whole_programs.program import Call, Compile, program
from torch import nn


class Block(nn.Module):
    """A layer of nanoGPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.size()
        q, k, v = self.qkv(self.before_attention(x)).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class NanoGPT(nn.Module):
    """nanoGPT: weights of the embedding and the head are one."""

    def __init__(self, vocabulary: int = 256, width: int = 96, layers: int = 3, heads: int = 4,
                 block: int = 64) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.tokens.weight = self.head.weight
        nn.init.normal_(self.head.weight, std=0.02)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor | None = None) -> Any:
        x = self.tokens(ids) + self.positions(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def nanogpt(compile: Compile, autocast: bool) -> Call:
    model = NanoGPT()
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  6e-4, betas=(0.9, 0.95))
    data = torch.randint(0, 256, (4096,))
    compiled = compile(model)

    def rate(number: int) -> float:
        if number < 10:
            return 6e-4 * (number + 1) / 11
        return 6e-5 + 0.5 * (1 + math.cos(math.pi * min(1.0, (number - 10) / 990))) * 5.4e-4

    def call(number: int) -> Any:
        for group in optimizer.param_groups:
            group["lr"] = rate(number)
        start = torch.randint(0, len(data) - 65, (8,))
        x = torch.stack([data[i:i + 64] for i in start])
        y = torch.stack([data[i + 1:i + 65] for i in start])
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            _, loss = compiled(x, y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item(), norm

    return call


@program("nanogpt")
def nanogpt_float(compile: Compile) -> Call:
    """nanoGPT's loop around a compiled model: clipping, decayed groups, a rate that changes in every step."""
    return nanogpt(compile, False)


@program("nanogpt_bf16", tolerance=5e-2)
def nanogpt_bf16(compile: Compile) -> Call:
    """nanoGPT's loop under bfloat16 autocast."""
    return nanogpt(compile, True)


@program("nanogpt_sampling")
def nanogpt_sampling(compile: Compile) -> Call:
    """nanoGPT's generate: the context grows by one token in each step, to its limit, and the top k are drawn from."""
    model = NanoGPT(block=32).eval()

    @compile
    @torch.no_grad()
    def generate(ids: torch.Tensor, new: int, temperature: float = 0.8, top: int = 20) -> torch.Tensor:
        for _ in range(new):
            shown = ids if ids.size(1) <= 32 else ids[:, -32:]
            logits, _ = model(shown)
            logits = logits[:, -1, :] / temperature
            best, _ = torch.topk(logits, min(top, logits.size(-1)))
            logits[logits < best[:, [-1]]] = -float("Inf")
            ids = torch.cat((ids, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
        return ids

    return lambda number: generate(torch.tensor([[1, 2, 3, number % 200]]), 8)


def encoder(name: str, compile: Compile) -> Call:
    model, args, kwargs = zoo.build(name)
    compiled = compile(model)

    def call(number: int) -> Any:
        with torch.no_grad():
            return compiled(*args, **kwargs)[0]

    return call


def drawn_encoder(kind: str, head: str, compile: Compile, training: bool = False) -> Call:
    """A small model of transformers, and four steps of fine-tuning or four batches of inference in turn."""
    from tests.models.drawn import TransformersModel

    model, args, kwargs = TransformersModel(kind, head).build()
    compiled = compile(model.train(training))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def call(number: int) -> Any:
        if not training:
            with torch.no_grad():
                return compiled(*args, **kwargs)[0]
        output = compiled(*args, **kwargs)[0]
        loss = output.float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return call


@program("deberta")
def deberta(compile: Compile) -> Call:
    """DeBERTa's encoder, in inference."""
    return drawn_encoder("deberta", "base", compile)


@program("deberta_v2_training")
def deberta_v2_training(compile: Compile) -> Call:
    """DeBERTa-v2, fine-tuned."""
    return drawn_encoder("deberta-v2", "base", compile, True)


@program("longformer")
def longformer(compile: Compile) -> Call:
    """Longformer's windows, in inference."""
    return drawn_encoder("longformer", "base", compile)


@program("t5_training")
def t5_training(compile: Compile) -> Call:
    """T5 with labels, fine-tuned with Adafactor."""
    zoo.prepare_torchvision()
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(T5Config(
        vocab_size=200, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0))
    optimizer = torch.optim.Adafactor(model.parameters(), 1e-3)
    batches = [(torch.randint(1, 200, (8, 24)), torch.randint(1, 200, (8, 12))) for _ in range(4)]
    compiled = compile(model)

    def call(number: int) -> Any:
        ids, labels = batches[number % 4]
        loss = compiled(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return call


@program("packed_lstm")
def packed_lstm(compile: Compile) -> Call:
    """Sentences of different lengths, packed, through an LSTM: each batch has another longest one."""
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    embedding, head = nn.Embedding(100, 32), nn.Linear(128, 5)
    lstm = nn.LSTM(32, 64, batch_first=True, bidirectional=True)
    model = nn.ModuleList([embedding, lstm, head])
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    @compile
    def step(ids: torch.Tensor, lengths: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True)
        loss = F.cross_entropy(head(states.mean(1)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def call(number: int) -> Any:
        lengths = torch.randint(3, 20, (16,))
        return step(torch.randint(0, 100, (16, int(lengths.max()))), lengths, torch.randint(0, 5, (16,)))

    return call


@program("scheduled_sampling")
def scheduled_sampling(compile: Compile) -> Call:
    """A GRU decoder that is fed its own guess or the truth, by a coin thrown in each step."""
    import random

    embedding, cell, head = nn.Embedding(60, 48), nn.GRUCell(48, 96), nn.Linear(96, 60)
    model = nn.ModuleList([embedding, cell, head])
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    targets = [torch.randint(0, 60, (32, 10)) for _ in range(4)]

    @compile
    def step(target: torch.Tensor, teaching: float) -> torch.Tensor:
        state, token = torch.zeros(32, 96), torch.zeros(32, dtype=torch.long)
        loss = torch.zeros(())
        for t in range(target.size(1)):
            state = cell(embedding(token), state)
            logits = head(state)
            loss = loss + F.cross_entropy(logits, target[:, t])
            token = target[:, t] if random.random() < teaching else logits.argmax(-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return lambda number: step(targets[number % 4], max(0.1, 1 - 0.01 * number))
