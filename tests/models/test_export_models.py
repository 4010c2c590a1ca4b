"""Models exported with a dynamic batch and sequence, run on other sizes against eager."""

from __future__ import annotations

import pytest
from tests.models import exporting


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "nonstrict"])
@pytest.mark.parametrize("name", ["transformers/gpt2", "timm/vit_tiny", "torchvision/resnet18"])
def test_equals_eager_on_other_sizes(name, strict):
    program = exporting.export_with("firesteel", name, strict)[1]
    program.validate()
    exporting.check(name, program)
    if strict:
        exporting.check(name, program.run_decompositions())
