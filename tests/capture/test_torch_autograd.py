"""Autograd inside compiled functions: autograd.Function, grad, backward, checkpoint, functional transforms."""

import pytest
import torch
from tests.torch_differential import check
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from firesteel.backends.checkpoint_regions import CheckpointedRegion, outline_regions


def leaf():
    return (torch.randn(3, 4, requires_grad=True),)


def leaves():
    return torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x * ctx.factor * 10, None


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-1, 1)


class Several(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.mark_non_differentiable(mask := x > y)
        ctx.set_materialize_grads(False)
        return x + y, x * y, mask

    @staticmethod
    def backward(ctx, da, db, dm):
        x, y = ctx.saved_tensors
        dx = (da if da is not None else 0) + (db * y if db is not None else 0)
        dy = (da if da is not None else 0) + (db * x if db is not None else 0)
        return dx * 3, dy if ctx.needs_input_grad[1] else None


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 7


class SetupContext(torch.autograd.Function):
    @staticmethod
    def forward(x, n):
        return x**n

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, n = inputs
        ctx.save_for_backward(x)
        ctx.n = n

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.n * x ** (ctx.n - 1) * 5, None


FUNCTIONS = {
    "scale": lambda x, y: Scale.apply(x, 3.0) + y,
    "straight through": lambda x, y: StraightThrough.apply(x) * y,
    "several": lambda x, y: Several.apply(x, y * 2)[:2],
    "several one used": lambda x, y: Several.apply(x, y)[1],
    "in place": lambda x, y: InPlace.apply(x * 1) + y,
    "setup context": lambda x, y: SetupContext.apply(x, 2) + y,
    "alias": lambda x, y: (lambda f: f(x, 2.0) * y)(Scale.apply),
    "nested": lambda x, y: Scale.apply(StraightThrough.apply(x) + y, 2.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_autograd_function(name):
    check(FUNCTIONS[name], leaves, fullgraph=False, backward=True)
    with torch.no_grad():
        check(FUNCTIONS[name], leaves, fullgraph=False)


@pytest.mark.parametrize("name", ["scale", "straight through", "several", "alias", "nested", "setup context"])
def test_autograd_function_in_one_graph(name):
    check(FUNCTIONS[name], leaves, backward=True)


def test_autograd_function_with_closure_state():
    calls = []

    class Noting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            calls.append("backward")
            return grad * 2

    check(lambda x: Noting.apply(x) + 1, leaf, fullgraph=False, backward=True)
    assert calls == ["forward", "backward"] * 3


class Defaults(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, eps=1e-5, flag=True):
        ctx.save_for_backward(x, w)
        ctx.eps = eps
        return x * w if flag else x.clone()

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * w + ctx.eps, (grad * x).sum(0), None, None


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return -grad


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.nn.functional.dropout(x) * torch.rand(4)

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class Inner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            z = y * y
        ctx.save_for_backward(y, z)
        return z.detach()

    @staticmethod
    def backward(ctx, grad):
        y, z = ctx.saved_tensors
        return torch.autograd.grad(z, y, grad)[0]


class Mixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, None, 5

    @staticmethod
    def backward(ctx, grad, *others):
        return grad * 3


class Branching(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2 if x.sum() > 0 else x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class WithModule(torch.autograd.Function):
    @staticmethod
    def forward(ctx, module, x):
        return module(x).detach()

    @staticmethod
    def backward(ctx, grad):
        return None, grad * 2


class Appending(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seen):
        seen.append(x.shape)
        return x * len(seen)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


WHOLE = {
    "defaults": lambda x: Defaults.apply(x, torch.ones(4, requires_grad=True)),
    "arguments": lambda x: Defaults.apply(x, x[0], 0.1, False),
    "identity": lambda x: Identity.apply(x) * 2,
    "reversal": lambda x: Reversal.apply(x) * 2,
    "random": lambda x: Noisy.apply(x) + torch.rand(4),
    "inner graph": lambda x: Inner.apply(x) * 2,
    "mixed results": lambda x: Mixed.apply(x),
}


@pytest.mark.parametrize("name", WHOLE)
def test_autograd_function_details(name):
    check(WHOLE[name], leaf, backward=True)
    check(WHOLE[name], lambda: (torch.randn(3, 4),))


def test_autograd_function_that_breaks():
    check(lambda x: Branching.apply(x) + 1, leaf, fullgraph=False, backward=True)
    check(
        lambda m, x: WithModule.apply(m, x) + 1,
        lambda: (torch.nn.Linear(4, 4), *leaf()),
        fullgraph=False,
        backward=True,
    )
    check(lambda x, s: (Appending.apply(x, s), s), lambda: (*leaf(), []), fullgraph=False, backward=True)

    def own_list(x):
        seen = ["before"]
        return Appending.apply(x, seen) + len(seen), seen

    check(own_list, leaf, fullgraph=False, backward=True)


FACTOR = [2.0]


class ReadingGlobal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * FACTOR[0]

    @staticmethod
    def backward(ctx, grad):
        return grad * FACTOR[0]


def test_backward_of_a_function_reads_globals_anew():
    import firesteel as fs

    def f(x):
        (ReadingGlobal.apply(x) * 2).sum().backward()

    for backend in ("eager", "native"):
        compiled = fs.compile(f, backend=backend, fullgraph=True)
        try:
            for factor in (2.0, 3.0, 4.0):
                FACTOR[0] = factor
                x = torch.ones(2, requires_grad=True)
                compiled(x)
                assert torch.equal(x.grad, torch.full((2,), 2 * factor))
        finally:
            FACTOR[0] = 2.0


class Unfollowed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 if x.sum() > 0 else grad * 3


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_backward_that_cannot_be_followed(backend):
    """It depends on data, so it runs on real tensors only; the forward stays in the graph."""
    import firesteel as fs

    def inside(x):
        Unfollowed.apply(x).sum().backward()

    def outside(x):
        return Unfollowed.apply(x).sum()

    whole, forward = fs.compile(inside, backend=backend), fs.compile(outside, backend=backend, fullgraph=True)
    for sign, factor in ((1.0, 2.0), (-1.0, 3.0), (1.0, 2.0)):
        for run in (whole, lambda x: forward(x).backward()):
            x = torch.full((3,), sign, requires_grad=True)
            run(x)
            assert torch.equal(x.grad, torch.full((3,), factor))


def test_autograd_function_made_inside():
    def f(x):
        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * 7

        return Doubled.apply(x) + 1

    check(f, leaf, fullgraph=False, backward=True, calls=1)  # every call makes another class
    mask = torch.tensor([True, False, True, True])
    check(lambda x: torch.masked.sum(x, 1, mask=mask), leaf, backward=True)


def test_autograd_function_reads_globals_anew():
    import firesteel as fs

    compiled = fs.compile(lambda x: ReadingGlobal.apply(x) + 1, backend="eager")
    try:
        for factor in (2.0, 3.0, 4.0):
            FACTOR[0] = factor
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), factor + 1))
    finally:
        FACTOR[0] = 2.0


def test_gradients_inside():
    check(lambda x: torch.autograd.grad((x * x).sum(), x)[0] + 1, leaf)

    def penalty(x, y):
        (g,) = torch.autograd.grad((x**3 * y).sum(), x, create_graph=True)
        return (g**2).sum()

    check(penalty, leaves, backward=True)

    def backward(x, y):
        loss = (x * y).sum()
        loss.backward()
        return x.grad * 2, y.grad

    check(backward, leaves)

    def step(x, y):
        for _ in range(2):
            loss = ((x - y.detach()) ** 2).mean()
            loss.backward()
            with torch.no_grad():
                x -= 0.1 * x.grad
                x.grad = None
        return x, loss.detach()

    check(step, leaves)

    check(lambda x: torch.autograd.functional.jacobian(lambda t: t * t, x.detach()[0]), leaf, fullgraph=False)


def test_detach_and_clone():
    check(lambda x: (x.detach() * x, x.clone() * 2, x.detach().clone(), x.data * x), leaf, backward=True)
    check(lambda x: (x * 2).requires_grad, leaf)
    check(lambda x, y: (x.detach_() if not x.requires_grad else x, y), lambda: (torch.randn(3), torch.randn(3)))


CHECKPOINTS = {
    "plain": lambda x: checkpoint(lambda t: torch.sin(t) * t, x, use_reentrant=False),
    "reentrant": lambda x: checkpoint(lambda t: torch.sin(t) * t, x, use_reentrant=True),
    "several": lambda x: checkpoint(lambda a, b: (a * b, a + b), x, x * 2, use_reentrant=False),
    "nested": lambda x: checkpoint(
        lambda t: checkpoint(torch.sin, t * 2, use_reentrant=False) * t, x, use_reentrant=False
    ),
    "dropout": lambda x: checkpoint(lambda t: torch.nn.functional.dropout(t) * t, x, use_reentrant=False),
    "keywords": lambda x: checkpoint(lambda t, scale: t * scale, x, scale=3.0, use_reentrant=False),
    "no determinism": lambda x: checkpoint(
        torch.cos, x, use_reentrant=False, preserve_rng_state=False, determinism_check="none"
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoint(name):
    outcome = check(CHECKPOINTS[name], leaf, backward=True)
    (module,) = outcome.graph_modules
    regions = {node.meta.get("recompute") for node in module.graph.nodes if node.op not in ("placeholder", "output")}
    assert 1 in regions  # what belongs to the checkpoint is marked
    assert any(isinstance(node.target, CheckpointedRegion) for node in outline_regions(module).graph.nodes)


@pytest.mark.filterwarnings("ignore")
def test_checkpoint_of_modules():
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()) for _ in range(3)))

    def fresh():
        model.zero_grad()
        return leaf()

    check(lambda x: checkpoint(model, x, use_reentrant=False), fresh, backward=True)
    check(lambda x: checkpoint_sequential(model, 2, x, use_reentrant=False), fresh, backward=True)
    for reentrant in (True, False):

        def f(x):
            for block in model:
                x = checkpoint(block, x, use_reentrant=reentrant)
            return x

        check(f, fresh, backward=True)


