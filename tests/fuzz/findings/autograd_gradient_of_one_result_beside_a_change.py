"""A gradient was refused where an input had been changed since that eager keeps for another result's gradient only:
compiled code computed something again from it, or could not give out a result of its own that it had saved."""

import torch

LEAVES = []
# Before torch 2.12 a function gives out all that it has saved or nothing, so a change of one tensor refuses the others.
GIVES_PARTS = hasattr(torch._C._autograd.SavedTensor, "unpack")


def leaf():
    LEAVES.append(torch.linspace(0.4, 1.6, 6, dtype=torch.float64).reshape(2, 3).requires_grad_())
    return LEAVES[-1]


def fn(x, y):
    return y * torch.ones_like(x), (x * 2).tanh(), (x * y.detach()).square(), x.softmax(-1), x.square().sum()


def use(fn, args, kwargs):
    x, y = args
    results = fn(x, y)
    x.mul_(2)
    found = []
    for result in results if GIVES_PARTS else ():
        try:
            found.append(torch.autograd.grad(result.square().sum(), LEAVES, retain_graph=True, allow_unused=True))
        except RuntimeError as error:
            found.append("changed" if "inplace" in str(error) else "freed")
    return found


def make():
    del LEAVES[:]
    calls = [((leaf() * 1, leaf() * 1), {}) for _ in range(2)]
    same = leaf() * 1
    calls.append(((same, same[:]), {}))
    return fn, calls, lambda index: None, lambda: {"leaves": LEAVES}, use
