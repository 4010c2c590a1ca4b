"""What CONTRIBUTING.md says about adding a pass, done."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch

from firesteel import passes
from passes.pass_checks import body, functional, transformed

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def added(tmp_path, monkeypatch):
    """The pass of the guide, as a file of the package."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## How to add a pass\n")[2].partition("\n## ")[0]
    ((path, text),) = re.findall(r"`src/firesteel/passes/(\w+)\.py`.*?```python\n(.*?)```", section, re.DOTALL)
    (tmp_path / f"{path}.py").write_text(text)
    monkeypatch.setattr(passes, "__path__", [*passes.__path__, str(tmp_path)])
    yield getattr(importlib.import_module(f"firesteel.passes.{path}"), path)
    del sys.modules[f"firesteel.passes.{path}"]


def test_the_pass_does_what_its_docstring_says(added):
    def f(x0):
        return x0.sqrt().reciprocal()

    x = torch.rand(4) + 1
    before, after = re.findall(r"((?: {4}\w+: .*\n)+)", sys.modules[added.__module__].__doc__ or "")
    called = [re.findall(r"aten\.\w+\.\w+", text) for text in (before, after)]
    assert [re.findall(r"aten\.\w+\.\w+", body(functional(f, (x,)))),
            re.findall(r"aten\.\w+\.\w+", body(transformed(added, f, x)))] == called


def test_the_pass_leaves_other_graphs_alone(added):
    graph = functional(lambda x0: x0.sin().reciprocal(), (torch.rand(4) + 1,))
    assert added(graph) is graph
