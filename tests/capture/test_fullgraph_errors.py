"""With ``fullgraph=True`` errors of the program are its own: no graph break, the type and the words of plain Python."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs

LINEAR = torch.nn.Linear(2, 2)


def reshaped(x):
    return x.reshape(5)


PROGRAMS = {
    "product": lambda x: torch.ones(2, 3) @ x,
    "in_a_list": lambda x: [torch.ones(2, 3) @ each for each in (x,)],
    "in_a_callee": lambda x: reshaped(x * 2) + 1,
    "index": lambda x: x[7],
    "module": lambda x: LINEAR(torch.ones(3)) + x,
    "missing_gradient": lambda x: [p.grad.clone() for p in [LINEAR.weight]],
    "attribute": lambda x: sum(each.nothing for each in (x,)),
    "dtype": lambda x: torch.bitwise_and(x, x),
}


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_errors_are_the_programs(name, backend):
    function, x = PROGRAMS[name], torch.ones(2)
    with pytest.raises(Exception) as plain:  # noqa: PT011
        function(x)
    compiled = fs.compile(function, fullgraph=True, backend=backend)
    for _ in range(2):
        with pytest.raises(type(plain.value)) as raised:
            compiled(x)
        assert type(raised.value) is type(plain.value)
        assert str(raised.value) == str(plain.value)


def test_what_is_no_error_is_still_refused():
    with pytest.raises(fs.errors.GraphBreakError):
        fs.compile(lambda x: x * int(input()), fullgraph=True)(torch.ones(2))
