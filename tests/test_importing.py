"""What is imported while someone waits for a first call."""

from __future__ import annotations

import gc
import subprocess
import sys
import types

import pytest

from firesteel import importing
from firesteel.importing import imports_uncollected


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(importing, "_uncounted", 0)
    gc.collect(1)  # what tests make now is the only thing that is young
    yield
    gc.enable()


def run_fresh(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def is_old(item: object) -> bool:
    return any(each is item for each in gc.get_objects(generation=2))


def test_what_is_imported_is_old_and_nothing_else(monkeypatch):
    with imports_uncollected():
        young = [1]
        assert not gc.isenabled()
    assert gc.isenabled() and not is_old(young)
    with imports_uncollected():
        monkeypatch.setitem(sys.modules, "imported_meanwhile", types.ModuleType("imported_meanwhile"))
    assert gc.isenabled() and is_old(sys.modules["imported_meanwhile"])


def test_disabled_stays_disabled():
    gc.disable()
    with imports_uncollected():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_nothing_is_collected_while_the_compiler_is_loaded():
    out = run_fresh("""
import gc, torch
import firesteel as fs
collections = []
gc.callbacks.append(lambda phase, info: collections.append(info))
fs.compile
fs.compile(lambda x: (x + 1).relu())
print(len(collections), gc.isenabled())
""")
    count, enabled = out.split()
    assert int(count) <= 2 and enabled == "True"  # one at most has a beginning and an end


def test_training_imports_nothing_large():
    out = run_fresh("""
import sys, torch
import firesteel as fs
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Conv2d(16, 64, 1), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3, padding=1),
                        torch.nn.ConvTranspose2d(64, 32, 2, stride=2)).eval()
x = torch.randn(2, 16, 24, 24)
with torch.no_grad():
    assert torch.allclose(fs.compile(m)(x), m(x), atol=1e-5)  # torch.testing imports distributed tensors itself
step = fs.compile(lambda x: m(x).square().mean().backward())
step(x)
linear = fs.compile(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1)))
linear(torch.randn(4, 8)).sum().backward()
print([name for name in ("sympy", "torch.distributed.tensor", "torch._dynamo") if name in sys.modules])
""")
    assert out == "[]"
