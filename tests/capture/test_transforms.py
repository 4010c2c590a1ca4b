"""``torch.func`` inside of compiled functions and around them (see `transform_programs`)."""

from __future__ import annotations

import pytest
import torch
from tests.capture.transform_programs import AROUND, INSIDE, MLP, Program, observed
from torch.func import functional_call, grad, jacrev, jvp, linearize, vjp, vmap

import firesteel as fs

INSIDE_NAMES, AROUND_NAMES = list(INSIDE), list(AROUND)


def outcome(program: Program, function):
    return observed(program, function, program.inputs())


@pytest.mark.parametrize("name", INSIDE_NAMES[::4])
def test_inside(name):
    program = INSIDE[name]
    compiled = fs.compile(program.function, fullgraph=True, backend="native")
    torch.testing.assert_close(outcome(program, compiled), outcome(program, program.function))


@pytest.mark.parametrize("name", INSIDE_NAMES[1::4])
def test_inside_with_symbolic_sizes(name):
    program = INSIDE[name]
    compiled = fs.compile(program.function, fullgraph=True, backend="native", dynamic=True)
    torch.testing.assert_close(outcome(program, compiled), outcome(program, program.function))


@pytest.mark.parametrize("name", INSIDE_NAMES[2::8])
def test_inside_as_captured(name):
    program = INSIDE[name]
    compiled = fs.compile(program.function, fullgraph=True, backend="eager")
    torch.testing.assert_close(outcome(program, compiled), outcome(program, program.function))


@pytest.mark.parametrize("name", AROUND_NAMES[::3])
def test_around(name):
    program = AROUND[name]
    expected = outcome(program, lambda *args: program.function(lambda f: f, *args))
    found = outcome(program, lambda *args: program.function(lambda f: fs.compile(f, backend="eager"), *args))
    torch.testing.assert_close(found, expected)


X = torch.linspace(-1, 1, 6).view(2, 3)


def refused(function):
    """The error that a function raises in plain Python."""
    with pytest.raises(Exception) as caught:
        function(X)
    return caught.value


@pytest.mark.parametrize("function", [
    lambda x: grad(lambda x: x * 2)(x),
    lambda x: grad(lambda x: x.sum().item())(x),
    lambda x: grad(lambda x: (x.sum(), 1, 2), has_aux=True)(x),
    lambda x: grad(lambda x: (x.sum(), 3), has_aux=True)(x),
    lambda x: linearize(lambda x: x * x.sum().item(), x)[1](x),
    lambda x: linearize(torch.sin, x)[1](x[:1]),
    lambda x: linearize(torch.sin, x)[1](x, x),
    lambda x: grad(lambda x: x.sum(), argnums=3)(x),
    lambda x: vmap(lambda row: row + torch.rand(3))(x),
    lambda x: vmap(lambda row: 1.0)(x),
    lambda x: vmap(lambda row: row, in_dims=2)(x),
    lambda x: vmap(lambda row, other: row)(x, torch.ones(5)),
    lambda x: vmap(lambda row: row.item())(x.view(-1)),
    lambda x: vmap(lambda row: row, out_dims=(0, 1))(x),
    lambda x: vmap(lambda row: row * 2, randomness="none")(x),
    lambda x: vjp(lambda x: x.sin(), x)[1]((x, x)),
    lambda x: jvp(torch.sin, (x,), (x[0],)),
    lambda x: jvp(torch.sin, x, x),
    lambda x: torch.func.jacrev(lambda x: x.long())(x),
], ids=lambda function: str(function.__code__.co_firstlineno))
def test_errors_are_those_of_plain_python(function):
    expected = refused(function)
    with pytest.raises(type(expected)) as caught:
        fs.compile(function, backend="eager")(X)
    assert str(caught.value) == str(expected)


def test_a_function_may_change_objects_but_keep_no_tensor():
    calls = []

    def counting(x):
        return grad(lambda x: (calls.append(len(calls)), x.sin().sum())[1])(x)

    torch.testing.assert_close(fs.compile(counting, fullgraph=True, backend="eager")(X), X.cos())
    assert calls == [0]
    kept = []

    def keeping(x):
        return grad(lambda x: (kept.append(x.sin()), x.sin().sum())[1])(x)

    with pytest.raises(fs.errors.GraphBreakError, match="is kept beyond its call"):
        fs.compile(keeping, fullgraph=True, backend="eager")(X)
    torch.testing.assert_close(fs.compile(keeping, backend="eager")(X), X.cos())


class Holder:
    """Something from outside that can keep a tensor."""


HOLDER, KEPT = Holder(), []


def keep_in_list(t):
    KEPT.append(t)
    return (t * 2).sum()


def keep_in_slice(t):
    KEPT[:] = [t.view(-1)]
    return (t * 2).sum()


def keep_in_closure(t):
    KEPT.append(lambda: t)
    return (t * 2).sum()


