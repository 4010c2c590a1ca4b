"""An entry made for tensors of torch served tensors of one NumPy array, whose storages differ and lie in one memory."""

import numpy as np
import torch


def fn(x, y):
    x.add_(1)
    return y * 2


def make():
    def apart():
        return torch.zeros(8), torch.zeros(8)

    def together(first, second):
        memory = np.zeros(12, dtype=np.float32)
        return torch.from_numpy(memory[first:][:8]), torch.from_numpy(memory[second:][:8])

    pairs = [apart(), apart(), together(0, 0), together(0, 4), apart(), together(4, 2)]
    pairs.append((torch.from_numpy(np.zeros(8, dtype=np.float32)), torch.from_numpy(np.ones(8, dtype=np.float32))))
    ours = torch.zeros(8)
    pairs.append((ours, torch.from_numpy(ours.numpy())))
    return fn, [(pair, {}) for pair in pairs], lambda index: None, dict
