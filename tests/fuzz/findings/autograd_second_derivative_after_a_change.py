"""Second derivatives were refused, or wrong, where an input, or a result that compiled code saves, was changed after
the call, though they do not depend on it; an input that the graph overwrites had no gradient rather than zeros.
"""

import torch

LEAVES = []
# Before torch 2.12 a function gives out all that it has saved or nothing, so a change of one tensor refuses the others.
GIVES_PARTS = hasattr(torch._C._autograd.SavedTensor, "unpack")


def leaf(number):
    LEAVES.append(torch.linspace(0.4, 1.6, 6, dtype=torch.float64).reshape(2, 3).mul(number).requires_grad_())
    return LEAVES[-1]


def fn(x, y, z, w):
    a = torch.where(y > 1, y, x)
    b = z.relu()
    c = x + y
    w.copy_(z)
    if c.sum() > 0.37:
        d = y * y
    x.copy_(a)
    b.add_(1)
    return a, d, (c * 2).exp(), w @ z.t() @ w


def use(fn, args, kwargs):
    found = []
    for result in fn(*args)[0 if GIVES_PARTS else 1:]:
        first = torch.autograd.grad(result.square().sum(), LEAVES, create_graph=True, allow_unused=True)
        found += [None if g is None else g.detach().clone() for g in first]
        found += [torch.autograd.grad(g.square().sum(), LEAVES, allow_unused=True, retain_graph=True)
                  for g in first if g is not None and g.requires_grad]
    return found


def make():
    del LEAVES[:]
    calls = [((leaf(1) * 1, leaf(2) * 1, leaf(3).exp(), leaf(4) * 1), {}) for _ in range(2)]
    return fn, calls, lambda index: None, lambda: {"leaves": LEAVES}, use
