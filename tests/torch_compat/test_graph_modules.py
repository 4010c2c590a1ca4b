"""Graph modules that write their code on first use behave like those that write it at once."""

from __future__ import annotations

import copy
import pickle

import torch
import torch.fx

from firesteel.torch_compat.graph_modules import LazyGraphModule


class Doubled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * 2 + self.weight


def lazy():
    traced = torch.fx.symbolic_trace(Doubled())
    return LazyGraphModule(traced, traced.graph, class_name="Doubled"), traced


def test_code_is_written_when_it_is_asked_for():
    x = torch.randn(3)
    for use in (lambda m: m(x), lambda m: m.forward(x), lambda m: m.code, str, lambda m: m._lineno_map):
        module, plain = lazy()
        assert not module.is_written and isinstance(module, torch.fx.GraphModule)
        use(module)
        assert module.is_written
        assert module.code == plain.code and type(module).__name__ == "Doubled"
        assert torch.equal(module(x), plain(x)) and torch.equal(module.forward(x), plain(x))


def test_changes_to_the_graph_are_seen():
    x = torch.randn(3)
    for written in (False, True):
        module, _ = lazy()
        if written:
            module(x)
        for node in module.graph.nodes:
            if node.op == "call_function" and node.args[1] == 2:
                node.args = (node.args[0], 5)
        module.recompile()
        assert torch.equal(module(x), x * 5 + 1)


def test_copies_and_pickles():
    x = torch.randn(3)
    for make in (copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
        module, plain = lazy()
        assert torch.equal(make(module)(x), plain(x))
        assert module.state_dict().keys() == plain.state_dict().keys()
        assert torch.equal(module(x), plain(x))


def test_errors_of_the_graph_reach_the_caller():
    module, _ = lazy()
    try:
        module(torch.randn(4))
    except RuntimeError as error:
        assert "size" in str(error)
    else:
        raise AssertionError("no error")
