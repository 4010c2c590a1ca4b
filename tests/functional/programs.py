"""Programs whose functional graphs must do what they do: results, changes of arguments, strides and aliases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import firesteel as fs
from firesteel.functional import FunctionalGraph, run, trace


class Traced:
    """A backend that runs functional graphs; it keeps them."""

    def __init__(self, **options: Any) -> None:
        self.graphs: list[FunctionalGraph] = []
        self.options = options

    def __call__(self, module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        graph = trace(module, example_inputs, **self.options)
        check(graph)
        self.graphs.append(graph)
        return lambda *args: run(graph, args)


def check(graph: FunctionalGraph) -> None:
    """What holds for every functional graph."""
    graph.graph.lint()
    for node in graph.graph.nodes:
        if node.op == "call_function":
            assert "val" in node.meta, node
            schema = getattr(node.target, "_schema", None)
            assert schema is None or not schema.is_mutable, node.target
            for value in _flat((node.args, node.kwargs)):
                assert not isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat)), (node, value)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in _flat(part)]
    if isinstance(value, dict):
        return _flat(list(value.values()))
    return [value]


def assert_same(program: Callable[..., Any], *args: Any, dynamic: bool | None = None, exact: bool = False,
                seed: int = 0) -> FunctionalGraph | None:
    """Run a program eagerly and by its functional graph, on copies of the arguments; everything must be equal."""
    backend = Traced()
    compiled = fs.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)
    for _ in range(2):
        expected_args, actual_args = [_copied(args) for _ in range(2)]
        torch.manual_seed(seed)
        expected = program(*expected_args)
        torch.manual_seed(seed)
        actual = compiled(*actual_args)
        assert_equal_worlds(expected, expected_args, actual, actual_args, exact)
    return backend.graphs[0] if backend.graphs else None


def assert_equal_worlds(expected: Any, expected_args: Sequence[Any], actual: Any, actual_args: Sequence[Any],
                        exact: bool) -> None:
    left, right = _tensors((expected, expected_args)), _tensors((actual, actual_args))
    assert len(left) == len(right)
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        if exact:
            assert torch.equal(a, b), (i, a, b)
        else:
            torch.testing.assert_close(b, a, equal_nan=True)
        assert a.dtype is b.dtype and a.shape == b.shape
        assert a.stride() == b.stride(), (i, a.stride(), b.stride())
        assert a.requires_grad == b.requires_grad
        assert a.is_inference() == b.is_inference()
    # who shares memory with whom, and who is the same object
    count = len(left)
    for i in range(count):
        for j in range(i):
            assert (left[i] is left[j]) == (right[i] is right[j]), (i, j)
            assert _shared(left[i], left[j]) == _shared(right[i], right[j]), (i, j)


def _shared(a: torch.Tensor, b: torch.Tensor) -> Any:
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr() or a.numel() == 0 or b.numel() == 0:
        return None
    return a.data_ptr() - b.data_ptr()


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for item in value for t in _tensors(item)]
    if isinstance(value, dict):
        return _tensors(list(value.values()))
    return []


def _copied(args: Sequence[Any]) -> list[Any]:
    """Copies that share memory as the arguments do."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return [copy(item) for item in value] if isinstance(value, list) else value
        storage = value.untyped_storage()
        twin = storages.setdefault(storage.data_ptr(), storage.clone())
        made = torch.empty(0, dtype=value.dtype).set_(twin, value.storage_offset(), value.shape, value.stride())
        return made.requires_grad_(value.requires_grad)

    return [copy(value) for value in args]
