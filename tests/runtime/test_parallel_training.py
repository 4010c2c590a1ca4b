"""Training in two processes, compiled and plain: the same parameters, and a graph for each sharded block.

All programs run in the same two processes, one after the other.
"""

from __future__ import annotations

import pytest
import torch.distributed as dist
from tests.runtime.parallel_programs import Outcome, run_processes

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch is built without gloo", allow_module_level=True)

BLOCKS = ["fsdp_compiled_before", "fsdp_compiled_behind_order", "fsdp_module_compile", "fsdp_mixed_precision",
          "fsdp_meta", "fsdp_checkpointing_compiled_blocks"]
WHOLE = ["fsdp_order", "fsdp_accumulation", "fsdp_checkpoint_around"]
OTHERS = ["fsdp_compiled_behind", "fsdp_group", "fsdp_state_dict", "fsdp_hooks"]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Outcome]]:
    return run_processes([*BLOCKS, *WHOLE, *OTHERS], steps=2)


@pytest.mark.parametrize("name", [*BLOCKS, *WHOLE, *OTHERS])
def test_parameters_are_those_of_plain_training(outcomes, name):
    assert [outcome.error for outcome in outcomes[name]] == ["", ""]


@pytest.mark.parametrize("name", BLOCKS)
def test_sharded_blocks_are_one_graph(outcomes, name):
    for outcome in outcomes[name]:
        assert outcome.entries == [("forward", "")]  # one for all blocks
        assert not outcome.recompiled


@pytest.mark.parametrize("name", WHOLE)
def test_whole_models_break_where_sharded_blocks_are_called(outcomes, name):
    for outcome in outcomes[name]:
        (_, first), *others = outcome.entries
        assert "FSDPBlock object is sharded" in first
        assert others[0] == ("forward", "")
        assert [name for name, reason in others if not reason][1:] == [others[-1][0]]
        assert not outcome.recompiled
