"""Tests of capture run graphs operator by operator, so that they are about capture alone and their results exact.

``FIRESTEEL_DEFAULT_BACKEND=native pytest tests/capture`` sends all their programs through the kernels instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel import config

OPERATIONS = ("autograd", "extensions", "modes", "modules", "optim", "random", "tensors", "views")
"""Tests of torch's operations, `test_torch_*.py`, which run once more with symbols for all sizes and numbers."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if Path(metafunc.module.__file__ or "").stem in {f"test_torch_{name}" for name in OPERATIONS}:
        metafunc.parametrize("graphs_as_captured", ["auto", "1"], indirect=True, ids=["", "all_sizes_symbolic"])


@pytest.fixture(autouse=True)
def graphs_as_captured(request: pytest.FixtureRequest) -> Iterator[None]:
    backend = os.environ.get("FIRESTEEL_DEFAULT_BACKEND", "eager")
    sizes = {} if getattr(request, "param", "auto") == "auto" else {"dynamic_shapes": request.param}
    with config.patch(default_backend=backend, **sizes):
        yield
