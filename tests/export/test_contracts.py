"""Random programs and declarations: accepted exactly when the program is valid on all declared sizes."""

import pytest
from tests.export.contract_checks import check, pair


@pytest.mark.parametrize("seed", range(20))
def test_contracts_are_exact(seed):
    outcome = check(pair(seed), strict=seed % 2 == 0)
    assert not outcome.problems, outcome.problems


def test_the_generator_gives_both_kinds():
    outcomes = [check(pair(seed), strict=False) for seed in (61, 237, 100, 101, 102, 103)]
    assert {outcome.accepted for outcome in outcomes} == {True, False}
