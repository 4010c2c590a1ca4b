"""Where children that are forked lack something, minify and bisect work in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import firesteel as fs
from firesteel.repair.apart import in_new_process

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")

PROGRAM = """
import torch
import firesteel as fs
from firesteel.repair.apart import forks_lack_nothing
from repair import foreign_device

before = forks_lack_nothing()
foreign_device.differentiate()
print(before, forks_lack_nothing())
print(fs.bisect(torch.nn.Linear(2, 3), guards=False)(torch.ones(2)))
"""


def test_a_process_that_has_differentiated_beside_a_device():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120,
                          cwd=Path(__file__).parent.parent, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "True False" and second.startswith("nothing differs from eager on the CPU")
    assert ": results, gradients" in second


def told(text, progress):
    """What a new process knows."""
    progress(f"{text} begins")
    raise fs.errors.UserCodeError(f"{fs.config.recompile_limit} {sys.argv == [text]} {os.getpid()}")


def test_what_a_new_process_is_given(monkeypatch):
    said = []
    monkeypatch.setattr(sys, "argv", ["program"])
    with fs.config.patch(recompile_limit=3), pytest.raises(fs.errors.UserCodeError) as caught:
        in_new_process(told, "program", progress=said.append)
    limit, same, pid = caught.value.reason.split()
    assert (limit, same, said) == ("3", "True", ["program begins"]) and int(pid) != os.getpid()
