"""Attention written by hand: which forms become the library's call, and which must not."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from firesteel.passes.attention import attention
from firesteel.passes.settings import Settings
from passes.pass_checks import check_compiled, functional, operators, transformed

FLASH = "aten._scaled_dot_product_flash_attention_for_cpu.default"
ROWS = 256
INFINITY = float("inf")
relaxed = functools.partial(attention, settings=Settings(relaxed=True))


@pytest.fixture(autouse=True)
def no_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def heads(rows=ROWS, width=16, dtype=torch.float32):
    return torch.randn(2, 3, rows, width, dtype=dtype)


def plain(x0, x1, x2):
    return torch.softmax(x0 @ x1.transpose(-2, -1) / math.sqrt(16), -1) @ x2


def scaled_before(x0, x1, x2):
    return torch.softmax((x0 * 0.25) @ x1.mT, dim=3) @ x2


def added(x0, x1, x2, x3):
    return torch.softmax(x3 + (x0 @ x1.transpose(-2, -1)) * 0.25, dim=-1) @ x2


def hidden(x0, x1, x2, x3):
    scores = (x0 @ x1.transpose(-2, -1)).masked_fill(x3, -INFINITY)
    return torch.nn.functional.dropout(scores.softmax(-1), 0.1, False) @ x2


def three(x0, x1, x2):
    return torch.bmm(torch.softmax(torch.bmm(x0, x1.transpose(1, 2)) / 4, -1), x2)


def causal_module(x0):
    rows = x0.shape[1]
    q, k, v = (part.view(2, rows, 3, 16).transpose(1, 2) for part in x0.split(48, dim=2))
    seen = torch.tril(torch.ones(rows, rows, dtype=torch.bool))
    weights = torch.softmax((q @ k.transpose(-2, -1) * 0.25).masked_fill(~seen, -INFINITY), -1)
    return (weights @ v).transpose(1, 2).contiguous().view(2, rows, 48)


FOUND = {
    "plain": (plain, lambda: [heads(), heads(300), heads(300)]),
    "scaled before": (scaled_before, lambda: [heads(), heads(), heads()]),
    "in three dimensions": (three, lambda: [heads()[0], heads()[0], heads()[0]]),
    "mask of batches": (added, lambda: [heads(), heads(), heads(), torch.randn(2, 1, ROWS, ROWS)]),
    "mask of columns": (added, lambda: [heads(), heads(), heads(), torch.randn(2, 1, 1, ROWS)]),
    "mask of two dimensions": (added, lambda: [heads(), heads(), heads(), torch.randn(ROWS, ROWS)]),
    "mask of three dimensions": (
        added, lambda: [heads()[0], heads()[0], heads()[0], torch.randn(3, 1, ROWS)]),
    "mask of heads": (added, lambda: [heads(), heads(), heads(), torch.randn(3, ROWS, ROWS)]),
    "mask of a number": (added, lambda: [heads(), heads(), heads(), torch.randn(())]),
    "hidden": (hidden, lambda: [heads(), heads(), heads(), torch.rand(1, 3, ROWS, ROWS) > 0.9]),
    "double precision": (plain, lambda: [heads(dtype=torch.float64) for _ in range(3)]),
    "module": (causal_module, lambda: [torch.randn(2, ROWS, 144)]),
}


@pytest.mark.parametrize("name", FOUND)
def test_forms_that_are_recognised(name):
    f, make = FOUND[name]
    args = make()
    found = operators(transformed(relaxed, f, *args))
    assert found.count(FLASH) == 1 and "aten._softmax.default" not in found and "aten.bmm.default" not in found
    check_compiled(f, *args, options={"relaxed_libraries": True})


def other_dimension(x0, x1, x2):
    return torch.softmax(x0 @ x1.transpose(-2, -1), -2) @ x2


def weights_returned(x0, x1, x2):
    weights = torch.softmax(x0 @ x1.transpose(-2, -1), -1)
    return weights @ x2, weights


def scores_returned(x0, x1, x2):
    scores = x0 @ x1.transpose(-2, -1)
    return torch.softmax(scores, -1) @ x2, scores


def filled_with_a_number(x0, x1, x2):
    scores = x0 @ x1.transpose(-2, -1)
    return torch.softmax(scores.masked_fill(torch.ones(ROWS, ROWS, dtype=torch.bool).triu(), -5.0), -1) @ x2


def one_key_for_all_heads(x0, x1, x2):
    rows = x0.reshape(2, 3 * ROWS, 16)
    scores = torch.bmm(rows, x1[:, 0].transpose(1, 2)).view(2, 3, ROWS, ROWS)
    return torch.bmm(scores.softmax(-1).view(2, 3 * ROWS, ROWS), x2[:, 0])


def no_product(x0, x1, x2):
    return torch.softmax((x0 + x1).repeat(1, 1, 1, ROWS // 16), -1) @ x2


@pytest.mark.parametrize("f", [other_dimension, weights_returned, scores_returned, filled_with_a_number,
                               one_key_for_all_heads, no_product])
def test_what_is_left_alone(f):
    assert FLASH not in operators(transformed(relaxed, f, heads(), heads(), heads()))


def test_other_width_of_values():
    assert FLASH not in operators(transformed(relaxed, plain, heads(), heads(), heads(width=8)))


def test_small_scores_are_left_alone():
    assert FLASH not in operators(transformed(relaxed, plain, heads(8), heads(8), heads(8)))


def test_only_where_the_user_allows_it():
    args = [heads(), heads(), heads()]
    assert FLASH not in operators(attention(functional(plain, args)))
