# A detached view of an argument that was changed in inference mode required grad: the example of the argument did not.
import torch


def fn(x):
    x.mul_(2)
    return x.detach(), x.detach().tanh()


def use(fn, args, kwargs):
    with torch.inference_mode():
        result = fn(*args)
        return [value.requires_grad for value in result], result[0].tolist()


def make():
    leaf = torch.ones(4, 3, requires_grad=True)
    return fn, [((leaf[1:3],), {}), ((leaf[1:3],), {})], lambda index: None, lambda: {"leaf": leaf}, use
