"""The measuring itself: what the model tests rely on must be able to say no."""

from __future__ import annotations

import functools
import types

import pytest
import torch
from tests.models import captured_calls, zoo
from tests.models.equality import assert_same


def test_zoo_has_every_model_of_the_record() -> None:
    assert set(captured_calls.recorded_breaks()) == set(zoo.MODELS)


def test_assert_same_sees_values_structure_types_and_attributes() -> None:
    def cache(value: float) -> types.SimpleNamespace:
        return types.SimpleNamespace(layers=[types.SimpleNamespace(keys=torch.full((2,), value))])

    expected = {"logits": torch.ones(2), "cache": cache(1.0), "sizes": (1, 2)}
    assert_same({"logits": torch.ones(2), "cache": cache(1.0), "sizes": (1, 2)}, expected)
    for wrong in (
        {"logits": torch.zeros(2), "cache": cache(1.0), "sizes": (1, 2)},
        {"logits": torch.ones(2), "cache": cache(2.0), "sizes": (1, 2)},
        {"logits": torch.ones(2), "cache": cache(1.0), "sizes": (1, 3)},
        {"logits": torch.ones(2), "cache": cache(1.0), "sizes": [1, 2]},
        {"logits": torch.ones(2), "cache": cache(1.0)},
        [torch.ones(2)],
    ):
        with pytest.raises(AssertionError):
            assert_same(wrong, expected)


def test_calls_are_told_apart_inside_and_outside_of_graphs() -> None:
    graph = torch.fx.symbolic_trace(lambda x: torch.relu(x + 1))
    run = captured_calls.CountingBackend()(graph, [])
    x = torch.randn(3)
    # softmax calls ATen from within ATen, which must not count twice.
    assert captured_calls.count_aten_calls(lambda: run(x).softmax(0)) == (2, 1)


def test_a_model_that_is_not_compiled_has_no_coverage() -> None:
    expected = zoo.build("local/unet")[0](*zoo.build("local/unet")[1])
    with torch.no_grad():
        subject = captured_calls._Subject("local/unet", functools.partial(zoo.build, "local/unet"))
        calls = captured_calls._call_twice(lambda module, backend: module, subject, expected.detach())
    assert calls.graphs == 0
    assert calls.calls_inside == 0
    assert calls.calls_outside > 10
