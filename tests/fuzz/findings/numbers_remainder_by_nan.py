# Integers divided by NaN and rounded gave whatever was in memory: LLVM took the remainder for a number.
import torch


def make():
    def fn(x):
        return torch.div(torch.floor(x), float("nan"), rounding_mode="floor"), torch.fmod(x, float("nan"))

    calls = [((torch.tensor([5, 7, -2, 100], dtype=torch.int16),), {})]

    def before(index):
        pass

    def observe():
        return {}

    return fn, calls, before, observe
