"""What MkDocs is told beside the files in docs/: the reference, pages from outside of the folder, links that leave it.

A hook of `mkdocs.yml`. README, CONTRIBUTING and CHANGELOG become pages. Links to sources become the names of the files,
because a built site has no sources beside it; a file that does not exist is a warning, and so an error.
"""

from __future__ import annotations

import logging
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from docs_reference import pages  # noqa: E402

OUTSIDE = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository that are pages too, by the name of the page."""
STYLE = """
.navbar { --bs-bg-opacity: 1; }
pre { font-size: .85rem; } code { overflow-wrap: anywhere; }
table { display: block; overflow-x: auto; } td, th { vertical-align: top; padding: .2rem .8rem .2rem 0; }
td { min-width: 6.5rem; } td code { overflow-wrap: normal; } .bs-sidebar a { overflow-wrap: anywhere; }
h1 { font-size: 2rem; } h2 { font-size: 1.45rem; margin-top: 2rem; } h3 { font-size: 1.1rem; margin-top: 1.2rem; }
img { max-width: 100%; } .headerlink { padding-left: .3em; text-decoration: none; opacity: .4; }
"""
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_log = logging.getLogger("mkdocs.plugins.docs_pages")


def on_files(files: Files, config: Any) -> Files:
    """Add what is made."""
    for name, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    for page, content in pages().items():
        files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, "style.css", content=STYLE + _colours()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Make links that leave the folder links to pages, or the names of files."""
    source = page.file.src_uri
    named = {page: name for name, page in OUTSIDE.items()}
    at = posixpath.dirname(named[source] if source in named else posixpath.join("docs", source))
    return LINK.sub(lambda found: _link(found, source, at), markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The theme's switch of colours looks for the styles of the highlighter that is not used."""
    return output.replace("</head>", '<style id="hljs-light"></style><style id="hljs-dark"></style></head>', 1)


def _link(found: re.Match[str], source: str, at: str) -> str:
    text, target, anchor = found[1], found[2], found[3] or ""
    if "://" in target or target.startswith("mailto:"):
        return found[0]
    path = posixpath.normpath(posixpath.join(at, target))
    if path.startswith("docs/reference/"):
        return found[0]
    if not (ROOT / path).exists():
        _log.warning("%s links to %s, which is not there", source, target)
        return found[0]
    if path in OUTSIDE:
        path = "docs/" + OUTSIDE[path]
    elif not path.startswith("docs/") or (ROOT / path).is_dir():
        return text if "`" in text else f"{text} (`{path}`)" if path not in text else text
    back = posixpath.relpath(path, posixpath.join("docs", posixpath.dirname(source)))
    return f"[{text}]({back}{anchor})"


def _colours() -> str:
    """Colours of code for light and for dark pages."""
    from pygments.formatters import HtmlFormatter

    light = HtmlFormatter(style="default").get_style_defs(".codehilite")
    dark = HtmlFormatter(style="github-dark").get_style_defs('[data-bs-theme="dark"] .codehilite')
    return f"{light}\n{dark}\n.codehilite {{ background: transparent !important; }}\n"
