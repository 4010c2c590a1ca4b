"""A quick sample of the programs that `benchmarks/export_programs.py` holds against torch.export."""

from __future__ import annotations

import pytest
import torch
from tests.export.export_programs import PROGRAMS, outcome
from tests.export.programs.inputs import Scaled

import firesteel as fs

SAMPLE = (
    "int_times", "int_in_dict", "int_returned", "int_decides", "int_negative", "copies_of_containers_of_ints_returned",
    "int_in_named_tuple", "bounded_int", "dynamic_float", "dynamic_float_and_int",
    "product_of_sizes", "stated_product", "sizes_as_results", "one_at_run_time",
    "item_as_index", "repeated_by_data", "dict_in_another_order", "keywords_against_signature", "dicts_in_dicts",
    "nested_dataclasses", "dynamic_size_as_input", "enum_as_input", "opaque_objects", "module_with_weights_called",
    "SubclassWeight", "subclass_input", "SeveralWrappedWeights", "fake_weights", "custom_operator_in_table",
    "MutatingOperatorOnBuffers", "mutating_operator_on_a_view", "operator_that_writes_to_lists",
    "in_place_operator_decomposed", "mutating_operator_saved", "draft_without_fake_kernel", "outside_of_the_contract",
    "example_inputs_changed", "MovedToDevice", "SourceFunctions", "TorchFunctions", "Origins", "Edited",
    "deferred_assertions", "additional_inputs", "CondOfModules", "FunctionalCall", "checkpointed", "NoGradRegion",
    "BatchNormInTraining", "LanguageModel",
)


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "non_strict"])
@pytest.mark.parametrize("name", SAMPLE)
def test_equals_eager(name: str, strict: bool) -> None:
    assert outcome(fs.export, PROGRAMS[name], strict) == ("accepted", "")


class Asks(torch.nn.Module):
    """Asks for the class of its input."""

    def forward(self, x):
        return x + 1 if isinstance(x, Scaled) else x


def test_wrapper_whose_class_forward_asks_for_is_refused() -> None:
    with pytest.raises(fs.export.ExportError, match="Scaled"):
        fs.export.export(Asks(), (Scaled(torch.ones(2), 2.0),))
