"""Large memory: asked to have huge pages, and matrix products write their results there."""

from __future__ import annotations

import sys

import pytest
import torch

import firesteel as fs
from firesteel.kernels.host.program import HostProgram
from firesteel.kernels.huge_pages import LARGE
from firesteel.kernels.ir import ExternCall
from firesteel.pipeline import compile as compiling


@pytest.fixture
def advised(monkeypatch):
    """How often a program that is being built asks for huge pages."""
    asked = []
    original = HostProgram.advise
    monkeypatch.setattr(HostProgram, "advise", lambda *args: (asked.append(args), original(*args))[1])
    return asked


@pytest.fixture
def calls(monkeypatch):
    """The calls of ATen in the programs that are made."""
    made = []
    original = compiling.compile_graph

    def noting(*args):
        executable = original(*args)
        made.extend(step for step in executable.plan.steps if isinstance(step, ExternCall))
        return executable

    monkeypatch.setattr(compiling, "compile_graph", noting)
    return made


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages are asked for on Linux only")
@pytest.mark.parametrize(("size", "dynamic", "expected"), [(LARGE // 4, False, True), (1000, False, False),
                                                           (LARGE // 4 + 7, True, True), (1000, True, True)])
def test_large_or_unknown_sizes_are_advised(advised, size, dynamic, expected):
    x = torch.randn(size)
    compiled = fs.compile(lambda x: x.sin() * 2 + x, backend="native", dynamic=dynamic)
    torch.testing.assert_close(compiled(x), x.sin() * 2 + x)
    assert bool(advised) is expected


PRODUCTS = {
    "mm": lambda a, b: torch.mm(a, b),
    "addmm": lambda a, b: torch.addmm(b[0], a, b),
    "bmm": lambda a, b: torch.bmm(a[None], b[None]),
    "baddbmm": lambda a, b: torch.baddbmm(b[0], a[None], b[None], beta=2.0),
}


@pytest.mark.parametrize("rows", [1, 600])
@pytest.mark.parametrize("name", PRODUCTS)
def test_large_products_go_into_our_memory(calls, name, rows):
    program = PRODUCTS[name]
    a, b = torch.randn(rows, 8), torch.randn(8, 2000)  # of four numbers or fewer, products are loops
    compiled = fs.compile(lambda a, b: (program(a, b) + 1, program(b.t(), a.t())), backend="native", dynamic=False)
    want = program(a, b) + 1, program(b.t(), a.t())
    for _ in range(2):
        got = compiled(a, b)
        torch.testing.assert_close(got, want)
        assert [t.stride() for t in got] == [t.stride() for t in want]
    assert [call.out for call in calls] == [rows == 600] * 2


def test_products_of_unknown_height_and_large_rows(calls):
    module = torch.nn.Sequential(torch.nn.Linear(4, 20000), torch.nn.ReLU())
    compiled = fs.compile(module, backend="native", dynamic=True)
    with torch.no_grad():
        for rows in (2, 60, 90):
            a = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(a), module(a))
    assert [call.out for call in calls] == [True]


def test_inputs_that_require_gradients():
    weight = torch.randn(4, 300000, requires_grad=True)
    a = torch.randn(8, 4)
    compiled = fs.compile(lambda a: (a @ weight.detach()).sin(), backend="native")
    torch.testing.assert_close(compiled(a), (a @ weight).sin().detach())
