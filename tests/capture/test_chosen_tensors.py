"""``max`` and ``min`` of tensors: one operation where nobody can tell which of them the result is, else a break."""

from __future__ import annotations

import pytest
import torch
from tests.torch_differential import differences, observe

import firesteel as fs
from firesteel.errors import GraphBreakError


def largest(x, y):
    most = max(x.abs().max(), y.abs().max())
    return x / most, min([x.sum(), y.sum(), x.max()])


def largest_and_its_parts(x, y):
    a, b = x.sum(), y.sum()
    return max(a, b), a


def largest_that_is_changed(x, y):
    a, b = x.sum(), y.sum()
    most = max(a, b)
    most += 1
    return a * 1, b * 1, most


def largest_whose_parts_are_changed(x, y):
    a, b = x.sum(), y.sum()
    most = max(a, b)
    a += 1
    return most, b * 1


def largest_of_an_argument(x, y):
    return max(x[0], y[0])


def which_is_the_largest(x, y):
    a, b = x.sum(), y.sum()
    most = max(a, b)
    return most is a, most is b


def largest_of_different_kinds(x, y):
    return max(x.sum(), y.sum().double()) + 1


NAN = float("nan")


@pytest.mark.parametrize("values", [([1.0, 2.0], [0.0, 5.0]), ([9.0, 2.0], [0.0, 5.0]), ([NAN, 1.0], [2.0, 1.0]),
                                    ([2.0, 1.0], [NAN, 1.0]), ([1.0, 0.0], [1.0, 0.0])])
@pytest.mark.parametrize("program", [largest, largest_and_its_parts, largest_that_is_changed, which_is_the_largest,
                                     largest_whose_parts_are_changed, largest_of_an_argument,
                                     largest_of_different_kinds], ids=lambda program: program.__name__)
def test_largest_of_tensors(program, values):
    compiled = fs.compile(program, backend="eager")
    for requires_grad in (False, True):
        def make(requires_grad=requires_grad):
            return tuple(torch.tensor(part, requires_grad=requires_grad) for part in values)

        if requires_grad and program is largest_that_is_changed:
            continue
        expected, _ = observe(program, make, False)
        actual, _ = observe(compiled, make, False)
        assert differences(expected, actual) == []
    alone = torch.tensor([7.0, 8.0]), torch.tensor([1.0, 2.0])
    result = compiled(*alone)
    if program is largest_of_an_argument:
        result.fill_(3)
        assert alone[0][0] == 3  # it is a view of the argument


def test_largest_of_tensors_is_one_graph():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([4.0, float("nan")])
    compiled = fs.compile(largest, backend="eager", fullgraph=True)
    for arguments in ((x, y), (y, x), (x, x + 1)):
        for one, other in zip(compiled(*arguments), largest(*arguments), strict=True):
            assert torch.equal(one.nan_to_num(7), other.nan_to_num(7))
    for program in (largest_and_its_parts, largest_that_is_changed, which_is_the_largest, largest_of_an_argument):
        with pytest.raises(GraphBreakError):
            fs.compile(program, backend="eager", fullgraph=True)(x, y)
    with pytest.raises(GraphBreakError):  # the gradient of the other one is None, and not zero
        fs.compile(largest, backend="eager", fullgraph=True)(x.requires_grad_(), y)


def test_the_largest_of_slices_is_refused_as_vmap_does():
    def f(x, y):
        return torch.func.vmap(lambda a, b: max(a, b) * 2)(x, y)

    with pytest.raises(GraphBreakError):
        fs.compile(f, backend="eager", fullgraph=True)(torch.ones(3), torch.arange(3.0))
    with pytest.raises(RuntimeError, match="data-dependent"):
        fs.compile(f, backend="eager")(torch.ones(3), torch.arange(3.0))
