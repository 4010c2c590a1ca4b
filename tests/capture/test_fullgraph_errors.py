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


def raising(x):
    raise KeyError("always")


def looked_up(x, table):
    y = x * 2
    return y + table["key"]


def parsed(x, text):
    return x * int(text)


def called(x, function):
    return function(x) + 1


def raised_for_negative(x, number):
    y = x.sin()
    if number < 0:
        raise ValueError(f"{number} is negative")
    return y * number


def in_shape(x, *shape):
    return (x + 1).view(*shape)


def shape_in_words(x, *shape):
    try:
        return x.view(*shape)
    except RuntimeError as error:
        return str(error)


ONE = torch.ones(2)
SEQUENCES = {
    "looked_up": (looked_up, [(ONE, {}), (ONE, {"key": 3}), (ONE, {"other": 1}), (ONE, {"key": 4})]),
    "parsed": (parsed, [(ONE, "a"), (ONE, "3"), (ONE, "b"), (ONE, 4)]),
    "called": (called, [(ONE, raising), (ONE, torch.sin), (ONE, raising), (ONE, torch.cos)]),
    "raised_for_negative": (raised_for_negative, [(ONE, -1), (ONE, 2), (ONE, -3), (ONE, 4), (ONE, 0)]),
    "in_shape": (in_shape, [(torch.ones(4, 4), 15), (torch.ones(4, 4), 16), (torch.ones(5, 5), 16),
                            (torch.ones(5, 5), 25), (torch.ones(3, 5), 3, -1), (torch.ones(3, 5), 4, -1)]),
    "shape_in_words": (shape_in_words, [(torch.ones(4, 4), 15), (torch.ones(4, 4), 16), (torch.ones(5, 5), 16),
                                        (torch.ones(5, 5), 17), (torch.ones(6, 5), 17), (torch.ones(3, 5), 15)]),
    "complex_init": (lambda x, n: (x, (1 + 2j).__init__(n, by=3)), [(ONE, 1), (ONE, 2)]),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_call_that_raises_refuses_no_other(name, dynamic):
    function, calls = SEQUENCES[name]
    compiled = fs.compile(function, fullgraph=True, dynamic=dynamic, backend="eager")
    for args in [*calls, *calls]:
        try:
            expected = function(*args)
        except Exception as error:
            with pytest.raises(type(error)) as raised:
                compiled(*args)
            assert str(raised.value) == str(error)
        else:
            assert str(compiled(*args)) == str(expected)


def test_a_way_that_is_not_taken_may_raise_while_it_is_captured():
    def program(x):
        return fs.cond(x.shape[0] > 2, lambda x: x.sin(), lambda x: x.t(), (x,))

    compiled = fs.compile(program, fullgraph=True, dynamic=True, backend="eager")
    with pytest.raises(fs.errors.GraphBreakError, match="t.. expects a tensor with <= 2 dimensions"):
        compiled(torch.ones(4, 2, 2))


def test_what_is_no_error_is_still_refused():
    with pytest.raises(fs.errors.GraphBreakError):
        fs.compile(lambda x: x * int(input()), fullgraph=True)(torch.ones(2))
