"""The reference: a page for each group of public names, from their signatures and docstrings."""

from __future__ import annotations

import ast
import enum
import inspect
import re
import sys
import types
from collections.abc import Iterable
from typing import Any

_HEADS = {
    "firesteel": "What `import firesteel as fs` offers. [All functions](../functions.md) has it in one line each.",
    "firesteel.export": "What `fs.export` offers; `fs.export(...)` is `fs.export.export(...)`. "
                        "The [guide](../export.md) shows how the parts go together.",
    "Recordings": "What [recordings](../reports.md) hold: plain data, which `record.as_dict()` gives as dictionaries.",
    "Errors": "Errors about programs derive from `firesteel.errors.FiresteelError`. Those of your own program pass "
              "through compiled code as they are.",
    "Settings": "Attributes of `firesteel.config`, for the process, for a while (`with config.patch(...)`), or in the "
                "environment as `FIRESTEEL_` and the name in capitals.",
}


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    import firesteel as fs
    from firesteel.debug import record, recording

    plain = [name for name in fs.__all__ if not isinstance(getattr(fs, name), types.ModuleType)]
    records = [kind for kind in vars(record).values() if inspect.isclass(kind) and kind.__module__ == record.__name__]
    errors = [kind for kind in vars(fs.errors).values()
              if inspect.isclass(kind) and issubclass(kind, BaseException) and kind.__module__ == fs.errors.__name__]
    return {
        "reference/firesteel.md": _page("firesteel", "fs.", [(name, getattr(fs, name)) for name in plain]),
        "reference/export.md": _page("firesteel.export", "fs.export.", [
            (name, getattr(fs.export, name)) for name in sorted(fs.export.__all__)]),
        "reference/recordings.md": _page("Recordings", "", [("Recording", recording.Recording),
                                                            *[(kind.__name__, kind) for kind in records]]),
        "reference/errors.md": _page("Errors", "fs.errors.", [(kind.__name__, kind) for kind in errors]),
        "reference/settings.md": _settings(),
    }


def _page(title: str, prefix: str, things: Iterable[tuple[str, Any]]) -> str:
    parts = [f"# {title}", _HEADS[title], *[described(prefix + name, thing) for name, thing in things]]
    return "\n\n".join(parts) + "\n"


def described(name: str, thing: Any) -> str:
    """A name with its signature and what its docstring says; of a class also its members."""
    parts = [f"## {name}", f"```text\n{name}{signature(thing)}\n```", markdown(inspect.getdoc(thing) or "")]
    if isinstance(thing, enum.EnumType):
        parts.append("Members: " + ", ".join(f"`{member.name}`" for member in thing) + ".")
    elif inspect.isclass(thing):
        for member, value in vars(thing).items():
            inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if member.startswith("_") or not inspect.isfunction(inner) or not inner.__doc__:
                continue
            said = "" if isinstance(value, property) else signature(inner)
            parts.append(f"### {name.rpartition('.')[2]}.{member}\n\n```text\n{member}{said}\n```\n\n"
                         f"{markdown(inspect.getdoc(inner) or '')}")
    return "\n\n".join(part for part in parts if part)


def signature(thing: Any) -> str:
    """The parameters and the result of a function or class, one a line where they are many."""
    if isinstance(thing, enum.EnumType) or isinstance(thing, type) and issubclass(thing, BaseException):
        return ""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parts, kind = [], None
    for name, one in found.parameters.items():
        if name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and kind not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            parts.append("*")
        kind = one.kind
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        typed = "" if one.annotation is one.empty else f": {_name(one.annotation)}"
        default = "" if one.default is one.empty or "<factory>" in repr(one.default) else f" = {one.default!r}"
        parts.append(f"{stars}{name}{typed}{default}")
    result = "" if found.return_annotation in (found.empty, None, "None") else f" -> {_name(found.return_annotation)}"
    text = f"({', '.join(parts)}){result}"
    return text if len(text) < 90 else "(\n    " + ",\n    ".join(parts) + f",\n){result}"


def _name(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def markdown(text: str) -> str:
    """A docstring as Markdown: examples become blocks of code.

    >>> print(markdown("Says so.\\n\\n>>> 1 + 1\\n2"))
    Says so.
    <BLANKLINE>
    ```python
    >>> 1 + 1
    2
    ```
    """
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    parts = []
    for paragraph in re.split(r"\n\s*\n", text):
        block = inspect.cleandoc(paragraph) if paragraph.lstrip().startswith(">>>") else paragraph
        lead, at, example = block.partition(">>>")
        if at and lead.strip() and "\n" not in lead.strip():
            parts.append(lead.strip())
            block = ">>>" + example
        if not block.startswith(">>>"):
            parts.append(block)
        elif parts and parts[-1].endswith("\n```"):
            parts[-1] = parts[-1].removesuffix("```") + f"{block}\n```"
        else:
            parts.append(f"```python\n{block}\n```")
    return "\n\n".join(parts)


def _settings() -> str:
    """The settings with what stands below each in the file that defines them."""
    from firesteel import config

    parts = [f"# Settings\n\n{_HEADS['Settings']}\n\n{markdown(inspect.getdoc(config) or '')}"]
    body = ast.parse(inspect.getsource(sys.modules["firesteel.config"])).body
    for setting, text in zip(body, body[1:], strict=False):
        if isinstance(setting, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            default = f" = {ast.unparse(setting.value)}" if setting.value is not None else ""
            parts.append(f"## {ast.unparse(setting.target)}\n\n"
                         f"```text\n{ast.unparse(setting.target)}: {ast.unparse(setting.annotation)}{default}\n```\n\n"
                         f"{markdown(inspect.cleandoc(text.value.value))}")
    return "\n\n".join(parts) + "\n"
