"""Control flow operators outside of compiled code: what they compute, and the errors for functions that break rules."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.errors import UserCodeError


def test_cond_runs_one_function_and_differentiates():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = fs.cond(x.sum() > 0, lambda x: x.sin(), lambda x: 1 / 0, (x,))
    y.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())
    assert fs.cond(False, lambda: 1, lambda: {"a": torch.ones(1)})["a"].item() == 1


def test_map_is_a_stack():
    xs, y = (torch.randn(3, 2), torch.randn(3)), torch.randn(2)
    made = fs.map(lambda x, y: {"s": x[0] * x[1] + y, "t": x[1].exp()}, xs, y)
    torch.testing.assert_close(made["s"], torch.stack([a * b + y for a, b in zip(*xs, strict=True)]))
    torch.testing.assert_close(made["t"], xs[1].exp())


def test_while_loop_carries():
    i, (x,) = fs.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, (x[0] * 2,)), (0, (torch.ones(2),)))
    assert i == 4 and x.tolist() == [16, 16]
    start = torch.ones(2)
    (same,) = fs.while_loop(lambda x: x.sum() < 0, lambda x: (x * 2,), (start,))
    assert same.tolist() == [1, 1] and same is not start and same.data_ptr() != start.data_ptr()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scan_is_a_loop(dim, reverse):
    xs = torch.randn(4, 3)
    last, ys = fs.scan(lambda c, x: (c * 0.5 + x, c - x), torch.zeros(xs.shape[1 - dim % 2]), xs, dim=dim,
                       reverse=reverse)
    rows = list(xs.unbind(dim))
    carry, expected = torch.zeros_like(rows[0]), []
    for x in reversed(rows) if reverse else rows:
        expected.append(carry - x)
        carry = carry * 0.5 + x
    torch.testing.assert_close(last, carry)
    torch.testing.assert_close(ys, torch.stack(expected[::-1] if reverse else expected, dim))


@pytest.mark.parametrize("mode", ["pointwise", "generic"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 11])
def test_associative_scan_gives_all_prefixes(count, mode):
    x = torch.randn(2, count, dtype=torch.float64)
    made = fs.associative_scan(lambda a, b: a + b, x, 1, combine_mode=mode)
    torch.testing.assert_close(made, x.cumsum(1))
    made = fs.associative_scan(lambda a, b: a * b, x, -1, reverse=True, combine_mode=mode)
    torch.testing.assert_close(made, x.flip(1).cumprod(1).flip(1))
    gates, values = torch.rand(count, 3, dtype=torch.float64), torch.randn(count, 3, dtype=torch.float64)
    _, states = fs.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (gates, values), 0,
                                    combine_mode=mode)
    state = torch.zeros(3, dtype=torch.float64)
    for row in range(count):
        state = state * gates[row] + values[row]
        torch.testing.assert_close(states[row], state)


def _in_place(x):
    x.add_(1)
    return x * 2


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: fs.cond(x, lambda x: x + 1, lambda x: x - 1, (x,)), "not of bools"),
    (lambda x: fs.cond(x > 0, lambda x: x + 1, lambda x: x - 1, (x,)), r"\(3,\) elements"),
    (lambda x: fs.cond("yes", lambda x: x + 1, lambda x: x - 1, (x,)), "the predicate is a str"),
    (lambda x: fs.cond(True, 3, lambda x: x - 1, (x,)), "true_fn is a int"),
    (lambda x: fs.cond(True, lambda x: x, lambda x: x - 1, (x,)), "true_fn returns one of its arguments"),
    (lambda x: fs.cond(False, lambda x: x, lambda x: x[1:], (x,)), "false_fn returns one of its arguments, or a view"),
    (lambda x: fs.cond(True, _in_place, lambda x: x - 1, (x,)), "changes one of its arguments in place"),
    (lambda x: fs.cond(True, lambda x: "text", lambda x: x - 1, (x,)), "returns a str"),
    (lambda x: fs.cond(True, lambda x: x + 1, lambda x: x - 1, x), "operands is a Tensor"),
    (lambda x: fs.map(lambda x: x + 1, torch.ones(0, 3)), "at least 1"),
    (lambda x: fs.map(lambda a: a[0] + 1, (x, torch.ones(2))), r"the sizes \[3, 2\]"),
    (lambda x: fs.while_loop(lambda x: True, lambda x: (x[:2] + 1,), (x,)), r"the shape \(3,\) and becomes \(2,\)"),
    (lambda x: fs.while_loop(lambda x: True, lambda x: (x.double() * 2,), (x,)), "the dtype"),
    (lambda x: fs.while_loop(lambda x: True, lambda x: (x + 1, x + 2), (x,)), "another structure"),
    (lambda x: fs.scan(lambda c, x: c + x, torch.ones(()), x), "does not return a pair"),
    (lambda x: fs.scan(lambda c, x: ((c, x + 1), x + 1), torch.ones(()), x), "carry"),
    (lambda x: fs.associative_scan(lambda a, b: a + b, x, 0, combine_mode="fast"), "combine_mode is 'fast'"),
    (lambda x: fs.associative_scan(lambda a, b: (a, b), x, 0), "another structure"),
])
def test_rules_are_checked_with_the_users_line(call, words):
    with pytest.raises(UserCodeError, match=words) as caught:
        call(torch.randn(3))
    assert __file__ in str(caught.value)
