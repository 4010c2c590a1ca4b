"""Operators that do nothing: which are removed, and which must stay."""

from __future__ import annotations

import pytest
import torch

from firesteel.passes.identities import identities
from passes.pass_checks import body, check_compiled, functional, operators, transformed

SPECIAL = torch.tensor([[0.0, -0.0, 1.5], [torch.inf, -torch.inf, torch.nan]])


@pytest.fixture(autouse=True)
def without_grad():
    with torch.no_grad():
        yield


def test_graph_before_and_after():
    def f(x0):
        return (x0.t().t() * 1).exp()

    args = (torch.randn(3, 4),)
    assert body(functional(f, args)) == (
        "t: f32[4, 3]/[1, 4] = aten.t.default(x0)\n"
        "t_1: f32[3, 4] = aten.t.default(t)\n"
        "mul: f32[3, 4] = aten.mul.Tensor(t_1, 1)\n"
        "exp: f32[3, 4] = aten.exp.default(mul)\n"
        "return exp")
    assert body(transformed(identities, f, *args)) == "exp: f32[3, 4] = aten.exp.default(x0)\nreturn exp"


REMOVED = {
    "mul": lambda x0: (x0 * 1).sin(),
    "mul float": lambda x0: (x0 * 1.0).sin(),
    "div": lambda x0: (x0 / 1).sin(),
    "sub": lambda x0: (x0 - 0).sin(),
    "pow": lambda x0: (x0**1).sin(),
    "neg": lambda x0: (-(-x0)).sin(),
    "permute": lambda x0: x0[None].permute(2, 0, 1).permute(1, 2, 0)[0].sin(),
    "transpose": lambda x0: x0.transpose(0, 1).transpose(0, 1).sin(),
    "view": lambda x0: x0.view(2, 3).sin(),
    "wider and back": lambda x0: x0.double().float().sin(),
}


@pytest.mark.parametrize("name", REMOVED)
def test_removed(name):
    after = transformed(identities, REMOVED[name], SPECIAL)
    assert "aten.sin.default" in operators(after)
    assert all(op in ("aten.sin.default", "aten.unsqueeze.default", "aten.select.int")
               for op in operators(after))


STAYS = {
    "float plus zero": lambda x0: x0 + 0,
    "float minus negative zero": lambda x0: x0 - -0.0,
    "scaled addition": lambda x0: torch.add(x0.long(), 0, alpha=2) * torch.add(x0, 1, alpha=2),
    "narrower and back": lambda x0: x0.half().float(),
    "integers divided": lambda x0: x0.isnan().long() / 1,
    "floor": lambda x0: torch.div(x0, 1, rounding_mode="floor"),
    "promotion": lambda x0: x0.isnan().long() * 1.0,
    "another transpose": lambda x0: x0[None].transpose(0, 1).transpose(0, 2),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    before = functional(STAYS[name], (SPECIAL.nan_to_num(),))
    text = str(before)
    assert str(identities(before)) == text


def test_results_stay_tensors_of_their_own():
    def f(x0):
        y = x0 * 1
        return y, x0.t().t(), y - 0

    x0 = torch.randn(3, 4)
    transformed(identities, f, x0)
    check_compiled(f, x0)
    import firesteel as fs

    first, second, third = fs.compile(f, backend="native")(x0)
    assert second.data_ptr() == x0.data_ptr() and len({t.data_ptr() for t in (first, second, third)}) == 3


def test_casts_through_wider_types():
    def f(x0):
        return x0.double().half(), x0.double().float().double(), x0.bfloat16().float().bfloat16()

    after = transformed(identities, f, torch.randn(8))
    assert operators(after).count("aten._to_copy.default") == 3
