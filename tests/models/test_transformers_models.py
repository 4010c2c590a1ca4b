"""Models built from transformers configs: equal to eager, captured whole, no more breaks than torch.compile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.models import zoo


@pytest.mark.parametrize("name", zoo.names("transformers"))
def test_model(name: str, check_model: Callable[[str], None]) -> None:
    check_model(name)
