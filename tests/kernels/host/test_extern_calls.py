"""Functions that stand in for operators: equal to them in values and layout."""

import pytest
import torch

from firesteel.kernels.host.extern_calls import nonzero


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0, 1e-3])
@pytest.mark.parametrize("count", [10, 5000])
def test_nonzero(count, share):
    torch.manual_seed(0)
    x = torch.rand(count) < share
    for given in (x, x[::2], x.float(), x.reshape(-1, 5)):
        ours, theirs = nonzero(given), torch.nonzero(given)
        assert torch.equal(ours, theirs) and ours.stride() == theirs.stride() and ours.dtype is theirs.dtype
        assert ours.storage_offset() == 0
