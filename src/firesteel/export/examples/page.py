"""The documentation page that is made of the examples."""

from __future__ import annotations

from .registry import Example, every, tags

_HEAD = """# What can be exported

This page is made of the programs in `firesteel.export.examples`, which the tests run; to find some in Python:

```python
from firesteel.export import examples
examples.search("torch.cond")       # by tag, or by a word
print(examples.get("if_on_a_tensor").program)
```

"""


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD, "Tags: " + ", ".join(f"`{tag}`" for tag in tags()) + "\n\n"]
    for title, supported in (("What works", True), ("What does not, and what to write instead", False)):
        parts.append(f"## {title}\n\n")
        parts += [_section(example) for example in every() if example.supported is supported]
    return "".join(parts)


def _section(example: Example) -> str:
    text = f"### {example.name}\n\n{example.description}\n\nTags: {', '.join(f'`{tag}`' for tag in example.tags)}."
    if example.rewrite:
        text += f" Instead: [{example.rewrite}](#{example.rewrite})."
    if example.strict_only and example.supported:
        text += " Only with `strict=True`."
    return f"{text}\n\n```python\n{example.program}```\n\n"
