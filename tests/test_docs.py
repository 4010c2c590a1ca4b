"""Examples in the documentation run and print what they say."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import pytest

import firesteel as fs
from firesteel import config

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if ">>>" in page.read_text())
AS_USERS_RUN_IT = ("first_calls.md", "dynamic_shapes.md", "tour.md", "graph_breaks.md", "training.md")
"""Pages whose examples run with the settings of a new process. Those of the others are compiled, which tests more."""
FIRST_CALLS_ARE_PLAIN = 1.0
LINKED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples(page):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
    with config.patch(compile_after=FIRST_CALLS_ARE_PLAIN if page.name in AS_USERS_RUN_IT else 0.0):
        result = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert result.attempted > 0 and result.failed == 0


def test_there_are_pages_with_examples():
    assert {"graph_breaks.md", "guards.md", "tour.md"} <= {page.name for page in PAGES}


def test_readme_example(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert "tensor(" in capsys.readouterr().out


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_page_of_functions_has_all_of_them():
    text = (ROOT / "docs/functions.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`fs\.([a-zA-Z_]+)[`(.]", row.partition(" | ")[0])}
    assert named == set(fs.__all__)
    exported = {name for row in rows for name in re.findall(r"`fs\.export\.([a-zA-Z_]+)", row.partition(" | ")[0])}
    functions = {name for name in fs.export.__all__ if name.islower() or name == "Dim"}
    assert exported == functions | {"examples", "ShapesCollection", "AdditionalInputs"}
    arguments = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row.partition(" | ")[0])}
    assert arguments == set(inspect.signature(fs.compile).parameters) - {"model"}


def test_settings_named_in_the_documentation_exist():
    text = "\n".join(page.read_text() for page in LINKED)
    for name in re.findall(r"config\.([a-z_]+)\b(?!\()", text):
        assert name in ("py", "patch") or hasattr(config, name), name
