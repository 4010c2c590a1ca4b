"""Symbols were read from a stride of a dimension of size 1 where a later input has them as a size, or has them as the
stride of a dimension that has elements: wrong numbers from loops, and gradients of another size."""

import torch

import firesteel as fs


def fn(y):
    v = fs.associative_scan(lambda a, b: a + b, y, dim=1, reverse=False, combine_mode="pointwise")
    last, all_of_them = fs.scan(lambda c, r: (c * 0.5 + r * 0.5, c * r + r), torch.zeros_like(v.select(2, 0)), v, dim=2)
    first, firsts = fs.scan(lambda c, r: (c * 0.5 + r, c * r + c.sin()), y.select(0, 0), y, dim=0)
    over, overs = fs.scan(lambda c, r: (r * 0.5 + c, c * r + r), torch.zeros_like(y.select(1, 0)), y, dim=1)
    both = overs + over.unsqueeze(1)
    last_of_all, all_again = fs.scan(lambda c, r: (c.sin() + r, c * r), both.select(0, 0), both, dim=0)
    return (all_of_them.sum() + firsts.sum() + all_again.sum() + (y * 0).sum(), last, all_of_them, first, overs,
            last_of_all)


def use(fn, args, kwargs):
    results = fn(*args)
    leaves = [arg for arg in args if arg.requires_grad]
    found = torch.autograd.grad(results[0], leaves) if leaves else ()
    return [by_rows(result.detach()) for result in results], [by_rows(gradient) for gradient in found]


def by_rows(tensor):
    return tensor.clone(memory_format=torch.contiguous_format)


def make():
    sizes = (4, 4, 5), (2, 1, 2), (1, 2, 3), (1, 4, 1)
    calls = [((torch.linspace(0.1, 2.0, a * b * c, dtype=torch.float64).reshape(a, b, c).requires_grad_(grad),), {})
             for grad in (False, True) for a, b, c in sizes]
    return fn, calls, lambda index: None, lambda: {}, use
