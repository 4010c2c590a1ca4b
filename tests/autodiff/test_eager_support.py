"""What eager refuses is refused, whatever sizes the question is asked for."""

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.functional import eager_support


@pytest.mark.parametrize("sizes", [(65, 6), (3, 40, 40)])
@pytest.mark.parametrize("wrong_first", [False, True])
def test_padding_wider_than_images_that_stand_in(monkeypatch, sizes, wrong_first):
    def pad(x):
        return F.pad(x, (12, 9, 10, 11) if x.ndim == 3 else (4, 1), mode="reflect")

    monkeypatch.setattr(eager_support, "_known", {})
    compiled = fs.compile(pad, dynamic=True)
    if wrong_first:  # an answer that is about sizes is not remembered
        with pytest.raises(RuntimeError, match="Padding size"):
            compiled(torch.ones([3] * len(sizes), dtype=torch.bool))
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        compiled(torch.ones(sizes, dtype=torch.bool))


def test_steps_in_one_kernel_are_not_tried_on_made_up_tensors(monkeypatch):
    """They read as much of each state as the parameter has elements, whatever there is."""
    tried = []
    ask = eager_support._error
    monkeypatch.setattr(eager_support, "_known", {})
    monkeypatch.setattr(eager_support, "_error", lambda func, *given: (tried.append(str(func)), ask(func, *given))[1])
    parameter, twin = (torch.nn.Parameter(torch.ones(9, dtype=torch.float64)) for _ in range(2))
    optimizers = [torch.optim.AdamW([each], lr=0.01, fused=True) for each in (parameter, twin)]
    steps = [optimizer.step for optimizer in optimizers]
    steps[0] = fs.compile(steps[0], tier="wait", dynamic=True)
    for _ in range(3):
        for step, each in zip(steps, (parameter, twin), strict=True):
            each.grad = torch.full((9,), 0.5, dtype=torch.float64)
            step()
    assert torch.equal(parameter, twin) and not [name for name in tried if "fused" in name]
