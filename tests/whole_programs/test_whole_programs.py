"""A sample of the whole programs: results as in plain Python, and no failure of firesteel's own.

`python -m benchmarks.programs` runs all of them, and measures.
"""

from __future__ import annotations

import warnings

import pytest
import torch
from tests.whole_programs import training_steps  # noqa: F401 - it fills the list
from tests.whole_programs.program import PROGRAMS

import firesteel as fs

SAMPLE = ("train_step", "train_step_logits", "two_optimizers", "ema", "gan")
ROUNDS = 4


def _results(name, compile):
    torch.manual_seed(0)
    call = PROGRAMS[name].build(compile)
    torch.manual_seed(1)
    return [call(number) for number in range(ROUNDS)]


@pytest.mark.parametrize("name", SAMPLE)
def test_results_are_those_of_plain_python(name):
    expected = _results(name, lambda function: function)
    with warnings.catch_warnings(), fs.config.patch(raise_on_internal_error=True):
        warnings.simplefilter("error", fs.errors.FiresteelWarning)
        results = _results(name, fs.compile)
    torch.testing.assert_close(results, expected, rtol=1e-4, atol=1e-4)


def test_every_program_says_what_it_is():
    assert all(program.subject.endswith(".") and len(program.subject) < 120 for program in PROGRAMS.values())
