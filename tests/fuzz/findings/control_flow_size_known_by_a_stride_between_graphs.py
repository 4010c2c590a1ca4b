"""A graph that was taken apart read a size from a stride of a dimension of size 1, though a later
input has it as a size."""

import torch

import firesteel as fs


def tensor(shape, seed, requires_grad):
    numbers = torch.arange(1, 1 + int(torch.tensor(shape).prod()), dtype=DTYPE)
    made = (numbers * (seed + 0.7)).sin().reshape(shape) + 0.1
    return made.requires_grad_(requires_grad)

def use(fn, args, kwargs):
    results = fn(*args, **kwargs)
    leaves = [arg for arg in args if arg.requires_grad]
    found = torch.autograd.grad(results[0], leaves) if leaves else ()
    return ([known(result.detach()) for result in results], [by_rows(gradient) for gradient in found])

def by_rows(tensor):
    return tensor.clone(memory_format=torch.contiguous_format)

def known(tensor):
    return by_rows(tensor) if 1 in tensor.shape else tensor
DTYPE = torch.float64

def make():
    k = 0.5

    def fn(x, y, w, n=2, flag=True):
        v1 = y

        def fv2(c, r):
            v3 = c * (r.shape[0] * 0.1)
            v4 = r.softmax(-1)
            v5 = r + k
            return (v5 * 0.25 + c * 0.5 + r * 0.5, c * r + v5)
        v6, v7 = fs.scan(fv2, torch.zeros_like(v1.select(1, 0)), v1, dim=1, reverse=True)
        v8 = v7 + v6.unsqueeze(1)
        v9 = v8.flip(1)

        def fv10(c, r):
            v11 = c.softmax(-1)
            v12 = c.sin()
            return (v12 * 0.25 + c * 0.5 + r * 0.5, c * r + v12)
        v13, v14 = fs.scan(fv10, v9.select(0, 0), v9, dim=0, reverse=True)
        v15 = v14 + v13.unsqueeze(0)
        return (v15.sum() + (x * 0).sum() + (y * 0).sum() + (w * 0).sum(), v15, v7, v15.sum())
    calls = []
    calls.append(((tensor((5, 3, 4), 1, True), tensor((5, 3, 4), 2, False), tensor((1,), 3, True)), {}))
    calls.append(((tensor((5, 3, 4), 1, True), tensor((5, 3, 4), 2, True), tensor((1,), 3, True)), {}))
    calls.append(((tensor((1, 4, 1), 1, True), tensor((1, 4, 1), 2, True), tensor((1,), 3, False)), {}))
    return (fn, calls, lambda index: None, dict, use)
