"""Sparse matrices from outside: products, dense matrices and parts are in one graph, all else is left to Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import firesteel as fs
from firesteel.errors import GraphBreakError

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")


def coordinates(seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    numbers = torch.rand(4, 5, generator=torch.Generator().manual_seed(seed))
    return ((numbers > 0.4) * numbers).to(dtype).to_sparse()


def repeated(seed: int) -> torch.Tensor:
    return torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 0]]), torch.tensor([1.0, 2.0, 3.0 + seed]), (4, 5))


def rows(seed: int) -> torch.Tensor:
    return coordinates(seed).to_sparse_csr()


KINDS = (coordinates, repeated, rows)


def dense(seed: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(seed)).requires_grad_(grad)


def products(s: torch.Tensor, x: torch.Tensor) -> Any:
    return s @ x + 1, torch.sparse.mm(s, x), torch.mm(s, x.relu()), s.mm(x), s.matmul(x.exp()), torch.matmul(s, x * 2)


def made_dense(s: torch.Tensor, x: torch.Tensor) -> Any:
    return s.to_dense() @ x, s.to_dense()


def questions(s: torch.Tensor, x: torch.Tensor) -> Any:
    return x * s.shape[1] + s.size(0), s.dtype, s.layout, s.dim(), s.numel(), s.device, s.is_sparse, s.is_sparse_csr, \
        isinstance(s, torch.Tensor), s.requires_grad, s


def same(found: Any, expected: Any) -> bool:
    if not isinstance(expected, torch.Tensor):
        return bool(found == expected)
    if expected.layout is not torch.strided:
        return found.layout is expected.layout and torch.equal(found.to_dense(), expected.to_dense())
    torch.testing.assert_close(found, expected)
    return found.stride() == expected.stride()


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("program", [products, made_dense, questions], ids=lambda program: program.__name__)
def test_one_graph(program: Callable[..., Any], kind: Callable[[int], torch.Tensor], backend: str) -> None:
    compiled = fs.compile(program, backend=backend, fullgraph=True, **({"tier": "wait"} if backend == "native" else {}))
    for seed in range(4):  # with other numbers of entries
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            matrices = kind(seed), kind(seed)
            with mode():
                found, expected = compiled(matrices[0], dense(seed)), program(matrices[1], dense(seed))
            assert all(map(same, tree_leaves(found), tree_leaves(expected)))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_training(kind: Callable[[int], torch.Tensor], backend: str) -> None:
    class Convolution(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.register_buffer("adjacency", kind(0))
            self.linear = nn.Linear(3, 2)

        def forward(self, x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
            return (self.adjacency @ self.linear(x)).relu() + torch.sparse.mm(s, x).sum(1, keepdim=True)

    model, plain = Convolution(), Convolution()
    compiled = fs.compile(model, backend=backend, fullgraph=True, **({"tier": "wait"} if backend == "native" else {}))
    for seed in range(3):
        one, other = dense(seed, True), dense(seed, True)
        result, expected = compiled(one, kind(seed)), plain(other, kind(seed))
        result.sin().sum().backward()
        expected.sin().sum().backward()
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(one.grad, other.grad)
        for parameter, known in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, known.grad)


def test_parts_and_what_is_written_to_them() -> None:
    def f(s: torch.Tensor, x: torch.Tensor) -> Any:
        before = s @ x
        s._values().mul_(2)
        return before, s @ x, s._values() + 1, s._indices() * 2, s.coalesce() is s, \
            s._indices(), s._indices() is s._indices(), s.values() * 2, s.indices()

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    for seed in range(3):
        one, other = coordinates(seed), coordinates(seed)
        found, expected = compiled(one, dense(seed)), f(other, dense(seed))
        assert all(map(same, tree_leaves(found), tree_leaves(expected)))
        assert same(one, other)


def test_what_changes_from_call_to_call_is_seen() -> None:
    def f(s: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return s.mm(x)

    compiled = fs.compile(f, backend="eager")
    matrix = coordinates(1)
    for change in (lambda: matrix, lambda: matrix._values().mul_(3), lambda: rows(2), lambda: repeated(1),
                   lambda: coordinates(2, torch.float64), lambda: torch.ones(4, 5), lambda: torch.eye(5).to_sparse()):
        result = change()
        given = matrix if result.dim() == 1 else result
        x = dense(1).to(given.dtype)
        assert same(compiled(given, x), f(given, x))


def test_what_is_left_to_python() -> None:
    def scaled(s: torch.Tensor, x: torch.Tensor) -> Any:
        return (s * 2).to_dense()

    def vector(s: torch.Tensor, x: torch.Tensor) -> Any:
        return s @ x[:, 0]

    def from_the_right(s: torch.Tensor, x: torch.Tensor) -> Any:
        return torch.ones(2, 4) @ s

    def of_slices(s: torch.Tensor, x: torch.Tensor) -> Any:
        return torch.func.grad(lambda y: (s @ y).sum())(x)

    for program in (scaled, vector, from_the_right, of_slices):
        with pytest.raises(GraphBreakError):
            fs.compile(program, backend="eager", fullgraph=True)(coordinates(1), dense(1))
        found = fs.compile(program, backend="eager")(coordinates(1), dense(1))
        assert same(found, program(coordinates(1), dense(1)))
    leaf, other = coordinates(1).requires_grad_(), coordinates(1).requires_grad_()
    fs.compile(products, backend="eager")(leaf, dense(1))[0].sum().backward()
    products(other, dense(1))[0].sum().backward()
    assert same(leaf.grad, other.grad)


def test_errors_are_torchs() -> None:
    compiled = fs.compile(products, backend="eager")
    for given, x in ((coordinates(1), torch.ones(3, 3)), (coordinates(1), dense(1).double())):
        with pytest.raises(RuntimeError) as expected:
            products(given, x)
        with pytest.raises(RuntimeError) as found:
            compiled(given, x)
        assert str(found.value) == str(expected.value)


def test_filters_of_warnings_are_let_alone(monkeypatch):
    """They belong to all threads: what a call sets and puts back undoes what another has set meanwhile."""
    from firesteel.functional import sparse_products

    matrices = [torch.eye(3).to_sparse_csr(), torch.eye(3).to_sparse_coo()]
    compiled = [fs.compile(lambda x, m=m: m @ x, backend="aot_eager") for m in matrices]
    for function in compiled:
        function(torch.ones(3, 2))
    monkeypatch.setattr(sparse_products, "warnings", None)
    for function in compiled:
        assert function(torch.full((3, 2), 2.0)).equal(torch.full((3, 2), 2.0))
