"""Random programs: whatever is fused, results are those of eager."""

import pytest

from firesteel.kernels.scheduling import costs
from kernels.scheduling.programs import planned
from kernels.scheduling.random_programs import RandomProgram

SMALL = {"COLUMN_BLOCK": 4, "LEAST_BLOCK": 2, "ACCUMULATE": 2, "LONG_REDUCTION": 8, "CHUNKS": 3, "COLUMN_CHUNKS": 2,
         "ENOUGH_ROWS": 3, "SMALL": 6, "TINY": 4, "PARALLEL_BLOCK": 4}  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_random(seed, monkeypatch):
    # With all limits small, small programs take every path.
    for name, value in SMALL.items() if seed % 2 else ():
        monkeypatch.setattr(costs, name, value)
    program = RandomProgram(seed)
    planned(program, *program.inputs, dynamic=seed % 3 == 0)
