"""What a checkpointed function does to its caller's objects and variables happens again in a backward pass inside."""

import torch
from torch.utils.checkpoint import checkpoint


class Counter:
    number = 0


def make():
    def fn(x):
        calls, counter, held, cell = [], Counter(), {"list": [0]}, 0

        def body(y):
            nonlocal cell
            cell += 1
            calls.append(cell)
            counter.number += 1
            held["list"][0] += 1
            own = [y]
            own.append(y * 2)
            return torch.sin(y) * own[1]

        z = checkpoint(body, x, use_reentrant=False)
        z.sum().backward()
        return calls, counter.number, held, cell

    return fn, [((torch.ones(2, requires_grad=True),), {}) for _ in range(2)], lambda index: None, dict
