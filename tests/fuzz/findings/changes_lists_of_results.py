"""Lists given as `out`, and results that are lists beside tensors, were internal errors."""

import torch


def make():
    def fn(x, out, gradients, found, scale):
        torch.split_copy(x, 2, out=out)
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, scale)
        return out[0] + 1, gradients[0] * 2, found

    def use(fn, args, kwargs):
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            return type(error).__name__

    calls = []
    for value, scale in ((1.0, torch.tensor(0.5)), (float("inf"), torch.tensor([3.0])), (2.0, torch.ones(2))):
        gradients = [torch.ones(3).half() * value, torch.ones(2)]
        calls.append(((torch.arange(4.0), [torch.zeros(2), torch.zeros(2).double()], gradients, torch.zeros(1), scale),
                      {}))  # fmt: skip
    return fn, calls, lambda index: None, dict, use
