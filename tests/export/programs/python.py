"""What Python programs do: control flow, mutation, NumPy, torch.func, modes, random numbers, autograd functions."""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from functorch.experimental.control_flow import map as torch_map
from torch import nn

from .record import program, rand

FLOW = "control flow"


@program(FLOW, rand(3), further=[(rand(3, seed=1),), (rand(3).abs(),), (-rand(3).abs(),)])
def cond_on_data(self: Any, x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() - 1, (x,))


@program(FLOW, rand(4, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(7, 3),), (-rand(2, 3).abs(),)])
def cond_with_dynamic_size(self: Any, x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x * x.shape[0], lambda x: x - 1, (x,))


@program(FLOW, rand(3), torch.tensor(True), further=[(rand(3), torch.tensor(False))])
class CondOfModules(nn.Module):
    """The branches are modules."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Any, flag: Any) -> Any:
        return torch.cond(flag, self.a, self.b, (x,))


@program(FLOW, rand(3), torch.tensor(True), further=[(rand(3), torch.tensor(False))])
def cond_inside_cond(self: Any, x: Any, flag: Any) -> Any:
    def inner(x: Any) -> Any:
        return torch.cond(x[0] > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    return torch.cond(flag, inner, lambda x: x * 2, (x,))


@program(FLOW, rand(3), further=[(rand(3, seed=1),)])
def cond_with_several_results(self: Any, x: Any) -> Any:
    return torch.cond(x[0] > 0, lambda x: (x.sin(), {"a": x + 1}), lambda x: (x * 2, {"a": x - 1}), (x,))


@program(FLOW, rand(3), further=[(rand(3, seed=1),)])
class CondOverClosure(nn.Module):
    """The branches take weights from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, x: Any) -> Any:
        y = x + 1
        return torch.cond(x.sum() > 0, lambda x: x * self.weight + y, lambda x: x - y, (x,))


@program(FLOW, rand(4, 3), rand(3), further=[(rand(4, 3, seed=1), rand(3))])
def mapped(self: Any, xs: Any, y: Any) -> Any:
    return torch_map(lambda x, y: (x + y).relu(), xs, y)


@program(FLOW, rand(3), torch.tensor(4), further=[(rand(3), torch.tensor(2)), (rand(3), torch.tensor(0))])
def while_loop(self: Any, x: Any, n: Any) -> Any:
    from torch._higher_order_ops import while_loop

    return while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 1.5), (n, x))


@program(FLOW, rand(5, 3), further=[(rand(5, 3, seed=1),)])
def scanned(self: Any, xs: Any) -> Any:
    from torch._higher_order_ops.scan import scan

    return scan(lambda carry, x: (carry * 0.5 + x, (carry + x).sin()), torch.zeros(3), xs)


@program(FLOW, rand(5, 3), further=[(rand(5, 3, seed=1),)])
def associative_scanned(self: Any, xs: Any) -> Any:
    from torch._higher_order_ops.associative_scan import associative_scan

    return associative_scan(lambda a, b: a + b, xs, 0, combine_mode="generic")


@program(FLOW, rand(6, 3), shapes=lambda D: ({0: D("n", min=2)},), further=[(rand(9, 3),)])
def decision_on_a_size(self: Any, x: Any) -> Any:
    return x * 2 if x.shape[0] >= 2 else x


@program(FLOW, rand(3), further=[(rand(3, seed=1),)])
def loops_and_comprehensions(self: Any, x: Any) -> Any:
    total = x
    for i, y in enumerate(reversed([x * k for k in range(4) if k != 2])):
        total = total + i * y
    while len(total.shape) < 3:
        total = total.unsqueeze(0)
    return total, {k: x + k for k in range(2)}


@program(FLOW, rand(3), further=[(rand(3, seed=1),)])
def exceptions(self: Any, x: Any) -> Any:
    try:
        x = x + {}["missing"]
    except KeyError:
        x = x - 1
    finally:
        x = x * 2
    return x


@program(FLOW, rand(3), further=[(rand(3, seed=1),)])
def generators(self: Any, x: Any) -> Any:
    def parts() -> Any:
        for k in range(3):
            yield x[k] * k

    return torch.stack(list(parts())), functools.reduce(torch.add, parts()), max(1, 2) * x


@program(FLOW, rand(3), further=[(rand(3, seed=1),)])
def asserted(self: Any, x: Any) -> Any:
    assert x.shape[0] == 3, "three"
    torch._assert(x.dim() == 1, "a vector")
    return x + 1


@program(FLOW, rand(3), further=[(rand(3, seed=1),)], refuses=[(rand(3) * float("nan"),)])
def asserted_of_data(self: Any, x: Any) -> Any:
    torch._assert_async(torch.isfinite(x).all(), "finite")
    return x + 1


@program(FLOW, rand(3), further=[(rand(3, seed=1),)])
def is_exporting(self: Any, x: Any) -> Any:
    return x + 1 if torch.compiler.is_exporting() else x + 1.0


