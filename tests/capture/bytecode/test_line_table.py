"""Generated code reports the user's lines."""

from __future__ import annotations

import traceback
import types

from firesteel.capture.bytecode.line_table import with_lines

SOURCE = """def f(n):
    a = 1
    if n == 1: raise KeyError
    g = lambda: [][1]
    return g() if n == 2 else (a
        + 'x')
"""


def _lines_of_error(function: types.FunctionType, argument: int) -> list[tuple[str, int | None]]:
    try:
        function(argument)
    except Exception as error:
        return [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)[1:]]
    raise AssertionError


def test_errors_carry_the_given_lines() -> None:
    namespace: dict[str, types.FunctionType] = {}
    exec(SOURCE, namespace)
    function = namespace["f"]
    function.__code__ = with_lines(function.__code__, [500, 7, 1000, 3, 90_000, 12], "user.py")
    assert _lines_of_error(function, 1) == [("user.py", 1000)]
    assert _lines_of_error(function, 2) == [("user.py", 90_000), ("user.py", 3)]
    assert _lines_of_error(function, 3) == [("user.py", 90_000)]
    assert function.__code__.co_firstlineno == 500
