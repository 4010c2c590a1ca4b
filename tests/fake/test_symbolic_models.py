"""Forward and backward of models on symbolic sizes: every operator's result, taken at other sizes, is eager's there."""

import pytest
from tests.fake.symbolic_models import OTHER_SIZES, Subject, differences, quiet

pytestmark = pytest.mark.usefixtures("quick_collections")


@pytest.mark.parametrize("name", ["transformers/gpt2", "torchvision/resnet18", "local/unet"])
def test_results_at_other_sizes(name):
    with quiet():
        assert differences(Subject(name), OTHER_SIZES) == []
