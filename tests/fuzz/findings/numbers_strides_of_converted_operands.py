# Eager copies operands of another dtype on the CPU, which gives those that were expanded or sliced other strides.
import torch


def make():
    def fn(x, y, z):
        return torch.xlogy(x, y), torch.isinf(z.t()), torch.where(y > 2, x, y * 1.5)

    x = torch.tensor([255, 3, 7, 100], dtype=torch.uint8).expand(3, 4)
    y = torch.arange(12, dtype=torch.uint8).reshape(4, 3).t()
    z = torch.ones(3, dtype=torch.complex64).expand(1, 3)
    return fn, [((x, y, z), {})], lambda index: None, lambda: {}
