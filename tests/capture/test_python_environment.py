"""What functions reach outside of themselves under capture: globals, imports, printing, logging, warnings."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import threading
import types
import warnings
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.differential import check, x

# Globals, imports

COUNTER = 0
STORE: list[Any] = []
TEMPORARY: Any = None


def test_global_read_and_write() -> None:
    def f(x):
        global COUNTER
        COUNTER += 1
        STORE.append(x + COUNTER)
        return x * COUNTER

    def reset() -> tuple[Any, ...]:
        global COUNTER
        COUNTER = 5
        STORE.clear()
        return (x(),)

    check(f, reset, state=lambda: (COUNTER, STORE))


def test_global_changes_recompile() -> None:
    global COUNTER

    def f(x):
        return x * COUNTER

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    for COUNTER in (1, 2, 3.5):
        assert torch.equal(compiled(x()), x() * COUNTER)


def test_global_deleted() -> None:
    global TEMPORARY

    def f(x):
        global TEMPORARY
        y = x + TEMPORARY
        del TEMPORARY
        try:
            return TEMPORARY
        except NameError as error:
            return y, str(error)

    def reset() -> tuple[Any, ...]:
        global TEMPORARY
        TEMPORARY = 3
        return (x(),)

    check(f, reset, state=lambda: "TEMPORARY" in globals(), fullgraph=False, entries=None)
    TEMPORARY = None


def test_undefined_global() -> None:
    def f(x):
        return x + not_defined_anywhere  # noqa: F821

    check(f)


def test_globals_function() -> None:
    def f(x):
        globals()["COUNTER"] = 9
        return x * COUNTER, globals()["COUNTER"]

    check(f, state=lambda: COUNTER)


def test_imports_inside() -> None:
    def f(x):
        import math
        import os.path as path
        from collections import OrderedDict as Od  # noqa: N817

        return x * math.sqrt(4), Od(a=1), path.basename("a/b")

    check(f, fullgraph=False, entries=None)


def test_imports_inside_are_captured() -> None:
    def f(x):
        import math

        import torch.nn.functional as functional
        from torch.nn import functional as again

        return functional.relu(x) * math.pi, functional is again

    check(f)


def test_failing_import() -> None:
    def f(x):
        try:
            import no_such_module_anywhere  # noqa: F401
        except ImportError as error:
            return x + 1, str(error)

    check(f, fullgraph=False, entries=None)


def test_names_that_a_module_does_not_have(monkeypatch) -> None:
    made = types.ModuleType("made_here")
    monkeypatch.setitem(sys.modules, "made_here", made)
    monkeypatch.setitem(sys.modules, "made_here.part", types.ModuleType("made_here.part"))

    def f(x):
        from made_here import part

        said = [part.__name__]
        for load in (from_made, from_torch):
            try:
                load()
            except ImportError as error:
                said += [str(error), error.name, error.path, error.__context__ is None]
        return x + 1, said

    def from_made():
        from made_here import nothing  # noqa: F401

    def from_torch():
        from torch.nn import nothing  # noqa: F401

    check(f, fullgraph=False, entries=None)


# Printing, logging, warnings


def test_print_is_replayed_in_order() -> None:
    def f(x, name):
        print("start", name, 3)
        y = x + 1
        print(f"{name:>5}|", end="", sep="-")
        print([1, {"a": 2}], (None,), y.shape)
        return y

    check(f, lambda: (x(), "n"))


def test_print_shows_the_state_at_its_time() -> None:
    def f(x, items):
        print(items)
        items.append(4)
        print(items, len(items))
        return x + 1

    check(f, lambda: (x(), [1]))


def test_print_of_tensors_breaks_in_order() -> None:
    def f(x):
        print("before")
        y = x * 2
        print(y.sum())
        print("after")
        return y + 1

    check(f, fullgraph=False, entries=None)


def test_logging_is_replayed(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("firesteel.test.python")

    def f(x):
        logger.info("one %d", 1)
        y = x + 1
        logger.warning("two %s", "b")
        return y

    with caplog.at_level(logging.INFO, "firesteel.test.python"):
        compiled = fs.compile(f, backend="eager", fullgraph=True)
        compiled(x())
        compiled(x())
    assert [r.getMessage() for r in caplog.records if r.name == logger.name] == ["one 1", "two b"] * 2


class OnceLogger(logging.Logger):
    """A logger with a method that remembers what it said, as libraries have it."""

    @functools.lru_cache(None)  # noqa: B019
    def warning_once(self, *args):
        self.warning(*args)


def test_logging_through_a_cached_method(caplog: pytest.LogCaptureFixture) -> None:
    logger = OnceLogger("firesteel.test.once")
    logger.addHandler(caplog.handler)

    def f(x, number):
        logger.warning_once(f"once {number}")
        return x + number

    compiled = fs.compile(f, backend="eager", fullgraph=True, dynamic=False)
    for number in (1, 1, 2, 1):
        compiled(x(), number)
    assert [r.getMessage() for r in caplog.records if r.name == logger.name] == ["once 1", "once 2"]


def test_cached_methods() -> None:
    class Table:
        @functools.lru_cache(None)  # noqa: B019
        def factor(self, number):
            return number * 2

    table = Table()

    def f(x):
        return x * table.factor(3)

    check(f)


def test_warnings_are_issued() -> None:
    def f(x):
        y = x + 1
        warnings.warn("careful", UserWarning, stacklevel=1)
        return y * 2

    compiled = fs.compile(f, backend="eager")
    for _ in range(2):
        with pytest.warns(UserWarning, match="careful"):
            assert torch.equal(compiled(x()), (x() + 1) * 2)


def test_warnings_caught_inside() -> None:
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("hidden", stacklevel=1)
            y = x + 1
        return y

    check(f, fullgraph=False, entries=None)


# Frames, threads


def test_variables_of_calling_frames() -> None:
    def names(depth):
        return sorted(sys._getframe(depth).f_locals)

    def through_inspect():
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        return frame.f_back.f_locals["y"] * 2

    def f(x):
        y = x + 1
        inside = [names(depth) for depth in (0, 1)]
        return y * 2, inside, through_inspect(), sys._getframe().f_locals["inside"] is inside

    check(f, lambda: (x(),), fullgraph=False, entries=0)


def test_running_threads_do_not_recompile() -> None:
    stop = threading.Event()

    def f(x):
        y = x + 1
        thread = threading.Thread(target=stop.wait, daemon=True)
        thread.start()
        thread.join(0.001)
        return y * 2, thread.is_alive(), threading.current_thread() is thread

    compiled = fs.compile(f, backend="eager")
    try:
        assert [compiled(x())[1:] for _ in range(3)] == [(True, False)] * 3
    finally:
        stop.set()
    unit = compiled._firesteel_unit
    assert all(len(each.entries) <= 1 for each in (unit, *unit.continuations.values()))


@pytest.mark.parametrize("fullgraph", [False, True])
def test_modules_that_the_first_call_imports(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, fullgraph: bool) -> None:
    name = f"imported_late_{fullgraph}".lower()
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("import sys\nORDER = []\n")
    (package / "inner.py").write_text(f"from {name} import ORDER\nORDER.append('inner')\nscale = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, Any] = {}
    exec(f"""
def f(x):
    import {name}
    {name}.ORDER.append('f')
    from {name}.inner import scale
    return x * scale

def missing(x):
    try:
        import {name}.nothing
    except ImportError as error:
        return x + len(type(error).__name__)
""", namespace)
    graphs: list[Any] = []

    def backend(module: Any, examples: Any) -> Any:
        graphs.append(module)
        return module

    compiled = fs.compile(namespace["f"], backend=backend, fullgraph=fullgraph)
    assert [compiled(torch.ones(2)).tolist() for _ in range(3)] == [[3.0, 3.0]] * 3
    assert len(graphs) == 1  # of the second call
    assert sys.modules[name].ORDER == ["f", "inner", "f", "f"]
    missing = fs.compile(namespace["missing"], backend="eager")
    assert [missing(torch.ones(1)).item() for _ in range(3)] == [20.0] * 3
    for module in (name, f"{name}.inner"):
        monkeypatch.delitem(sys.modules, module)
