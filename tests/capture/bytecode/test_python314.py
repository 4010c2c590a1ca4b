"""Bytecode of Python 3.14 on any Python: code that 3.14 made, decoded with 3.14's tables.

`scripts/python314.py` records it, and runs this folder's other tests on 3.14 itself.
"""

from __future__ import annotations

import builtins
import dis
import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from .python314_sample import RecordedCode, listing

RECORDED = json.loads((Path(__file__).parent / "python314.json").read_text())
CODES = [RecordedCode(data) for data in RECORDED["codes"]]
PACKAGE = "bytecode_for_python314"


def make_modules() -> dict[str, types.ModuleType]:
    """`dis` and `opcode` as 3.14 has them, as far as decoding looks at them."""
    tables = RECORDED["tables"]
    named, caches = types.ModuleType("dis"), types.ModuleType("opcode")
    named.opmap = tables["opmap"]
    numbers = {number: name for name, number in named.opmap.items()}
    named.opname = [numbers.get(number, f"<{number}>") for number in range(max(numbers) + 1)]
    for kind in ("hasjrel", "hasname", "haslocal", "hasfree"):
        setattr(named, kind, [named.opmap[name] for name in tables[kind]])
    named.HAVE_ARGUMENT, named.cmp_op, named._nb_ops = tables["have_argument"], tables["cmp_op"], tables["operators"]
    named.Positions = dis.Positions
    caches._inline_cache_entries = tables["caches"]
    caches._common_constants = [getattr(builtins, name) for name in tables["common"]]
    return {"dis": named, "opcode": caches}


@pytest.fixture(scope="module")
def instructions() -> Any:
    """The module `capture.bytecode.instructions`, imported as if this were Python 3.14."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "version_info", (*RECORDED["python"], "final", 0))
        for name, module in make_modules().items():
            patch.setitem(sys.modules, name, module)
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(Path(__file__).resolve().parents[3] / "src/firesteel/capture/bytecode")]
        patch.setitem(sys.modules, PACKAGE, package)
        for name in ("machine", "instructions"):
            patch.setitem(sys.modules, f"{PACKAGE}.{name}", types.ModuleType(name))  # so that the patch takes it away
            del sys.modules[f"{PACKAGE}.{name}"]
        return importlib.import_module(f"{PACKAGE}.instructions")


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.co_name)
def test_normal_form(instructions: Any, code: RecordedCode) -> None:
    assert listing(instructions._decode(code)) == code.expected


def test_what_is_new_is_in_the_sample(instructions: Any) -> None:
    names = {instructions.dis.opname[op] for code in CODES for op in code.co_code[::2]}
    assert names >= {
        "LOAD_FAST_BORROW", "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_SMALL_INT", "LOAD_COMMON_CONSTANT",
        "LOAD_SPECIAL", "POP_ITER", "END_FOR", "NOT_TAKEN", "BUILD_TEMPLATE", "BUILD_INTERPOLATION", "END_ASYNC_FOR"}


def find(name: str) -> list[str]:
    return next(code for code in CODES if code.co_name == name).expected


def test_one_form_with_other_pythons() -> None:
    """What 3.14 does in its own way looks as it does elsewhere."""
    loads, block = find("loads"), find("with_block")
    assert [line.split(maxsplit=1)[1] for line in loads[:4]] == [
        "LOAD_FAST 'a'", "LOAD_FAST 'b'", "BINARY_OP '+'", "STORE_FAST 'c'"]
    assert {"1 LOAD_CONST 7", "6 BINARY_SUBSCR", "6 LOAD_CONST slice(1, 2, None)"} <= set(loads)
    assert block[1] == "1 BEFORE_WITH" and block[2].startswith("3 STORE_FAST 'found' ! ")  # exit, NULL, found
    calls = [line for line in find("loop") if "CALL_FUNCTION_EX" in line]
    assert [line.split()[-1] for line in calls] == ["False", "True"]
    assert not any("LOAD_SPECIAL" in line or "POP_ITER" in line for code in CODES for line in code.expected)


def test_every_opcode_is_known_to_capture() -> None:
    pytest.importorskip("torch")
    import firesteel.capture.class_bodies  # noqa: F401
    from firesteel.capture.opcodes import HANDLERS

    named = {line.split()[1] for code in CODES for line in code.expected}
    assert named <= HANDLERS.keys()
