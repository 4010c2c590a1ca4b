"""Compiled forward and backward do what eager does: gradients, aliases, changes of inputs, modes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from autodiff.training_programs import assert_same_training


def leaf(*shape, grad=True):
    return torch.randn(*shape).requires_grad_(grad)


PAIR = lambda: [leaf(3, 4), leaf(3, 4)]  # noqa: E731


def changed_input(x, w):
    y = x * 1
    y.mul_(w)
    y[0].add_(1)
    return y


def views_of_input(x, w):
    return x.t(), x[0], x.view(-1), (x * w).sum()


def views_of_result(x, w):
    y = x * w
    return y[0], y.t(), y


def one_view_of_result(x, w):
    return (x * w)[::2, 1:]


def transposed(x, w):
    return (x * w).t()


def input_itself(x, w):
    return x, w * 2, x


def detached(x, w):
    y = x * w
    return y, y.detach(), x.detach(), y.detach() * w


def no_gradient_wanted(x, w):
    with torch.no_grad():
        y = x * w
        v = x.view(-1)
    return y, v, y * w, x.argmax(), x > 0


def integers_and_none(x, w):
    return None, 3, (x > 0).sum(), x.shape[0], x * w


def same_result_twice(x, w):
    y = x * w
    return y, y, [y, y * 1]


def only_one_gradient(x, w):
    return x * 2, torch.sin(x.detach() * 3)


def unused_input(x, w):
    return x * 2


def enable_grad_inside(x, w):
    with torch.no_grad():
        with torch.enable_grad():
            y = x * w
        z = y * 2
    return y, z


def saved_result(x, w):
    return torch.softmax(x, -1), torch.sigmoid(w), torch.exp(x * w)


def half_of_it(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.linear(x, w)
        z = F.layer_norm(y, (3,))
    return y, z, F.linear(x, w)


def drop(x, w):
    return F.dropout(x, 0.4, True) * F.dropout(w, 0.2, True), torch.rand_like(x) * x


def reductions(x, w):
    return (x * w).sum(), x.mean(0), x.std(), w.logsumexp(-1), x.amax(1), x.cumsum(0)


def expanded(x, w):
    return x.sum().expand(3, 4), x[0].expand(2, 4) * 1, w.mean()


def indexed(x, w):
    return x[:, [0, 2]], w.gather(1, torch.zeros(3, 1, dtype=torch.int64)), x[torch.arange(2)]


def passed_on(x, w):
    return x + w, x - w


def into_fresh(x, w):
    y = torch.zeros(3, 4)
    y[0] = x[0]
    y[1:, 1] = w[1:, 0]
    return y


def into_buffer(x, w):
    b = torch.zeros(3)
    b.copy_(x.sum(1).detach())
    return b, x * w


PROGRAMS = [
    changed_input, views_of_input, views_of_result, one_view_of_result, transposed, input_itself, detached,
    no_gradient_wanted, integers_and_none, same_result_twice, only_one_gradient, unused_input, enable_grad_inside,
    saved_result, half_of_it, drop, reductions, expanded, indexed, passed_on, into_fresh, into_buffer,
]


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program, backend):
    assert_same_training(program, PAIR, backend=backend)


@pytest.mark.parametrize("program", [reductions, views_of_result, saved_result, detached], ids=lambda p: p.__name__)
@pytest.mark.parametrize("which", [[1], [2, 0]], ids=str)
def test_undefined_gradients(program, which):
    assert_same_training(program, PAIR, which=which, backend="native" if which == [1] else "aot_eager")


@pytest.mark.parametrize("program", [passed_on, transposed, saved_result, views_of_result], ids=lambda p: p.__name__)
def test_gradients_in_another_layout(program):
    assert_same_training(program, PAIR, strided=True, backend="native")


# inputs that are changed


def add_in_place(x, w):
    x.add_(w)
    return x * 2


def multiply_in_place(x, w):
    x.mul_(w)
    return x[0], x.sin()


def write_part(x, w):
    x[0].copy_(w[1])
    return None, (x * w).sum()


def plain_buffer(x, w):
    x.mul_(0.9).add_(w.detach().mean(), alpha=0.1)
    return w * x.clone()


def in_no_grad(x, w):
    with torch.no_grad():
        x.add_(1)
    return w * 2


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("program", [add_in_place, multiply_in_place, write_part], ids=lambda p: p.__name__)
@pytest.mark.parametrize("kind", ["inner", "view", "plain"])
def test_changed_inputs_with_gradients(program, kind, backend):
    def make():
        source = leaf(3, 4, grad=kind != "plain")
        x = source * 1 if kind == "inner" else (torch.cat([source, source])[1:4] if kind == "view" else source)
        return {0: source, 1: [x, leaf(3, 4)]}

    assert_same_training(program, make, backend=backend)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_changed_inputs_without_gradients(backend):
    assert_same_training(plain_buffer, lambda: [leaf(3, 4, grad=False), leaf(3, 4)], backend=backend)
    assert_same_training(in_no_grad, PAIR, backend=backend)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_shared_memory_of_inputs(backend):
    def make():
        base = torch.randn(6, 4)
        return [base[:3].requires_grad_(), base[3:].requires_grad_(), base]

    assert_same_training(lambda a, b, c: (a * b, c.sum() * a), make, backend=backend)


@pytest.mark.parametrize("program", [views_of_input, views_of_result, reductions, drop, transposed, half_of_it],
                         ids=lambda p: p.__name__)
def test_symbolic_sizes(program):
    sizes = iter([(3, 4), (3, 4), (5, 6), (5, 6), (7, 3), (7, 3)])

    def make():
        rows, columns = next(sizes)
        if program is half_of_it:
            columns = 4
        return [leaf(rows, columns), leaf(3, 4) if program is half_of_it else leaf(rows, columns)]

    assert_same_training(program, make, backend="native", dynamic=True, calls=3)


def test_a_number_that_comparisons_settle_is_one_of_a_view():
    def program(x, n):
        m = min(n, -5) // (abs(n * 4) + 1)  # -1, which the slice and the size below find out
        return (x[:, -m:] + 1).unsqueeze(0).expand(max(m, -1), -1, -1)

    compiled = fs.compile(program, backend="aot_eager", dynamic=True, fullgraph=True)
    for n, width in ((6, 3), (-1, 1), (5, 5), (-1, 3)):
        x = torch.rand(4, width, requires_grad=True)
        got, wanted = compiled(x, n), program(x, n)
        assert torch.equal(got, wanted) and type(got.grad_fn).__name__ == type(wanted.grad_fn).__name__