# Mutation -----------------------------------------------------------------------------------------------------------

MUTATION = "mutation"


@program(MUTATION, rand(3), further=[(rand(3, seed=1),), (rand(3),)])
class CountsCalls(nn.Module):
    """A buffer is changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("last", torch.zeros(3), persistent=False)

    def forward(self, x: Any) -> Any:
        self.count += 1
        self.last.copy_(x)
        return x * self.count, self.last


@program(MUTATION, rand(3), further=[(rand(3, seed=1),), (rand(3),)])
class AssignsBuffer(nn.Module):
    """A buffer is given another tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.state = 0.5 * self.state + x
        return self.state.sum()


@program(MUTATION, rand(3), further=[(rand(3, seed=1),), (rand(3),)], after=lambda api, p: p.run_decompositions())
class AssignsBufferFunctional(nn.Module):
    """The same, without mutation."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.state = 0.5 * self.state + x
        self.state[0] = 1.0
        return self.state.sum()


@program(MUTATION, rand(3), further=[(rand(3, seed=1),)])
def input_changed(self: Any, x: Any) -> Any:
    x.add_(1)
    x[0] = 5.0
    return x * 2


@program(MUTATION, rand(3), further=[(rand(3, seed=1),)], after=lambda api, p: p.run_decompositions({}))
def input_changed_functional(self: Any, x: Any) -> Any:
    x.add_(1)
    x[0] = 5.0
    return x * 2


@program(MUTATION, {"a": [rand(3)]}, further=[({"a": [rand(3, seed=1)]},)])
def nested_input_changed(self: Any, d: Any) -> Any:
    d["a"][0].mul_(2)
    return d["a"][0].sum()


@program(MUTATION, rand(4, 4), further=[(rand(4, 4, seed=1),)])
def views_changed(self: Any, x: Any) -> Any:
    y = x.clone()
    y[1:3, ::2] += 1
    y.t()[0].zero_()
    y.view(-1)[5] = 2.0
    return y


@program(MUTATION, rand(4), torch.tensor([0, 2]), further=[(rand(4), torch.tensor([1, 1]))])
def indexed_writes(self: Any, x: Any, at: Any) -> Any:
    y = torch.zeros(4)
    y[at] = 1.0
    y.index_add_(0, at, torch.ones(2))
    y.index_put_((at,), torch.tensor(3.0), accumulate=True)
    return y + x.scatter(0, at, 0.0)


@program(MUTATION, rand(2, 4), torch.tensor([1]), further=[(rand(2, 4), torch.tensor([3]))])
class KeyCache(nn.Module):
    """A cache that is written at a position."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 4))

    def forward(self, x: Any, at: Any) -> Any:
        self.cache[:, at] = x[:, :1]
        return self.cache @ x.T


@program(MUTATION, rand(3), further=[(rand(3, seed=1),)])
def lists_changed(self: Any, x: Any) -> Any:
    parts = [x]
    parts.append(x + 1)
    parts[0] = x * 2
    parts.extend([x, x])
    del parts[1]
    d: dict[str, Any] = {}
    d.setdefault("a", []).append(parts[-1])
    d.update(b=x)
    return parts, d


@program(MUTATION, rand(3), further=[(rand(3, seed=1),)])
class SetsScratchAttribute(nn.Module):
    """An attribute that only this call reads."""

    def forward(self, x: Any) -> Any:
        self.scratch = x + 1
        return self.scratch * 2


# NumPy and torch.func -----------------------------------------------------------------------------------------------

LIBRARIES = "NumPy and torch.func"


@program(LIBRARIES, rand(3), further=[(rand(3, seed=1),)])
def numpy_constants(self: Any, x: Any) -> Any:
    table = np.linspace(0, 1, 3, dtype=np.float32)
    return x + torch.from_numpy(table) * float(np.pi) + torch.as_tensor(table) + int(np.prod([2, 3]))


@program(LIBRARIES, rand(3), further=[(rand(3, seed=1),)])
def numpy_of_input(self: Any, x: Any) -> Any:
    a = x.numpy()
    return torch.from_numpy(np.sin(a) * 2 + a.sum())


@program(LIBRARIES, rand(3), further=[(rand(3, seed=1),)])
def numpy_scalars(self: Any, x: Any) -> Any:
    return x * np.float32(2.5) + np.sqrt(4.0) + math.sqrt(2) + math.pi


@program(LIBRARIES, rand(4, 3), rand(3), further=[(rand(4, 3, seed=1), rand(3))])
def vmapped(self: Any, xs: Any, y: Any) -> Any:
    return torch.vmap(lambda x: (x * y).sum() + x, in_dims=0)(xs)


@program(LIBRARIES, rand(4, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(6, 3),)])
def vmapped_dynamic(self: Any, xs: Any) -> Any:
    return torch.vmap(lambda x: x @ x, in_dims=0)(xs)


@program(LIBRARIES, rand(3), further=[(rand(3, seed=1),)])
def gradient_inside(self: Any, x: Any) -> Any:
    return torch.func.grad(lambda x: (x ** 3).sum())(x)


