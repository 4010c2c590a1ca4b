"""Nested tensors of the jagged layout in graphs: values, gradients, ragged sizes, other lengths in later calls."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.errors import GraphBreakError

LAYER = torch.nn.Linear(6, 4)


def jagged(*lengths, grad=False, width=6, seed=0):
    values = torch.randn(sum(lengths), width, generator=torch.Generator().manual_seed(seed))
    return torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, *lengths]).cumsum(0)).requires_grad_(grad)


def parts(value):
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in parts(item)]
    if isinstance(value, torch.Tensor) and value.is_nested:
        return [value.is_contiguous(), value.requires_grad, *value.detach().unbind()]
    return [value]


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert type(a) is type(b)
        torch.testing.assert_close(a, b) if isinstance(a, torch.Tensor) else pytest.fail(f"{a} {b}") if a != b else None


def unchanged(x):
    return x.sin() * 2 + x, x.values(), x.offsets(), x.lengths(), x.size(0), x.dim(), x.layout, x.is_nested


def layers(x):
    return F.layer_norm(LAYER(x), (4,)).relu().softmax(-1), x.sum(1), x.mean(-1), x.to(torch.float64)


def of_sequences(x):
    return F.softmax(x, 1), [part.sum() for part in x.unbind()], x[1] * 2, torch.nested.to_padded_tensor(x, 0.5)


def other_shapes(x):
    return x.reshape(x.size(0), x.size(1), 2, 3).transpose(1, 2), x.unflatten(-1, (3, 2)).flatten(-2), x.chunk(2, -1)


def in_place(x):
    x.mul_(2)
    x[0].add_(1)
    return x + 1


def chosen(x):
    return torch.where(x > 0, x, x * 0.1), torch.cat([x, x.cos()], -1), torch.zeros_like(x), x.detach()


def attention(x):
    q = x.unflatten(-1, (2, 3)).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q).transpose(1, 2).flatten(-2)


@pytest.mark.parametrize("function", [unchanged, layers, of_sequences, other_shapes, in_place, chosen, attention])
def test_results_are_eagers_and_other_lengths_are_no_new_program(function):
    warnings.filterwarnings("ignore", "The PyTorch API of nested tensors", UserWarning)
    compiled = fs.compile(function, fullgraph=True, backend="eager")
    for lengths in ((2, 3, 4), (2, 3, 4), (1, 5, 7), (4, 4, 3), (2, 6, 2)):
        expected, given = jagged(*lengths), jagged(*lengths)
        same(parts(function(expected)), parts(compiled(given)))
        same(parts(expected), parts(given))
    assert len(compiled._firesteel_unit.entries) <= 3, compiled._firesteel_unit.entries


@pytest.mark.parametrize("function, backend", [(unchanged, "eager"), (chosen, "eager"), (layers, "eager"),
                                               (attention, "native")])
def test_gradients(function, backend):
    warnings.filterwarnings("ignore", "The PyTorch API of nested tensors", UserWarning)
    compiled = fs.compile(function, fullgraph=True, backend=backend)
    for lengths in ((2, 3, 4), (1, 5, 7)):
        gradients = []
        for run in (function, compiled):
            x = jagged(*lengths, grad=True)
            result = run(x)
            result = result[0] if isinstance(result, tuple) else result
            result.sin().values().sum().backward()
            gradients.append(parts(x.grad))
        same(*gradients)


def test_results_have_the_ragged_size_of_arguments():
    def function(x, values):
        return x.sin(), torch.nested.nested_tensor_from_jagged(values, x.offsets())

    x = jagged(2, 3, 4)
    one, other = fs.compile(function, fullgraph=True)(x, torch.ones(9, 6))
    assert one.shape == x.shape == other.shape and one.offsets() is x.offsets()
    same(parts(one + other), parts(x.sin() + 1))


def test_results_made_inside_share_their_ragged_size():
    def function(values, offsets):
        x = torch.nested.nested_tensor_from_jagged(values, offsets + 0)
        return x, x.cos(), torch.nested.nested_tensor([values[:2], values[2:]], layout=torch.jagged)

    values, offsets = torch.randn(9, 6, requires_grad=True), torch.tensor([0, 2, 5, 9])
    one, other, third = fs.compile(function, fullgraph=True)(values, offsets)
    torch.testing.assert_close((one * other).values(), values * values.cos())
    (one * other).values().sum().backward()
    torch.testing.assert_close(values.grad, (values.cos() - values * values.sin()).detach())
    assert not third.requires_grad and third.size(0) == 2


def test_two_that_differ_are_refused_as_eager_refuses_them():
    compiled = fs.compile(lambda x, y: x + y)
    x, y = jagged(2, 3), jagged(3, 2)
    for function in (lambda x, y: x + y, compiled):
        with pytest.raises(RuntimeError, match="cannot call binary pointwise function"):
            function(x, y)
    same(parts(compiled(x, x)), parts(x + x))


def test_facts_of_nested_tensors_are_guarded():
    compiled = fs.compile(lambda x: x.sum(1) if x.requires_grad else x.values() * x._ragged_idx, fullgraph=True)
    x = jagged(2, 3)
    torch.testing.assert_close(compiled(x), x.values())
    torch.testing.assert_close(compiled(jagged(2, 3, grad=True)), x.sum(1))
    torch.testing.assert_close(compiled(x.transpose(1, 2)), 2 * x.transpose(1, 2).values())
    torch.testing.assert_close(compiled(x.double()), x.double().values())


def test_what_is_found_out_about_lengths_is_remembered_as_in_eager():
    x, y = jagged(2, 3), jagged(2, 3)
    compiled = fs.compile(of_sequences)
    of_sequences(x)
    compiled(y)
    assert torch.nested.to_padded_tensor(x, 0.0).shape == torch.nested.to_padded_tensor(y, 0.0).shape


def test_the_strided_layout_breaks():
    warnings.filterwarnings("ignore", "The PyTorch API of nested tensors", UserWarning)
    with pytest.raises(GraphBreakError, match="nested"):
        fs.compile(lambda x: x * 2, fullgraph=True)(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
