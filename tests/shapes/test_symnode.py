"""torch's meta kernels on sizes that are our expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch._dispatch.python import enable_python_dispatcher

from firesteel import shapes
from firesteel.shapes import Expr, ShapeEnv
from firesteel.shapes.symnode import expr_of, make_symbolic, make_symint


def tensor(env: ShapeEnv, *sizes: Expr | int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty([make_symint(env, size) for size in sizes], device="meta", dtype=dtype)


def sizes_of(x: torch.Tensor) -> list[str]:
    return [str(expr_of(size)) for size in x.shape]


def guards_of(env: ShapeEnv) -> list[str]:
    return [str(guard.expr) for guard in env.guards]


def sizes(env: ShapeEnv, *hints: int) -> Sequence[shapes.Symbol]:
    return [env.new_symbol(hint, f"x.size({i})", lower=2) for i, hint in enumerate(hints)]


@pytest.fixture
def env() -> Iterator[ShapeEnv]:
    # torch runs meta kernels on symbolic sizes only under its Python dispatcher.
    with enable_python_dispatcher():
        yield ShapeEnv()


def test_constants_are_plain(env: ShapeEnv) -> None:
    (s0,) = sizes(env, 5)
    n = make_symint(env, s0)
    assert type(make_symint(env, shapes.const(3))) is int
    assert type(n - n) is int
    assert (n * 0 == 0) is True
    assert expr_of(n * 2 + 1) is 2 * s0 + 1
    assert expr_of(3) is shapes.const(3)


def test_python_operators_build_expressions(env: ShapeEnv) -> None:
    (s0, s1) = sizes(env, 5, 7)
    n, m = make_symint(env, s0), make_symint(env, s1)
    assert str(expr_of(n // 2 + m % 3)) == "s0//2 + s1 % 3"
    assert expr_of(torch.sym_max(n, m)) is shapes.maximum(s0, s1)
    assert expr_of(torch.sym_min(n, 4)) is shapes.minimum(s0, 4)
    assert expr_of(torch.sym_sum([n, m, 1])) is s0 + s1 + 1
    assert str(expr_of(n / m)) == "s0/s1"
    assert str(expr_of(torch.sym_sqrt(n))) == "math.sqrt(float(s0))"
    assert str(expr_of(torch.sym_int(n / 2))) == "math.trunc(s0/2)"
    assert str(expr_of(n < m)) == "s0 <= s1 - 1"
    assert str(expr_of(torch.sym_not(n == m))) == "s0 != s1"
    assert str(expr_of(n**2)) == "s0**2"
    assert env.guards == []
    assert bool(n < m) is True
    assert int(m) == 7
    assert guards_of(env) == ["s0 <= 6", "s1 == 7"]


def test_addition_guards_equal_sizes_once(env: ShapeEnv) -> None:
    s0, s1, s2 = sizes(env, 4, 4, 6)
    out = tensor(env, s0, s2) + tensor(env, s1, s2)
    assert sizes_of(out) == ["s0", "s2"]
    assert guards_of(env) == ["s0 == s1"]
    tensor(env, s0) * tensor(env, s1)
    assert guards_of(env) == ["s0 == s1"]


def test_broadcasting_needs_no_guard(env: ShapeEnv) -> None:
    s0, s1 = sizes(env, 4, 6)
    assert sizes_of(tensor(env, s0, s1) + tensor(env, s1)) == ["s0", "s1"]
    assert sizes_of(tensor(env, s0, s1) + tensor(env, s0, 1)) == ["s0", "s1"]
    assert env.guards == []


def test_view_and_reshape(env: ShapeEnv) -> None:
    s0, s1, s2 = sizes(env, 4, 6, 8)
    x = tensor(env, s0, s1, s2)
    rows = make_symint(env, s0 * s1)
    assert sizes_of(x.view(-1, x.shape[2])) == ["s0*s1", "s2"]
    assert sizes_of(x.view(rows, x.shape[2])) == ["s0*s1", "s2"]
    assert sizes_of(x.reshape(x.shape[0], -1)) == ["s0", "s1*s2"]
    assert sizes_of(x.transpose(1, 2).reshape(x.shape[0], -1)) == ["s0", "s1*s2"]
    assert sizes_of(x.unflatten(2, (2, -1))) == ["s0", "s1", "2", "s2//2"]
    # Only the last needs to know something: that 2 divides s2, and that the last size is not 1.
    assert guards_of(env) == ["s2 % 2 == 0", "s2 >= 3"]


def test_mm_guards_the_inner_size(env: ShapeEnv) -> None:
    s0, s1, s2, s3 = sizes(env, 4, 6, 6, 8)
    assert sizes_of(tensor(env, s0, s1) @ tensor(env, s2, s3)) == ["s0", "s3"]
    assert guards_of(env) == ["s1 == s2"]
    with pytest.raises(RuntimeError, match="s3"):
        torch.mm(tensor(env, s0, s1), tensor(env, s3, s0))


def test_cat_adds_sizes(env: ShapeEnv) -> None:
    s0, s1, s2 = sizes(env, 4, 5, 6)
    out = torch.cat([tensor(env, s0, s2), tensor(env, s1, s2)])
    assert sizes_of(out) == ["s0 + s1", "s2"]
    assert env.guards == []


def test_layer_norm_softmax_and_friends_need_no_guard(env: ShapeEnv) -> None:
    s0, s1 = sizes(env, 4, 10)
    x = tensor(env, s0, s1, 16)
    h = F.layer_norm(x, (16,), tensor(env, 16), tensor(env, 16))
    h = F.gelu(F.linear(h, tensor(env, 32, 16)))
    h = torch.softmax(h.transpose(1, 2), dim=-1)
    assert sizes_of(h) == ["s0", "32", "s1"]
    assert sizes_of(h.mean(0)) == ["32", "s1"]
    images = F.conv2d(tensor(env, s0, 3, 32, 32), tensor(env, 8, 3, 3, 3), padding=1)
    assert sizes_of(images) == ["s0", "8", "32", "32"]
    q = tensor(env, s0, 4, s1, 8)
    assert sizes_of(F.scaled_dot_product_attention(q, q, q)) == ["s0", "4", "s1", "8"]
    assert guards_of(env) == []


def test_convolution_output_is_a_floor_division(env: ShapeEnv) -> None:
    s0, s1 = sizes(env, 4, 33)
    out = F.conv2d(tensor(env, s0, 3, s1, s1), tensor(env, 8, 3, 3, 3), stride=2)
    assert expr_of(out.shape[2]) is (s1 - 1) // 2
    # how the kernel asks differs between releases of torch; what it needs does not
    assert [n for n in range(2, 40) if all(g.expr.evaluate({s1: n}) for g in env.guards)] == list(range(3, 40))


def test_factory_and_arange(env: ShapeEnv) -> None:
    (s0,) = sizes(env, 5)
    n = make_symint(env, s0)
    assert sizes_of(torch.zeros(n, 3, device="meta")) == ["s0", "3"]
    assert sizes_of(torch.arange(n, device="meta")) == ["s0"]
    assert sizes_of(tensor(env, s0)[1:]) == ["s0 - 1"]


def test_unbacked_sizes(env: ShapeEnv) -> None:
    u0 = env.new_symbol(None, "x.nonzero()", lower=0)
    n = make_symint(env, u0)
    x = torch.empty([n, 4], device="meta")
    assert sizes_of(x + 1) == ["u0", "4"]
    with pytest.raises(shapes.UndecidableError, match=r"u0 >= 5.*x\.nonzero\(\)"):
        bool(n > 4)
    torch._check(n > 4)
    assert bool(n > 3) is True
    assert [str(check.expr) for check in env.checks] == ["u0 >= 5"]
    assert env.guards == []


def test_floats_and_bools(env: ShapeEnv) -> None:
    f0 = env.new_symbol(0.5, "scale", kind="float")
    b0 = env.new_symbol(True, "flag", kind="bool")
    f, b = make_symbolic(env, f0), make_symbolic(env, b0)
    assert str(expr_of(f * 2 + 1)) == "f0*2.0 + 1.0"
    assert bool(b) is True
    assert float(f) == 0.5
    assert guards_of(env) == ["b0", "f0 == 0.5"]


def test_symbols_of_others_are_refused() -> None:
    class Foreign:
        def is_int(self) -> bool:
            return True

        def is_nested_int(self) -> bool:
            return False

        def _graph_repr(self) -> str:
            return "t0"

    with pytest.raises(TypeError, match="another system"):
        expr_of(torch.SymInt(Foreign()))
