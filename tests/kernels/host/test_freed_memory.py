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
from firesteel.kernels.host.freed_memory import keep_freed_memory
print(min(faults() for _ in range(5)), int(keep_freed_memory()))
"""
USERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES", "LD_PRELOAD")


def faults(**environment: str) -> tuple[int, int]:
    """The fewest page faults of five uses of large memory, and whether the C library was told to keep it."""
    plain = {name: value for name, value in os.environ.items() if name not in USERS}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={**plain, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, told = done.stdout.split()
    return int(count), int(told)


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_large_tensors_cost_page_faults_once():
    count, told = faults()
    assert told and count < 200


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_settings_of_the_user_go_before_it():
    count, told = faults(MALLOC_MMAP_THRESHOLD_="131072")  # memory of its own for each tensor
    assert not told and count > 5_000


def test_it_can_be_switched_off():
    # How many faults there are is a matter of luck then.
    assert not faults(FIRESTEEL_KEEP_FREED_MEMORY="0")[1]
