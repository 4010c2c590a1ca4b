"""`cond` whose functions return plain numbers that differ."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.errors import GraphBreakError


@pytest.mark.parametrize("backend", ["native", "eager"])
def test_numbers_that_differ(backend):
    def function(x):
        y, count, rest = fs.cond(x.sum() > 0, lambda x: (x + 1, 3, {"a": 0.5, "b": True, "c": 7}),
                                 lambda x: (x - 1, 4, {"a": 1.5, "b": False, "c": 7}), (x,))
        return y * count, count, rest, torch.zeros(count)

    compiled = fs.compile(function, fullgraph=True, backend=backend)
    for sign in (1.0, -1.0, 1.0):
        expected, result = function(torch.ones(2) * sign), compiled(torch.ones(2) * sign)
        torch.testing.assert_close(result[0], expected[0])
        assert result[1:3] == expected[1:3] and result[3].shape == expected[3].shape
        assert [type(value) for value in (result[1], *result[2].values())] == [int, float, bool, int]


def test_other_differences_are_refused():
    for other in (3.0, "3", None, (3,)):
        with pytest.raises(GraphBreakError, match="true_fn returns"):
            fs.compile(lambda x, other=other: fs.cond(x.sum() > 0, lambda x: (x + 1, 3), lambda x: (x - 1, other),
                                                      (x,)), fullgraph=True)(torch.ones(2))
