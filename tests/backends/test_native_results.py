"""What kernels must not lose: which objects results are, errors that operators raise, numbers between the kernels."""

from __future__ import annotations

import math

import pytest
import torch

import firesteel as fs

SAME_LAYOUT = {
    "squeeze": lambda x: x.squeeze(), "view": lambda x: x.view(4), "expand": lambda x: x.expand(4),
    "slice": lambda x: x[:], "ellipsis": lambda x: x[...], "reshape": lambda x: x.reshape(4),
    "there and back": lambda x: x.unsqueeze(0).squeeze(0), "detach": lambda x: x.detach(),
    "contiguous": lambda x: x.contiguous(), "float": lambda x: x.float(), "flatten": lambda x: x.flatten(),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME_LAYOUT)
def test_a_view_is_another_object_and_an_input_the_same(name):
    function, x = SAME_LAYOUT[name], torch.randn(4)
    result, expected = fs.compile(function)(x), function(x)
    assert (result is x) == (expected is x)
    assert result.data_ptr() == x.data_ptr()
    result.add_(1)
    assert torch.equal(x, expected)


def test_two_results_of_one_layout_are_two_objects():
    def program(x):
        y = x + 1
        return y, y.view(4), y

    first, second, third = fs.compile(program)(torch.ones(4))
    assert first is third and first is not second and second.data_ptr() == first.data_ptr()


@pytest.mark.parametrize("function", [
    lambda x: torch.linalg.inv(x).sum(), lambda x: torch.linalg.cholesky(x) * 2, lambda x: torch.linalg.solve(x, x),
], ids=["inv", "cholesky", "solve"])  # fmt: skip
def test_a_singular_matrix_is_an_error(function):
    compiled = fs.compile(function)
    torch.testing.assert_close(compiled(torch.eye(2)), function(torch.eye(2)))
    with pytest.raises(torch.linalg.LinAlgError):
        compiled(torch.zeros(2, 2))


OVERLAPS = {
    "transposed": lambda x: x.add_(x.t()), "shifted": lambda x: x[1:].copy_(x[:-1]),
    "expanded": lambda x: x[:1].expand(4, 4).add_(1), "out": lambda x: torch.mul(x.t(), 2, out=x),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_writes_to_memory_that_overlaps_are_errors(name):
    def program(x):
        y = x + 1
        OVERLAPS[name](y)
        return y

    for function in (program, fs.compile(program)):
        with pytest.raises(RuntimeError, match="single memory location"):
            function(torch.ones(4, 4))


def test_the_same_operator_twice_gives_two_tensors():
    first, second = fs.compile(lambda x: [x.min(dim=0) for _ in range(2)])(torch.randn(4))
    assert first.values.data_ptr() != second.values.data_ptr()


def test_random_numbers_in_the_order_of_strides():
    def program(x):
        return torch.nn.functional.dropout(x.t()), torch.zeros(6, 4).t().bernoulli_(0.3)

    x = torch.randn(20, 4)
    torch.manual_seed(1)
    expected = program(x)
    torch.manual_seed(1)
    torch.testing.assert_close(fs.compile(program)(x), expected)


def test_functions_of_a_number_from_data():
    def program(x):
        return x * math.sqrt(x.sum().item()) + math.floor(x.max().item())

    x = torch.rand(5) + 1
    torch.testing.assert_close(fs.compile(program, fullgraph=True)(x), program(x))


UNUSED_ERRORS = {
    "embedding": (IndexError, lambda x: torch.nn.functional.embedding(torch.tensor(9), torch.ones(5, 2))),
    "division": (RuntimeError, lambda x: 8 // x.to(torch.int64)),
    "remainder": (RuntimeError, lambda x: torch.tensor(5) % x.int()),
    "gather": (RuntimeError, lambda x: x.gather(0, torch.tensor([7]))),
    "index": (IndexError, lambda x: x[torch.tensor([0, 9])]),
    "inverse": (torch.linalg.LinAlgError, lambda x: torch.linalg.inv(x.view(1, 1))),
    "loss": (IndexError, lambda x: torch.nn.functional.nll_loss(x.view(1, 1), torch.tensor([3]))),
    "probabilities": (RuntimeError, lambda x: torch.nn.functional.binary_cross_entropy(x - 1, x)),
}


@pytest.mark.parametrize("name", UNUSED_ERRORS)
def test_an_error_is_raised_though_nobody_reads_the_result(name):
    kind, step = UNUSED_ERRORS[name]

    def program(x):
        step(x)
        return x + 1

    with pytest.raises(kind):
        program(torch.zeros(1))
    with pytest.raises(kind):
        fs.compile(program)(torch.zeros(1))


def test_a_number_read_twice():
    def program(x):
        return x * x.sum().item() + 0.25 / x.sum().item(), (x.sum() > 0).item() + 1

    x = torch.rand(5)
    torch.testing.assert_close(fs.compile(program, fullgraph=True)(x), program(x))


def test_an_empty_index():
    x = torch.randn(4, 4)
    assert fs.compile(lambda x: torch.exp(x)[[]])(x).shape == (0, 4)
