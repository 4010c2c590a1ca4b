"""Masks that hold no data: what becomes of them in traced graphs, and that results stay those of eager."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel import torch_compat
from firesteel.fake.tensor import new_fake
from firesteel.functional import trace
from firesteel.torch_compat import own_functions

Made = Callable[..., torch.Tensor]
SHAPE = (2, 4, 8, 16)


def causal(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    rows, columns = q.size(-2), k.size(-2)
    return torch.arange(columns, device=q.device) <= torch.arange(rows, device=q.device)[:, None]


def causal_by_batch(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The way of a library that also knows packed sequences."""
    positions = torch.arange(q.size(-2), device=q.device).expand(q.size(0), -1)
    packed = (torch.diff(positions, prepend=positions[:, :1] - 1) != 1).cumsum(-1)
    batch = torch.arange(q.size(0), device=q.device)[:, None, None, None]
    rows, columns = torch.arange(q.size(-2))[None, None, :, None], torch.arange(q.size(-2))[None, None, None]
    return (columns <= rows) & (packed[batch, rows] == packed[batch, columns])


def causal_bias(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.full((q.size(-2), k.size(-2)), -torch.inf, dtype=q.dtype).triu_(1)


def nothing_hidden(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return (torch.arange(q.size(-2))[:, None] >= 0).expand(q.size(0), 1, q.size(-2), k.size(-2))


def no_bias(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.zeros(1, k.size(-2), dtype=q.dtype)


def written_in_place(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(q.size(-2), k.size(-2), dtype=torch.bool)
    for row in range(q.size(-2)):
        mask[row, :row + 1] = True
    return mask


def window(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    distance = torch.arange(q.size(-2))[:, None] - torch.arange(k.size(-2))
    return (distance >= 0) & (distance < 3)


def large_bias(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Not what ``is_causal`` means: infinite scores would count."""
    return torch.full((q.size(-2), k.size(-2)), torch.finfo(q.dtype).min, dtype=q.dtype).triu_(1)


def no_future(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return ~torch.ones(q.size(-2), q.size(-2), dtype=torch.bool).triu(1)


def from_data(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return causal(q, k) & (q[..., :1] < 100)


def last_aligned(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    rows, columns = q.size(-2), k.size(-2)
    return torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)


def row_hidden(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    mask = causal(q, k).clone()
    mask[2] = False
    return mask


def function(make: Made, **kwargs: Any) -> Callable[..., torch.Tensor]:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=make(q, k), **kwargs)

    return attend


def inputs(rows: int = 8, columns: int = 8, dtype: torch.dtype = torch.float32, grad: bool = False,
           heads: int = 4) -> list[torch.Tensor]:
    torch.manual_seed(rows + columns)
    return [torch.randn(2, heads, size, 16, dtype=dtype, requires_grad=grad) for size in (rows, columns, columns)]


def graph_of(attend: Callable[..., Any], given: list[torch.Tensor]) -> str:
    module = fs.capture_graph(attend)(*given).graph_module
    by_name = dict(zip("qkv", given, strict=True))
    return str(trace(module, [by_name[node.name] for node in module.graph.nodes if node.op == "placeholder"]))


def check(attend: Callable[..., torch.Tensor], given: list[torch.Tensor]) -> None:
    compiled = fs.compile(attend, fullgraph=True)
    expected = attend(*given)
    torch.testing.assert_close(compiled(*given), expected)
    exact = attend(*[each.detach().double() for each in given]) if given[0].dtype is torch.float32 else None
    if exact is not None:
        assert (compiled(*given) - exact).abs().max() <= 2 * (expected - exact).abs().max() + 1e-9
    leaves = [each.detach().clone().requires_grad_() for each in given]
    others = [each.detach().clone().requires_grad_() for each in given]
    weight = torch.randn_like(expected)
    (compiled(*leaves) * weight).sum().backward()
    (attend(*others) * weight).sum().backward()
    for one, other in zip(leaves, others, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("make", [causal, causal_by_batch, causal_bias, written_in_place], ids=lambda f: f.__name__)
def test_masks_that_hide_the_future(make: Made) -> None:
    attend = function(make)
    text = graph_of(attend, inputs())
    assert "0.0, True" in text and "attn_mask" not in text
    assert len(text.splitlines()) == 4, text  # inputs, the call, its first result, the result
    check(attend, inputs())


@pytest.mark.parametrize("make", [nothing_hidden, no_bias], ids=lambda f: f.__name__)
@pytest.mark.parametrize("columns", [8, 5])
def test_masks_that_hide_nothing(make: Made, columns: int) -> None:
    attend = function(make)
    text = graph_of(attend, inputs(columns=columns))
    assert "attn_mask" not in text and "True" not in text and len(text.splitlines()) == 4, text
    check(attend, inputs(columns=columns))


@pytest.mark.parametrize("make", [window, large_bias, from_data, row_hidden], ids=lambda f: f.__name__)
def test_other_masks_stay(make: Made) -> None:
    attend = function(make)
    assert "attn_mask" in graph_of(attend, inputs())
    if make is row_hidden:
        torch.testing.assert_close(fs.compile(attend)(*inputs()), attend(*inputs()), equal_nan=True)
    else:
        check(attend, inputs())


@pytest.mark.parametrize(("rows", "columns"), [(3, 8), (8, 3), (1, 8)])
def test_causal_means_from_the_first_row_on(rows: int, columns: int) -> None:
    """Where there are more columns than rows, the mask that ends in the last corner is another one."""
    given = inputs(rows, columns)
    assert ("attn_mask" in graph_of(function(last_aligned), given)) == (rows > 1)
    assert "attn_mask" not in graph_of(function(causal), given)
    for make in (last_aligned, causal) if rows <= columns else (causal,):
        check(function(make), given)


def test_options_are_kept() -> None:
    grouped = [torch.randn(2, heads, 8, 16) for heads in (4, 2, 2)]
    attend = function(causal, scale=0.5, enable_gqa=True)
    assert "attn_mask" not in graph_of(attend, grouped)
    check(attend, grouped)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtypes(dtype: torch.dtype) -> None:
    for make in (causal, causal_bias, nothing_hidden):
        check(function(make), inputs(dtype=dtype))


def test_random_numbers_are_those_of_the_masked_kernel() -> None:
    attend, given = function(causal, dropout_p=0.5), inputs()
    compiled = fs.compile(attend)
    torch.manual_seed(1)
    expected = attend(*given)
    torch.manual_seed(1)
    torch.testing.assert_close(compiled(*given), expected)


@pytest.mark.parametrize("kernels", [(3, 3), (2, 1)], ids=["same kernel", "another kernel"])
def test_dropout_on_a_gpu(monkeypatch: pytest.MonkeyPatch, kernels: tuple[int, int]) -> None:
    """The mask goes where the kernel stays the same. Nothing runs: torch is asked about tensors of the same kind."""
    module = torch.fx.symbolic_trace(lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, q.new_ones((8, 8), dtype=torch.bool), 0.5))
    real, asked, called = torch.empty_strided, [], []
    monkeypatch.setattr(torch, "empty_strided", lambda *args, device, **kwargs: real(*args, **kwargs))
    monkeypatch.setattr(torch_compat, "attention_kernel",
                        lambda q, k, v, mask, *_: asked.append(type(q)) or kernels[mask is None])
    monkeypatch.setattr(own_functions, "scaled_dot_product_attention",
                        lambda q, *args, **kwargs: called.append(args[2:5]) or q * 2)
    trace(module, [new_fake(SHAPE, None, torch.bfloat16, torch.device("cuda", 0)) for _ in range(3)])
    assert asked == [torch.Tensor] * 2 and len(called) == 1
    mask, dropout, is_causal = called[0]
    assert (mask is None) == (kernels[0] == kernels[1]) and dropout == 0.5 and is_causal is False


def test_a_mask_that_the_program_returns_is_still_made() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask = causal_by_batch(q, k)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask), mask

    result, mask = fs.compile(attend)(*inputs())
    expected, expected_mask = attend(*inputs())
    torch.testing.assert_close(result, expected)
    assert torch.equal(mask, expected_mask) and mask.stride() == expected_mask.stride()


def test_a_mask_that_is_changed_between_two_uses() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = causal_bias(q, k)
        first = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        mask.mul_(0).nan_to_num_(0)
        mask[:, 3] = 1.5
        return first + F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    text = graph_of(attend, inputs())
    assert text.count("attn_mask") == 1 and text.count("0.0, True") == 1
    torch.testing.assert_close(fs.compile(attend)(*inputs()), attend(*inputs()))


def test_a_mask_with_gradients_stays() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        bias = torch.zeros(8, 8, requires_grad=True)
        result = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return torch.autograd.grad(result.sum(), bias)[0]

    given = inputs(grad=True)
    torch.testing.assert_close(fs.compile(attend)(*given), attend(*given), atol=1e-6, rtol=1e-4)


def test_masks_too_large_to_look_at_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    from firesteel.functional import attention_masks

    monkeypatch.setattr(attention_masks, "MOST_ELEMENTS", 63)
    assert "attn_mask" in graph_of(function(causal_bias), inputs())
    assert "attn_mask" not in graph_of(function(causal), inputs())  # known without looking


@pytest.mark.parametrize("make", [causal, causal_by_batch, no_future, nothing_hidden, window],
                         ids=lambda f: f.__name__)
def test_symbolic_sizes(make: Made) -> None:
    attend, graphs = function(make), []

    def backend(module: torch.fx.GraphModule, examples: Any) -> Any:
        graphs.append(str(trace(module, examples)))
        return module.forward

    given = inputs(9, 9)
    fs.compile(attend, dynamic=True, backend=backend)(*given)
    assert len(graphs) == 1 and ("attn_mask" in graphs[0]) == (make is window)
    assert make is window or "arange" not in graphs[0]
    compiled = fs.compile(attend, dynamic=True)
    for rows in (8, 9, 12):
        given = inputs(rows, rows)
        torch.testing.assert_close(compiled(*given), attend(*given))


def test_under_vmap() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(function(causal))(q, k, v)

    given = [torch.randn(3, *SHAPE) for _ in range(3)]
    torch.testing.assert_close(fs.compile(attend)(*given), attend(*given))


def test_wrong_masks_raise_what_eager_raises() -> None:
    for wrong in (lambda q, k: torch.ones(7, 8, dtype=torch.bool), lambda q, k: torch.zeros(8, 8, dtype=torch.float64)):
        with pytest.raises(RuntimeError):
            function(wrong)(*inputs())
        with pytest.raises(RuntimeError):
            fs.compile(function(wrong))(*inputs())


def test_both_at_once() -> None:
    attend = function(window, is_causal=True)
    try:
        attend(*inputs())
    except RuntimeError as refused:  # since torch 2.14
        with pytest.raises(RuntimeError, match=re.escape(str(refused).splitlines()[0])):
            fs.compile(attend)(*inputs())
        return
    check(attend, inputs())


def test_exported_graphs_keep_their_masks() -> None:
    class Module(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return function(causal)(q, k, v)

    program = fs.export.export(Module(), tuple(inputs()))
    assert "aten.le" in str(program.graph) or "le_tensor" in str(program.graph)
    torch.testing.assert_close(program.module()(*inputs()), Module()(*inputs()))
