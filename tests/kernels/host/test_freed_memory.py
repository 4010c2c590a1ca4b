"""Freed memory is kept in the process, unless somebody says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource, torch, firesteel as fs
fs.compile(lambda x: x + 1, dynamic=False)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    first, second = torch.zeros(3 << 20), torch.zeros(3 << 20)
    del first, second
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults(), faults()
print(sum(faults() for _ in range(5)))
"""
USERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES", "LD_PRELOAD")


def faults(**environment: str) -> int:
    plain = {name: value for name, value in os.environ.items() if name not in USERS}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={**plain, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_large_tensors_cost_page_faults_once():
    assert faults() < 1000
    for setting in ({"FIRESTEEL_KEEP_FREED_MEMORY": "0"}, {"MALLOC_TRIM_THRESHOLD_": "131072"}):
        assert faults(**setting) > 5000, setting
