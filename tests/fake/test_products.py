"""Products with symbolic sizes where torch's own composition needs plain sizes."""

from __future__ import annotations

import itertools

import pytest
import torch

import firesteel as fs
from firesteel import config
from firesteel.fake import functions, products
from firesteel.fake.mode import FakeUnsupported, wants_plain_sizes

SHAPES = [
    ((2, 3, 4, 5), (2, 3, 5, 6)), ((2, 1, 4, 5), (3, 5, 6)), ((4, 5), (3, 5, 6)), ((5,), (3, 5, 6)), ((3, 4, 5), (5,)),
    ((3, 4, 5), (5, 6)), ((2, 3, 4, 5), (5, 6)), ((0, 4, 5), (5, 6)), ((3, 4, 5), (3, 5, 1)),
    ((2, 4), (4, 4, 1)), ((1, 4, 5), (3, 5, 6)), ((3, 4, 5), (1, 5, 6)), ((2, 3, 4, 5), (5,)),
]  # fmt: skip


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("left, right", SHAPES)
def test_parts_give_the_product(left, right, wanted):
    for turned in itertools.product((False, True), repeat=2):
        a, b = (torch.randn(shape).requires_grad_(grad) for shape, grad in zip((left, right), wanted, strict=True))
        x, y = (t.transpose(-1, -2).contiguous().transpose(-1, -2) if turn and t.dim() > 1 else t
                for t, turn in zip((a, b), turned, strict=True))
        expected, found = torch.matmul(x, y), products.matmul_by_parts(x, y)
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()
        inputs = [t for t in (a, b) if t.requires_grad]
        for start in (torch.rand(expected.shape), torch.ones(()).expand(expected.shape)):
            gradients = [torch.autograd.grad(t, inputs, start, retain_graph=True) for t in (expected, found)]
            torch.testing.assert_close(gradients[0], gradients[1])
            assert [t.stride() for t in gradients[0]] == [t.stride() for t in gradients[1]]


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


@pytest.mark.parametrize("dynamic", [False, True])
def test_operators_of_the_program_keep_their_meaning(dynamic):
    """Also where they are called like functions of torch."""
    library = torch.library.Library("test_products", "DEF")
    library.define("linear(Tensor x, Tensor weight, Tensor bias) -> Tensor")
    library.impl("linear", lambda x, weight, bias: x * 7, "CPU")
    library.impl("linear", lambda x, weight, bias: torch.empty_like(x), "Meta")
    args = torch.ones(2, 3, 5).mT, torch.ones(3, 3), torch.ones(1).expand(3)

    def called(x, weight, bias):
        return torch.ops.test_products.linear(x, weight, bias)

    for backend in ("eager", "aot_eager", "native"):
        torch.testing.assert_close(fs.compile(called, backend=backend, dynamic=dynamic)(*args), args[0] * 7)


def test_exported_bias_of_another_dtype():
    class Layer(torch.nn.Module):
        def forward(self, x, weight, bias):
            return torch.nn.functional.linear(x, weight, bias)

    args = torch.ones(2, 5, 3, dtype=torch.bfloat16), torch.ones(4, 3, dtype=torch.bfloat16), torch.ones(1).expand(4)
    program = fs.export.export(Layer(), args)
    for exported in (program, program.run_decompositions()):
        result = exported.module()(*args)
        assert result.dtype is torch.bfloat16
        assert [node.meta["val"].dtype for node in exported.graph.output_node().args[0]] == [torch.bfloat16]
