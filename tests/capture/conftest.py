"""Tests of capture run graphs operator by operator, so that they are about capture alone and their results exact.

``FIRESTEEL_DEFAULT_BACKEND=native pytest tests/capture`` sends all their programs through the kernels instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from firesteel import config


@pytest.fixture(autouse=True)
def graphs_as_captured() -> Iterator[None]:
    with config.patch(default_backend=os.environ.get("FIRESTEEL_DEFAULT_BACKEND", "eager")):
        yield
