"""errors: messages that name the place, the reason and the remedy."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import warnings

import pytest

from firesteel import errors
from firesteel.errors import BackendError, FiresteelError, GraphBreakError, UserFrame, format_user_stack

ALL = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, FiresteelError)]


def here() -> UserFrame:
    return UserFrame.of(sys._getframe(1))  # the caller's line


def test_a_frame_reads_its_source_line():
    frame = here()  # this very line
    assert frame.source == "frame = here()  # this very line"
    assert frame.function == "test_a_frame_reads_its_source_line"
    assert str(frame) == f"{__file__}:{frame.lineno} in {frame.function}"


def test_a_stack_is_outermost_first_and_lives_without_source():
    text = format_user_stack([UserFrame("outer.py", 1, "f"), UserFrame("<string>", 2, "g")])
    assert text == '  File "outer.py", line 1, in f\n  File "<string>", line 2, in g'


def test_a_graph_break_says_what_where_why_and_what_to_do():
    frame = here()
    error = GraphBreakError("the branch depends on data", "Use fs.cond.", [frame])
    assert str(error).splitlines() == [
        "fullgraph=True, but this program cannot be captured in one graph.",
        f'  File "{__file__}", line {frame.lineno}, in {frame.function}',
        "    frame = here()",
        "  Why: the branch depends on data",
        "  What to do: Use fs.cond.",
    ]
    assert (error.reason, error.hint, error.frames) == ("the branch depends on data", "Use fs.cond.", (frame,))


def test_every_error_has_a_first_line_of_its_own():
    firsts = [str(kind("x", "y")).splitlines()[0] for kind in ALL]
    assert len(set(firsts)) == len(ALL) >= 7
    assert all(issubclass(kind, RuntimeError) for kind in ALL)


@pytest.mark.parametrize("kind", ALL)
def test_errors_survive_pickling_and_copying(kind):
    error = kind("first", "second", frames=[UserFrame("a.py", 1, "f")])
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is kind
        assert str(twin) == str(error)
        assert twin.args == error.args
        assert (twin.reason, twin.hint, twin.frames) == (error.reason, error.hint, error.frames)


def test_a_backend_error_names_the_backend():
    error = BackendError("fast", "it returned None", "Return a callable.")
    assert str(error).startswith("The backend 'fast' cannot be used.")
    assert error.reason == "it returned None"


def test_warnings_of_threads_of_firesteels_own_stand_at_no_line_of_others():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thread = threading.Thread(target=errors.warn, args=("cannot",))
        thread.start()
        thread.join()
    assert [(one.filename, str(one.message)) for one in caught] == [("firesteel", "cannot")]
