"""Parameters and activations spread over two processes, compiled and plain: the same training, one graph a block."""

from __future__ import annotations

import pytest
import torch.distributed as dist
from tests.runtime.parallel_programs import Outcome, run_processes

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch is built without gloo", allow_module_level=True)

WHOLE = ["tp_blocks", "tp_compiled_before", "tp_sequence", "tp_loss_parallel", "tp_whole_step", "tp_uneven",
         "tp_accumulation", "tp_mixed_precision", "tp_layouts", "tp_views_stay_as_they_are",
         "tp_checkpoint", "pipeline_1f1b"]
OTHERS = ["tp_checkpointing", "tp_one_is_plain", "tp_in_flight", "tp_rows_to_mask", "tp_an_index_out_of_range",
          "tp_module_layouts"]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Outcome]]:
    return run_processes([*WHOLE, *OTHERS], steps=2)


@pytest.mark.parametrize("name", [*WHOLE, *OTHERS])
def test_training_is_that_of_plain_python(outcomes, name):
    assert [outcome.error for outcome in outcomes[name]] == ["", ""]


@pytest.mark.parametrize("name", WHOLE)
def test_there_is_one_graph(outcomes, name):
    """Old releases of torch run the parts of a pipeline without gradients first, to learn sizes: that is another."""
    from torch.distributed.pipelining import PipelineStage

    others = int(name.startswith("pipeline") and hasattr(PipelineStage, "_shape_inference"))
    for outcome in outcomes[name]:
        assert [reason for _, reason in outcome.entries] == [""] * (1 + others)
        assert len(outcome.recompiled) == others and all("grad" in reason for reason in outcome.recompiled)


@pytest.mark.parametrize("name", [name for name in (*WHOLE, *OTHERS) if name != "tp_rows_to_mask"])
def test_graphs_are_compiled(outcomes, name):
    assert not [reason for outcome in outcomes[name] for reason in outcome.uncompiled]


def test_breaks_name_functions_as_programs_write_them(outcomes):
    for outcome in outcomes["tp_an_index_out_of_range"]:
        reasons = [reason for _, reason in outcome.entries if reason]
        assert any(reason.startswith("torch.distributed.tensor.DTensor.") for reason in reasons)
        assert not any("firesteel." in reason for reason in reasons)
