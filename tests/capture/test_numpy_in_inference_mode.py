"""Arrays and NumPy scalars from outside in inference mode, where tensors made of them are inference tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import firesteel as fs


def _array(arr, scalar):
    return torch.from_numpy(arr) * 2, arr.sum() * scalar


def _writes(arr, scalar):
    arr += 1
    arr[0] = scalar
    return torch.from_numpy(arr), arr * scalar


def _behind_a_break(arr, scalar):
    with torch.inference_mode():
        first = torch.from_numpy(arr)[None]
        fs.graph_break()
        second = torch.from_numpy(arr) * 2
    return first, second, arr * scalar


@pytest.mark.parametrize("inference", [True, False])
@pytest.mark.parametrize("function", [_array, _writes, _behind_a_break])
def test_results_are_those_of_eager(function, inference):
    compiled = fs.compile(function)
    with torch.inference_mode(inference), fs.config.patch(raise_on_internal_error=True):
        for number in range(4):
            scalar = np.float32(number + 1)
            mine, plain = np.arange(3, dtype=np.float32), np.arange(3, dtype=np.float32)
            results, expected = compiled(mine, scalar), function(plain, scalar)
            for result, wanted in zip(results, expected, strict=True):
                assert type(result) is type(wanted)
                np.testing.assert_array_equal(result, wanted)
                # a tensor of an array that inference mode meets later is made before the graph, outside of it
                if inference and isinstance(wanted, torch.Tensor):
                    assert result.is_inference() == wanted.is_inference()
            np.testing.assert_array_equal(mine, plain)
    assert compiled._firesteel_unit.given_up is None
    assert len(compiled._firesteel_unit.entries) <= 2
