"""``torch.func`` inside of compiled functions and around them (see `transform_programs`)."""

from __future__ import annotations

import pytest
import torch
from tests.capture.transform_programs import AROUND, INSIDE, MLP, Program, observed
from torch.func import functional_call, grad, jvp, vjp, vmap

import firesteel as fs

INSIDE_NAMES, AROUND_NAMES = list(INSIDE), list(AROUND)


def results(program: Program, function):
    return observed(program, function, program.inputs())


@pytest.mark.parametrize("name", INSIDE_NAMES[::4])
def test_inside(name):
    program = INSIDE[name]
    compiled = fs.compile(program.function, fullgraph=True, backend="native")
    torch.testing.assert_close(results(program, compiled), results(program, program.function))


@pytest.mark.parametrize("name", INSIDE_NAMES[1::4])
def test_inside_with_symbolic_sizes(name):
    program = INSIDE[name]
    compiled = fs.compile(program.function, fullgraph=True, backend="native", dynamic=True)
    torch.testing.assert_close(results(program, compiled), results(program, program.function))


@pytest.mark.parametrize("name", INSIDE_NAMES[2::8])
def test_inside_as_captured(name):
    program = INSIDE[name]
    compiled = fs.compile(program.function, fullgraph=True, backend="eager")
    torch.testing.assert_close(results(program, compiled), results(program, program.function))


@pytest.mark.parametrize("name", AROUND_NAMES[::3])
def test_around(name):
    program = AROUND[name]
    expected = results(program, lambda *args: program.function(lambda f: f, *args))
    found = results(program, lambda *args: program.function(lambda f: fs.compile(f, backend="eager"), *args))
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
