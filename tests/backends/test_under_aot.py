"""Backends of other people that are built on torch's AOTAutograd get symbols that it understands."""

from __future__ import annotations

import torch

import firesteel as fs


def backend(seen):
    from functorch.compile import make_boxed_compiler
    from torch._dynamo.backends.common import aot_autograd

    def compiler(gm, example_inputs):
        seen.append([tuple(value.shape) if isinstance(value, torch.Tensor) else value for value in example_inputs])
        return make_boxed_compiler(lambda module, _: module.forward)(gm, example_inputs)

    return aot_autograd(fw_compiler=compiler)


def check(function, calls, dynamic=True, versions=1):
    seen = []
    compiled = fs.compile(function, backend=backend(seen), dynamic=dynamic, fullgraph=True)
    for make in calls:
        gradients = []
        for run in (function, compiled):
            args = make()
            result = run(*args)
            results = [value for value in (result if isinstance(result, tuple) else (result,))]
            total = sum(value.sum() for value in results if isinstance(value, torch.Tensor) and value.requires_grad)
            if isinstance(total, torch.Tensor):
                total.backward()
            gradients.append([results, args, [arg.grad for arg in args]])
        torch.testing.assert_close(*gradients)
    assert len(seen) == versions, seen
    return seen


def x(rows, grad=False):
    return torch.arange(rows * 3.0).reshape(rows, 3).requires_grad_(grad)


def test_sizes_are_symbols():
    calls = [lambda rows=rows: (x(rows),) for rows in (4, 5, 7)]
    seen = check(lambda v: v.view(-1, v.shape[0]).sin() * v.shape[0], calls)
    assert any(isinstance(size, torch.SymInt) for shape in seen[0] if isinstance(shape, tuple) for size in shape)


def test_gradients():
    calls = [lambda rows=rows: (x(rows, True),) for rows in (4, 5)]
    check(lambda v: (v * v.shape[0]).sin(), calls, versions=2)  # forward and backward


def test_numbers_that_data_decides():
    calls = [lambda n=n: (x(4), torch.tensor(n)) for n in (3, 2)]
    check(lambda v, n: (v[: n.item()] * 2, torch.zeros(n.item()), v[v > 3], n.item() + 1), calls)


def test_what_torch_relies_on_is_checked():
    def function(v):
        return v.expand(4, 3) + 1 if v.shape[0] == 1 else torch.cat([v, torch.ones(v.shape[0] % 4, 3)])

    check(function, [lambda rows=rows: (x(rows),) for rows in (5, 9, 6)], versions=2)


def test_arguments_are_changed():
    check(lambda v: v.add_(v.shape[0]), [lambda rows=rows: (x(rows),) for rows in (4, 5)])


def test_other_backends_are_called_as_ever():
    found = []

    def plain(gm, example_inputs):
        found.append(len(example_inputs))
        return gm.forward

    backend([])  # which imports AOTAutograd
    compiled = fs.compile(lambda v: v * v.shape[0], backend=plain, dynamic=True)
    for rows in (4, 5):
        torch.testing.assert_close(compiled(x(rows)), x(rows) * rows)
    assert len(found) == 1


def test_sizes_that_are_plain():
    check(lambda v: v.cos() + 1, [lambda: (x(4),)] * 2, dynamic=None)
