"""Checkpoints with a policy of what to keep, in one graph."""

from __future__ import annotations

import contextlib
import functools

import pytest
import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import firesteel as fs


def _policy(ctx, operator, *args, **kwargs):
    products = operator is torch.ops.aten.mm.default
    return CheckpointPolicy.MUST_SAVE if products else CheckpointPolicy.PREFER_RECOMPUTE


CONTEXTS = {
    "function": functools.partial(create_selective_checkpoint_contexts, _policy),
    "list": lambda: create_selective_checkpoint_contexts([torch.ops.aten.mm.default]),
}


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("kind", CONTEXTS)
def test_gradients(kind, backend):
    def function(x):
        return checkpoint(lambda a: (a.sin() @ a.t()).cos() + torch.nn.functional.dropout(a @ a.t(), 0.5), x,
                          use_reentrant=False, context_fn=CONTEXTS[kind])

    compiled = fs.compile(function, fullgraph=True, backend=backend)
    for number in range(2):
        seen = []
        for run in (function, compiled):
            torch.manual_seed(number)
            x = torch.linspace(-1, 1, 6).view(2, 3).requires_grad_()
            result = run(x)
            result.sum().backward()
            seen.append((result, x.grad))
        torch.testing.assert_close(seen[1], seen[0])


def test_contexts_of_the_programs_own_break():
    def function(x):
        return checkpoint(torch.sin, x, use_reentrant=False,
                          context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext()))

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(fs.errors.GraphBreakError, match="contexts of the program's own"):
        fs.compile(function, fullgraph=True)(x)
    torch.testing.assert_close(fs.compile(function)(x), function(x))
