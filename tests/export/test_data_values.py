"""Numbers and sizes that data decides, in exported programs."""

import pytest
import torch

from firesteel.export import Dim, export
from firesteel.export.errors import ExportError

BOTH = pytest.mark.parametrize("strict", [True, False], ids=["strict", "non-strict"])


class Program(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


def outcome(function, given):
    try:
        return function(*given)
    except RuntimeError:
        return RuntimeError
    except IndexError:
        return IndexError


def numbers(x, y):
    a = x.item()
    b = y.tolist()
    return b + [a]


def bounded(x, y):
    a = x.item()
    torch._check(a >= 10)
    torch._check(a <= 60)
    if a // 2 >= 5:
        return y + 2
    return y * 5


def constant(x, y):
    a = x.item()
    torch._check(a == 4)
    if a // 2 >= 5:
        return y + 2
    return y * 5


def index(x, y):
    a = x.item()
    return y[a]


def checked_index(x, y):
    a = x.item()
    torch._check(a >= 0)
    torch._check(a < y.shape[0])
    return y[a]


def repeated(x, y):
    a = x.item()
    b = y.unsqueeze(0).repeat(a, 1)
    return b + a


def computed(x, y):
    a = x.item()
    return y * (a + 1), a * a


def prefix(x, y):
    a = x.item()
    torch._check(a >= 0)
    torch._check(a <= y.shape[0])
    return y[:a] + torch.ones(a), torch.zeros(a, 3)


def found(x, y):
    places = y.nonzero()
    return places.sum() + y[y > 0].sum() + x, places.shape[0]


def written(x, y):
    z = y.clone()
    z[x.item()] = 0
    return z


ITEM = torch.tensor
CASES = [
    (numbers, (ITEM(1), ITEM([2, 3])), [(ITEM(7), ITEM([8, 9]))], {"u0": "VR[-int_oo, int_oo]"}),
    (bounded, (ITEM(32), torch.ones(4)), [(ITEM(n), torch.ones(4)) for n in (10, 60, 9, 61)], {"u0": "VR[10, 60]"}),
    (constant, (ITEM(4), torch.ones(4)), [(ITEM(5), torch.ones(4)), (ITEM(4), torch.ones(4))], {}),
    (index, (ITEM(3), torch.arange(6.0)), [(ITEM(n), torch.arange(6.0)) for n in (0, 5, -1, 6, -7)], None),
    (checked_index, (ITEM(3), torch.arange(6.0)), [(ITEM(n), torch.arange(6.0)) for n in (0, 5, 6, -1)],
     {"u0": "VR[0, 5]"}),
    (repeated, (ITEM(3), torch.ones(6)), [(ITEM(n), torch.ones(6)) for n in (0, 1, 5, -1)], {"u0": "VR[0, int_oo]"}),
    (computed, (ITEM(3), torch.ones(2)), [(ITEM(n), torch.ones(2)) for n in (0, 1 << 40)],
     {"u0": "VR[-int_oo, int_oo]"}),
    (prefix, (ITEM(3), torch.ones(6)), [(ITEM(n), torch.ones(6)) for n in (0, 1, 6, 7)], {"u0": "VR[0, 6]"}),
    (found, (ITEM(3), ITEM([0, 2, 5])), [(ITEM(1), ITEM([0, 0, 0])), (ITEM(1), ITEM([4, 5, 6]))], None),
    (written, (ITEM(3), torch.ones(6)), [(ITEM(n), torch.ones(6)) for n in (0, 5, 6)], None),
]


@BOTH
@pytest.mark.parametrize("function, example, calls, ranges", CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_programs_with_numbers_from_data(function, example, calls, ranges, strict):
    program = export(Program(function), example, strict=strict)
    if ranges is not None:
        got = {str(symbol): str(bounds) for symbol, bounds in program.range_constraints.items()}
        assert ranges.items() <= got.items()
    module = program.module()
    for given in (example, *calls):
        expected = outcome(function, given)
        if isinstance(expected, type):
            assert outcome(module, given) is expected
        else:
            torch.testing.assert_close(outcome(module, given), expected)


@BOTH
def test_sizes_of_inputs_and_numbers_from_data(strict):
    program = export(Program(prefix), (ITEM(3), torch.ones(6)), dynamic_shapes={"x": None, "y": {0: Dim("n", max=50)}},
                     strict=strict)
    module = program.module()
    for n, size in ((3, 9), (0, 2), (9, 9), (10, 9)):
        given = ITEM(n), torch.rand(size)
        expected = outcome(prefix, given)
        if isinstance(expected, type):
            with pytest.raises(expected):
                module(*given)
        else:
            torch.testing.assert_close(module(*given), expected)


def loop(x, y):
    a = x.item()
    return torch.cat([y for _ in range(a)], dim=0) + int(a)


@BOTH
def test_what_only_data_decides_is_an_error_with_the_statements_that_help(strict):
    with pytest.raises(ExportError) as caught:
        export(Program(loop), (ITEM(3), torch.ones(6)), strict=strict)
    message = str(caught.value)
    for part in ("for _ in range(a)", "`u0`", "`a`", "depends on data", "torch._check(a == ...)", __file__):
        assert part in message


def test_a_decision_on_data():
    def decides(x, y):
        a = x.item()
        if a // 2 >= 5:
            print("more")
            return y + 2
        return y * 5

    with pytest.raises(ExportError) as caught:
        export(Program(decides), (ITEM(3), torch.ones(6)), strict=False)
    message = str(caught.value)
    for part in ("could not decide `u0 >= 10` (`a >= 10`)", "if a // 2 >= 5:", "torch._check(a >= 10)",
                 "torch._check(a <= 9)", "fs.cond"):
        assert part in message