def test_checkpoint_recomputes():
    """Of a checkpointed region only its inputs are kept for the backward pass."""
    import firesteel as fs

    def chain(t):
        for _ in range(4):
            t = torch.sin(t)
        return t

    def saved(f):
        sizes = []
        pack = lambda t: sizes.append(t.numel()) or t
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            f(torch.randn(3, 4, requires_grad=True))
        return len(sizes)

    plain = fs.compile(chain, backend="eager", fullgraph=True)
    kept = fs.compile(lambda x: checkpoint(chain, x, use_reentrant=False), backend="eager", fullgraph=True)
    for compiled in (plain, kept):
        compiled(*leaf())
    for _ in range(2):
        assert saved(plain) == 4
        assert saved(kept) <= saved(lambda x: checkpoint(chain, x, use_reentrant=False)) < 4


def test_checkpoint_of_functions_that_run_twice_visibly():
    calls = []

    def noting(t):
        calls.append(1)
        return torch.sin(t)

    check(lambda x: checkpoint(noting, x, use_reentrant=False), leaf, fullgraph=False, backward=True)
    norm = torch.nn.BatchNorm1d(4)

    def fresh():
        norm.reset_running_stats()
        norm.zero_grad()
        return leaf()

    f = lambda x: (checkpoint(norm, x, use_reentrant=False), norm.running_mean)
    check(f, fresh, fullgraph=False, backward=True)


