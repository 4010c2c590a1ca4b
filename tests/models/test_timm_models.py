"""Models of timm, of torchvision and of our own: equal to eager, captured whole, no more breaks than torch.compile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.models import zoo


@pytest.mark.parametrize("name", zoo.names("timm"))
def test_timm_model(name: str, check_model: Callable[[str], None]) -> None:
    check_model(name)


@pytest.mark.parametrize("name", [*zoo.names("torchvision"), *zoo.names("local")])
def test_other_model(name: str, check_model: Callable[[str], None]) -> None:
    check_model(name)
