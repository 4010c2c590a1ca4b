"""firesteel as a backend of torch's own front end. Run by `test_under_torch`, in a process of its own."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest
import torch

from firesteel import config
from firesteel.backends.native import torch_backend
from firesteel.backends.under_torch import MOST_VERSIONS, _Versions, convert
from firesteel.kernels.options import make_options


@pytest.fixture(autouse=True)
def strict():
    with config.patch(raise_on_internal_error=True), torch.no_grad():
        yield
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


def test_the_entry_point_names_it():
    value = "firesteel.backends.native:torch_backend"
    point = importlib.metadata.EntryPoint("firesteel", value, "torch_dynamo_backends")
    assert point.load() is torch_backend


def test_static_and_dynamic_shapes():
    def f(x, y):
        return torch.relu(x @ y).sum(1) * x.shape[0]

    compiled = torch.compile(f, backend=torch_backend)
    for rows in (4, 5, 6, 9):
        x, y = torch.randn(rows, 3), torch.randn(3, 5)
        torch.testing.assert_close(compiled(x, y), f(x, y))


def test_modules_buffers_and_training():
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.GELU())
    compiled = torch.compile(module, backend=torch_backend)
    x = torch.randn(3, 4)
    module.eval()
    torch.testing.assert_close(compiled(x), module(x))
    module.train()
    with torch.enable_grad():
        compiled(x).sum().backward()
    assert module[0].weight.grad is not None


def test_conditions_of_our_own_are_checked():
    calls = []

    def version(name):
        return lambda *inputs: calls.append(name) or name

    class Graph:
        @staticmethod
        def forward(*inputs):
            return "eager"

    versions = _Versions(Graph(), make_options(), [(lambda x: x.shape[0] > 4, version("large"))])
    assert versions(torch.ones(5)) == "large"
    versions.compiled = [(lambda *_: False, version("none"))] * MOST_VERSIONS
    assert versions(torch.ones(5)) == "eager"


def test_inputs_without_symbols_are_taken_as_they_are():
    x = torch.randn(3, 4).t()
    inputs = convert([x, 5, None])
    assert inputs.examples[0].stride() == (1, 4) and inputs.examples[1:] == [5, None]


def test_control_flow_operators(monkeypatch):
    from firesteel.autodiff import control_flow

    def f(x, w):
        y = torch.cond(x.sum() > 0, lambda x: x @ w, lambda x: x.cos(), (x,))
        return torch._higher_order_ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 0.5), (
            torch.tensor(0), y))[1]

    traced = []
    trace_call = control_flow.trace_call
    monkeypatch.setattr(control_flow, "trace_call", lambda tracing, target, args: (
        traced.append(target.__name__), trace_call(tracing, target, args))[1])
    compiled = torch.compile(f, backend=torch_backend, fullgraph=True)
    for sign in (1, -1):
        x, w = torch.rand(3, 3) * sign, torch.randn(3, 3)
        torch.testing.assert_close(compiled(x, w), (x @ w if sign > 0 else x.cos()) * 0.125)
    assert traced == ["cond", "while_loop"]
