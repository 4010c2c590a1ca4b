"""Programs with ``torch.func``: transforms inside of compiled functions, and around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import nn
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

Function = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """A function of tensors of these shapes. With ``grad``, they require grad and results are differentiated."""

    function: Function
    shapes: tuple[tuple[int, ...], ...]
    grad: bool = False

    def inputs(self, device: str = "cpu") -> list[torch.Tensor]:
        """The same tensors every time."""
        generator = torch.Generator("cpu").manual_seed(7)
        values = [torch.randn(shape, generator=generator, device="cpu") / 2 for shape in self.shapes]
        return [value.to(device).requires_grad_(self.grad) for value in values]


def observed(program: Program, function: Function, inputs: list[torch.Tensor]) -> tuple[Any, ...]:
    """What a function returns, gradients of it, which results have a history, and the next random number."""
    torch.manual_seed(11)
    result = function(*inputs)
    leaves = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    with_history = [leaf for leaf in leaves if leaf.requires_grad]
    gradients: tuple[Any, ...] = ()
    if program.grad and with_history:
        total: Any = sum((number + 1) * leaf.sum() for number, leaf in enumerate(with_history))
        gradients = torch.autograd.grad(total, inputs, allow_unused=True)
    return result, gradients, [leaf.requires_grad for leaf in leaves], torch.rand(1, device=inputs[0].device)


INSIDE: dict[str, Program] = {}
AROUND: dict[str, Program] = {}


def inside(*shapes: tuple[int, ...], grad: bool = False) -> Callable[[Function], Function]:
    """The function is compiled; transforms are in it."""

    def add(function: Function) -> Function:
        INSIDE[function.__name__] = Program(function, shapes, grad)
        return function

    return add


def around(*shapes: tuple[int, ...], grad: bool = False) -> Callable[[Function], Function]:
    """The function takes a compiler as its first argument, compiles with it, and transforms what it gets."""

    def add(function: Function) -> Function:
        AROUND[function.__name__] = Program(function, shapes, grad)
        return function

    return add


def loss(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w).square().sum()


def layer(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w)


GRADIENT = grad(loss)
GRADIENTS_OF_SAMPLES = vmap(GRADIENT, in_dims=(None, 0))
torch.manual_seed(3)
MLP = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
CNN = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.GroupNorm(2, 4), nn.AvgPool2d(2), nn.Flatten(),
                    nn.Linear(4 * 9, 5))
ENSEMBLE = [nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(3)]
ATTENTION = nn.MultiheadAttention(8, 2, batch_first=True)
for module in (MLP, CNN, *ENSEMBLE, ATTENTION):
    module.requires_grad_(False)
W, X = (6, 6), (5, 6)


def move_modules(device: str) -> None:
    """Make the programs' modules live on a device; programs make new tensors on torch's default device."""
    for module in (MLP, CNN, *ENSEMBLE, ATTENTION):
        module.to(device)


# ---------------------------------------------------------------------------------------------------------------------
# grad


@inside(W, X)
def grad_of_first_argument(w, x):
    return grad(loss)(w, x)


@inside(W, X)
def grad_of_second_argument(w, x):
    return grad(loss, argnums=1)(w, x)


@inside(W, X)
def grad_of_both_arguments(w, x):
    return grad(loss, argnums=(0, -1))(w, x)


@inside(W, X, grad=True)
def grad_differentiated(w, x):
    return grad(loss)(w, x)


@inside(W, X)
def grad_and_value_of(w, x):
    return grad_and_value(loss)(w, x)


@inside(W, X)
def grad_with_aux(w, x):
    def f(w):
        y = layer(w, x)
        return y.sum(), {"y": y, "more": (y.mean(), w)}

    return grad(f, has_aux=True)(w)


@inside(W, X)
def grad_and_value_with_aux(w, x):
    return grad_and_value(lambda w: (loss(w, x), w.exp()), has_aux=True)(w)


@inside(W, X)
def grad_of_dictionary(w, x):
    parameters = {"w": w, "b": x.mean(0)}
    return grad(lambda p: (x @ p["w"] + p["b"]).relu().square().mean())(parameters)


@inside(W, X)
def grad_with_unused(w, x):
    return grad(lambda p: (p[0] * 2).sum())((w, x))


@inside(W, X)
def grad_with_keyword(w, x):
    return grad(lambda w, *, scale: loss(w * scale, x))(w, scale=0.5)


@inside(W, X, grad=True)
def grad_of_grad(w, x):
    return grad(lambda x: grad(loss)(w, x).square().sum())(x)


@inside(W, X)
def third_derivative(w, x):
    f = torch.sin
    return grad(grad(grad(lambda s: f(s * 2) * s)))(x[0, 0])


@inside(W, X, grad=True)
def grad_without_gradients_around(w, x):
    with torch.no_grad():
        return grad(loss)(w, x)


@inside(W, X)
def grad_with_no_grad_inside(w, x):
    def f(w):
        with torch.no_grad():
            scale = w.square().mean()
        return (w * scale).sum()

    return grad(f)(w)


@inside(W, X)
def grad_through_detach(w, x):
    return grad(lambda w: (w * w.detach()).sum())(w)


@inside(W, X)
def grad_of_module(w, x):
    parameters = dict(MLP.named_parameters())
    return grad(lambda p: functional_call(MLP, p, (x,)).square().sum())(parameters)


@inside((4, 2, 6, 6))
def grad_of_convolutions(x):
    parameters = dict(CNN.named_parameters())
    return grad(lambda p: functional_call(CNN, p, (x,)).logsumexp(-1).mean())(parameters)


@inside(W, X)
def training_step(w, x):
    def f(p):
        return F.cross_entropy(x @ p["w"] + p["b"], torch.arange(5))

    p = {"w": w, "b": torch.zeros(6)}
    for _ in range(3):
        gradients = grad(f)(p)
        p = {name: value - 0.1 * gradients[name] for name, value in p.items()}
    return p


@inside(W, X, grad=True)
def maml_step(w, x):
    fast = w - 0.1 * grad(loss)(w, x)
    return loss(fast, x * 2)


@inside(W, X)
def grad_with_dropout(w, x):
    return grad(lambda w: F.dropout(x @ w, 0.5).square().sum())(w)


@inside(W, X)
def grad_through_changes_in_place(w, x):
    def f(w):
        y = x @ w
        y[0] = 0
        y.mul_(2).clamp_(-1, 1)
        return y.square().sum()

    return grad(f)(w)


@inside((8,), (8,))
def grad_of_complex(a, b):
    return grad(lambda a: torch.fft.rfft(a * b).abs().sum())(a)


# ---------------------------------------------------------------------------------------------------------------------
# vmap


@inside(W, X)
def vmap_of_product(w, x):
    return vmap(lambda row: row @ w)(x)


@inside(W, X, grad=True)
def vmap_differentiated(w, x):
    return vmap(lambda row: torch.softmax(row @ w, 0) * row)(x)


@inside((5, 6), (6, 5))
def vmap_with_dims(x, y):
    return vmap(lambda a, b: a * b, in_dims=(0, 1), out_dims=1)(x, y)


@inside((5, 6), (6, 5))
def vmap_with_negative_dims(x, y):
    return vmap(lambda a, b: a - b, in_dims=(-1, 0), out_dims=-1)(x, y)


@inside(W, X)
def vmap_with_shared_argument(w, x):
    return vmap(layer, in_dims=(None, 0))(w, x)


@inside((5, 6), (5, 3))
def vmap_of_dictionary(x, y):
    return vmap(lambda d: {"sum": d["x"].sum(), "pair": (d["y"] * 2, d["x"].exp())})({"x": x, "y": y})


@inside((5, 6), (3, 5))
def vmap_with_dims_of_dictionary(x, y):
    return vmap(lambda d: d["x"].sum() * d["y"], in_dims=({"x": 0, "y": 1},))({"x": x, "y": y})


@inside((5, 6), (5, 6))
def vmap_with_several_results(x, y):
    return vmap(lambda a, b: (a + b, a.sum(), [b * 2]), out_dims=(1, 0, [0]))(x, y)


@inside((4, 5), (3, 5))
def vmap_of_vmap(x, y):
    return vmap(lambda a: vmap(lambda b: torch.dot(a, b))(y))(x)


@inside((4, 5), (3, 5), grad=True)
def vmap_of_vmap_differentiated(x, y):
    return vmap(vmap(lambda a, b: (a - b).square().sum().sqrt(), (None, 0)), (0, None))(x, y)


@inside((3, 4, 5))
def vmap_three_times(x):
    return vmap(vmap(vmap(lambda s: s * s.sin())))(x)


@inside((6, 4))
def vmap_in_chunks(x):
    return vmap(lambda row: row.cumsum(0) * row.max(), chunk_size=4)(x)


@inside((5, 6))
def vmap_with_different_numbers(x):
    return vmap(lambda row: row + torch.randn(6), randomness="different")(x)


@inside((5, 6))
def vmap_with_the_same_numbers(x):
    return vmap(lambda row: row + torch.rand(6), randomness="same")(x)


@inside((5, 6))
def vmap_with_dropout(x):
    return vmap(lambda row: F.dropout(row, 0.5), randomness="different")(x)


@inside((5, 6))
def vmap_of_reductions(x):
    return vmap(lambda row: torch.stack([row.sum(), row.mean(), row.var(), row.norm(), row.amax(), row.prod()]))(x)


@inside((5, 6))
def vmap_of_views(x):
    return vmap(lambda row: row.view(2, 3).t().reshape(-1).flip(0).unsqueeze(-1).expand(6, 2))(x)


@inside((5, 6))
def vmap_of_indexing(x):
    return vmap(lambda row: torch.cat([row[::2], row[torch.tensor([0, 3])], row[-1:]]))(x)


@inside((5, 6))
def vmap_of_gather_and_scatter(x):
    def f(row):
        order = row.argsort()
        return torch.zeros(6).scatter(0, order, row) + row.gather(0, order)

    return vmap(f)(x)


@inside((5, 6))
def vmap_of_sorting(x):
    return vmap(lambda row: (row.sort().values, row.topk(3).indices, row.argmax()))(x)


@inside((5, 6))
def vmap_of_where(x):
    return vmap(lambda row: torch.where(row > 0, row.log1p(), -row).masked_fill(row > 1, 0.0))(x)


@inside((4, 2, 6, 6))
def vmap_of_convolutions(x):
    return vmap(lambda image: CNN(image.unsqueeze(0)).squeeze(0))(x)


@inside((3, 5, 5))
def vmap_of_linear_algebra(x):
    return vmap(lambda m: torch.linalg.solve(m @ m.t() + torch.eye(5), m.sum(1)))(x)


@inside((5, 6))
def vmap_of_normalisation(x):
    return vmap(lambda row: F.layer_norm(row, (6,)) + F.log_softmax(row, 0))(x)


@inside((5, 6))
def vmap_of_embedding(x):
    table = torch.arange(12.0).view(4, 3)
    return vmap(lambda row: F.embedding((row > 0).long(), table))(x)


@inside((3, 4, 8))
def vmap_of_attention(x):
    return vmap(lambda s: ATTENTION(s, s, s, need_weights=False)[0])(x)


@inside((5, 6))
def vmap_of_changes_in_place(x):
    def f(row):
        y = row.clone()
        y[1:] += row[:-1]
        return y.relu_()

    return vmap(f)(x)


@inside((5, 6), (5,))
def vmap_of_einsum(x, y):
    return vmap(lambda row, s: torch.einsum("i,j->ij", row, row) * s)(x, y)


@inside((5, 6))
def vmap_with_numbers(x):
    return vmap(lambda row, power: row ** power + len(row), in_dims=(0, None))(x, 2)


@inside((5, 6))
def vmap_with_unstacked_result(x):
    total = x.sum()
    return vmap(lambda row: (row * 2, total), out_dims=(0, None))(x)


@inside((5, 6))
def vmap_of_new_tensors(x):
    return vmap(lambda row: torch.zeros_like(row) + row.new_full((6,), 2.0) + torch.arange(6))(x)


@inside(X)
def ensemble(x):
    parameters, buffers = stack_module_state(ENSEMBLE)
    return vmap(lambda p, b, x: functional_call(ENSEMBLE[0], (p, b), (x,)), (0, 0, None))(parameters, buffers, x)


# ---------------------------------------------------------------------------------------------------------------------
# vmap and gradients


@inside(W, X)
def gradients_of_samples(w, x):
    return vmap(grad(loss), in_dims=(None, 0))(w, x)


@inside(W, X, grad=True)
def gradients_of_samples_differentiated(w, x):
    return vmap(grad(loss), in_dims=(None, 0))(w, x)


@inside(X)
def gradients_of_samples_of_module(x):
    parameters = {name: p.detach() for name, p in MLP.named_parameters()}

    def f(p, row):
        return F.cross_entropy(functional_call(MLP, p, (row.unsqueeze(0),)), torch.tensor([1]))

    return vmap(grad(f), in_dims=(None, 0))(parameters, x)


@inside((4, 2, 6, 6))
def gradients_of_samples_of_convolutions(x):
    parameters = {name: p.detach() for name, p in CNN.named_parameters()}

    def f(p, image):
        return functional_call(CNN, p, (image.unsqueeze(0),)).square().sum()

    return vmap(grad_and_value(f), in_dims=(None, 0))(parameters, x)


@inside(W, X)
def grad_of_vmap(w, x):
    return grad(lambda w: vmap(lambda row: layer(w, row).prod())(x).sum())(w)


@inside((5,), (5,))
def grad_of_vmap_of_grad(a, b):
    return grad(lambda a: vmap(grad(lambda s, t: (s * t).sin()), (0, 0))(a, b).sum())(a)


@inside(X)
def laplacian(x):
    def f(row):
        return (row.sin() * row.roll(1)).sum()

    return vmap(lambda row: hessian(f)(row).diagonal().sum())(x)


@inside(W, X)
def noise_in_gradients_of_samples(w, x):
    def f(w, row):
        return (F.dropout(row, 0.5) @ w).square().sum()

    return vmap(grad(f), in_dims=(None, 0), randomness="different")(w, x)


# ---------------------------------------------------------------------------------------------------------------------
# vjp, jvp, jacobians


@inside(W, X)
def vjp_of_layer(w, x):
    out, back = vjp(layer, w, x)
    return out, back(torch.ones_like(out))


@inside(W, X, grad=True)
def vjp_differentiated(w, x):
    out, back = vjp(lambda x: x @ w + x.sin(), x)
    return back(out.detach())[0]


@inside(W, X)
def vjp_with_aux(w, x):
    out, back, aux = vjp(lambda x: (layer(w, x), x.mean()), x, has_aux=True)
    return out, aux, back(out)


@inside(W, X)
def vjp_of_structures(w, x):
    out, back = vjp(lambda p: {"a": p[0].sin(), "b": [p[1].exp()]}, (w, x))
    return out, back({"a": w, "b": [x]})


@inside(W, X)
def vjp_called_twice(w, x):
    _, back = vjp(lambda w: layer(w, x), w)
    return back(x)[0] + back(2 * x)[0]


@inside((4, 4), (4,))
def vmap_of_vjp(w, x):
    _, back = vjp(lambda x: layer(w, x), x)
    return vmap(back)(torch.eye(4))


@inside(W, X)
def jvp_of_layer(w, x):
    return jvp(layer, (w, x), (torch.ones_like(w), x))


@inside(W, X, grad=True)
def jvp_differentiated(w, x):
    return jvp(lambda x: layer(w, x), (x,), (x.detach(),))[1]


@inside(W, X)
def jvp_with_aux(w, x):
    return jvp(lambda x: (layer(w, x), x.sum()), (x,), (x,), has_aux=True)


@inside((5,))
def jvp_of_jvp(x):
    return jvp(lambda x: jvp(torch.sin, (x,), (torch.ones_like(x),))[1], (x,), (x,))


@inside(W, X)
def hessian_vector_product(w, x):
    return jvp(lambda w: grad(loss)(w, x), (w,), (torch.ones_like(w),))[1]


@inside(W, X)
def hessian_vector_product_in_reverse(w, x):
    _, back = vjp(lambda w: grad(loss)(w, x), w)
    return back(torch.ones_like(w))


@inside((4, 4), (4,))
def jacrev_of_layer(w, x):
    return jacrev(lambda x: layer(w, x))(x)


@inside((4, 4), (4,), grad=True)
def jacrev_differentiated(w, x):
    return jacrev(layer, argnums=1)(w, x)


@inside((4, 4), (4,))
def jacrev_in_chunks(w, x):
    return jacrev(layer, argnums=(0, 1), chunk_size=3)(w, x)


@inside((4, 4), (4,))
def jacrev_with_aux(w, x):
    return jacrev(lambda x: (layer(w, x), x.sum()), has_aux=True)(x)


@inside((4, 4), (4,))
def jacfwd_of_layer(w, x):
    return jacfwd(lambda x: layer(w, x))(x)


@inside((4, 4), (4,), grad=True)
def jacfwd_differentiated(w, x):
    return jacfwd(layer, argnums=(0, 1))(w, x)[1]


@inside((3, 4))
def jacobians_of_samples(x):
    return vmap(jacrev(lambda row: torch.softmax(row, 0).cumsum(0)))(x)


@inside((3, 4))
def jacobians_of_samples_forward(x):
    return vmap(jacfwd(lambda row: torch.stack([row.sum(), row.prod(), row.square().mean()])))(x)


@inside((4, 4), (4,))
def hessian_of_loss(w, x):
    return hessian(loss)(w, x)


@inside((4,))
def hessian_in_reverse(x):
    return jacrev(jacrev(lambda x: (x.exp() * x.roll(1)).sum()))(x)


@inside((4,))
def hessian_forward(x):
    return jacfwd(jacfwd(lambda x: (x.exp() * x.roll(1)).sum()))(x)


@inside(W, X)
def linearize_layer(w, x):
    out, derivative = linearize(lambda x: layer(w, x), x)
    return out, derivative(torch.ones_like(x)), derivative(x)


@inside(X)
def functionalized(x):
    def f(x):
        y = x.clone()
        y.view(-1)[:3].mul_(2)
        return y

    return functionalize(f)(x)


@inside((4, 3))
def newton_steps(x):
    def f(row):
        return (row ** 4).sum() + row.square().sum() + (row * row.roll(1)).sum()

    for _ in range(3):
        x = x - vmap(lambda row: torch.linalg.solve(hessian(f)(row), grad(f)(row)))(x)
    return x


# ---------------------------------------------------------------------------------------------------------------------
# around compiled functions


@around(W, X)
def grad_around(compile, w, x):
    return grad(compile(loss))(w, x)


@around(W, X, grad=True)
def grad_around_differentiated(compile, w, x):
    return grad(compile(loss))(w, x)


@around(W, X)
def grad_and_value_around(compile, w, x):
    return grad_and_value(compile(loss), argnums=(0, 1))(w, x)


@around(W, X)
def grad_of_grad_around(compile, w, x):
    return grad(lambda x: grad(compile(loss))(w, x).sum())(x)


@around(W, X)
def grad_around_part(compile, w, x):
    part = compile(layer)
    return grad(lambda w: part(w, x).square().sum() + w.sum())(w)


@around(W, X)
def vmap_around(compile, w, x):
    return vmap(compile(lambda row: torch.tanh(row @ w).sum()))(x)


@around(W, X)
def vmap_around_with_dims(compile, w, x):
    return vmap(compile(layer), in_dims=(None, 0), out_dims=1)(w, x)


@around(W, X, grad=True)
def vmap_around_differentiated(compile, w, x):
    return vmap(compile(layer), in_dims=(None, 0))(w, x)


@around((4, 5), (3, 5))
def vmap_of_vmap_around(compile, x, y):
    distance = compile(lambda a, b: (a - b).square().sum())
    return vmap(lambda a: vmap(lambda b: distance(a, b))(y))(x)


@around((5, 6))
def vmap_around_random(compile, x):
    return vmap(compile(lambda row: row + torch.rand(6)), randomness="different")(x)


@around((5, 6))
def vmap_around_same_random(compile, x):
    return vmap(compile(lambda row: row + torch.rand(6)), randomness="same")(x)


@around((6, 4))
def vmap_around_in_chunks(compile, x):
    return vmap(compile(lambda row: row.cumsum(0)), chunk_size=4)(x)


@around(W, X)
def gradients_of_samples_around(compile, w, x):
    return vmap(grad(compile(loss)), in_dims=(None, 0))(w, x)


@around(W, X)
def compiled_gradients_in_vmap(compile, w, x):
    return vmap(compile(GRADIENT), in_dims=(None, 0))(w, x)


@around(W, X)
def compiled_transform(compile, w, x):
    return compile(GRADIENTS_OF_SAMPLES)(w, x)


@around(W, X)
def vjp_around(compile, w, x):
    out, back = vjp(compile(layer), w, x)
    return out, back(torch.ones_like(out))


@around(W, X)
def vjp_around_with_aux(compile, w, x):
    out, back, aux = vjp(compile(lambda x: (layer(w, x), x.sum())), x, has_aux=True)
    return out, back(out), aux


@around((4, 4), (4,))
def vmap_of_vjp_around(compile, w, x):
    _, back = vjp(compile(lambda x: layer(w, x)), x)
    return vmap(back)(torch.eye(4))


@around(W, X)
def jvp_around(compile, w, x):
    return jvp(compile(layer), (w, x), (torch.ones_like(w), x))


@around((5,))
def jvp_of_jvp_around(compile, x):
    f = compile(torch.sin)
    return jvp(lambda x: jvp(f, (x,), (torch.ones_like(x),))[1], (x,), (x,))


@around(W, X)
def jvp_of_grad_around(compile, w, x):
    return jvp(lambda w: grad(compile(loss))(w, x), (w,), (torch.ones_like(w),))[1]


@around((4, 4), (4,))
def jacrev_around(compile, w, x):
    return jacrev(compile(layer), argnums=1)(w, x)


@around((4, 4), (4,))
def jacfwd_around(compile, w, x):
    return jacfwd(compile(layer), argnums=1)(w, x)


@around((4, 4), (4,))
def hessian_around(compile, w, x):
    return hessian(compile(loss))(w, x)


@around((4,))
def hessian_in_reverse_around(compile, x):
    return jacrev(jacrev(compile(lambda x: (x.exp() * x.roll(1)).sum())))(x)


@around(X)
def functional_call_of_compiled_module(compile, x):
    module = compile(MLP)
    parameters = {name: p.detach() * 2 for name, p in module.named_parameters()}
    return functional_call(module, parameters, (x,))


@around(X)
def grad_of_compiled_module(compile, x):
    module = compile(MLP)
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    return grad(lambda p: functional_call(module, p, (x,)).square().sum())(parameters)


@around(W, X)
def linearize_around(compile, w, x):
    out, derivative = linearize(compile(lambda x: layer(w, x)), x)
    return out, derivative(torch.ones_like(x))


@around((5,), (5,), grad=True)
def double_backward_around(compile, x, y):
    (first,) = torch.autograd.grad(compile(lambda x: (x.sin() * y).sum())(x), x, create_graph=True)
    return vmap(lambda v: torch.autograd.grad(first, x, v, retain_graph=True)[0])(torch.eye(5))


@around((5,), (5,))
def forward_mode_around(compile, x, y):
    f = compile(lambda x: (x.sin() * y).exp())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, y)
        return torch.autograd.forward_ad.unpack_dual(f(dual)).tangent
