"""The table of operators that refuse values knows those that raise in eager."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import pytest
import torch
from tests.fuzz.parts.late_errors import FAILS
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from firesteel.fake.refused_values import FUNCTIONS, refused_values


class Last(TorchDispatchMode):
    """Remembers the last operator that ran and its arguments."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.call = func, args, kwargs or {}
        return func(*args, **(kwargs or {}))


# Where the error comes from sizes or numbers that data decides on, or from a function that compares data itself.
OF_SIZES = ("item()", "< 0.5", "nonzero", "[I]", "torch.cov(")


@pytest.mark.parametrize("text", [text for text in FAILS if not any(part in text for part in OF_SIZES)])
def test_operators_that_raise_are_known(text: str) -> None:
    bad = torch.tensor(1.0)
    names = {"bad": bad, "I": (bad * 50).long(), "N": -bad.long(), "torch": torch, "F": functional,
             "big": torch.ones(8)}
    function = text.partition("(")[0].rpartition(".")[2]
    last = Last()
    # Below a dispatch mode eager's quantiles do not look at values.
    with warnings.catch_warnings(), contextlib.nullcontext() if function in FUNCTIONS else last:
        warnings.simplefilter("ignore")
        with pytest.raises((RuntimeError, IndexError)) as raised:
            eval(text.replace("{trunc|floor}", "trunc").replace("{False|True}", "True"), names)
    if "is now removed" in str(raised.value):  # a function of this torch that refuses whatever it gets
        pytest.skip(f"{text.partition('(')[0]} was removed from this torch")
    if function in FUNCTIONS:
        return
    func, args, kwargs = last.call
    refuses = refused_values(func._schema.name.partition("::")[2])
    assert refuses is not None and refuses(args, kwargs), func


@pytest.mark.parametrize("base, args, kwargs", [
    ("add", (torch.ones(2), torch.ones(2)), {}),
    ("linalg_vector_norm", (torch.ones(2),), {}),
    ("div", (torch.ones(2, dtype=torch.long), torch.ones(2, dtype=torch.long)), {}),
    ("floor_divide", (torch.ones(2), torch.ones(2)), {}),
    ("remainder_", (torch.ones(2, dtype=torch.long), 3), {}),
    ("max", (torch.ones(2),), {}),
    ("linspace", (0, 1, 5), {}),
])  # fmt: skip
def test_calls_that_never_raise(base: str, args: Any, kwargs: Any) -> None:
    refuses = refused_values(base)
    assert refuses is None or not refuses(args, kwargs)
