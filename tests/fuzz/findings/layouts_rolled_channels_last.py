"""What is rolled on the CPU keeps its memory format, and a copy filled by a tensor the order of its dimensions."""

import torch


def make():
    def fn(x, y):
        rolled = x.roll(1, 2)
        whole = x.roll(x.shape[3], 3)
        filled = y.t().index_fill(0, torch.tensor([1]), torch.tensor(1.0))
        return rolled, rolled.permute(0, 2, 3, 1).view(-1, 3), whole, x.roll((1, -2), (2, 3)), x.roll(3), filled

    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    calls = [((image, torch.randn(5, 9)[:, ::2]), {}), ((torch.randn(2, 3, 4, 4), torch.randn(5, 9)), {})]
    return fn, calls, lambda index: None, lambda: None