def keep_in_attribute(t):
    HOLDER.last = t
    return (t * 2).sum()


def keep_in_global(t):
    global HELD
    HELD = t
    return (t * 2).sum()


TRANSFORMS = {"grad": lambda f, x: grad(f)(x), "vmap": lambda f, x: vmap(f)(x), "vjp": lambda f, x: vjp(f, x)[0],
              "jvp": lambda f, x: jvp(f, (x,), (x,))}


@pytest.mark.parametrize("keep", [keep_in_list, keep_in_slice, keep_in_closure, keep_in_attribute, keep_in_global])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_function_that_keeps_what_it_is_given(transform, keep):
    def program(x):
        x.add_(1)
        return TRANSFORMS[transform](keep, x)

    seen, kept = [], []
    for function in (program, fs.compile(program, backend="eager"), fs.compile(program, backend="native")):
        KEPT.clear()
        HOLDER.__dict__.clear()
        globals()["HELD"] = None
        x = X.clone()
        seen.append((function(x), x))
        kept.append((len(KEPT), list(vars(HOLDER)), HELD is not None))
    torch.testing.assert_close(seen[1:], [seen[0]] * 2)
    assert kept[1:] == [kept[0]] * 2


SCALE, CALLS = [1.0], []


class Sine(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos()


class OwnVmap(Sine):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, dims, x):
        CALLS.append(info.batch_size)
        return x * SCALE[0], dims[0]


class OwnJvp(Sine):
    @staticmethod
    def jvp(ctx, tangent):
        CALLS.append("jvp")
        return tangent * SCALE[0]


class OwnVmapInForward(Sine):
    @staticmethod
    def forward(x):
        return OwnVmap.apply(x)


class OwnVmapInBackward(Sine):
    @staticmethod
    def backward(ctx, gradient):
        return OwnVmap.apply(gradient)


RULED = {
    "vmap": lambda f, x: vmap(f)(x),
    "vmap of grad": lambda f, x: vmap(grad(lambda row: f(row).sum()))(x),
    "grad of vmap": lambda f, x: grad(lambda x: vmap(f)(x).sum())(x),
    "jvp": lambda f, x: jvp(f, (x,), (x,)),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
}


@pytest.mark.parametrize("transform", RULED)
@pytest.mark.parametrize("function", [Sine, OwnVmap, OwnJvp, OwnVmapInForward, OwnVmapInBackward])
@pytest.mark.parametrize("dynamic", [None, True])
def test_rules_of_functions_run_in_every_call(function, transform, dynamic):
    def program(x):
        return RULED[transform](function.apply, x)

    results, calls = [], []
    for called in (program, fs.compile(program, backend="native", dynamic=dynamic)):
        for SCALE[0] in (1.0, 5.0, 2.0):
            CALLS.clear()
            error = None
            try:
                results.append(called(torch.ones(2, 3)))
            except (RuntimeError, NotImplementedError) as raised:
                error = str(raised)
            calls.append((error, list(CALLS), list(map(type, CALLS))))
    torch.testing.assert_close(results[len(results) // 2:], results[:len(results) // 2])
    assert calls[3:] == calls[:3]


@pytest.mark.parametrize("function", [
    lambda x: (x.sum(), 3),
    lambda x: torch.ones(3),
    lambda x: x.detach(),
    lambda x: (x * 2, x > 0),
    lambda x: (CALLS.append(1), x * 2)[1],
], ids=lambda function: str(function.__code__.co_firstlineno))
def test_linearize_of_what_has_no_derivative(function):
    def program(x):
        results = linearize(function, x)[1](x)
        return results, str(torch.utils._pytree.tree_map(type, results))

    seen = []
    for called in (program, fs.compile(program, backend="eager")):
        CALLS.clear()
        seen.append((called(X), len(CALLS)))
    assert seen[1][0][1] == seen[0][0][1] and seen[1][1] == seen[0][1]
    torch.testing.assert_close(seen[1][0][0], seen[0][0][0])


def linearize_then_change_a_list(x):
    factor = [2.0]
    derivative = linearize(lambda x: x * x * factor[0], x)[1]
    factor[0] = 3.0
    return derivative(x)


def linearize_then_change_a_variable(x):
    factor = 2.0

    def scaled(x):
        return x * x * factor

    derivative = linearize(scaled, x)[1]
    factor = 3.0
    return derivative(x)


def linearize_then_change_a_tensor(x):
    y = x.clone()
    derivative = linearize(lambda x: x * x, y)[1]
    y.add_(1)
    return derivative(x)


def linearize_then_transform(x):
    derivative = linearize(lambda x: x.sin() * x, x)[1]
    return vmap(derivative)(torch.stack([x, x * 2])), grad(lambda t: derivative(t).sum())(x), derivative(x)


@pytest.mark.parametrize("function", [
    linearize_then_change_a_list, linearize_then_change_a_variable, linearize_then_change_a_tensor,
    linearize_then_transform])
def test_linearize_keeps_the_function_as_it_was(function):
    for backend in ("eager", "native"):
        torch.testing.assert_close(fs.compile(function, backend=backend)(X), function(X))


def test_the_function_of_linearize_may_leave():
    def program(x):
        return linearize(torch.sin, x * 2)

    expected, found = program(X), fs.compile(program, backend="eager")(X)
    torch.testing.assert_close((found[0], found[1](X)), (expected[0], expected[1](X)))


def test_the_function_of_vjp_may_leave():
    def program(x):
        out, back = vjp(torch.sin, x * 2)
        return out + 1, back

    expected, found = program(X), fs.compile(program, backend="eager")(X)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1](X), expected[1](X))


