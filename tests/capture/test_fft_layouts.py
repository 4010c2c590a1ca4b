"""Fourier transforms of tensors and arrays that are not contiguous: part of the graph, laid out as the kernels do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import firesteel as fs

from .test_numpy import difference

PROGRAMS = {
    "rfft": lambda x: torch.fft.rfft(x),
    "rfft of the first": lambda x: torch.fft.rfft(x, dim=0),
    "fft": lambda x: torch.fft.fft(x, dim=1),
    "fft2": lambda x: torch.fft.fft2(x),
    "rfft2": lambda x: torch.fft.rfft2(x),
    "rfftn": lambda x: torch.fft.rfftn(x),
    "irfft": lambda x: torch.fft.irfft(x * (1 + 1j)),
    "irfft of the first": lambda x: torch.fft.irfft(x * (1 + 1j), dim=0),
    "irfft2": lambda x: torch.fft.irfft2(torch.complex(x, -x)),
    "hfft": lambda x: torch.fft.hfft(torch.complex(x, x)),
    "of a column": lambda x: torch.fft.fft(x[..., 0].reshape(-1)[::2]),
    "filtered": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=x.shape[-1]) + x,
}
TENSORS = {
    "rows": lambda x: x,
    "columns": lambda x: x.T.contiguous().T,
    "transposed": lambda x: x.T,
    "every second": lambda x: x[::2],
    "every second column": lambda x: x[:, ::2],
    "expanded": lambda x: x[:1].expand(5, 6),
    "three": lambda x: x.reshape(2, 4, 6).transpose(0, 2),
    "three with gaps": lambda x: x.reshape(2, 4, 6).permute(1, 2, 0)[::2],
}


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("layout", TENSORS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_torch(name, layout, backend):
    def program(x):
        return PROGRAMS[name](TENSORS[layout](x))

    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    plain = program(x)
    ours = fs.compile(program, fullgraph=True, backend=backend)(x)
    torch.testing.assert_close(ours, plain)
    assert ours.stride() == plain.stride()


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "fft2", "rfft2", "irfft2"])
def test_numpy(name):
    transform = getattr(np.fft, name)

    def program(x):
        return [transform(one) for one in (x.T, x[::2], x[:, ::2], np.asfortranarray(x))]

    x = np.random.default_rng(0).standard_normal((8, 6))
    assert not difference(program(x), fs.compile(program, fullgraph=True)(x))


@pytest.mark.parametrize("program", [lambda x: torch.fft.rfft(x[:, 0]), lambda x: torch.fft.irfft(x.T * 1j)])
def test_sizes_that_change(program):
    compiled = fs.compile(program)
    for rows in range(3, 7):
        x = torch.randn(rows, 4)
        plain, ours = program(x), compiled(x)
        torch.testing.assert_close(ours, plain)
        assert ours.stride() == plain.stride()
