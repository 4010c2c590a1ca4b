"""Print the documentation page of the examples: ``python -m firesteel.export.examples > docs/export_examples.md``."""

from __future__ import annotations

from .page import page

print(page(), end="")
