"""What CONTRIBUTING.md says about adding an operator, done: kernels for CPU and GPU, gradients, in three files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def changes() -> dict[str, str]:
    """What the guide adds to each file."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## How to add an operator\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"`(src/[\w/]+\.py)`:\n\n```python\n(.*?)```", section, re.DOTALL))


def changed(path: str, text: str, more: str) -> str:
    if path.endswith("/operations.py"):
        before, rows, after = text.partition("\n_ROWS = (\n")
        assert rows
        return f"{before}{rows}{more}{after}"
    return f"{text}\n\n{more}"


def run_with(sources: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [sources, ROOT / "tests"]))}
    return subprocess.run([sys.executable, str(ROOT / "tests" / "added_operator.py")], env=environment,
                          capture_output=True, text=True, check=False)


def test_an_operator_is_added_in_three_files(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    additions = changes()
    assert len(additions) == 3
    for path, more in additions.items():
        file = tmp_path / path
        file.write_text(changed(path, file.read_text(), more))
    done = run_with(tmp_path / "src")
    assert done.stdout == "added\n", done.stderr


def test_without_them_the_operator_has_no_kernel():
    assert "added" not in run_with(ROOT / "src").stdout
