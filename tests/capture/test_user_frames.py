"""What programs see of their frames behind breaks and in callees: as if firesteel's own were not there."""

from __future__ import annotations

import inspect
import logging
import sys
import traceback
import warnings
from typing import Any

import torch

import firesteel as fs

RECORDS: list[tuple[Any, ...]] = []


class Recording(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        RECORDS.append((record.funcName, record.lineno, record.filename, record.getMessage()))


logger = logging.Logger("frames")
logger.addHandler(Recording())


def compare(function: Any) -> None:
    """Call a function plain and twice compiled; what it returns, warns and logs is the same."""
    def observed(target: Any) -> Any:
        RECORDS.clear()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            result = target(torch.ones(2))
        return repr(result), [(str(w.message), w.lineno, w.filename) for w in warned], list(RECORDS)

    expected = observed(function)
    compiled = fs.compile(function, backend="eager")
    for _ in range(2):
        assert observed(compiled) == expected


def warning(x: torch.Tensor) -> torch.Tensor:
    warnings.warn("here", stacklevel=1)
    warnings.warn("caller", stacklevel=2)
    warnings.warn("caller's caller", stacklevel=3)
    return x + 1


def test_stacklevels_of_warnings() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = warning(x * 2)
        warnings.warn("two", stacklevel=2)
        return y

    compare(function)


def test_records_of_loggers_name_function_and_line() -> None:
    def callee(x: torch.Tensor) -> torch.Tensor:
        logger.info("in the callee")
        return x + 1

    def function(x: torch.Tensor) -> torch.Tensor:
        logger.info("one %s", 1)
        y = callee(x)
        logger.warning("two")
        return y * 2

    def breaking(x: torch.Tensor) -> torch.Tensor:
        logger.info("before")
        if x.sum() > 0:
            logger.info("behind", stacklevel=2)
            return callee(x)
        return x

    compare(function)
    compare(breaking)


def frame_names(x: torch.Tensor) -> Any:
    by_number = [sys._getframe(0).f_code.co_name, sys._getframe(1).f_code.co_name, sys._getframe(1).f_lineno]
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    by_walking = [frame.f_code.co_name, frame.f_back.f_code.co_name, frame.f_back.f_lineno]
    listed = [info.function for info in inspect.stack()][:3], [found.name for found in traceback.extract_stack()][-3:]
    return by_number, by_walking, listed, x + 1


def test_frames_of_callers() -> None:
    def function(x: torch.Tensor) -> Any:
        y = x * 2
        found = frame_names(y)
        return found, sys._getframe(1).f_code.co_name, y

    compare(function)


def test_tracebacks_of_caught_exceptions() -> None:
    def fails(x: torch.Tensor) -> Any:
        raise ValueError(x.shape)

    def function(x: torch.Tensor) -> Any:
        found = []
        for broken in (False, True):
            try:
                if broken:
                    fs.graph_break()
                fails(x)
            except ValueError as error:
                found.append([(place.name, place.lineno) for place in traceback.extract_tb(error.__traceback__)])
        return found, x + 1

    compare(function)


def test_a_compiled_function_looks_like_the_function() -> None:
    def function(x: torch.Tensor, a: int = 1, *, b: int = 2) -> torch.Tensor:
        return x * a + b

    compiled = fs.compile(function, backend="eager")
    assert compiled.__defaults__ == (1,) and compiled.__kwdefaults__ == {"b": 2}
    assert inspect.signature(compiled) == inspect.signature(function)
    assert inspect.getfullargspec(compiled) == inspect.getfullargspec(function)
    x = torch.ones(2)
    for defaults, by_name in [((3,), {"b": 4}), ((5,), {"b": 2}), ((1,), {"b": 1})]:
        function.__defaults__, function.__kwdefaults__ = defaults, by_name  # type: ignore[assignment]
        assert torch.equal(compiled(x), function(x)) and compiled.__defaults__ == defaults
        assert torch.equal(compiled(x, 1), function(x, 1)) and torch.equal(compiled(x, b=2), function(x, b=2))


def test_deviations_without_a_degree_of_freedom_warn() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.var(x[:1]), x.std(correction=2), torch.std(x, 0, unbiased=False), x.var(dim=0, correction=0)

    compare(function)
    assert len(fs.explain(function)(torch.ones(2)).break_reasons) == 2
