# under the mode that counts operators, autograd did not refuse what `torch._foreach_neg_` had changed (a fault of the
# comparison)
import torch


def make():
    w = torch.ones(3, requires_grad=True)

    def fn(x):
        out = torch._foreach_add([x, w], 3)
        torch._foreach_neg_([x])
        return out

    calls = [((torch.ones(3),), {})]

    def before(index):
        pass

    def observe():
        return w

    return fn, calls, before, observe