@program(LIBRARIES, rand(3), further=[(rand(3, seed=1),)])
def jacobian_inside(self: Any, x: Any) -> Any:
    return torch.func.jacrev(lambda x: x.sin() * x.sum())(x)


@program(LIBRARIES, rand(3), rand(3), further=[(rand(3, seed=1), rand(3))])
def forward_derivative_inside(self: Any, x: Any, t: Any) -> Any:
    return torch.func.jvp(lambda x: x.sin(), (x,), (t,))


@program(LIBRARIES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class FunctionalCall(nn.Module):
    """A module called with other weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        weights = {name: value * 2 for name, value in self.layer.named_parameters()}
        return torch.func.functional_call(self.layer, weights, (x,))


@program(LIBRARIES, rand(2, 3, 4), further=[(rand(2, 3, 4, seed=1),)])
def einsum_and_linear_algebra(self: Any, x: Any) -> Any:
    y = torch.einsum("bij,bkj->bik", x, x) + torch.eye(3) * 3
    return torch.linalg.inv(y), torch.linalg.norm(x, dim=-1), torch.linalg.cholesky(y)


# Modes, gradients, random numbers -----------------------------------------------------------------------------------

MODES = "modes and random numbers"


@program(MODES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class NoGradRegion(nn.Module):
    """Gradients are off for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        y = self.layer(x)
        with torch.no_grad():
            z = self.layer(y)
        with torch.no_grad(), torch.enable_grad():
            w = self.layer(z)
        return y + z + w, z.requires_grad


@program(MODES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
@torch.no_grad()
def no_grad_decorator(self: Any, x: Any) -> Any:
    return x * 2


@program(MODES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class InferenceMode(nn.Module):
    """A region in inference mode."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        with torch.inference_mode():
            y = self.layer(x)
        return y.clone() + 1


@program(MODES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class AutocastRegion(nn.Module):
    """Some of it in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
            with torch.autocast("cpu", enabled=False):
                z = self.layer(x)
        return y, z, y.float() + z


@program(MODES, rand(2, 3), further=[(rand(2, 3, seed=1),)], after=lambda api, p: p.run_decompositions())
class AutocastDecomposed(nn.Module):
    """The same, decomposed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            return self.layer(x).float() + 1


@program(MODES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
def own_context_managers(self: Any, x: Any) -> Any:
    @contextlib.contextmanager
    def noisy() -> Any:
        yield 2

    with noisy() as k, contextlib.nullcontext():
        return x * k


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x ** 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 2 * x


class _TwoResults(torch.autograd.Function):
    @staticmethod
    def forward(x: Any, k: Any) -> Any:
        return x * k, x + k

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any) -> Any:
        return a * ctx.k + b, None


@program(MODES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
def autograd_function(self: Any, x: Any) -> Any:
    return _Square.apply(x) + 1


@program(MODES, rand(2, 3).requires_grad_(), further=[(rand(2, 3, seed=1).requires_grad_(),)], gradients=True)
def autograd_function_with_gradients(self: Any, x: Any) -> Any:
    return _Square.apply(x.sin()) + 1


@program(MODES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
def autograd_function_with_context(self: Any, x: Any) -> Any:
    a, b = _TwoResults.apply(x, 3.0)
    return a - b


@program(MODES, rand(4, 3), further=[(rand(4, 3, seed=1),)], train=True)
def dropout_in_training(self: Any, x: Any) -> Any:
    return F.dropout(x, 0.5, training=self.training) + torch.rand_like(x)


@program(MODES, rand(4, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(7, 3),)], train=True)
def random_of_dynamic_size(self: Any, x: Any) -> Any:
    return torch.randn(x.shape[0], 2), torch.bernoulli(torch.full_like(x, 0.5)), torch.randperm(4)


@program(MODES, rand(4, 3), further=[(rand(4, 3, seed=1),)], train=True)
class BatchNormInTraining(nn.Module):
    """Running statistics are changed."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return self.drop(self.norm(x))


@program(MODES, rand(4, 3), further=[(rand(4, 3, seed=1),)], train=True, gradients=True)
class TrainsWithNoise(nn.Module):
    """Gradients through random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        y = self.layer(x)
        return F.dropout(y, 0.3) + torch.randn_like(y) * y


@program(MODES, rand(3), further=[(rand(3, seed=1),)])
def detached(self: Any, x: Any) -> Any:
    return x.detach() + x.data, x.requires_grad, torch.is_grad_enabled()


@program(MODES, rand(3, 4), further=[(rand(3, 4, seed=1),)])
def checkpointed(self: Any, x: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda x: x.sin() @ x.T, x, use_reentrant=False)


@program(MODES, rand(3), further=[(rand(3, seed=1),)])
def default_dtype_and_device(self: Any, x: Any) -> Any:
    return torch.ones(3) + torch.tensor(1.5, dtype=torch.float64) + torch.zeros(3, device=x.device, dtype=x.dtype)
