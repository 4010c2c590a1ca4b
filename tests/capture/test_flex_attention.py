"""`flex_attention` in one graph, on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

import firesteel as fs

BIAS = torch.tensor([0.1, -0.2, 0.3, 0.0])
CAUSAL = create_block_mask(lambda b, h, q, k: q >= k, None, None, 32, 32, device="cpu")


def biased(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + BIAS[h] * (i - j), block_mask=CAUSAL)


def in_groups(q, k, v):
    def near(s, b, h, i, j):
        return torch.where((i - j).abs() < 5, torch.tanh(s / 5) * 5, -float("inf"))

    return flex_attention(q, k[:, :2], v[:, :2], score_mod=near, enable_gqa=True, scale=0.3)


def documents(q, k, v):
    document = torch.arange(32) // 10
    mask = create_block_mask(lambda b, h, i, j: (document[i] == document[j]) & (i >= j) & (b + j > 0), 2, None, 32, 32,
                             device="cpu")
    result, rest = flex_attention(q, k, v, block_mask=mask, return_aux=AuxRequest(lse=True))
    return result, rest.lse


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", [biased, in_groups, documents], ids=lambda f: f.__name__)
def test_is_eagers(function):
    torch.manual_seed(0)
    compiled = fs.compile(function, fullgraph=True)
    for arguments in ([torch.randn(2, 4, 32, 8) for _ in range(3)],
                      [torch.randn(2, 32, 4, 8).transpose(1, 2) for _ in range(3)]):
        expected, result = function(*arguments), compiled(*arguments)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
        first = (result, expected) if isinstance(result, torch.Tensor) else (result[0], expected[0])
        assert first[0].stride() == first[1].stride()


def test_mapping_a_function_that_gives_back_what_it_gets():
    def function(x):
        mapped = torch.vmap(torch.vmap(lambda a, b: a, (0, None)), (0, None))
        return mapped(x, torch.ones(2)) + 1, torch.vmap(lambda a: a)(x) is x

    x = torch.randn(2, 3)
    result = fs.compile(function, fullgraph=True)(x)
    assert torch.equal(result[0], x + 1) and result[1]
