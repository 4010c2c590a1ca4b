"""Sizes, branches and texts that depend on data."""

import torch
import torch.nn.functional as F
from torch import nn

from .registry import rand, thing


def with_bounds():
    return rand(), torch.tensor(1), torch.tensor(3)


def with_other_bounds():
    return rand(), torch.tensor(0), torch.tensor(2)


def both(function):
    return thing(with_bounds, again=with_other_bounds)(function)


@both
def a_slice_by_numbers(x, a, b):
    return x[a.item():b.item()]


@both
def a_slice_by_tensors(x, a, b):
    return x[a:b] * 2


@both
def a_slice_from_a_tensor(x, a, b):
    return x[a:], x[:b]


@both
def a_maximum(x, a, b):
    n = max(b.item(), 1024)
    return torch.zeros(n).sum() + x


@both
def a_minimum(x, a, b):
    return x[:min(b.item(), 128)] * 2


@both
def a_tensor_of_a_number(x, a, b):
    return torch.tensor([b.item()]) + x[0, 0], torch.tensor(a.item())


@both
def expanded(x, a, b):
    return x[0, :1].expand(b.item()) * 2


@both
def a_truth_as_result(x, a, b):
    return bool((x > 0).any()), x + 1


@both
def arithmetic(x, a, b):
    return x * (a.item() + 1) / b.item(), a.item() * 2


@both
def a_new_tensor_of_a_size(x, a, b):
    return torch.zeros(b.item(), 3) + 1, torch.arange(b.item()), x.new_ones(b.item())


@both
def repeated(x, a, b):
    return x[0].repeat(b.item()), x.repeat_interleave(b.item(), 0), x[0].repeat_interleave(torch.tensor([1, 2, 0, 1, 2, 1]))


@both
def an_index(x, a, b):
    return x[a], x[a.item()], x.select(0, b.item())


@both
def narrowed(x, a, b):
    return x.narrow(0, a.item(), 1), torch.narrow(x, 0, a, 1)


@both
def split_sizes(x, a, b):
    return x.split([b.item(), 4 - b.item()])


@both
def viewed(x, a, b):
    n = b.item()
    return torch.ones(n * 2).view(n, 2).sum(1)


@both
def a_size_of_zero(x, a, b):
    y = x[x > 100]
    if y.numel() == 0:
        return x + 1
    return y


@thing(again=lambda: (-rand(),))
def masked(x):
    return x[x > 0] * 2, (x > 0).nonzero(), x.masked_select(x > 0).sum()


@thing(again=lambda: (-rand(),))
def continued_when_empty(x):
    out = x.clone()
    for i in range(3):
        y = x[x > i]
        if y.numel() == 0:
            continue
        out = out + y.sum()
    return out


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.gate = nn.Linear(6, 3)
        self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))


class ByWhere(Experts):
    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, which = torch.where(chosen == i)
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, which, None])
        return out


class SkippingEmpty(Experts):
    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(1, -1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, _ = torch.where(chosen == i)
            if rows.numel() == 0:
                continue
            out[rows] += expert(x[rows]) * weights[rows]
        return out


class ByHits(Experts):
    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(1, -1)
        out = torch.zeros_like(x)
        mask = F.one_hot(chosen, 3).permute(2, 1, 0)
        for hit in mask.sum((-1, -2)).nonzero():
            where, rows = torch.where(mask[hit].squeeze(0))
            out.index_add_(0, rows, x[rows] * weights[rows, where, None])
        return out


class BySorting(Experts):
    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).max(-1)
        order = chosen.argsort(stable=True)
        counts = torch.bincount(chosen, minlength=3).tolist()
        parts = [expert(part) for expert, part in zip(self.experts, x[order].split(counts), strict=True)]
        return torch.cat(parts)[order.argsort()] * weights[:, None]


@thing(lambda: (rand(), ByWhere()), train=True, again=lambda: (rand(seed=3), ByWhere()))
def experts_by_where(x, m):
    return m(x)


@thing(lambda: (rand(), SkippingEmpty()), train=True, again=lambda: (rand(seed=3), SkippingEmpty()))
def experts_that_skip_the_empty(x, m):
    return m(x)


@thing(lambda: (rand(), ByHits()), train=True, again=lambda: (rand(seed=3), ByHits()))
def experts_by_hits(x, m):
    return m(x)


@thing(lambda: (rand(), BySorting()), train=True, again=lambda: (rand(seed=3), BySorting()))
def experts_by_sorting(x, m):
    return m(x)


@thing(again=lambda: (-rand(),))
def a_loop_over_what_was_found(x):
    out = x.clone()
    for e in (x > 0).any(1).nonzero():
        out[e] = out[e] + 1
    return out


@thing(lambda: (rand(1, 2, 4, 6), torch.tensor(3)))
def is_causal_by_size(q, n):
    q = q[:, :, :n.item()]
    return F.scaled_dot_product_attention(q, q, q, is_causal=q.shape[2] > 1)


@thing(lambda: (rand(), torch.tensor(3)), again=lambda: (rand(), torch.tensor(2)))
def text_for_an_error(x, n):
    if x.dim() != 2:
        raise ValueError(f"{n} is wrong")
    text = f"there are {n}"
    assert x.shape[0] > 1, text
    return x * n


@thing(lambda: (rand(), torch.tensor(3)), again=lambda: (rand(), torch.tensor(2)))
def text_as_a_result(x, n):
    return x * 2, f"{n.item()}"


@thing(lambda: (rand(), torch.tensor(3)), again=lambda: (rand(), torch.tensor(2)))
def text_of_a_tensor_as_a_result(x, n):
    return x * 2, f"{n}"


@thing()
def layerdrop(x):
    for _ in range(2):
        if torch.rand([]) < 0.0:
            continue
        x = x.sin()
    return x


@thing()
def layerdrop_of_a_sum(x):
    mask = x > 0
    return x + 1 if mask.sum() >= 0 else x


@thing()
def argmax_inside_of_its_dimension(x):
    i = x[0].argmax().item()
    return x[:, i] if i < 6 else x[0]


@thing()
def sigmoid_between_zero_and_one(x):
    s = x.mean().sigmoid()
    return x * 2 if s <= 1 else x


@thing(again=lambda: (-rand(),))
def a_small_branch_without_effects(x):
    return x * 2 if x.sum() > 0 else x.cos()


@thing(again=lambda: (-rand().abs(),))
def a_branch_on_any(x):
    if (x > 0).any():
        x = x + 1
    return x


@thing(again=lambda: (-rand(),))
def an_assertion(x):
    assert (x < 100).all(), f"too large: {x.max()}"
    return x + 1


@thing(lambda: (rand(), torch.tensor([3, 1])), again=lambda: (rand(), torch.tensor([2, 2])))
def lengths_as_a_list(x, n):
    a, b = n.tolist()
    return x[:a].sum() + b


@thing(lambda: (rand(3, 4, 6), torch.tensor([4, 2, 3])), again=lambda: (rand(3, 4, 6), torch.tensor([1, 2, 3])))
def padded_to_the_longest(x, lengths):
    n = lengths.max().item()
    return x[:, :n] * (torch.arange(n) < lengths[:, None])[..., None]


@thing(lambda: (rand(), torch.tensor(3)), again=lambda: (rand(), torch.tensor(2)))
def a_range_of_data(x, n):
    for _ in range(n.item()):
        x = x.sin()
    return x


@thing()
def newton_until_it_is_good(x):
    y = x.abs() + 1
    for _ in range(20):
        z = (y + 2 / y) / 2
        if (z - y).abs().max() < 1e-4:
            break
        y = z
    return y
