"""Operator samples that torch ships, eager against compiled by the native backend.

Some pairs of an operator and a dtype, with two samples each, half of them with kernels that check every access;
``python -m benchmarks.native_op_db`` runs all of them.
"""

import pytest
import torch
from tests.conformance.native_op_db import DTYPES, known_failures, run_pair
from tests.conformance.torch_samples import operators

from firesteel import config

STRIDE, PARTS = 13, 4
PAIRS = [(op, dtype) for op in operators() for dtype in DTYPES if getattr(torch, dtype) in op.supported_dtypes("cpu")]
SAMPLE = PAIRS[::STRIDE]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_op_db_sample(part):
    known = known_failures()
    compared = 0
    for op, dtype in SAMPLE[part::PARTS]:
        with config.patch(check_bounds=bool(part % 2)):
            pair = run_pair(op, getattr(torch, dtype), 2)
        compared += pair.samples
        # the list only ever shrinks: what works now must be taken out, nothing may be added
        assert (op.formatted_name, dtype) in known or not pair.failures, (pair.name, dtype, pair.failures)
    assert compared > len(SAMPLE[part::PARTS])


def test_known_failures_are_few_and_have_reasons():
    known = known_failures()
    assert len(known) <= 0.03 * len(PAIRS)
    names = {op.formatted_name for op, _ in PAIRS}
    assert all(name in names and dtype in DTYPES and reason for (name, dtype), reason in known.items())


@pytest.mark.filterwarnings("ignore")
def test_listed_pairs_still_fail():
    still = {}
    for op in operators():
        for dtype in DTYPES:
            if (op.formatted_name, dtype) in known_failures():
                failed = bool(run_pair(op, getattr(torch, dtype), 3).failures)
                still[op.formatted_name, dtype] = still.get((op.formatted_name, dtype), False) or failed
    works = [pair for pair, failed in still.items() if not failed]
    assert not works, f"take out of the list: {works}"
