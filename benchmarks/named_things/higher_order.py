"""Higher-order operators."""

import torch
from torch import nn
from torch._higher_order_ops import associative_scan, hints_wrapper, scan, while_loop
from torch._higher_order_ops import map as map_

from .registry import leaf, rand, thing


@torch.compiler.nested_compile_region
def region(x):
    return (x.sin() * 2).relu()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    @torch.compiler.nested_compile_region
    def forward(self, x):
        return self.linear(x).relu()


def flex(seed=0, length=16, grad=False):
    return tuple(rand(1, 2, length, 16, seed=seed + i, grad=grad) for i in range(3))


@thing(leaf, train=True)
def nested_region(x):
    return region(region(x))


@thing(lambda: (rand(), nn.Sequential(Layer(), Layer())), train=True)
def nested_regions_of_modules(x, m):
    return m(x)


@thing(flex)
def flex_attention_plain(q, k, v):
    from torch.nn.attention.flex_attention import flex_attention
    return flex_attention(q, k, v)


@thing(flex)
def flex_attention_with_scores(q, k, v):
    from torch.nn.attention.flex_attention import flex_attention
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j))


@thing(lambda: flex(length=128))
def flex_attention_with_a_block_mask(q, k, v):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")
    return flex_attention(q, k, v, block_mask=mask)


def masked_flex():
    from torch.nn.attention.flex_attention import create_block_mask
    return (*flex(length=128), create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu"))


@thing(masked_flex)
def flex_attention_with_a_mask_from_outside(q, k, v, mask):
    from torch.nn.attention.flex_attention import flex_attention
    return flex_attention(q, k, v, block_mask=mask, enable_gqa=False)


@thing(lambda: flex(length=128))
def flex_attention_with_the_sums(q, k, v):
    from torch.nn.attention.flex_attention import flex_attention
    return flex_attention(q, k, v, return_lse=True)


@thing()
def hinted(x):
    return hints_wrapper(lambda a, b: a * b, (x, x), {}, hints={"nothing": True})


@thing()
def a_conditional(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))


@thing(again=lambda: (-rand(),))
def a_conditional_of_numbers(x):
    n = torch.cond(x.sum() > 0, lambda a: 3, lambda a: 4, (x,))
    return x * n


@thing(leaf, train=True)
def gradients_of_a_conditional(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))


@thing()
def a_while_loop(x):
    return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x))


@thing()
def a_scan(x):
    return scan(lambda c, v: (c + v, c * v), x[0], x)


@thing()
def an_associative_scan(x):
    return associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")


@thing()
def a_map(x):
    return map_(lambda v: v.sin() * 2, x)


@thing()
def a_switch(x):
    return torch._higher_order_ops.out_dtype(torch.ops.aten.mm.default, torch.int32, x.to(torch.int8), x.T.to(torch.int8))
