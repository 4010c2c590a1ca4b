"""``disable_saved_tensors_hooks`` inside of compiled functions and around them."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks

import firesteel as fs

refusal = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message


def refused(x):
    with disable_saved_tensors_hooks("not here"):
        return x.sin() * x


def refused_twice(x):
    with disable_saved_tensors_hooks("not here"):
        y = x.sin()
        with disable_saved_tensors_hooks("nor here"):
            y = y * x
            inner = refusal()
        outer = refusal()
    return y + 1, inner, outer, refusal()


def refused_around_a_break(x):
    with disable_saved_tensors_hooks("not here"):
        y = x.sin()
        fs.graph_break()
        told = refusal()
        y = y * x.cos()
    return y, told


def refused_for_good(x):
    torch._C._autograd._saved_tensors_hooks_disable("never again")
    return x.exp()


def entered_where_it_is_refused(x):
    with disable_saved_tensors_hooks("not here"):
        try:
            with saved_tensors_hooks(lambda t: t, lambda t: t):
                return x * x
        except RuntimeError as error:
            return x * 2, str(error)


PROGRAMS = (refused, refused_twice, refused_around_a_break, refused_for_good, entered_where_it_is_refused)
WHOLE = (refused, refused_twice, refused_for_good)
AROUND = {"nothing": contextlib.nullcontext, "refused": lambda: disable_saved_tensors_hooks("outside"),
          "entered": lambda: saved_tensors_hooks(lambda t: t, lambda t: t)}


def told(function, around):
    """What two calls return or raise, the gradient, and what the thread says afterwards."""
    facts = []
    for _ in range(2):
        x = torch.linspace(0.25, 1, 4).requires_grad_()
        try:
            with AROUND[around]():
                result = function(x)
                tensor, *rest = result if isinstance(result, tuple) else (result,)
                tensor.sum().backward()
                facts.append((tensor.detach(), rest, x.grad, refusal()))
        except RuntimeError as error:
            facts.append(str(error))
        facts.append(refusal())
        torch._C._autograd._saved_tensors_hooks_enable()
    return facts


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_refusals_are_as_in_eager(function, around, backend):
    expected = told(function, around)
    whole = function in WHOLE and around != "entered"
    found = told(fs.compile(function, backend=backend, fullgraph=whole), around)
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        if isinstance(one, tuple):
            torch.testing.assert_close([other[0], other[2]], [one[0], one[2]])
            assert (other[1], other[3]) == (one[1], one[3])
        else:
            assert other == one


def test_a_refusal_outside_is_guarded():
    def program(x):
        return x + 1, refusal()

    compiled = fs.compile(program, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1))[1] is None
    with disable_saved_tensors_hooks("outside"):
        assert compiled(torch.ones(1))[1] == "outside"
    assert compiled(torch.ones(1))[1] is None
