# what `torch._foreach_...` changed in a compiled function was no change to autograd, whose gradients came out wrong
import torch


def make():
    w = torch.ones(3, requires_grad=True)
    held = torch.arange(3.0)

    def fn(x, y):
        torch._foreach_add_([x, held.data], 2)
        torch._foreach_copy_([y[1:]], [x[1:]])
        return x * 2

    calls = [((torch.ones(3), torch.ones(3)), {}) for _ in range(2)]

    def before(index):
        pass

    def observe():
        return w, held

    def use(function, args, kwargs):
        products = [w * tensor for tensor in (*args, held)]
        result = function(*args, **kwargs)
        said = []
        for product in products:
            try:
                said.append(torch.autograd.grad(product.sum(), w)[0])
            except RuntimeError as error:
                said.append("modified by an inplace operation" in str(error))
        return result, said

    return fn, calls, before, observe, use
