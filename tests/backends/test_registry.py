"""backends/registry: registering, listing, looking up, entry points of other packages."""

from __future__ import annotations

import importlib.metadata
import sys
import types

import pytest
import torch

from firesteel.backends import list_backends, lookup_backend, register_backend, registry
from firesteel.errors import BackendError


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_backends", dict(registry._backends))


def offer(monkeypatch, name: str, value: str) -> list[int]:
    """Pretend that an installed package offers a backend. The list returned counts how often was asked."""
    point = importlib.metadata.EntryPoint(name, value, registry.ENTRY_POINT_GROUP)
    asked: list[int] = []

    def entry_points(*, group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
        asked.append(1)
        return (point,) if group == registry.ENTRY_POINT_GROUP else ()

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    return asked


def test_eager_runs_the_graph():
    class Double(torch.nn.Module):
        def forward(self, x):
            return x + x

    gm = torch.fx.symbolic_trace(Double())
    run = lookup_backend("eager")(gm, [torch.ones(2)])
    assert torch.equal(run(torch.ones(2)), torch.full((2,), 2.0))
    assert "eager" in list_backends()


def test_register_as_call_and_as_decorator():
    def mine(gm, example_inputs):
        return gm.forward

    assert register_backend(mine) is mine
    assert register_backend(mine, name="other") is mine

    @register_backend
    def plain(gm, example_inputs):
        return gm.forward

    @register_backend(name="named")
    def hidden(gm, example_inputs):
        return gm.forward

    assert [lookup_backend(name) for name in ("mine", "other", "plain", "named")] == [mine, mine, plain, hidden]
    assert {"eager", "mine", "named", "other", "plain"} <= set(list_backends())
    assert list_backends() == sorted(list_backends())
    assert "hidden" not in list_backends()


def test_registering_again_replaces():
    register_backend(lambda gm, inputs: None, name="again")
    second = register_backend(lambda gm, inputs: gm, name="again")
    assert lookup_backend("again") is second
    assert list_backends().count("again") == 1


def test_a_callable_is_a_backend():
    class Compiler:
        def __call__(self, gm, example_inputs):
            return gm.forward

    compiler = Compiler()
    assert lookup_backend(compiler) is compiler
    with pytest.raises(TypeError, match="name="):
        register_backend(compiler)


@pytest.mark.parametrize("wrong", [3, None, ["eager"]])
def test_what_is_no_backend_is_refused(wrong):
    with pytest.raises(TypeError, match="backend= takes a name or a callable"):
        lookup_backend(wrong)


def test_an_unknown_name_gets_a_suggestion_and_the_list():
    with pytest.raises(BackendError) as caught:
        lookup_backend("eagre")
    assert "'eagre'" in str(caught.value)
    assert "Did you mean 'eager'?" in str(caught.value)
    assert ", ".join(list_backends()) in str(caught.value)


def test_entry_points_are_asked_only_for_unknown_names(monkeypatch):
    module = types.ModuleType("some_compiler")
    module.backend = lambda gm, example_inputs: gm.forward
    monkeypatch.setitem(sys.modules, "some_compiler", module)
    asked = offer(monkeypatch, "theirs", "some_compiler:backend")

    lookup_backend("eager")
    assert not asked
    assert lookup_backend("theirs") is module.backend
    assert len(asked) == 1
    assert lookup_backend("theirs") is module.backend  # now known
    assert len(asked) == 1
    assert "theirs" in list_backends()


def test_an_entry_point_that_does_not_load_is_named(monkeypatch):
    offer(monkeypatch, "broken", "no_such_module_anywhere:backend")
    assert "broken" in list_backends()  # listing loads nothing
    with pytest.raises(BackendError, match="no_such_module_anywhere:backend failed: ModuleNotFoundError"):
        lookup_backend("broken")
