"""What came before a failing operation was lost, and an assumption of the compiler was the user's exception, where an
operation follows behind a break that may raise half-way through a large tensor. The exception bore a mark of ours."""

import torch


def fn(big, bad, number, names):
    index = (bad * 50).long()
    if number == 0:  # another operation raises before
        names.append("before")
        torch.ones(3)[index]
        big.index_add_(0, torch.stack([index * 0, index * 20000]), torch.ones(2))
    elif number == 1:  # a length is no other than the one there is
        names.append("before")
        torch.ones(2).expand(int(2 + bad.item()))
        big.index_add_(0, torch.stack([index * 0, index * 20000]), torch.ones(2))
    elif number == 2:
        y = torch.ones(2).expand(int(2 + bad.item()))
        big.index_add_(0, torch.stack([index * 0, index * 20000]), torch.ones(2))
        return y * 2
    else:
        big.index_add_(0, torch.stack([index * 0, index * 20000]), torch.ones(2))
    return big[:2] * 2


def make():
    calls = [((torch.ones(1 << 19), torch.tensor(float(bad)), number, []), {})
             for number in range(4) for bad in (0, 1, -3, 0)]
    return fn, calls, lambda index: None, lambda: {}
