"""torch.func inside of compiled functions and around them."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, stack_module_state, vjp, vmap

from .registry import leaf, rand, thing

LAYER = nn.Linear(6, 6)


@thing()
def gradient(x):
    return grad(lambda v: (v.sin() ** 2).sum())(x)


@thing()
def vectorised(x):
    return vmap(lambda v: v * v.sum())(x)


@thing()
def vectorised_with_dimensions(x):
    return vmap(torch.dot, in_dims=(1, None), out_dims=0)(x, x[:, 0])


@thing()
def vectorised_in_chunks(x):
    return vmap(lambda v: v.softmax(0), chunk_size=2)(x)


@thing()
def vectorised_twice(x):
    return vmap(vmap(lambda a, b: a * b, in_dims=(0, None)), in_dims=(None, 0))(x[0], x[1])


@thing()
def vectorised_random(x):
    return vmap(lambda v: v + torch.rand_like(v), randomness="different")(x)


@thing()
def vectorised_same_random(x):
    return vmap(lambda v: F.dropout(v, 0.5), randomness="same")(x)


@thing()
def vector_jacobian(x):
    out, pull = vjp(lambda v: v.exp(), x)
    return out, pull(torch.ones_like(out))


@thing()
def jacobian_vector(x):
    return jvp(lambda v: v.tanh(), (x,), (torch.ones_like(x),))


@thing()
def reverse_jacobian(x):
    return jacrev(lambda v: v.sin())(x[0])


@thing()
def forward_jacobian(x):
    return jacfwd(lambda v: v.sin())(x[0])


@thing()
def second_derivatives(x):
    return hessian(lambda v: (v ** 3).sum())(x[0])


@thing()
def called_with_parameters(x):
    return functional_call(LAYER, {"weight": x.T @ x, "bias": x[0]}, (x,))


@thing()
def linearized(x):
    out, push = linearize(lambda v: v.sin(), x)
    return out, push(x)


@thing()
def gradients_for_each_sample(x):
    params = {name: p.detach() for name, p in LAYER.named_parameters()}
    return vmap(grad(lambda p, v: functional_call(LAYER, p, (v,)).sum()), (None, 0))(params, x)


@thing()
def ensemble(x):
    models = [nn.Linear(6, 2) for _ in range(2)]
    params, buffers = stack_module_state(models)
    base = models[0]
    return vmap(lambda p, b: functional_call(base, (p, b), (x,)).shape[0] * x)(params, buffers)


@thing(leaf, train=True)
def gradient_through_a_gradient(x):
    return grad(lambda v: (v ** 3).sum())(x)


@thing(around=True)
def gradient_around(compiler, x):
    return grad(compiler(lambda v: v.sin().sum()))(x)


@thing(around=True)
def vectorised_around(compiler, x):
    return vmap(compiler(lambda v: v.softmax(0)))(x)


@thing(around=True)
def double_backward_around(compiler, x):
    x = x.requires_grad_()
    (first,) = torch.autograd.grad(compiler(lambda v: (v ** 3).sum())(x), x, create_graph=True)
    return torch.autograd.grad(first.sum(), x)


@thing(around=True)
def forward_mode_around(compiler, x):
    return jvp(compiler(lambda v: v.sin() * 2), (x,), (torch.ones_like(x),))


@thing(around=True)
def dual_numbers_around(compiler, x):
    import torch.autograd.forward_ad as fwad
    with fwad.dual_level():
        return tuple(fwad.unpack_dual(compiler(lambda v: v.sin() * 2)(fwad.make_dual(x, torch.ones_like(x)))))


@thing(lambda: (rand(6),))
def per_example_hessians(x):
    return vmap(hessian(lambda v: v.sin().sum()))(x.reshape(2, 3))