def _square(t):
    return (t * t).sum()


TRANSFORMS = {
    "grad": lambda x: torch.func.grad(_square)(x),
    "vmap": lambda x: torch.func.vmap(lambda t: t * 2 + t.sum())(x),
    "torch.vmap": lambda x: torch.vmap(torch.dot)(x, x),
    "per sample": lambda x: torch.func.vmap(torch.func.grad(_square))(x),
    "jacobians": lambda x: (
        torch.func.jacrev(torch.sin)(x[0]),
        torch.func.jacfwd(torch.cos)(x[0]),
        torch.func.hessian(_square)(x[0]),
    ),
    "products": lambda x: (torch.func.vjp(torch.sin, x)[1](x)[0], torch.func.jvp(torch.sin, (x,), (x,))),
    "functional call": lambda x: (
        torch.func.functional_call(torch.nn.Linear(4, 2).requires_grad_(False), {"weight": x[:2]}, (x,)).shape
    ),
    "grad and value": lambda x: torch.func.grad_and_value(_square)(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform_inside(name):
    check(lambda x: (TRANSFORMS[name](x.detach()), x * 2), leaf, fullgraph=False, backward=True)


def test_compiled_under_transforms():
    import firesteel as fs

    f = lambda t: torch.sin(t) * t + 1
    compiled = fs.compile(f, backend="eager")
    x = torch.randn(3, 4)
    for _ in range(2):
        assert torch.equal(torch.func.vmap(compiled)(x), torch.func.vmap(f)(x))
        assert torch.equal(torch.func.grad(lambda t: compiled(t).sum())(x), torch.func.grad(lambda t: f(t).sum())(x))
        assert torch.equal(torch.func.jvp(compiled, (x,), (x,))[1], torch.func.jvp(f, (x,), (x,))[1])
        assert torch.equal(torch.func.functionalize(compiled)(x), f(x))
        assert torch.equal(compiled(x), f(x))


def test_forward_mode():
    import torch.autograd.forward_ad as fwad

    def f(x, t):
        with fwad.dual_level():
            dual = fwad.make_dual(x, t)
            return fwad.unpack_dual(torch.sin(dual)).tangent

    check(f, lambda: (torch.randn(3), torch.randn(3)), fullgraph=False)
    import firesteel as fs

    compiled = fs.compile(lambda x: torch.sin(x) * x, backend="eager")
    x, t = torch.randn(3), torch.randn(3)
    with fwad.dual_level():
        got = fwad.unpack_dual(compiled(fwad.make_dual(x, t))).tangent
        want = fwad.unpack_dual(torch.sin(fwad.make_dual(x, t)) * fwad.make_dual(x, t)).tangent
        assert got is not None and torch.equal(got, want)


def test_graph_is_kept_across_compiled_calls():
    import firesteel as fs

    def f(x):
        return torch.sin(x) * 2

    compiled = fs.compile(f, backend="eager")
    x, y = (torch.randn(3, requires_grad=True) for _ in range(2))
    y.data.copy_(x.data)
    (compiled(compiled(x)) ** 2).sum().backward()
    (f(f(y)) ** 2).sum().backward()
    assert torch.equal(x.grad, y.grad)
