"""Failures of the compiler and of backends: one warning, and never worse than not compiling."""

from __future__ import annotations

import warnings

import pytest
import torch

import firesteel as fs
from firesteel.capture import opcodes
from firesteel.errors import BackendError, FiresteelWarning, InternalError
from firesteel.runtime import units
from firesteel.runtime.units import MISS, Unit
from seeds.recording import Recorder

X = torch.arange(4.0)


@pytest.fixture
def broken_multiplication(monkeypatch):
    """A compiler that fails at the first `*` it meets."""
    original = opcodes.HANDLERS["BINARY_OP"]

    def fail(frame, instruction):
        if instruction.argval == "*":
            raise KeyError("a fault inside of the compiler")
        return original(frame, instruction)

    monkeypatch.setitem(opcodes.HANDLERS, "BINARY_OP", fail)


@pytest.fixture
def tolerant():
    with fs.config.patch(raise_on_internal_error=False):
        yield


def collect(function, *args):
    """The result of a call and the warnings that it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*args)
    return result, [w for w in caught if issubclass(w.category, FiresteelWarning)]


def test_internal_failure_falls_back_once(broken_multiplication, tolerant):
    log = []

    @fs.compile
    def f(x, items):
        log.append("called")
        items.append(len(items))
        return x * 2

    items = []
    result, caught = collect(f, X, items)
    assert torch.equal(result, X * 2) and items == [0] and log == ["called"]
    (warning,) = caught
    text = str(warning.message)
    assert __file__ in text and "in f" in text and "a fault inside of the compiler" in text and "report" in text
    result, caught = collect(f, X, items)
    assert torch.equal(result, X * 2) and items == [0, 1] and caught == []


def test_an_entry_that_refuses_its_own_arguments_is_an_internal_failure(monkeypatch, tolerant):
    compiled = Unit.compile

    def refusing(unit, args):
        entry = compiled(unit, args)
        entry.function = lambda *args: MISS
        return entry

    monkeypatch.setattr(Unit, "compile", refusing)
    monkeypatch.setattr(units, "other_threads", lambda: False)  # else another may have changed something

    @fs.compile
    def f(x):
        return x * 2

    result, caught = collect(f, X)
    assert torch.equal(result, X * 2)
    (warning,) = caught
    assert "runs uncompiled" in str(warning.message) and "does not accept its own arguments" in str(warning.message)
    result, caught = collect(f, X)
    assert torch.equal(result, X * 2) and caught == []


def test_internal_failure_after_a_break(broken_multiplication, tolerant):
    log = []

    @fs.disable
    def outside(x):
        log.append("outside")
        return x + 1

    @fs.compile
    def f(x, items):
        items.append("before")
        x = outside(x)
        items.append("after")
        return x * 2

    items = []
    result, caught = collect(f, X, items)
    assert torch.equal(result, (X + 1) * 2) and items == ["before", "after"] and log == ["outside"]
    assert len(caught) == 1 and "f_resumed" in str(caught[0].message)
    result, caught = collect(f, X, items)
    assert caught == [] and items == ["before", "after"] * 2 and log == ["outside"] * 2


def test_internal_failure_in_a_callee(broken_multiplication, tolerant):
    def inner(x):
        return x * 2

    f = fs.compile(lambda x: inner(x.sin()).cos())
    result, caught = collect(f, X)
    assert torch.equal(result, (X.sin() * 2).cos()) and len(caught) == 1


def test_internal_failure_in_a_module(broken_multiplication, tolerant):
    class Model(torch.nn.Module):
        def forward(self, x):
            self.seen = x.shape
            return x * 2

    model = Model()
    result, caught = collect(fs.compile(model), X)
    assert torch.equal(result, X * 2) and model.seen == (4,) and len(caught) == 1


def test_internal_failure_raises_when_asked_to(broken_multiplication):
    with pytest.raises(KeyError, match="a fault inside"):
        fs.compile(lambda x: x * 2)(X)


def test_internal_failure_raises_with_fullgraph(broken_multiplication, tolerant):
    with pytest.raises((KeyError, InternalError), match="a fault inside"):
        fs.compile(lambda x: x * 2, fullgraph=True)(X)


def test_suppress_errors_is_the_opposite_name(broken_multiplication):
    assert fs.config.suppress_errors is False
    with fs.config.patch(suppress_errors=True):
        result, caught = collect(fs.compile(lambda x: x * 2), X)
    assert torch.equal(result, X * 2) and len(caught) == 1
    with fs.config.patch(suppress_errors=False), pytest.raises(KeyError):
        fs.compile(lambda x: x * 2)(X)


# Backends


def failing(gm, example_inputs):
    raise ValueError("no such instruction")


def junk(gm, example_inputs):
    return 42


FAULTY = [(failing, "ValueError: no such instruction"), (junk, "int instead of a callable")]


@pytest.mark.parametrize("backend, text", FAULTY)
def test_backend_failure(backend, text, tolerant):
    items = []

    @fs.compile(backend=backend)
    def f(x, items):
        items.append(1)
        return x + 1

    result, caught = collect(f, X, items)
    assert torch.equal(result, X + 1) and items == [1]
    assert len(caught) == 1 and text in str(caught[0].message) and backend.__name__ in str(caught[0].message)
    assert __file__ in str(caught[0].message)
    result, caught = collect(f, X, items)
    assert torch.equal(result, X + 1) and items == [1, 1] and caught == []


@pytest.mark.parametrize("backend, text", FAULTY)
def test_backend_failure_raises(backend, text):
    with pytest.raises(BackendError, match=text) as caught:
        fs.compile(lambda x: x + 1, backend=backend)(X)
    assert caught.value.backend == backend.__name__ and caught.value.frames
    with fs.config.patch(raise_on_internal_error=False), pytest.raises(BackendError, match=text):
        fs.compile(lambda x: x + 1, backend=backend, fullgraph=True)(X)


def test_backend_cause_is_kept():
    with pytest.raises(BackendError) as caught:
        fs.compile(lambda x: x + 1, backend=failing)(X)
    assert isinstance(caught.value.__cause__, ValueError)


def test_backend_object_and_module():
    class Backend:
        def __init__(self):
            self.count = 0

        def __call__(self, gm, example_inputs):
            self.count += 1
            return gm

    backend = Backend()
    assert torch.equal(fs.compile(lambda x: x + 1, backend=backend)(X), X + 1) and backend.count == 1


# The user's own errors


def test_errors_of_the_program_pass_through():
    @fs.compile
    def f(x, items):
        items.append(1)
        y = x + 1
        items.append(2)
        return y @ torch.ones(7)

    items = []
    with pytest.raises(RuntimeError) as caught:
        f(X, items)
    assert not isinstance(caught.value, InternalError) and items == [1, 2]
    frames = [entry.name for entry in caught.traceback]
    assert "f" in frames


def test_recompile_limit_warns_once_and_names_the_function(tolerant):
    recorder = Recorder()

    @fs.compile(backend=recorder)
    def f(x, text):
        return x + len(text)

    with fs.config.patch(recompile_limit=2):
        caught = []
        for text in ("a", "b", "c", "d"):
            result, warned = collect(f, X, text)
            assert torch.equal(result, X + 1)
            caught += warned
    assert len(caught) == 1 and len(recorder.graphs) == 2
    message = str(caught[0].message)
    assert "f was compiled 2 times" in message and __file__ in message and "text" in message


@pytest.mark.parametrize("when", ["compiling", "running"])
def test_verbose_shows_the_traceback_of_backends(when):
    def backend(gm, inputs):
        if when == "compiling":
            raise ValueError("no such luck")

        def run(*args):
            raise ValueError("no such luck")

        return run

    for verbose in (False, True):
        with fs.config.patch(verbose=verbose, raise_on_internal_error=False), \
                pytest.warns(fs.errors.FiresteelWarning) as caught:
            assert fs.compile(lambda x: x + 1, backend=backend)(torch.ones(2)).tolist() == [2, 2]
        (text,) = [str(warning.message) for warning in caught]
        assert "ValueError: no such luck" in text
        assert ("Traceback (most recent call last)" in text and __file__ in text.partition("Traceback")[2]) is verbose
        assert verbose or "config.verbose = True shows" in text
