"""What tests on a GPU share."""

import pytest
import torch

import firesteel as fs

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def strict():
    """Nothing compiled before, the same numbers each time, and failures inside of the compiler are raised."""
    fs.reset()
    torch.manual_seed(0)
    with fs.config.patch(raise_on_internal_error=True):
        yield


def rand(*shape, **kwargs):
    return torch.randn(*shape, device="cuda", **kwargs)
