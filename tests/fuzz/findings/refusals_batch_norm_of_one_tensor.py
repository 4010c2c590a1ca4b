# One tensor was running mean, weight and bias of a batch norm at once: eager changes it before reading the others.
import torch
import torch.nn.functional as F


def make():
    def fn(x, numbers, variance):
        return F.batch_norm(x, numbers, variance, numbers, numbers, training=True)

    calls = [((torch.rand(4, 3), torch.tensor([1.0, 2.0, 3.0]), torch.ones(3)), {}) for _ in range(2)]
    return fn, calls, lambda index: None, lambda: {}
