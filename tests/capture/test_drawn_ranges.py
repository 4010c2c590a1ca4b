"""Between which ends drawn numbers are, which decides branches for all of them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.capture.differential import check

from firesteel.errors import GraphBreakError


def dropping(x):
    for layer in range(3):
        if random.uniform(0, 1) < 0.0 or random.random() < 0 or np.random.rand() >= 1 or random.randint(0, 5) > 5 \
                or np.random.uniform(2, 3) < 1.5 or random.uniform(0, 1) * 2 > 3:
            continue
        x = x + layer
    return x


def hinted(x):
    n = int((0.5 - random.random()) * 4) + 3
    return x * n + (2 if n > 0 else 7)


@pytest.mark.parametrize("function", [dropping, hinted])
def test_branches_that_all_numbers_decide(function):
    def function_of_a_seed(x):
        random.seed(3)
        np.random.seed(3)
        return function(x), random.random(), np.random.rand()

    check(function_of_a_seed)


@pytest.mark.parametrize("condition", [
    lambda: random.random() < 0.5, lambda: random.uniform(0, 2) > 1, lambda: np.random.uniform(low=2, high=3) > 1.5,
    lambda: random.randint(0, 5) > 4, lambda: np.random.uniform(3, 2) > 2.5])
def test_others_break(condition):
    with pytest.raises(GraphBreakError):
        check(lambda x: x + 1 if condition() else x)
    check(lambda x: x + 1 if condition() is None else x)
