"""The documentation as a site: links lead somewhere, nothing is loaded from elsewhere, all public names are in it."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import re
from pathlib import Path

import pytest

import firesteel as fs

ROOT = Path(__file__).resolve().parent.parent
needs_mkdocs = pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None,
                                  reason="mkdocs, which builds the site, is not installed (pip install '.[docs]')")
FAQ = ROOT / "docs" / "faq.md"


def build(config_file, site, **changed):
    """Build a site; the warnings, each of which is an error under --strict."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    said = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())
    log = logging.getLogger("mkdocs")
    log.addHandler(handler)
    try:
        config = load_config(str(config_file), site_dir=str(site), strict=False, **changed)
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    finally:
        log.removeHandler(handler)
    return said


@needs_mkdocs
def test_the_site_has_no_broken_links_and_loads_nothing(tmp_path):
    assert build(ROOT / "mkdocs.yml", tmp_path) == []
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}
    for name in ("index", "install", "first_ten_minutes", "faq", "migration", "gallery", "readme", "reference/export",
                 "reference/settings", "decisions/index"):
        assert f"{name}.html" in pages
    loaded = re.compile(r"""<(?:link|script|img|iframe)\b[^>]*(?:src|href)=["'](?:https?:)?//""")
    assert [name for name, text in pages.items() if loaded.search(text)] == []
    assert 'id="fsmark_dynamic"' in pages["reference/firesteel.html"]
    assert 'id="recompile_limit"' in pages["reference/settings.html"]


@needs_mkdocs
@pytest.mark.parametrize("link", ["nowhere.md", "install.md#nowhere", "../src/nowhere.py"])
def test_a_broken_link_is_an_error(link, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"# Home\n\n[here]({link})\n")
    (docs / "install.md").write_text("# Installing\n")
    hook = ROOT / "scripts" / "docs_pages.py"
    validation = (ROOT / "mkdocs.yml").read_text().partition("validation:")[2].partition("not_in_nav")[0]
    (tmp_path / "mkdocs.yml").write_text(
        f"site_name: x\nplugins: []\nhooks: [{hook}]\nuse_directory_urls: false\nvalidation:{validation}")
    assert any(link.rpartition("/")[2].rpartition("#")[2] in warning for warning in build(tmp_path / "mkdocs.yml",
                                                                                       tmp_path / "site"))


def test_public_names_have_types_and_examples():
    wrong = []
    for module in (fs, fs.export):
        for name in module.__all__:
            thing = getattr(module, name)
            if ">>>" not in (inspect.getdoc(thing) or ""):
                wrong.append(f"{module.__name__}.{name} has no example")
            if inspect.isfunction(thing):
                signature = inspect.signature(thing)
                untyped = [one.name for one in signature.parameters.values() if one.annotation is one.empty]
                if untyped or signature.return_annotation is signature.empty:
                    wrong.append(f"{module.__name__}.{name} has no types: {untyped}")
    assert wrong == []


QUESTIONS = (
    "support training", "distributed code", "export whole graphs", "code crashing", "compilation slow",
    "recompiling in production", "speeding up my code", "not seeing speedups", "cause of a graph break",
    "recompile when I changed it", "incorrect results", "OOMs", "torch.func work", "Compiling torch.func.grad",
    "Compiling torch.vmap", "Limitations", "escape hatch", "NumPy work", "NumPy features", "NumPy code on CUDA",
    "debug NumPy code", "any speed-up", "fine grain tracing", "graph break on a function",
    "disable and disallow_in_graph", "_dynamo_skip")


def test_every_question_about_torch_compile_is_answered():
    headings = [line for line in FAQ.read_text().splitlines() if line.startswith("#")]
    missing = [question for question in QUESTIONS if not any(question in heading for heading in headings)]
    assert missing == []
