"""Tables to which functions are added by a decorator."""

from __future__ import annotations

import sys

import pytest

from firesteel.capture.call_handlers import HANDLERS
from firesteel.capture.equivalents import REGISTRY
from firesteel.capture.opcodes import HANDLERS as OPCODES
from firesteel.fake.rules.registry import RULES
from firesteel.functional.decompositions.registry import DECOMPOSITIONS, WRITES
from firesteel.kernels.lowering.registry import LOWERINGS
from firesteel.registry import Registry


@pytest.mark.parametrize("table", [RULES, LOWERINGS, DECOMPOSITIONS, WRITES, OPCODES, REGISTRY, HANDLERS],
                         ids=lambda table: table.what)
def test_nothing_is_registered_twice(table):
    table.load()
    known = next(iter(table))
    before = dict(table)
    with pytest.raises(ValueError, match=f"a second {table.what} for"):
        table.register(known)(lambda: None)
    assert dict(table) == before


def test_files_are_imported_when_a_name_is_not_known(tmp_path, monkeypatch):
    package = tmp_path / "made_of_files"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "table.py").write_text("from firesteel.registry import Registry\n"
                                      "TABLE = Registry('number', 'made_of_files', first=('often',))\n")
    for file, name in (("often", "one"), ("seldom", "two")):
        (package / f"{file}.py").write_text(f"from .table import TABLE\n@TABLE.register('{name}')\ndef f(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    from made_of_files.table import TABLE

    assert not TABLE
    assert TABLE.find("one") is not None and "made_of_files.seldom" not in sys.modules
    assert TABLE.find("two") is not None and TABLE.find("three") is None
    assert sorted(TABLE) == ["one", "two"]


def test_a_function_can_have_several_names():
    table: Registry = Registry("number")
    assert table.register("one", "single")(abs) is abs
    assert table.find("single") is abs and table.find("two") is None


def test_tables_that_exclude_each_other():
    first: Registry = Registry("number")
    second: Registry = Registry("letter", others=(first,))
    first.register("one")(abs)
    with pytest.raises(ValueError, match="a second letter for 'one': abs is registered already"):
        second.register("one")(len)
    assert not second
