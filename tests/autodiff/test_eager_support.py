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
