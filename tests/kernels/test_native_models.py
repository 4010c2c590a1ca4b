"""Small models of the zoo: the native backend gives eager's results, on the first call and on other inputs."""

import pytest
import torch
from tests.models import zoo

import firesteel as fs

NAMES = [
    "transformers/bert", "transformers/gpt2", "transformers/t5", "transformers/llama", "timm/resnet18", "timm/vit_tiny",
    "timm/convnext_atto", "timm/mobilenetv3_small", "timm/swin", "local/lstm", "local/unet", "local/mlp300",
]  # fmt: skip


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for part in value for tensor in tensors(part)] if isinstance(value, (tuple, list)) else []


def other(arg):
    """An argument of the same kind with other values."""
    if not isinstance(arg, torch.Tensor):
        return arg
    return arg.flip(0) * 0.5 if arg.is_floating_point() else arg.flip(0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_results_are_those_of_eager(name):
    module, args, kwargs = zoo.build(name)
    compiled = fs.compile(module, backend="native")
    with torch.no_grad():
        for given in (args, tuple(map(other, args))):
            want, got = tensors(module(*given, **kwargs)), tensors(compiled(*given, **kwargs))
            assert want and len(want) == len(got)
            for left, right in zip(want, got):
                torch.testing.assert_close(right, left, rtol=1e-4, atol=1e-5)
                assert right.stride() == left.stride()
