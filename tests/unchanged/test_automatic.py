"""`firesteel run --auto`: which calls are looked at, and that the faster way stays."""

from __future__ import annotations

import copy
import gc
import pickle
import types
import weakref

import pytest
import torch
from torch import nn

import firesteel as fs
from firesteel import config
from firesteel.torch_compat import patches
from firesteel.unchanged import automatic
from firesteel.unchanged.installing import AUTOMATIC

pytestmark = pytest.mark.usefixtures("quick_collections")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.inner(x))


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when a test says so; modules are compiled as soon as they are looked at."""
    now = types.SimpleNamespace(value=0.0)
    monkeypatch.setattr(automatic, "time", types.SimpleNamespace(perf_counter=lambda: now.value))
    monkeypatch.setattr(automatic, "_chosen", weakref.WeakSet())
    automatic.compile_modules_that_pay()
    with config.patch(compile_after=1e-9):
        yield now
    patches.restore([AUTOMATIC])
    assert nn.Module._compiled_call_impl is None


@pytest.mark.parametrize("compiled_takes, stays", [(1.0, True), (1.99, False), (3.0, False)])
def test_the_faster_way_stays(clock, compiled_takes, stays):
    net, x = Net(), torch.randn(2, 3)
    expected = torch.relu(net.inner(x))
    for _ in range(automatic.CALLS_BEFORE + automatic.WARM_UP + 2 * automatic.SAMPLES + 6):
        result = net(x)
        torch.testing.assert_close(result, expected)
        result.sum().backward()
        chosen = vars(net)["_firesteel_automatic"]
        is_compiled = chosen._open is not None and chosen._open[0] is chosen.compiled
        clock.value += compiled_takes if is_compiled else 2.0
    assert chosen.verdict is stays and len(chosen.plain) == len(chosen.compiled) == automatic.SAMPLES
    assert ("compiled" if stays else "plain") + ": a step takes 2e+03 ms plain" in automatic.outcome()[0]
    pickled = pickle.dumps(net)
    assert b"firesteel." not in pickled  # it is read where there is none
    copied = pickle.loads(pickled)
    torch.testing.assert_close(copied(x), expected)
    assert vars(copied)["_firesteel_automatic"].calls == 1 and vars(copy.deepcopy(net))["_firesteel_automatic"] is None
    assert list(net.state_dict()) == ["inner.weight", "inner.bias"]


def test_modules_go_away(clock):
    net = Net()
    for _ in range(5):
        net(torch.ones(1, 3))
    assert vars(net)["_firesteel_automatic"].is_compiled and "_firesteel_automatic" not in vars(net.inner)
    weight, gone = weakref.ref(net.inner.weight), weakref.ref(net)
    del net
    fs.reset()
    gc.collect()
    assert gone() is None and weight() is None and not automatic.outcome()


def test_what_was_compiled_already_is_left_alone(clock):
    net, own = Net(), Net()
    own.compile(backend="eager")
    with fs.installed():
        wrapped = torch.compile(net, backend="eager")
        for _ in range(5):
            wrapped(torch.ones(1, 3))
            own(torch.ones(1, 3))
    assert "_firesteel_automatic" not in {**vars(net), **vars(own), **vars(wrapped)} and not automatic._chosen
