"""Samples and exponential numbers of the CPU's generator: eager's, its errors too, the generator's state afterwards."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.torch_differential import check

import firesteel as fs
from firesteel.passes import exponential_numbers as the_pass
from firesteel.passes.exponential_numbers import exponential_numbers
from passes.pass_checks import body, functional, operators


def sample(x0):
    return torch.multinomial(x0, 1)


def run(f, x):
    """The result and what the generator gives next."""
    torch.manual_seed(3)
    return f(x), torch.rand(3)


def same(f, x, **options):
    """Compiled alike, several times; the compiled function."""
    compiled = fs.compile(f, backend="native", fullgraph=True, **options)
    for _ in range(3):
        result, after = run(compiled, x)
        expected, state = run(f, x)
        torch.testing.assert_close(result, expected)
        assert torch.equal(after, state)
        assert [t.stride() for t in torch.utils._pytree.tree_leaves(result)] \
            == [t.stride() for t in torch.utils._pytree.tree_leaves(expected)]
    return compiled


def test_graph_before_and_after():
    assert body(exponential_numbers(functional(sample, (torch.rand(4),)))) == (
        "rand_default: f64[4] = aten.rand.default([4], dtype=torch.float64, device=device(type='cpu'))\n"
        "neg_default: f64[4] = aten.neg.default(rand_default)\n"
        "log1p_default: f64[4] = aten.log1p.default(neg_default)\n"
        "mul_tensor: f64[4] = aten.mul.Tensor(log1p_default, -1.0)\n"
        "_to_copy_default: f32[4] = aten._to_copy.default(mul_tensor, dtype=torch.float32)\n"
        "div_tensor: f32[4] = aten.div.Tensor(x0, _to_copy_default)\n"
        "argmax_default: i64[1] = aten.argmax.default(div_tensor, -1, True)\n"
        "amin_default: f32[] = aten.amin.default(x0, [-1])\n"
        "amax_default: f32[] = aten.amax.default(x0, [-1])\n"
        "ge_scalar: bool[] = aten.ge.Scalar(amin_default, 0)\n"
        "lt_scalar: bool[] = aten.lt.Scalar(amax_default, inf)\n"
        "logical_and_default: bool[] = aten.logical_and.default(ge_scalar, lt_scalar)\n"
        "all_default: bool[] = aten.all.default(logical_and_default)\n"
        f"_assert_async_msg: None = aten._assert_async.msg(all_default, {the_pass.NOT_FINITE!r})\n"
        "gt_scalar: bool[] = aten.gt.Scalar(amax_default, 0)\n"
        "all_default_1: bool[] = aten.all.default(gt_scalar)\n"
        f"_assert_async_msg_1: None = aten._assert_async.msg(all_default_1, {the_pass.NOTHING!r})\n"
        "return argmax_default")


@pytest.mark.parametrize("weights", [
    torch.rand(5), torch.rand(4, 300), torch.rand(1), torch.rand(0, 3), torch.rand(3, 5000, dtype=torch.float64),
    torch.eye(7), torch.tensor([0.0, 1e-40, 0.0]), torch.full((3,), 3e38)])
def test_samples_of_weights(weights):
    assert "aten.multinomial.default" not in operators(exponential_numbers(functional(sample, (weights,))))
    same(sample, weights)


@pytest.mark.parametrize("weights", [
    torch.rand(6, 5).t(), torch.rand(20, 2)[:, 0], torch.rand(4, 3).half(), torch.rand(2, 3).bfloat16()])
def test_weights_that_eager_fills_otherwise_are_left(weights):
    assert operators(exponential_numbers(functional(sample, (weights,)))) == ["aten.multinomial.default"]
    same(sample, weights)


def several(x0):
    return (torch.multinomial(x0, 2), torch.multinomial(x0, 1, True), torch.empty_like(x0).exponential_(2.5),
            x0.clone().exponential_() + torch.rand(2, 1), F.gumbel_softmax(x0), torch.empty(3, dtype=torch.float64)
            .exponential_(0.1), x0.t().clone().exponential_(3))


def test_draws_of_several_kinds_keep_their_order():
    same(several, torch.rand(2, 9))
    assert operators(exponential_numbers(functional(several, (torch.rand(2, 9),)))).count("aten.rand.default") == 6


def test_a_sample_that_is_not_used_is_drawn():
    same(lambda x0: (torch.multinomial(x0, 1), x0 + 1)[1], torch.rand(6))


def test_sizes_that_vary():
    compiled = fs.compile(sample, backend="native", fullgraph=True, dynamic=True)
    for size in (5, 1, 700, 41):
        torch.manual_seed(size)
        weights = torch.rand(3, size)
        (result, after), (expected, state) = run(compiled, weights), run(sample, weights)
        assert torch.equal(result, expected) and torch.equal(after, state)


@pytest.mark.parametrize("weights", [
    [-1.0, 2.0], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], [[1.0, 2.0], [0.0, 0.0]],
    [[0.0, 0.0], [-1.0, 2.0]]])
def test_weights_that_are_none(weights):
    def f(x):
        try:
            return torch.multinomial(x * 1, 1), ""
        except RuntimeError as error:
            return x, str(error)

    def message(g):
        with pytest.raises(RuntimeError) as raised:
            g(torch.tensor(weights))
        return str(raised.value), torch.rand(2).tolist()

    compiled = fs.compile(sample, backend="native", fullgraph=True)
    torch.manual_seed(4)
    expected = message(sample)
    torch.manual_seed(4)
    assert message(compiled) == expected
    check(f, lambda: (torch.tensor(weights),), fullgraph=False)


def test_a_release_that_draws_otherwise_is_asked_to_draw(monkeypatch):
    monkeypatch.setattr(the_pass, "exponential_is_logarithm", lambda: False)
    assert operators(exponential_numbers(functional(sample, (torch.rand(4),)))) == ["aten.multinomial.default"]


def test_numbers_from_a_generator_of_its_own_are_left():
    generator = torch.Generator()

    def f(x):
        return torch.multinomial(x, 1, generator=generator)

    compiled = fs.compile(f, backend="native")
    for _ in range(2):
        generator.manual_seed(2)
        expected = f(torch.ones(9)), torch.rand(2, generator=generator)
        generator.manual_seed(2)
        result = compiled(torch.ones(9)), torch.rand(2, generator=generator)
        assert all(map(torch.equal, result, expected))
