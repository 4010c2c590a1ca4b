"""Attention and the loss of language models on a GPU: results and gradients as in eager, memory below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def rand(*shape: int, grad: bool = True) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, requires_grad=grad)


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    places = torch.arange(q.size(-2), device=q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(places <= places[:, None]).expand(q.size(0), 1, -1, -1))


def unmasked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    mask = (torch.arange(q.size(-2), device=q.device)[:, None] >= 0).expand(-1, k.size(-2))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def first_columns(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Not square: the diagonal begins in the first corner."""
    mask = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=q.device).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def compare(compiled: Callable[..., Any], eager: Callable[..., Any], *given: torch.Tensor) -> None:
    def run(function: Callable[..., Any], dtype: torch.dtype) -> list[torch.Tensor]:
        inputs = [each.detach().to(dtype).requires_grad_() for each in given]
        result = function(*inputs)
        (result * weight.to(dtype)).sum().backward()
        return [result.detach(), *(each.grad for each in inputs)]  # type: ignore[misc]

    weight = torch.randn_like(given[0])
    found = zip(run(compiled, torch.bfloat16), run(eager, torch.bfloat16), run(eager, torch.float64), strict=True)
    for at, (ours, theirs, exact) in enumerate(found):
        assert ours.stride() == theirs.stride() and ours.dtype is theirs.dtype
        if at:  # sums of many, in an order that kernels choose anew
            torch.testing.assert_close(ours, theirs, atol=2e-2, rtol=2e-2)
        else:
            torch.testing.assert_close(ours, theirs)
        assert (ours - exact).norm() <= 2 * (theirs - exact).norm()


@pytest.mark.parametrize("f", [causal, unmasked, first_columns], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
def test_masks_without_data(f: Callable[..., Any], dynamic: bool) -> None:
    """A mask that shows everything is compared with none: only its strides keep eager from the same kernel."""
    torch.manual_seed(0)
    compiled = fs.compile(f, dynamic=dynamic)
    for rows in (128, 96) if dynamic else (128,):
        columns = rows + 32 if f is first_columns else rows
        compare(compiled, plain if f is unmasked else f, *[rand(2, 4, size, 64) for size in (rows, columns, columns)])


def test_a_causal_mask_costs_nothing() -> None:
    from torch.profiler import ProfilerActivity, profile

    given = [rand(2, 4, 128, 64, grad=False) for _ in range(3)]
    compiled = fs.compile(causal)
    compiled(*given)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        compiled(*given)
        torch.cuda.synchronize()
    kernels = [event for event in seen.key_averages() if event.self_device_time_total and "Memset" not in event.key]
    assert sum(event.count for event in kernels) == 1, [event.key for event in kernels]


def test_dropout_drops_what_eager_drops() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        places = torch.arange(q.size(-2), device=q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=places <= places[:, None], dropout_p=0.3)

    given = [rand(2, 4, 128, 64, grad=False) for _ in range(3)]
    results = []
    for function in (fs.compile(attend), attend):
        torch.manual_seed(5)
        results.append((function(*given), torch.cuda.get_rng_state()))
    torch.testing.assert_close(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


SHAPES = (8, 129, 256), (20011, 256)


def loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    logits = F.linear(hidden, weight)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())


def test_loss_of_a_language_model() -> None:
    """A vocabulary that is no multiple of 8: products are padded, and what is kept is the padded logits."""
    torch.manual_seed(0)
    labels = torch.randint(0, 20011, (8, 129), device="cuda")
    labels[2, 5:9] = -100

    def step(f: Callable[..., Any]) -> tuple[list[torch.Tensor], int]:
        torch.manual_seed(1)
        hidden, weight = [rand(*shape) for shape in SHAPES]
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = f(hidden, weight, labels)
        result.backward()
        return [result.detach(), hidden.grad, weight.grad], torch.cuda.max_memory_allocated() - before  # type: ignore[list-item]

    compiled = fs.compile(loss)
    step(compiled)
    (ours, peak), (eager, eager_peak) = step(compiled), step(loss)
    torch.manual_seed(1)
    exact_hidden, exact_weight = [rand(*shape).detach().double().requires_grad_() for shape in SHAPES]
    exact = loss(exact_hidden, exact_weight, labels)
    exact.backward()
    for one, other, reference in zip(ours, eager, (exact, exact_hidden.grad, exact_weight.grad), strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=2e-2)
        assert (one - reference).norm() <= 2 * (other - reference).norm()
    assert peak <= 0.6 * eager_peak, (peak, eager_peak)
