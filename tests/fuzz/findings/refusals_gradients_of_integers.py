# Values with a gradient written into integers, where compiling what follows failed in other words than eager.
import torch


def make():
    def fn(y, mask, values):
        y = y * 1
        y[mask] = values
        return y * 2

    values = torch.ones(1, dtype=torch.float16, requires_grad=True)
    calls = [((torch.ones(2, dtype=torch.uint8), torch.tensor([True, False]), values), {})]
    return fn, calls, lambda index: None, lambda: {}
