"""Names of torch's that programs call: marks, stances, modes, caches, backends of their own."""

import torch
from torch import nn

from .registry import rand, thing


@thing(around=True)
def mark_unbacked(compiler, x):
    compiler.mark_unbacked(x, 0)
    return compiler(lambda v: v.sin() * 2)(x)


@thing(around=True)
def mark_dynamic(compiler, x):
    compiler.mark_dynamic(x, 0)
    f = compiler(lambda v: v.sin() * v.shape[0])
    return f(x), f(rand(5, 6))


@thing(around=True)
def dynamic_sources(compiler, x):
    with compiler.config(dynamic_sources="L['v']"):
        f = compiler(lambda v: v.sin() * 2)
        return f(x), f(rand(5, 6))


@thing(around=True)
def guard_filter_fn(compiler, x):
    return compiler(lambda v: v.sin() * 2, options={"guard_filter_fn": lambda guards: [False for _ in guards]})(x)


@thing(around=True)
def error_on_graph_break(compiler, x):
    def f(v):
        with compiler.error_on_graph_break(True):
            return v.sin() * 2
    return compiler(f)(x)


@thing(around=True)
def stance_with_a_backend(compiler, x):
    with compiler.set_stance("default", force_backend="eager"):
        return compiler(lambda v: v.sin() * 2)(x)


@thing(around=True)
def mode_lite(compiler, x):
    return compiler(lambda v: v.sin() * 2, mode="lite")(x)


@thing(around=True)
def skip_guard_eval_unsafe(compiler, x):
    f = compiler(lambda v: v.sin() * 2)
    f(x)
    with compiler.set_stance(skip_guard_eval_unsafe=True):
        return f(x)


@thing(around=True)
def save_cache_artifacts(compiler, x):
    y = compiler(lambda v: v.sin() * 2)(x)
    found = compiler.save_cache_artifacts()
    if found is not None:
        compiler.load_cache_artifacts(found[0])
    return y


def _through_autograd(body, compiler, args, dynamic):
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_compiler
    backend = aot_autograd(fw_compiler=make_boxed_compiler(lambda gm, _: gm.forward))
    return compiler(body, backend=backend, dynamic=dynamic)(*args)


@thing(around=True)
def a_backend_of_aot_autograd(compiler, x):
    return _through_autograd(lambda v: v.sin() * 2, compiler, (x,), False)


@thing(around=True)
def a_backend_of_aot_autograd_with_symbols(compiler, x):
    return _through_autograd(lambda v: v.view(-1, v.shape[0]).sin() * v.shape[0], compiler, (x,), True)


@thing(lambda: (rand(), torch.tensor(3)), around=True)
def a_backend_of_aot_autograd_with_item(compiler, x, n):
    return _through_autograd(lambda v, m: v[0] * m.item(), compiler, (x, n), True)


@thing(lambda: (rand(), torch.tensor(3)), around=True)
def a_backend_of_aot_autograd_with_sizes_of_data(compiler, x, n):
    return _through_autograd(lambda v, m: (torch.zeros(m.item()) + 1, v[v > 0]), compiler, (x, n), True)


@thing(lambda: (rand(grad=True),), train=True, around=True)
def a_backend_of_aot_autograd_with_gradients(compiler, x):
    return _through_autograd(lambda v: v.sin() * v.shape[0], compiler, (x,), True)


@thing(lambda: (rand(), nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))), around=True)
def a_backend_of_aot_autograd_with_a_module(compiler, x, m):
    return _through_autograd(m, compiler, (x,), True).detach()


@thing(lambda: (rand(grad=True), torch.tensor(3)), train=True, around=True)
def a_backend_of_aot_autograd_with_item_and_gradients(compiler, x, n):
    return _through_autograd(lambda v, m: v[:m.item()].sin() * 2, compiler, (x, n), True)


@thing(around=True)
def questions_about_compiling(compiler, x):
    return compiler(lambda v: v + (1 if torch.compiler.is_compiling() or True else 2))(x)


@thing(around=True)
def assume_constant_result(compiler, x):
    f = compiler.assume_constant_result(lambda: 3)
    return compiler(lambda v: v * f())(x)


@thing(around=True)
def substitute_in_graph(compiler, x):
    return compiler(lambda v: v * len(list(range(3))))(x)


@thing(around=True)
def reset_and_again(compiler, x):
    f = compiler(lambda v: v.sin() * 2)
    f(x)
    compiler.reset()
    return f(x)
