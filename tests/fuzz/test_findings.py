"""Programs that once behaved differently when compiled, each in a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import check
from .program import Program

FINDINGS = sorted((Path(__file__).parent / "findings").glob("*.py"))


@pytest.mark.parametrize("compiler", ["firesteel", "aot_eager", "native", "native-dynamic"])
@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_finding(path: Path, compiler: str) -> None:
    assert check(Program(-1, path.read_text()), compiler, counts=False).differences == []
