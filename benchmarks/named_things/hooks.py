"""Hooks on tensors, gradients and modules, and gradients inside."""

import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook, save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

from .registry import leaf, rand, thing


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))


def doubled_gradient(p):
    p.grad.mul_(2)


class TwoInTwoOut(nn.Module):
    def forward(self, a, b):
        return a * b, a + b


@thing(leaf, train=True)
def register_hook(x):
    y = x.exp()
    y.register_hook(lambda g: g * 2)
    return y * y


@thing(leaf, train=True)
def register_hook_on_an_argument(x):
    x.register_hook(lambda g: g * 2)
    return x.exp()


@thing(leaf, train=True)
def a_hook_over_state(x):
    scale = 3.0

    def hook(g):
        return g * scale

    y = x.exp()
    y.register_hook(hook)
    return y.sin()


@thing(lambda: (rand(grad=True), []), train=True)
def a_hook_that_writes(x, seen):
    y = x.exp()
    y.register_hook(lambda g: seen.append(g.sum()))
    return y.sin()


@thing(leaf, train=True)
def a_removed_hook(x):
    y = x.exp()
    y.register_hook(lambda g: g * 2).remove()
    return y.sin()


@thing(leaf, train=True)
def post_accumulate(x):
    x.register_post_accumulate_grad_hook(doubled_gradient)
    return x.exp()


@thing(leaf)
def retained_gradient(x):
    y = x.exp()
    y.retain_grad()
    (y * 2).sum().backward()
    return y.grad


def hooked(seed=0):
    model = network(seed)
    model[0].register_full_backward_hook(lambda m, i, o: (i[0] * 2,) if i[0] is not None else None)
    return rand(grad=True), model


def pre_hooked():
    model = network()
    model[2].register_full_backward_pre_hook(lambda m, o: (o[0] * 2,))
    return rand(grad=True), model


def several_hooked():
    model = TwoInTwoOut()
    model.register_full_backward_hook(lambda m, i, o: tuple(g * 2 for g in i))
    return rand(grad=True), rand(grad=True, seed=1), model


def forward_hooked():
    model = network()
    model[0].register_forward_hook(lambda m, i, o: o + 1)
    model[2].register_forward_pre_hook(lambda m, i: (i[0] * 2,))
    model[2].register_forward_hook(lambda m, a, k, o: o * 2, with_kwargs=True)
    return rand(grad=True), model


@thing(hooked, train=True)
def full_backward_hook(x, model):
    return model(x)


@thing(pre_hooked, train=True)
def full_backward_pre_hook(x, model):
    return model(x)


@thing(several_hooked, train=True)
def full_backward_hook_of_several(x, y, model):
    return model(x, y)


@thing(forward_hooked, train=True)
def forward_hooks(x, model):
    return model(x)


@thing(lambda: (rand(grad=True), network()), train=True)
def a_module_hook_registered_inside(x, model):
    handle = model[0].register_forward_hook(lambda m, i, o: o * 2)
    y = model(x)
    handle.remove()
    return y


@thing(lambda: (rand(grad=True), network()), train=True)
def a_backward_hook_registered_inside(x, model):
    handle = model[0].register_full_backward_hook(lambda m, i, o: (i[0] * 2,))
    y = model(x)
    handle.remove()
    return y


def hooked_argument():
    x = rand(grad=True)
    x.register_hook(lambda g: g * 3)
    return (x,)


@thing(hooked_argument, train=True)
def an_argument_with_a_hook(x):
    return x.exp() * 2


@thing(hooked_argument)
def backward_on_an_argument_with_a_hook(x):
    x.exp().sum().backward()
    return x.grad


@thing(leaf)
def autograd_grad(x):
    return torch.autograd.grad(x.sin().sum(), x)


@thing(leaf)
def backward_inside(x):
    x.sin().sum().backward()
    return x.grad


@thing(leaf)
def double_backward(x):
    (g,) = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
    return torch.autograd.grad(g.sum(), x)


@thing(leaf)
def backward_with_a_hook(x):
    y = x.exp()
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    return x.grad


@thing(lambda: (rand(grad=True), rand(grad=True, seed=1), []), train=True)
def multi_grad_hook(x, y, seen):
    a, b = x.sin(), y.cos()
    register_multi_grad_hook((a, b), lambda grads: seen.append(grads[0].sum() + grads[1].sum()))
    return a * b


@thing(lambda: (rand(grad=True), rand(grad=True, seed=1), []), train=True)
def multi_grad_hook_any(x, y, seen):
    a, b = x.sin(), y.cos()
    register_multi_grad_hook((a, b), lambda g: seen.append(1), mode="any")
    return a * b


@thing(lambda: (rand(grad=True), rand(grad=True, seed=1), []), train=True)
def multi_grad_hook_on_arguments(x, y, seen):
    register_multi_grad_hook((x, y), lambda grads: seen.append(grads[0].sum()))
    return x.sin() * y


@thing(leaf, train=True)
def saved_tensors(x):
    with saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        return x.sin() * x


@thing(leaf, train=True)
def saved_tensors_packed(x):
    with saved_tensors_hooks(lambda t: t.to(torch.bfloat16), lambda t: t.float()):
        return x.exp() * x


@thing(leaf, train=True)
def saved_on_cpu(x):
    with save_on_cpu():
        return x.sin() * x


@thing(leaf, train=True)
def saved_hooks_disabled(x):
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        return x.sin() * x


@thing(leaf)
def mutation_allowed_on_saved(x):
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x.clone()
        z = y.sin()
        y.add_(1)
        z.sum().backward()
    return x.grad


@thing(leaf, train=True)
def hook_of_a_node(x):
    y = x.exp()
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 2,))
    return y.sin()


@thing(leaf, train=True)
def prehook_of_a_node(x):
    y = x.exp()
    y.grad_fn.register_prehook(lambda go: (go[0] * 2,))
    return y.sin()


@thing(leaf, train=True)
def checkpointed(x):
    return checkpoint(lambda v: v.sin().exp(), x, use_reentrant=False)


@thing(leaf, train=True)
def checkpointed_reentrant(x):
    return checkpoint(lambda v: v.sin().exp(), x, use_reentrant=True)


@thing(lambda: (rand(grad=True), network()), train=True)
def checkpointed_in_sequence(x, model):
    return checkpoint_sequential(model, 2, x, use_reentrant=False)


def policy(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op is torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE


@thing(leaf, train=True)
def selective_checkpoint(x):
    return checkpoint(lambda v: (v @ v.T).sin(), x, use_reentrant=False,
                      context_fn=lambda: create_selective_checkpoint_contexts(policy))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos() * 2


@thing(leaf, train=True)
def autograd_function(x):
    return Doubled.apply(x) * 2


@thing(lambda: (rand(grad=True), network()))
def a_training_step(x, model):
    loss = model(x).square().mean()
    loss.backward()
    return [p.grad for p in model.parameters()]


@thing(leaf, train=True)
def grad_modes(x):
    with torch.no_grad():
        a = x.sin()
    with torch.enable_grad():
        b = x.cos()
    with torch.inference_mode():
        c = x.exp()
    return a + b, c.is_inference()
