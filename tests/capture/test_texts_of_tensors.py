"""Texts of tensors, as messages have them: made where they are needed, and no break where they are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.capture.differential import check

import firesteel as fs


def in_braces(x: torch.Tensor) -> Any:
    message = f"{x} and {x!r:>40} and {[x, (x, 1)]} and { {'a': x} }"
    return x + 1, bool(message)


def by_functions(x: torch.Tensor) -> Any:
    texts = [str(x), repr(x.sum()), "{}".format(x), "{0} {a}".format(1, a=x), format(x)]  # noqa: UP030, UP032
    return x + 1, [isinstance(text, str) for text in texts]


def by_percent(x: torch.Tensor) -> Any:
    "%s" % x  # noqa: B018, UP031
    "%s %d%% %r" % (x, 3, x.sum())  # noqa: B018, UP031
    return x + 1


def put_together(x: torch.Tensor) -> Any:
    message = "a" + str(x) + ", ".join(["b", f"{x.shape[0]}", str(x)])
    return x + 1, bool(message)


def caught(x: torch.Tensor) -> Any:
    try:
        raise ValueError(f"bad {x}")
    except ValueError:
        return x + 1


def checked(x: torch.Tensor) -> Any:
    message = f"too large: {x}"
    if x.sum() > 100:
        raise ValueError(message)
    torch._check(x.shape[0] > 1, lambda: f"too few: {x}")
    return x + 1


def of_a_function(x: torch.Tensor) -> str:
    return f"in a function {x * 3}"


def by_a_function(x: torch.Tensor) -> Any:
    message = of_a_function(x + 1)
    return (x * 2 if message else x), torch.nn.Parameter(x)


UNUSED = (in_braces, by_functions, by_percent, put_together, caught, checked)


def returned(x: torch.Tensor) -> Any:
    y = x + 1
    return f"{y} {x!r:>40}", y * 2, [y, str([y, {"a": x}])]


def before_a_change(x: torch.Tensor) -> Any:
    text = str(x)
    x.add_(1)
    return text, x


def with_history(x: torch.Tensor) -> Any:
    y = (x.clone().requires_grad_() * 2).sum(dim=0)
    return str(y.requires_grad), str(y.detach())


def looked_into(x: torch.Tensor) -> Any:
    return len(str(x)), str(x * 2).upper(), str(x)[:3], str(x) == "a", {str(x): x + 1}, [*str(x)][:2]


def of_the_exception(x: torch.Tensor) -> Any:
    try:
        raise ValueError(f"bad {x}")
    except ValueError as error:
        return x + 1, str(error)


def raised(x: torch.Tensor) -> Any:
    y = x * 2
    raise ValueError(f"bad {y}")


def printed(x: torch.Tensor) -> Any:
    print(f"before {x}")
    return x + 1


def in_a_loop(x: torch.Tensor) -> Any:
    texts = []
    for i in range(3):
        x = x + 1
        texts.append(f"{i}: {x}")
    return x, texts


def returned_by_percent(x: torch.Tensor) -> Any:
    return "%s" % (x + 1), "%10s|%r" % (x.sum(), 3), "%s" % x.sum()  # noqa: UP031


def in_bytes(x: torch.Tensor) -> Any:
    return b"%s" % x


def too_many_fields(x: torch.Tensor) -> Any:
    return "%s %s" % x  # noqa: F507, UP031


def too_few_fields(x: torch.Tensor) -> Any:
    return "%s" % (x, x)  # noqa: F507, UP031


def without_fields(x: torch.Tensor) -> Any:
    return "abc" % x  # noqa: F507, UP031


def as_a_number(x: torch.Tensor) -> Any:
    return "%d %5.2f" % (x.sum(), x.sum())  # noqa: UP031


def with_a_format(x: torch.Tensor) -> Any:
    return f"{x:3d}"


USED = (returned, before_a_change, with_history, looked_into, of_the_exception, raised, printed, in_a_loop,
        returned_by_percent, in_bytes, too_many_fields, too_few_fields, without_fields, as_a_number, with_a_format)


@pytest.mark.parametrize("function", UNUSED, ids=lambda f: f.__name__)
def test_that_nothing_needs_breaks_nothing(function: Callable[[torch.Tensor], Any]) -> None:
    check(function)


@pytest.mark.parametrize("function", [*USED, by_a_function], ids=lambda f: f.__name__)
def test_is_eagers(function: Callable[[torch.Tensor], Any]) -> None:
    check(function, fullgraph=False)


def test_of_an_assertion_that_fails() -> None:
    compiled = fs.compile(checked, fullgraph=True)
    compiled(torch.ones(2))
    x = torch.full((2,), 99.0)
    with pytest.raises(ValueError, match=r"too large: tensor\(\[99., 99.\]\)"):
        compiled(x)


def test_made_by_the_program_is_a_break(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def of_its_own(self: torch.Tensor, **_: Any) -> str:
        asked.append(self.shape)
        return "own"

    monkeypatch.setattr(torch.Tensor, "__repr__", of_its_own)

    def function(x: torch.Tensor) -> torch.Tensor:
        str(x)
        return x + 1

    fs.compile(function)(torch.ones(2))
    assert asked == [(2,)]


def test_with_fullgraph_says_where() -> None:
    with pytest.raises(fs.errors.GraphBreakError, match="the text of a tensor needs its data") as error:
        fs.compile(lambda x: (of_a_function(x), x + 1), fullgraph=True)(torch.ones(2))
    assert "in a function" in str(error.value)
