"""What a functional graph must not be, and that every stage is looked at under `config.verify`."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import firesteel as fs
from firesteel.functional import trace
from firesteel.functional.verify import MalformedError, verify_functional
from firesteel.kernels.cpu import passes as cpu_passes

ATEN = torch.ops.aten


def traced():
    return trace(torch.fx.symbolic_trace(lambda x: (x + 1).relu()), [torch.ones(3)])


def forget_value(functional, node):
    del node.meta["val"]


def change_argument(functional, node):
    node.target = ATEN.relu_.default


def take_tensor(functional, node):
    node.args = (torch.ones(3),)


def use_before(functional, node):
    first = next(node for node in functional.graph.nodes if node.op == "call_function")
    first.args = (node, *first.args[1:])


def lose_input(functional, node):
    functional.inputs[0] = replace(functional.inputs[0], node=node)


@pytest.mark.parametrize("break_it", [forget_value, change_argument, take_tensor, use_before, lose_input])
def test_what_is_wrong_is_found(break_it):
    functional = traced()
    verify_functional(functional, "tracing")
    *_, last = [node for node in functional.graph.nodes if node.op == "call_function"]
    break_it(functional, last)
    with pytest.raises(MalformedError, match="after a pass: "):
        verify_functional(functional, "a pass")


def test_bodies_of_control_flow_are_looked_at():
    functional = []

    def backend(module, examples):
        functional.append(trace(module, examples))
        return module.forward

    def program(x):
        return fs.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    fs.compile(program, backend=backend)(torch.ones(2))
    verify_functional(functional[0], "tracing")
    owner = next(node for node in functional[0].graph.nodes if hasattr(node.target, "bodies"))
    for node in owner.target.bodies[0].graph.graph.nodes:
        node.meta.pop("val", None)
    with pytest.raises(MalformedError, match="in true of cond"):
        verify_functional(functional[0], "tracing")


def test_a_pass_that_breaks_a_graph_is_named(monkeypatch):
    def careless(functional, settings):
        for node in functional.graph.nodes:
            node.meta.pop("val", None)
        return functional

    monkeypatch.setattr(cpu_passes, "PASSES", (careless, *cpu_passes.PASSES))
    with pytest.raises(fs.errors.BackendError, match="after careless: .* does not know its value"):
        fs.compile(lambda x: x + 1)(torch.ones(2))
