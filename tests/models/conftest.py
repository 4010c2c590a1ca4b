"""What every model test checks, shared by the libraries' test files."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.models import captured_calls


@pytest.fixture
def check_model() -> Callable[[str], None]:
    """A function that runs a model of the zoo under firesteel and holds it against eager and torch.compile's record."""

    def check(name: str) -> None:
        # Equality with eager, for a cold and a warm call, and the absence of a fallback are part of measuring.
        measured = captured_calls.measure(name, "firesteel")
        assert measured.error is None
        assert measured.coverage >= captured_calls.MINIMUM_COVERAGE, (
            f"{measured.calls_outside} ATen calls ran outside graphs, {measured.calls_inside} inside"
        )
        assert measured.second_call_graphs == 0, "an equal second call was captured again"
        recorded = captured_calls.recorded_breaks()[name]
        assert recorded["error"] is None
        assert measured.breaks <= recorded["breaks"], "\n".join(measured.reasons)

    return check
