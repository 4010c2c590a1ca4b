"""Functions that stand in for operators: equal to them in values and layout."""

import pytest
import torch

import firesteel as fs
from firesteel.kernels.host import extern_calls
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int8, torch.bool, torch.complex64])
def test_what_long_masks_choose(dtype):
    """Places in a mask and elements at them, for all kinds of masks; short ones and other layouts go to ATen."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 100, (70, 80, 3), generator=generator).to(dtype)
    for size in ((70,), (70, 80), (70, 80, 3)):
        for share in (0.0, 0.3, 1.0):
            mask = torch.rand(size, generator=generator) < share
            for given in (x, x.transpose(1, 2).contiguous().transpose(1, 2), x[:, :, :1].expand(70, 80, 3)):
                expected = given[mask]
                actual = extern_calls.index(given, [mask])
                assert torch.equal(actual, expected) and actual.stride() == expected.stride()
    flat, mask = x.reshape(-1), torch.rand(70 * 80 * 3, generator=generator) < 0.5
    assert torch.equal(extern_calls.index(flat, [mask]), flat[mask])
    assert torch.equal(extern_calls.index(flat[::2], [mask[::2]]), flat[::2][mask[::2]])
    assert torch.equal(fs.compile(lambda x, m: x[m], backend="native")(flat, mask), flat[mask])
    with pytest.raises(IndexError):
        extern_calls.index(flat[1:], [mask])
