"""Examples in the documentation run, each block alone, and print what they say."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import re
from pathlib import Path

import pytest
import torch

import firesteel as fs
from firesteel import config

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
         if BLOCK.search(page.read_text())]
AS_USERS_RUN_IT = ("first_calls.md", "dynamic_shapes.md", "tour.md", "graph_breaks.md", "training.md")
"""Pages whose examples run with the settings of a new process. Those of the others are compiled, which tests more."""
FIRST_CALLS_ARE_PLAIN = 1.0
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
LINKED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def run_alone(block, page, line):
    """What goes wrong with a block of code in a namespace of its own, as if it had been pasted into an interpreter."""
    said = io.StringIO()
    if ">>>" in block:
        test = doctest.DocTestParser().get_doctest(block, {}, page.name, str(page), line)
        doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=said.write)
        return said.getvalue()
    try:
        with contextlib.redirect_stdout(said):
            exec(compile("\n" * line + block, str(page), "exec"), {"__name__": "__main__"})
    except Exception as error:
        return f"{page.name}, block in line {line}: {type(error).__name__}: {error}\n"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_block_runs_alone(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if torch.distributed.is_available() and torch.distributed.is_initialized():  # by other tests of this process
        torch.distributed.destroy_process_group()
    text, wrong = page.read_text(), []
    for found in BLOCK.finditer(text):
        if "cuda" in found[1] and not torch.cuda.is_available():
            compile(found[1], str(page), "exec")
            continue
        fs.reset()
        with config.patch(compile_after=FIRST_CALLS_ARE_PLAIN if page.name in AS_USERS_RUN_IT else 0.0):
            wrong.append(run_alone(found[1], page, text.count("\n", 0, found.start(1))))
    assert not any(wrong), "".join(wrong)


def test_a_block_that_needs_another_is_found():
    page = ROOT / "docs" / "index.md"
    assert "name 'x' is not defined" in run_alone("y = x + 1\n", page, 0)
    assert "name 'x' is not defined" in run_alone(">>> x + 1\n2\n", page, 0)
    assert run_alone("y = 1\n", page, 0) == run_alone(">>> 1 + 1\n2\n", page, 0) == ""


def test_there_are_pages_with_examples():
    assert {"graph_breaks.md", "guards.md", "tour.md", "README.md"} <= {page.name for page in PAGES}


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
    for name in re.findall(r"(?<![\w.])(?:fs\.|firesteel\.)?config\.([a-z_]+)\b(?!\()", text):
        assert name in ("py", "patch") or hasattr(config, name), name
