"""Second derivatives of one result were refused where an input had been changed since that only another result's
gradient needs."""

import torch

LEAVES = []
# Before torch 2.12 a function gives out all that it has saved or nothing, so a change of one tensor refuses the others.
GIVES_PARTS = hasattr(torch._C._autograd.SavedTensor, "unpack")


def leaf():
    LEAVES.append(torch.linspace(0.4, 1.6, 6, dtype=torch.float64).reshape(2, 3).requires_grad_())
    return LEAVES[-1]


def fn(x, y):
    return x + 1, y.cos() * 3, x.square().sum(), (y * x.detach()).sin()


def use(fn, args, kwargs):
    x, y = args
    results = fn(x, y)
    x.mul_(2)
    found = []
    order = ((True, 0), (True, 2), (False, 1), (True, 3))
    for keep, result in ((keep, results[at]) for keep, at in order if GIVES_PARTS):
        try:
            first = torch.autograd.grad(result.square().sum(), LEAVES, create_graph=keep, allow_unused=True)
            found.append(first)
            found += [torch.autograd.grad(g.square().sum(), LEAVES, allow_unused=True, retain_graph=True)
                      for g in first if g is not None and g.requires_grad]
        except RuntimeError as error:
            found.append("inplace" if "inplace" in str(error) or "in place" in str(error) else "freed")
    return found


def make():
    del LEAVES[:]
    calls = [((leaf() * 1, leaf() * 1), {}) for _ in range(2)]
    return fn, calls, lambda index: None, lambda: {"leaves": LEAVES}, use
