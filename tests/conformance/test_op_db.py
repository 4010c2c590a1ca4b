"""Operator samples that torch ships, plain against compiled: results, gradients, aliasing and random numbers are equal.

Every ninth operator with its first sample; ``python -m benchmarks.op_db`` runs all of them.
"""

import pytest
import torch
from tests.conformance.op_db import known_breaks, run_operator
from tests.conformance.torch_samples import load_op_db

STRIDE, PARTS = 9, 3
OPERATORS = sorted(
    (op for op in load_op_db() if torch.float32 in op.supported_dtypes("cpu")), key=lambda op: op.formatted_name
)
SAMPLE = OPERATORS[::STRIDE]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_op_db_sample(part):
    breaks = known_breaks()
    compared = 0
    for op in SAMPLE[part::PARTS]:
        verdicts = run_operator(op, torch.float32, 1)
        for verdict in verdicts:
            assert not verdict.differences, verdict.name
            compared += 1
        broken = any(verdict.breaks for verdict in verdicts)
        # the list only ever shrinks: what is captured now must be taken out, nothing may be added
        assert broken == (op.formatted_name in breaks), (op.formatted_name, [v.breaks for v in verdicts])
    assert compared > len(SAMPLE[part::PARTS])
