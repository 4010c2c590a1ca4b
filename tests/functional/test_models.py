"""Whole models: their captured graphs are traced, and the functional graphs give what the models give."""

from __future__ import annotations

import importlib.util

import pytest
import torch
import torch.utils._pytree as pytree
from tests.models import zoo

import firesteel as fs
from functional.programs import Traced


def _tensors(value):
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "name", ["local/unet", "local/mlp300", "transformers/gpt2", "transformers/llama", "timm/resnet18"])
def test_models(name, dynamic):
    library = name.split("/")[0]
    if library != "local" and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    module, args, kwargs = zoo.build(name)
    backend = Traced()
    with torch.no_grad():
        expected = module(*args, **kwargs)
        actual = fs.compile(module, backend=backend, dynamic=dynamic)(*args, **kwargs)
    torch.testing.assert_close(_tensors(actual), _tensors(expected))
    assert backend.graphs and not any(graph.guards for graph in backend.graphs)
