"""Random programs on a GPU, forward and backward: as in eager there."""

from __future__ import annotations

import functools

import pytest
import torch
from tests.conformance.comparing import differences
from tests.conformance.gradients import differentiate
from tests.kernels.gpu.nearness import nearer

import firesteel as fs
from kernels.gpu.random_programs import RandomProgram

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("seed", range(100, 130))
def test_random_programs(seed):
    program = RandomProgram(seed)
    fs.reset()
    want = differentiate(program, program.inputs("cuda"), {})
    with fs.config.patch(raise_on_internal_error=True):
        got = differentiate(fs.compile(program, dynamic=True if seed % 5 == 0 else None), program.inputs("cuda"), {})
    if isinstance(got, Exception):
        raise got
    found = differences(want, got, True)
    if found:
        assert all(line.startswith("values:") for line in found), found
        assert nearer(functools.partial(differentiate, program), (program.inputs("cuda"), {}), want, got), found