def test_a_module_has_its_own_parameters_again():
    before = dict(MLP.named_parameters())

    def program(x):
        return grad(lambda p: functional_call(MLP, p, (x,)).sum())(dict(MLP.named_parameters()))

    fs.compile(program, fullgraph=True, backend="native")(torch.ones(5, 6))
    assert all(dict(MLP.named_parameters())[name] is parameter for name, parameter in before.items())


def test_new_sizes_and_values_of_closures_are_seen():
    scale = 2.0

    def program(x):
        return vmap(grad(lambda row: (row * scale).square().sum()))(x)

    compiled = fs.compile(program, fullgraph=True, backend="native")
    for x in (X, X[:1], torch.ones(4, 5)):
        torch.testing.assert_close(compiled(x), program(x))
    scale = 3.0
    torch.testing.assert_close(compiled(X), program(X))


def test_a_compiled_function_inside_of_a_transform_inside():
    inner = fs.compile(lambda row: row.sin() * row, backend="native")
    program = fs.compile(lambda x: vmap(inner)(x), fullgraph=True, backend="native")
    torch.testing.assert_close(program(X), X.sin() * X)


GIVEN_BACK = {
    "itself": lambda x: jacrev(lambda b: b)(x),
    "plus a number": lambda x: jacrev(lambda b: b + 1, chunk_size=1)(x),
    "sum of two": lambda x: jacrev(lambda p: p[0] + p[1])((x, x * 2)),
    "bias": lambda x: jacrev(lambda b: torch.nn.functional.linear(x, torch.eye(3), b))(x),
    "pullback": lambda x: vjp(lambda b: b + 1, x)[1](x * 3),
}


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", GIVEN_BACK)
def test_gradients_that_are_given_back_as_they_came(name, backend):
    """Nothing is changed in place where the gradient of a sum is the one that was given."""
    x = torch.randn(3)
    compiled = fs.compile(GIVEN_BACK[name], backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), GIVEN_BACK[name](x))


def test_inside_of_torchs_mode_for_subscripts():
    """As transformers makes masks of attention from functions of positions."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    def program(padding):
        def seen(batch, query, key):
            return (key <= query) & padding[batch, key]

        rows, positions = torch.arange(2), torch.arange(4)
        function = seen
        for dims in ((None, None, 0), (None, 0, None), (0, None, None)):
            function = vmap(function, in_dims=dims, out_dims=0)
        with TransformGetItemToIndex():
            return function(rows, positions, positions)

    padding = torch.tensor([[True, True, True, False], [True, False, True, True]])
    torch.testing.assert_close(fs.compile(program, fullgraph=True)(padding), program(padding))


@pytest.mark.parametrize("name, function", [
    ("prod", lambda v: v.prod()), ("cumprod", lambda v: v.cumprod(0).sum()),
    ("sort", lambda v: (v.sort()[0] ** 3).sum()),
    ("rosenbrock", lambda v: (100 * (v[1:] - v[:-1] ** 2) ** 2 + (1 - v[:-1]) ** 2).sum()),
])
def test_hessians_of_several_sizes(name, function):
    """Where torch's transforms cannot have symbolic sizes, each size is compiled for itself."""
    def program(x):
        return torch.func.hessian(function)(x)

    compiled = fs.compile(program, fullgraph=True)
    for size in (3, 4, 5, 3):
        x = torch.linspace(0.5, 1.5, size).flip(0)
        torch.testing.assert_close(compiled(x), program(x))


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_numbers_that_a_differentiated_function_counts(backend):
    state = {}

    def loss(w, x):
        state["calls"] = state.get("calls", 0) + 1
        return (w * x).sum() * state["calls"]

    compiled = fs.compile(lambda w, x: grad(loss)(w, x), backend=backend)
    with fs.config.patch(raise_on_internal_error=True):
        assert [compiled(X, X).tolist() for _ in range(4)] == [(X * calls).tolist() for calls in (1, 2, 3, 4)]
    assert state == {"calls": 4}
