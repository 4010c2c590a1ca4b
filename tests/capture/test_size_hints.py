"""What programs say of sizes and numbers that data decides: hints, ranges, and flags of operators."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import (
    guard_or_false,
    guard_or_true,
    guard_size_oblivious,
    statically_known_true,
)

import firesteel as fs

MASKS = ([1, 0, 1, 0], [1, 1, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0])


def or_false(x, mask):
    chosen = x[mask]
    if guard_or_false(chosen.shape[0] == 0):
        return x * 0
    return chosen * 2 if guard_or_true(chosen.shape[0] > 0) else x + 1


def oblivious(x, mask):
    chosen = x[mask]
    return x * 3 if guard_size_oblivious(chosen.shape[0] == 1) else chosen


def known(x, mask):
    return x[mask] + statically_known_true(x.shape[0] == 4) + 2 * guard_or_false(x.shape[0] > 2)


def at_least_one(x, mask):
    places = mask.nonzero()
    torch._check(places.size(0) > 0)
    return places.float().mean(0) if places.shape[0] > 0 else x


@pytest.mark.parametrize("function", [or_false, oblivious, known, at_least_one], ids=lambda f: f.__name__)
def test_hints(function):
    compiled = fs.compile(function, fullgraph=True)
    for mask in MASKS:
        arguments = torch.arange(4.0), torch.tensor(mask).bool()
        outcomes = []
        for run in (function, compiled):
            try:
                outcomes.append(run(*arguments))
            except RuntimeError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1] if isinstance(outcomes[0], str) else torch.equal(*outcomes), mask


@pytest.mark.parametrize("constrain", [torch.sym_constrain_range_for_size, torch.sym_constrain_range])
def test_ranges(constrain):
    def function(x, n):
        count = n.item()
        constrain(count, min=0, max=4)
        return x[:count]

    compiled = fs.compile(function, fullgraph=True)
    for count in (2, 0, 4):
        assert torch.equal(compiled(torch.arange(6), torch.tensor(count)), torch.arange(count))
    for count in (5, -1):
        with pytest.raises(RuntimeError, match="Invalid value range") as plain:
            function(torch.arange(6), torch.tensor(count))
        with pytest.raises(RuntimeError) as raised:
            compiled(torch.arange(6), torch.tensor(count))
        assert str(raised.value) == str(plain.value)


def test_a_flag_of_attention_that_data_decides():
    def function(q, mask):
        q = q[:, :, mask]
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=q.shape[2] > 1)

    compiled = fs.compile(function, fullgraph=True)
    for mask in MASKS[:3]:
        q, chosen = torch.randn(1, 2, 4, 8), torch.tensor(mask).bool()
        torch.testing.assert_close(compiled(q, chosen), function(q, chosen))


def test_a_number_is_copied_into_a_tensor():
    def function(x, n):
        return torch.empty(2).copy_(2), torch.empty(2, dtype=torch.int64).copy_(2.5), x.clone().copy_(n.item())

    x, n = torch.zeros(3), torch.tensor(4)
    torch.testing.assert_close(fs.compile(function, fullgraph=True)(x, n), function(x, n))
