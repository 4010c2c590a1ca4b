"""Hooks on gradients that compiled code registers: called as in eager, with the same gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import firesteel as fs

BACKENDS = ("eager", "aot_eager", "native")


def leaf():
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()


def outcome(function, make):
    """Results, gradients, and what hooks have written down."""
    torch.manual_seed(0)
    args, log = make(), []
    result = function(*args, log)
    results = result if isinstance(result, tuple) else (result,)
    sum(one.sum() for one in results).backward()
    leaves = [each for arg in args for each in (arg.parameters() if isinstance(arg, nn.Module) else [arg])]
    retained = [one.grad for one in results if one.retains_grad]
    return [each.detach() for each in results], [each.grad for each in leaves], retained, log


def _numbers(part):
    return [one for one in part if not isinstance(one, str)]


def check(function, make=lambda: (leaf(),), breaks=False, backends=BACKENDS):
    expected = outcome(function, make)
    for backend in backends:
        fs.reset()
        compiled = fs.compile(function, backend=backend, fullgraph=not breaks)
        for _ in range(2):
            got = outcome(compiled, make)
            assert [one for one in got[3] if type(one) is str] == [one for one in expected[3] if type(one) is str]
            torch.testing.assert_close([_numbers(part) for part in got], [_numbers(part) for part in expected])
    if breaks:
        assert fs.explain(function)(*make(), []).break_reasons


def test_hook_that_changes_a_gradient():
    def f(x, log):
        y = x * 2
        y.register_hook(lambda gradient: gradient * 3)
        return y.sin()

    check(f)


def test_hook_sees_all_uses():
    def f(x, log):
        y = x.exp()
        z = y.sin()
        y.register_hook(lambda gradient: log.append(gradient.clone()))
        return z * y

    check(f)


def test_hook_with_state():
    def f(x, log):
        state = [0]

        def hook(gradient):
            state[0] += 1
            log.append(state[0])
            return gradient * state[0]

        y = x * 2
        y.register_hook(hook)
        z = y + 1
        z.register_hook(hook)
        return z.sin()

    check(f)


def test_hook_on_an_argument():
    def f(x, log):
        x.register_hook(lambda gradient: gradient + 1)
        return x.sin()

    check(f)


def test_hook_behind_accumulation():
    def f(x, log):
        x.register_post_accumulate_grad_hook(lambda tensor: log.append(tensor.grad.sum()))
        return x.sin()

    check(f)


def test_retained_gradient():
    def f(x, log):
        y = x * 2
        y.retain_grad()
        return y, y.sin()

    check(f)


def test_removed_hook():
    def f(x, log):
        y = x * 2
        handle = y.register_hook(lambda gradient: gradient * 5)
        kept = y.register_hook(lambda gradient: gradient * 3)
        handle.remove()
        log.append(type(kept).__name__)
        return y.sin()

    check(f)


def test_handle_is_returned():
    seen = []
    compiled = fs.compile(lambda x: (x.sin(), x.register_hook(lambda gradient: seen.append(1))), fullgraph=True)
    for removes in (False, True):
        result, handle = compiled(leaf())
        assert isinstance(handle, torch.utils.hooks.RemovableHandle)
        if removes:
            handle.remove()
        result.sum().backward()
    assert seen == [1]


def test_order_of_hooks_around_a_break():
    def f(x, log):
        y = x * 2
        y.register_hook(lambda gradient: log.append("first"))
        y.register_hook(lambda gradient: log.append("second"))
        fs.graph_break()
        return y.sin()

    check(f, breaks=True)


def test_gradient_inside_calls_hooks():
    def f(x, log):
        y = x * 2
        y.register_hook(lambda gradient: gradient * 3)
        (gradient,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
        return gradient

    check(f, breaks=True)


def test_change_in_place_behind_a_hook():
    def f(x, log):
        y = x * 2
        y.register_hook(lambda gradient: gradient * 3)
        y.mul_(2)
        return y.sin()

    expected = outcome(f, lambda: (leaf(),))
    torch.testing.assert_close(outcome(fs.compile(f, backend="eager"), lambda: (leaf(),)), expected)


def test_backend_that_is_not_ours_breaks():
    def f(x):
        y = x * 2
        y.register_hook(lambda gradient: gradient * 3)
        return y.sin()

    compiled = fs.compile(f, backend=lambda module, examples: module.forward)
    results = []
    for function in (f, compiled):
        x = leaf()
        function(x).sum().backward()
        results.append(x.grad)
    torch.testing.assert_close(*results)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("grad", [True, False])
def test_full_backward_hooks_of_modules(grad):
    def make():
        model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
        state = {"calls": 0}

        def hook(module, inputs, outputs):
            state["calls"] += 1
            return None if inputs[0] is None else (inputs[0] * state["calls"],)

        for module in model:
            module.register_full_backward_hook(hook)
        model[2].register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 2,))
        return model, leaf() if grad else leaf().detach()

    check(lambda model, x, log: model(x).sin(), make, backends=("eager", "native"))


def test_full_backward_hook_of_several_tensors_breaks():
    class Product(nn.Module):
        def forward(self, a, b):
            return a * b

    def make():
        module = Product()
        module.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2, inputs[1] * 3))
        return module, leaf(), leaf()

    check(lambda module, x, y, log: module(x, y).sin(), make, breaks=True, backends=("eager",))


class Masked(nn.Module):
    """Takes and gives tensors that have no gradients, before and behind the one that has."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, scale, x, mask, count=2, other=None):
        return mask, self.linear(x) * scale * mask, None, scale.sum(), count


@pytest.mark.parametrize("grad", [True, False])
def test_full_backward_hooks_of_modules_with_tensors_that_have_no_gradients(grad):
    def make():
        module = Masked()

        def hook(module, inputs, outputs):
            seen = [None if one is None else (one.dtype, one.double().sum().item()) for one in (*inputs, *outputs)]
            module.seen = [*getattr(module, "seen", []), seen]
            return None if inputs[1] is None else (inputs[0], inputs[1] * 2, inputs[2])

        module.register_full_backward_hook(hook)
        module.register_full_backward_pre_hook(lambda module, outputs: (outputs[0], outputs[1] * 3, *outputs[2:]))
        return module, leaf() if grad else leaf().detach(), torch.ones(4), torch.tensor([True, False, True, True])

    def f(module, x, scale, mask, log):
        mask, y, nothing, total, count = module(scale, x, mask)
        return y.sin() * mask * count, total * (nothing is None)

    check(f, make, backends=("eager", "native"))
    modules = []
    for compile_ in (lambda function: function, lambda function: fs.compile(function, backend="eager", fullgraph=True)):
        torch.manual_seed(0)
        module, *arguments = make()
        compile_(f)(module, *arguments, [])[0].sum().backward()
        modules.append(module)
    assert str(modules[0].seen) == str(modules[1].seen)


def test_hooks_on_the_results_of_modules_with_hooks_come_first():
    def f(module, x, log):
        y = module(x)
        y.register_hook(lambda gradient: log.append("tensor") or gradient * 5)
        return y

    def make():
        module = nn.Linear(6, 3)
        module.register_full_backward_hook(lambda _, arguments, results: (arguments[0] * results[0].sum(),))
        return module, leaf()

    check(f, make)
