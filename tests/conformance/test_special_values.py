"""Operator samples with special values in them, eager against compiled by the native backend.

A few pairs of an operator and a dtype; ``python -m benchmarks.special_values`` runs all of them.
"""

import pytest
import torch
from tests.conformance.special_values import DTYPES, KNOWN, known_differences, run_pair, specials
from tests.conformance.torch_samples import operators

STRIDE = 211


@pytest.mark.filterwarnings("ignore")
def test_sample_is_equal():
    ops = operators()
    pairs = [(op, dtype) for dtype in DTYPES for op in ops if getattr(torch, dtype) in op.supported_dtypes("cpu")]
    known, compared = known_differences(), 0
    for op, dtype in pairs[7::STRIDE]:
        pair = run_pair(op, getattr(torch, dtype), 3)
        compared += pair.samples
        assert (op.formatted_name, dtype) in known or not pair.failures, (pair.name, dtype, pair.failures)
    assert compared > 50


def test_differences_are_few_and_have_reasons():
    known = known_differences()
    names = {op.formatted_name for op in operators()}
    assert all(name in names and dtype in DTYPES and reason for (name, dtype), reason in known.items())
    dtypes = {getattr(torch, dtype) for dtype in DTYPES}
    pairs = sum(len(op.supported_dtypes("cpu") & dtypes) for op in operators())
    assert KNOWN.exists() and len(known) <= 0.005 * pairs


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.uint8, torch.int64, torch.bool])
def test_special_values_fit_their_dtype(dtype):
    for kind in range(5):
        for value in specials(dtype, kind, False):
            assert torch.tensor(value, dtype=dtype).isnan().item() == (value != value)
