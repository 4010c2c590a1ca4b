"""Samples that torch ships, eager against compiled with gradients: operators, modules and optimizers.

A fixed few of each; ``python -m benchmarks.native_gradients``, ``benchmarks.module_db`` and ``benchmarks.optim_db`` run
all of them.
"""

import pytest
import torch
from tests.conformance import gradients, module_db, optim_db

from firesteel import config

BACKENDS = gradients.BACKENDS
STRIDE, PARTS = 29, 2
OPERATORS = [op for op in gradients.differentiable() if torch.float32 in op.supported_backward_dtypes("cpu")]
SAMPLE = OPERATORS[::STRIDE]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_operators(part):
    known = {backend: gradients.known_failures(backend) for backend in BACKENDS}
    compared = 0
    for number, op in enumerate(SAMPLE[part::PARTS]):
        backend = BACKENDS[0] if number % 3 else BACKENDS[1]
        dtype = gradients.DTYPES[number % 2]
        with config.patch(check_bounds=bool(part % 2)):
            pair = gradients.run_pair(op, getattr(torch, dtype), 1, backend, fallbacks=False)
        compared += pair.samples
        # the list only ever shrinks: what works now must be taken out, nothing may be added
        assert (op.formatted_name, dtype) in known[backend] or not pair.failures, (backend, pair)
    assert compared >= len(SAMPLE[part::PARTS]) - 1


def test_known_failures_are_few_and_have_reasons():
    names = {op.formatted_name for op in OPERATORS}
    for backend in BACKENDS:
        for dtype in gradients.DTYPES:
            known = {pair: why for pair, why in gradients.known_failures(backend).items() if pair[1] == dtype}
            assert len(known) <= 0.05 * len(names)
            assert all(name in names and reason for (name, _), reason in known.items())


@pytest.mark.filterwarnings("ignore")
def test_modules():
    for number, info in enumerate(module_db.modules()[::12]):
        mode = module_db.MODES[number % 2]
        outcome = module_db.run_module(info, mode, 1)
        assert outcome.samples and not outcome.failures, outcome


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop"])
def test_optimizers(name):
    (info,) = [info for info in optim_db.optimizers() if info.name == name]
    for named, settings in list(optim_db.configurations(info, 3))[-2:]:
        outcome = optim_db.run_configuration(info, named, settings)
        assert not outcome.failures and not outcome.breaks, outcome
