# A limit that varied between calls turned -0.0 into 0 where it was 0 itself.
import torch
import torch.nn.functional as F


def make():
    def fn(x, n):
        return torch.signbit(x.clamp(n, 255)), torch.signbit(x.clamp(max=n)), torch.signbit(F.hardtanh(x, n, 9))

    x = torch.tensor([-3.0, -0.0, 0.0, 2048.0])
    return fn, [((x, n), {}) for n in (5, 0, 3)], lambda index: None, lambda: {}
