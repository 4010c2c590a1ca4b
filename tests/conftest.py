"""What every test starts from: internal failures raise, a fixed seed, one thread, nothing compiled, no logs or disk."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import hypothesis
import pytest
import torch

import firesteel
import torchvision_on_cpu
from firesteel import config
from firesteel.logs import set_logs

# Models are built by libraries that import torchvision when they find it.
torchvision_on_cpu.prepare()

# The same examples in every run: a failure must be there again on the next run.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    # What one test learns about sizes must not reach another through the disk, nor through processes that tests start.
    os.environ["FIRESTEEL_DISK_CACHE"] = "0"
    # What is tested is compiled in its first call, also in processes that tests start.
    os.environ["FIRESTEEL_COMPILE_AFTER"] = "0"
    # Processes that tests start, in whatever folder, find what the tests have found.
    sources = os.path.dirname(os.path.dirname(os.path.abspath(firesteel.__file__)))
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([sources, *given]))
    # Test workers share the cores; more threads would make them wait for each other.
    torch.set_num_threads(1)


def seed_torch() -> None:
    """As `torch.manual_seed(0)`, which keeps a trace of every call for devices that are not there."""
    (torch if torch.cuda.is_available() else torch.default_generator).manual_seed(0)


@pytest.fixture(scope="module")
def quick_collections() -> Iterator[None]:
    """Collections of garbage look only at what these tests make, not at all that earlier ones have left."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    """Every test sees a compiler that has compiled nothing, and a fallback to eager counts as a failure."""
    seed_torch()
    firesteel.reset()
    as_they_are = dict(zip(config.names(), config.values(), strict=True))
    with config.patch(as_they_are), \
            config.patch(raise_on_internal_error=True, disk_cache=False, verify=True, compile_after=0.0):
        yield
    set_logs()
