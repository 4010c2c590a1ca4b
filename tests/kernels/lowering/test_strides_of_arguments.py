"""Calls of operators without a lowering get views with eager's strides, those of dimensions of size 1 included."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs

SEEN: list[tuple[object, ...]] = []


@torch.library.custom_op("firesteel_tests::strides_seen", mutates_args=())
def strides_seen(q: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
    SEEN.append(tuple((t.stride(), t.storage_offset()) for t in (q, *others)))
    return q.clone(memory_format=torch.contiguous_format)


@strides_seen.register_fake
def _(q, others):
    return torch.empty_like(q, memory_format=torch.contiguous_format)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(2, 5), (1, 5), (5, 1), (1, 1)])
def test_views_of_a_product(shape, dynamic):
    def program(x, w):
        q, k, v = (x @ w).view(*x.shape[:2], 3, 4, 2).permute(2, 0, 3, 1, 4)
        return strides_seen(q, [k, v]) + 1

    x, w = torch.randn(*shape, 6), torch.randn(6, 24)
    compiled = fs.compile(program, dynamic=dynamic, fullgraph=True)
    with torch.no_grad():
        SEEN.clear()
        torch.testing.assert_close(compiled(x, w), program(x, w))
    assert SEEN[0] == SEEN[1]
