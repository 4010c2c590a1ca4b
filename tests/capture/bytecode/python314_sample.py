"""What Python 3.14 makes of a few functions, and how that is kept for tests on other Pythons."""

from __future__ import annotations

import dis
import json
import opcode
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SAMPLE = '''
def loads(a, b):
    c = a + b
    return c, 7, -7, 1000, a[b], a[1:2], a[b:], None

def with_block(manager, work):
    with manager as found:
        work(found)
    return found

async def asynchronous(manager):
    async with manager as found:
        async for item in found:
            if item:
                break

def loop(items, work, *args, **kwargs):
    for item in items:
        if not item:
            break
        work(*args)
        work(*args, key=item, **kwargs)
    assert items, "none"
    return all(item > 1 for item in items), [item for item in items if item is not None]

def template(a, b):
    return t"x{a!r:>3}y{b}", f"{a!s:{b}}"

def makes(a, b=2):
    def inner(c: a = 1, *, d: int = b) -> "text":
        return a + c

    class Local:
        x: int = 3

        def method(self):
            return super().method(d=1)

    return inner, Local

def handles(work):
    try:
        return work()
    except (ValueError, TypeError) as error:
        work(error)
    finally:
        work.close()

def delegates(items):
    received = yield from items
    while received < 5:
        received = yield received
'''
FIELDS = ("co_name", "co_names", "co_varnames", "co_cellvars", "co_freevars")


class Other:
    """A constant of which only the text matters."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class RecordedCode:
    """As much of a code object as decoding looks at."""

    def __init__(self, data: dict[str, Any]) -> None:
        for field in FIELDS:
            value = data[field]
            setattr(self, field, tuple(value) if isinstance(value, list) else value)
        self.co_code, self.co_exceptiontable = bytes.fromhex(data["code"]), bytes.fromhex(data["exceptions"])
        self.co_consts = tuple(
            tuple(text) if isinstance(text, list) else Other(text) for text in data["constants"])
        self.slots: list[str] = data["slots"]
        self.expected: list[str] = data["expected"]

    def co_positions(self) -> Iterator[tuple[None, None, None, None]]:
        return iter([(None, None, None, None)] * (len(self.co_code) // 2))

    def _varname_from_oparg(self, slot: int) -> str:
        return self.slots[slot]


def listing(decoded: Any) -> list[str]:
    """The normal form as text: depth, instruction, handler."""
    return [f"{decoded.depths[i.index]} {str(i).split(maxsplit=1)[1]}"
            + (f" ! {i.handler.target} {i.handler.depth} {i.handler.push_lasti}" if i.handler else "")
            for i in decoded.instructions]


def tables() -> dict[str, Any]:
    """What `dis` and `opcode` say about the running Python, as far as decoding looks at it."""
    return {"opmap": dis.opmap, "have_argument": dis.HAVE_ARGUMENT, "cmp_op": dis.cmp_op,
            "caches": opcode._inline_cache_entries, "operators": dis._nb_ops,
            "common": [kind.__name__ for kind in opcode._common_constants],
            **{kind: [dis.opname[op] for op in getattr(dis, kind)] for kind in ("hasjrel", "hasname", "haslocal",
                                                                                "hasfree")}}


def record() -> str:
    """The sample as this Python, 3.14, compiles and as firesteel decodes it."""
    for name in ("firesteel", "firesteel.capture"):
        package = types.ModuleType(name)
        package.__path__ = [str(Path(__file__).resolve().parents[3] / "src" / name.replace(".", "/"))]
        sys.modules[name] = package
    from firesteel.capture.bytecode import decode

    codes = []
    pending = [compile(SAMPLE, "sample", "exec")]
    while pending:
        code = pending.pop()
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        texts = [list(constant) if isinstance(constant, tuple) and all(isinstance(part, str) for part in constant)
                 else f"<{constant.co_name}>" if isinstance(constant, types.CodeType) else repr(constant)
                 for constant in code.co_consts]
        shown = code.replace(co_consts=tuple(tuple(text) if isinstance(text, list) else Other(text) for text in texts))
        slots = len(set(code.co_varnames) | set(code.co_cellvars)) + len(code.co_freevars)
        codes.append({**{field: getattr(code, field) for field in FIELDS}, "code": code.co_code.hex(),
                      "exceptions": code.co_exceptiontable.hex(), "constants": texts,
                      "slots": [code._varname_from_oparg(slot) for slot in range(slots)],
                      "expected": listing(decode(shown))})
    return json.dumps({"python": list(sys.version_info[:3]), "tables": tables(), "codes": codes}, indent=1) + "\n"
