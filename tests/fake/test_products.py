"""Products with symbolic sizes where torch's own composition needs plain sizes."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel import config
from firesteel.fake import functions, products
from firesteel.fake.mode import FakeUnsupported, wants_plain_sizes

SHAPES = [
    ((2, 3, 4, 5), (2, 3, 5, 6)), ((2, 1, 4, 5), (3, 5, 6)), ((4, 5), (3, 5, 6)), ((5,), (3, 5, 6)), ((3, 4, 5), (5,)),
    ((3, 4, 5), (5, 6)), ((2, 3, 4, 5), (5, 6)), ((0, 4, 5), (5, 6)), ((3, 4, 5), (3, 5, 1)),
]  # fmt: skip


@pytest.mark.parametrize("left, right", SHAPES)
def test_parts_give_the_product(left, right):
    a, b = (torch.randn(shape, requires_grad=True) for shape in (left, right))
    expected, found = torch.matmul(a, b), products.matmul_by_parts(a, b)
    torch.testing.assert_close(found, expected)
    assert found.stride() == expected.stride()
    wanted = torch.autograd.grad(expected.square().sum(), (a, b))
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), (a, b)), wanted)


def test_shapes_that_do_not_match():
    with pytest.raises(RuntimeError):
        products.matmul_by_parts(torch.ones(2, 4, 5), torch.ones(3, 5, 6))
    with pytest.raises(RuntimeError):
        products.matmul_by_parts(torch.ones(2, 4, 5), torch.ones(4, 6))


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_symbolic_sizes_where_torch_wants_plain_ones(backend, monkeypatch):
    plain = torch.matmul

    def refusing(left, right):
        if any(isinstance(size, torch.SymInt) for t in (left, right) for size in t.shape):
            raise RuntimeError("Cannot call sizes() on tensor with symbolic sizes/strides")
        return plain(left, right)

    monkeypatch.setattr(products.torch, "matmul", refusing)
    programs = [lambda q, k: q @ k.transpose(-1, -2), lambda q, k: q.matmul(k[0, 0].t()),
                lambda q, k: q[0, 0] @ k.transpose(-1, -2)]
    for program in programs:
        compiled = fs.compile(program, backend=backend, dynamic=True, fullgraph=True)
        with torch.no_grad(), config.patch(raise_on_internal_error=True):
            for sizes in ((2, 3, 4, 5), (3, 2, 7, 8)):
                q, k = torch.randn(sizes), torch.randn(sizes)
                monkeypatch.setattr(products.torch, "matmul", plain)
                expected = program(q, k)
                monkeypatch.setattr(products.torch, "matmul", refusing)
                found = compiled(q, k)
                torch.testing.assert_close(found, expected)
                assert found.stride() == expected.stride()
        assert len(compiled._firesteel_unit.entries) == 1


def test_other_errors_stay():
    assert functions.find_function("matmul", (torch.ones(2, 2), torch.ones(2, 2))) is None
    with pytest.raises(RuntimeError, match="size"):
        products.matmul(torch.ones(2, 3, 4), torch.ones(2, 3, 4))
    assert not wants_plain_sizes(FakeUnsupported("matmul", "another reason"))
