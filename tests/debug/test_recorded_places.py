"""Every break and every recompilation of known programs is on the right line."""

from __future__ import annotations

import inspect
import re

import pytest

import firesteel as fs
from debug import recorded_programs
from debug.recorded_programs import PROGRAMS

FILE = recorded_programs.__file__
LINES = inspect.getsource(recorded_programs).splitlines()


def marked(function, kind):
    """The lines of a program with a comment, those of what it calls included."""
    source, first = inspect.getsourcelines(function)
    found = {first + at for at, line in enumerate(source) if re.search(rf"# {kind}\b(?!:)", line)}
    text = "".join(source)
    for at, line in enumerate(LINES, 1):
        owner = re.search(rf"# {kind}: (\w+)", line)
        if owner and (f"{owner[1]}(" in text or f"{owner[1].upper()}(" in text):
            found.add(at)
    return found


def given(argument):
    return argument() if callable(argument) and not hasattr(argument, "shape") else argument


def test_there_are_enough_programs():
    assert len(PROGRAMS) >= 30
    assert sum(bool(marked(function, "again")) for function, _, _ in PROGRAMS) >= 12
    assert sum(bool(marked(function, "break")) for function, _, _ in PROGRAMS) >= 12


def test_breaks_and_recompilations_are_where_the_program_has_them(monkeypatch):
    monkeypatch.setattr(recorded_programs, "SCALE", 2.0)
    monkeypatch.setitem(recorded_programs.SETTINGS, "mode", "a")
    wrong = []
    for function, calls, options in PROGRAMS:
        with fs.recording() as r:
            compiled = fs.compile(function, backend="eager", **options)
            for arguments in calls:
                compiled(*[given(argument) for argument in arguments])
        record = r.record
        breaks = {one.place.line for one in record.breaks}
        again = {one.place.line for one in record.recompilations}
        in_file = all(one.place.file == FILE for one in (*record.breaks, *record.recompilations))
        expected = marked(function, "break"), marked(function, "again")
        if (breaks, again) != expected or not in_file or record.problems:
            wrong.append((function.__name__, breaks, again, expected, record.problems))
        for one in record.recompilations:
            assert one.failures[-1].text, function
            assert one.failures[-1].before != one.failures[-1].now, (function, one.failures)
    assert not wrong, "\n".join(map(str, wrong))


@pytest.fixture(autouse=True)
def fresh_module():
    recorded_programs.MODULE.flag = True
