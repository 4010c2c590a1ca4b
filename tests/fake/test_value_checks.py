"""Functions that C++ takes apart while it looks at values: what runs in their place, against eager."""

from __future__ import annotations

import itertools

import pytest
import torch

import firesteel as fs
from firesteel.fake.packed_sequences import pack
from firesteel.fake.value_checks import corrcoef, cov, ctc_loss, istft


@pytest.mark.parametrize(("center", "normalized", "length"), [
    *itertools.product([True, False], [True, False], [None, 50])])
def test_istft(center, normalized, length):
    for shape, n_fft, hop, width, onesided, complex_result in (
            ((2, 9, 20), 16, None, None, None, False), ((9, 20), 16, 4, 16, True, False),
            ((16, 20), 16, 3, 12, False, False), ((2, 16, 20), 16, 4, 10, False, True)):
        x = torch.randn(shape, dtype=torch.complex64)
        window = torch.rand(width) + 0.5 if width else None
        options = center, normalized, onesided, length, complex_result
        try:
            expected = torch.istft(x, n_fft, hop, width, window, *options)
        except RuntimeError as error:
            assert not center and width != n_fft
            with pytest.raises(RuntimeError) as raised:
                istft(x, n_fft, hop, width, window, *options)
            assert str(raised.value) == str(error)
            continue
        result = istft(x, n_fft, hop, width, window, *options)
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result, expected)


def test_istft_of_windows_with_gaps_says_what_eager_says():
    def signal(x, window):
        return torch.istft(x, 8, 8, window=window)

    for shape in ((5, 6), (5, 6), (5, 9)):
        arguments = torch.randn(shape, dtype=torch.complex64), torch.hann_window(8)
        with pytest.raises(RuntimeError, match="window overlap add min: 1") as plain:
            signal(*arguments)
        with pytest.raises(RuntimeError) as compiled:
            fs.compile(signal, fullgraph=True)(*arguments)
        assert str(compiled.value) == str(plain.value)
    with pytest.raises(RuntimeError, match="expected 0 < hop_length"):
        istft(arguments[0], 8, 8, 4)


def test_covariances():
    for x in (torch.randn(3, 7), torch.randn(7, 3).t(), torch.randn(5), torch.randn(1, 5), torch.arange(6).view(2, 3),
              torch.randn(3, 4, dtype=torch.complex64)):
        torch.testing.assert_close(cov(x), torch.cov(x))
        torch.testing.assert_close(cov(x, correction=0), torch.cov(x, correction=0))
        torch.testing.assert_close(corrcoef(x), torch.corrcoef(x))
    weights = torch.tensor([1, 2, 1])
    torch.testing.assert_close(cov(torch.ones(2, 3), fweights=weights), torch.cov(torch.ones(2, 3), fweights=weights))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_over_sequences(reduction):
    scores, targets = torch.randn(6, 2, 5).log_softmax(-1), torch.randint(1, 5, (2, 3))
    expected = torch.nn.functional.ctc_loss(scores, targets, (6, 5), (3, 2), reduction=reduction)
    for lengths in (((6, 5), (3, 2)), (torch.tensor([6, 5]), torch.tensor([3, 2]))):
        assert torch.equal(ctc_loss(scores, targets, *lengths, reduction=reduction), expected)


@pytest.mark.parametrize("batch_first", [True, False])
def test_packing(batch_first):
    x = torch.randn(3, 5, 2) if batch_first else torch.randn(5, 3, 2)
    for lengths in ([5, 3, 2], [4, 4, 1], [6, 2, 1]):
        result = pack(x, torch.tensor(lengths), batch_first)
        for ours, theirs in zip(result, torch._pack_padded_sequence(x, torch.tensor(lengths), batch_first)):
            assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()
    for wrong in ([5, 3], [2, 3, 5], [3, 2, 0], [[3, 2, 1]]):
        with pytest.raises(RuntimeError) as expected:
            torch._pack_padded_sequence(x, torch.tensor(wrong), batch_first)
        with pytest.raises(RuntimeError) as raised:
            pack(x, torch.tensor(wrong), batch_first)
        assert str(raised.value) == str(expected.value)
