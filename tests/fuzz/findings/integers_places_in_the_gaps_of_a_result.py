"""Places between the elements of what ``slice_scatter`` returns, which eager copies too, held what was in memory."""

import torch


def make():
    def fn(x, m):
        return torch.slice_scatter(x, x[m:] + 1, 0, m).as_strided((4,), (2,))

    base = torch.arange(144).reshape(12, 12)
    calls = [((base[at : at + 4, 1:3], m), {}) for at, m in ((2, 3), (2, -6), (4, 2), (3, -4))]
    return fn, calls, lambda index: None, lambda: {"base": base}
