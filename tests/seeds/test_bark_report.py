"""What a report on compiling the Bark text-to-audio model found: two crashes, and a loop compiled in every round."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import firesteel as fs
from seeds.recording import Recorder


class Token(str):
    """Stands for the tokenizer's token objects."""


def all_special_tokens(tokens, extra):
    all_tokens, seen = [], set()
    for value in (tokens, extra):
        to_add = [token for token in value if str(token) not in seen]
        seen.update(map(str, to_add))
        all_tokens.extend(to_add)
    return all_tokens, seen


def test_set_update_with_a_map():
    tokens, extra = ["[PAD]", "[CLS]", "[SEP]"], ["[SEP]", "[MASK]"]

    def f(x, tokens, extra):
        found, seen = all_special_tokens(tokens, extra)
        return x * len(found), found, seen

    compiled = fs.compile(f, fullgraph=True)
    out, found, seen = compiled(torch.ones(2), tokens, extra)
    expected, expected_found, expected_seen = f(torch.ones(2), tokens, extra)
    assert torch.equal(out, expected) and found == expected_found and seen == expected_seen


def test_set_update_with_a_map_over_objects():
    tokens = [Token("a"), Token("b")]
    assert fs.compile(all_special_tokens)(tokens, [Token("b"), Token("c")]) == all_special_tokens(tokens, ["b", "c"])


N_COARSE_CODEBOOKS = 2


def n_steps_of(x_semantic, semantic_to_coarse_ratio):
    return int(
        round(
            np.floor(len(x_semantic) * semantic_to_coarse_ratio / N_COARSE_CODEBOOKS)
            * N_COARSE_CODEBOOKS
        )
    )


@pytest.mark.parametrize("length", [7, 100])
def test_round_of_a_numpy_scalar(length):
    def f(x_semantic):
        n_steps = n_steps_of(x_semantic, 75 / 49.9 * 2)
        return x_semantic.float() * n_steps, n_steps

    x = torch.arange(length)
    (out, steps), (expected, expected_steps) = fs.compile(f)(x), f(x)
    assert torch.equal(out, expected) and steps == expected_steps and type(steps) is int


def test_round_of_a_numpy_scalar_in_one_graph():
    recorder = Recorder()
    fs.compile(lambda x: x.float() * n_steps_of(x, 3.0), backend=recorder, fullgraph=True)(torch.arange(9))
    assert len(recorder.graphs) == 1


def generate(model, x, steps, stop_at):
    """A loop of Bark's form: predict, take the best token, stop early on a condition, append, count."""
    total = 0
    for n in range(steps):
        logits = model(x)[-1] + n * 0.01
        token = torch.argmax(logits)
        if token.item() == stop_at:
            break
        x = torch.cat([x[1:], token[None].to(x.dtype)])
        total += 1
    return x, total


class Toy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = torch.nn.Embedding(16, 8)
        self.out = torch.nn.Linear(8, 16)

    def forward(self, x):
        return self.out(self.emb(x).cumsum(0).tanh())


@pytest.mark.parametrize("stop_at", [-1, 5])
def test_loop_with_a_break_does_not_compile_every_round(stop_at):
    model = Toy()
    x = torch.randint(16, (6,))
    recorder = Recorder()
    compiled = fs.compile(generate, backend=recorder)
    with torch.no_grad():
        expected, expected_total = generate(model, x, 30, stop_at)
        out, total = compiled(model, x, 30, stop_at)
        assert torch.equal(out, expected) and total == expected_total
        count = len(recorder.graphs)
        assert count <= 6, f"{count} graphs for {total} rounds"
        out, total = compiled(model, x.flip(0), 40, stop_at)
        expected, expected_total = generate(model, x.flip(0), 40, stop_at)
        assert torch.equal(out, expected) and total == expected_total
    assert len(recorder.graphs) <= count + 2


def test_break_in_mid_loop_keeps_the_counter_an_input():
    """The report's third finding: after a break in mid-loop, the loop's counter was a constant of each capture."""
    def f(x):
        for i in range(12):
            x = x + i
            if re.match("1.", "12"):
                x = x * 0.5
        return x

    recorder = Recorder()
    compiled = fs.compile(f, backend=recorder)
    assert torch.equal(compiled(torch.ones(2)), f(torch.ones(2)))
    assert len(recorder.graphs) <= 5


def test_numpy_scalar_in_a_loop():
    def f(x, ratio):
        for i in range(5):
            x = x + int(np.floor(i * ratio))
            if re.match("1.", "12"):
                x = x * 2
        return x

    assert torch.equal(fs.compile(f)(torch.ones(2), 1.5), f(torch.ones(2), 1.5))
