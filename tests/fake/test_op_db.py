"""Operator samples that torch ships: the metadata of fake results is that of eager, with symbolic sizes at others too.

Every fourth operator with its first samples; ``python -m benchmarks.fake_tensors --op-db`` runs all of them, with
``--symbolic`` on symbolic sizes, with ``--layouts`` on tensors that do not lie by rows.
"""

import pytest
import torch
from tests.conformance.torch_samples import load_op_db
from tests.fake.op_db_comparison import compare, compare_symbolic, layouts_of

from firesteel.fake import DataDependentError, FakeMode, FakeUnsupported

# Operator -> why the result differs. This list only ever shrinks.
KNOWN = {
    "nn_functional_max_pool1d": "without gradients eager has a kernel of its own, whose result is no view",
}

OPERATORS = {op.formatted_name: op for op in load_op_db() if torch.float32 in op.supported_dtypes("cpu")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(0, 4))
def test_op_db_sample(start):
    names = sorted(OPERATORS)[start::16]
    compared = 0
    for name in names:
        if name in KNOWN:
            continue
        op = OPERATORS[name]
        samples = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
        for _, sample in zip(range(2), samples):
            try:
                assert compare(FakeMode(), op.op, sample) is None, name
            except (FakeUnsupported, DataDependentError):
                continue
            compared += 1
    assert compared > len(names)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(0, 4))
def test_op_db_sample_with_symbolic_sizes(start):
    names = sorted(OPERATORS)[start + 4 :: 16]
    outcomes = []
    for name in names:
        if name in KNOWN:
            continue
        op = OPERATORS[name]
        for _, sample in zip(range(3), op.sample_inputs("cpu", torch.float32)):
            outcome, text = compare_symbolic(op.op, sample)
            assert outcome != "different", f"{name}: {text}"
            outcomes.append(outcome)
    # The same at the sizes of the sample and at other sizes that the guards allow.
    assert outcomes.count("same") > len(names)
    assert outcomes.count("specialised") < len(names) // 4


# The others of those whose layout torch's meta kernels told wrongly.
AWKWARD = ("nonzero_static", "nn_functional_binary_cross_entropy", "nn_functional_conv1d",
           "nn_functional_conv2d", "nn_functional_conv_transpose1d", "nn_functional_pad_reflect", "frexp", "view_copy",
           "nn_functional_pad_replicate", "nn_functional_prelu", "nn_functional_pixel_unshuffle", "randint_like")


@pytest.mark.filterwarnings("ignore")
def test_op_db_sample_in_other_layouts():
    compared = 0
    for name in [*sorted(OPERATORS)[8::24], *AWKWARD]:
        if name in KNOWN:
            continue
        op = OPERATORS[name]
        for _, given in zip(range(20 if name in AWKWARD else 1), op.sample_inputs("cpu", torch.float32)):
            for sample in layouts_of(given):
                try:
                    assert compare(FakeMode(), op.op, sample) is None, name
                except (FakeUnsupported, DataDependentError):
                    continue
                compared += 1
    assert compared > 300


@pytest.mark.filterwarnings("ignore")
def test_known_differences_are_still_there():
    for name in KNOWN:
        op = OPERATORS[name]
        samples = list(op.sample_inputs("cpu", torch.float32))
        assert any(compare(FakeMode(), op.op, sample) for sample in samples), f"{name} is no longer different"
