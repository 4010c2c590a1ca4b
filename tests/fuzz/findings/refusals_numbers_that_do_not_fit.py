# Numbers that eager refuses for the dtype, in operators of several elements: kernels computed with infinity.
import torch


def make():
    def fn(x, y, z, kind):
        if kind == "outer":
            return torch.addr(z, x, y, beta=1e300)
        if kind == "rows":
            return z.index_add(0, torch.tensor([0, 1, 2]), z, alpha=1e300)
        return torch.addcmul(z, z, z, value=1j)

    operands = torch.rand(3), torch.rand(4), torch.rand(3, 4)
    calls = [((*operands, kind), {}) for kind in ("outer", "rows", "complex")]
    return fn, calls, lambda index: None, lambda: {}
