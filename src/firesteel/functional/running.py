"""Running a functional graph with ATen, operator by operator: what compiled code must do, in the plainest form."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..shapes import Symbol
from ..shapes.symnode import expr_of
from .graph import (
    Constant,
    DetachedBase,
    FreshTensor,
    FunctionalGraph,
    Input,
    InputAlias,
    Mutation,
    Number,
    SameAs,
    ViewLayout,
)
from .operators import is_view

_ATEN = torch.ops.aten
# Of a view these give a copy of the whole storage behind it.
_COPIES_OF_STORAGE = frozenset({_ATEN.slice_scatter.default, _ATEN.select_scatter.default,
                                _ATEN.diagonal_scatter.default, _ATEN.as_strided_scatter.default})


def run(functional: FunctionalGraph, inputs: Sequence[Any]) -> Any:
    """The results of the program, with inputs and torch's global state changed as the program changes them."""
    results = compute(functional, inputs)
    change_state(functional)
    return results


def change_state(functional: FunctionalGraph) -> None:
    """Change torch's global state as the program does."""
    for setting in functional.state_changes:
        setting.function(*setting.args)


def compute(functional: FunctionalGraph, inputs: Sequence[Any]) -> Any:
    """The results of the program, with inputs changed as the program changes them."""
    values: dict[torch.fx.Node, Any] = {}
    with torch.no_grad():
        _compute(functional, inputs, values)
        for change in functional.mutated:
            target = inputs[change.index]
            (target if change.writes else target.data).copy_(values[change.node])
            torch.autograd.graph.increment_version([target] * (change.writes - 1))
        results: list[Any] = []
        creations = dict(views_to_correct(functional, torch_compat.usual_creation(False)))
        for position, output in enumerate(functional.outputs):
            result = _result(functional, output, inputs, values, results)
            results.append(torch_compat.created_as(result, creations[position]) if position in creations else result)
        if functional.detached:
            detach_views(results, functional.detached)
            _repeat(functional, results)
    return tuple(results) if functional.returns_tuple else results[0]


def with_counts(run: Callable[..., Any], mutated: Sequence[Mutation]) -> Callable[..., Any]:
    """A function that changes inputs, made one after which autograd has counted as many changes as in eager."""
    hidden = [change.index for change in mutated if not change.writes]
    repeated = [change.index for change in mutated for _ in range(change.writes - 1)]
    if hidden:
        run = _unnoticed(run, hidden)
    if not repeated:
        return run

    def counted(*inputs: Any) -> Any:
        results = run(*inputs)
        torch.autograd.graph.increment_version([inputs[index] for index in repeated])
        return results

    return counted


def _unnoticed(run: Callable[..., Any], hidden: Sequence[int]) -> Callable[..., Any]:
    def unnoticed(*inputs: Any) -> Any:
        tensors = [inputs[index] for index in hidden]
        versions = [torch_compat.version_of(tensor) for tensor in tensors]
        results = run(*inputs)
        torch_compat.set_versions(tensors, versions)
        return results

    return unnoticed


def views_to_correct(functional: FunctionalGraph, usual: Any) -> list[tuple[int, Any]]:
    """Results, by position, that came about as views in eager otherwise than in the ``usual`` way, and how they did.

    None stands for a result that is no view in eager, but may be one where code makes it from memory that it has.
    """
    positions = []
    for position, (output, creation) in enumerate(zip(functional.outputs, functional.creations, strict=False)):
        if isinstance(output, (FreshTensor, InputAlias)) and creation is not usual and (
                output.view is not None or isinstance(output, FreshTensor)
                and (is_view(output.node) or torch_compat.is_one_of_several(creation))):
            positions.append((position, creation))
    return positions


def corrected(results: Sequence[Any], functional: FunctionalGraph, creations: list[tuple[int, Any]]) -> tuple[Any, ...]:
    """Results with those of `views_to_correct` as they are in eager."""
    outputs = list(results)
    for position, creation in creations:
        outputs[position] = torch_compat.created_as(outputs[position], creation)
    detach_views(outputs, functional.detached)
    _repeat(functional, outputs)
    return tuple(outputs)


def detach_views(results: list[Any], detached: Mapping[int, DetachedBase]) -> None:
    """Make results again that are views of a detached tensor (`FunctionalGraph.detached`)."""
    bases: dict[int, torch.Tensor] = {}
    for position, how in detached.items():
        value = results[position]
        base = results[how.result] if how.result is not None else bases.setdefault(how.number, value.detach())
        with torch.no_grad():
            view = base.as_strided(value.shape, value.stride(), value.storage_offset())
        results[position] = torch_compat.created_as(view, how.creation)


def _repeat(functional: FunctionalGraph, results: list[Any]) -> None:
    """Put results that are the same object as an earlier one in their places."""
    for position, output in enumerate(functional.outputs):
        if isinstance(output, SameAs):
            results[position] = results[output.index]


def _compute(functional: FunctionalGraph, inputs: Sequence[Any], values: dict[torch.fx.Node, Any]) -> None:
    given = iter(inputs)

    def value_of(node: torch.fx.Node) -> Any:
        return values[node]

    for node in functional.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "get_attr":
            values[node] = functional.constants[str(node.target)]
        elif node.op == "call_function":
            args = torch.fx.map_arg(node.args, value_of)
            kwargs = torch.fx.map_arg(node.kwargs, value_of)
            target: Any = node.target
            value = target(*args, **kwargs)
            values[node] = _in_own_memory(value) if target in _COPIES_OF_STORAGE else value


def _in_own_memory(value: torch.Tensor) -> torch.Tensor:
    """A tensor that begins where its storage begins, which graphs expect of what they compute."""
    if not value.storage_offset():
        extent = 1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
        if value.untyped_storage().nbytes() == (extent if value.numel() else 0) * value.itemsize:
            return value
    return _copied(value, value.stride())


def _copied(value: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """The same elements in new memory, in that order; dimensions without steps have one element there."""
    copy = torch.empty_strided(value.shape, stride, dtype=value.dtype, device=value.device)
    target = copy
    for dim, (size, step) in enumerate(zip(value.shape, stride, strict=True)):
        if size > 1 and not step:
            target, value = target.narrow(dim, 0, 1), value.narrow(dim, 0, 1)
    target.copy_(value)
    return copy


def _result(functional: FunctionalGraph, output: Any, inputs: Sequence[Any], values: dict[torch.fx.Node, Any],
            earlier: list[Any]) -> Any:
    if isinstance(output, Constant):
        return output.value
    if isinstance(output, SameAs):
        return earlier[output.index]
    if isinstance(output, Number):
        return values[output.node]
    base = inputs[output.index] if isinstance(output, InputAlias) else values[output.node]
    if output.view is None:
        if isinstance(output, FreshTensor):
            stride = output.node.meta["val"].stride()
            if _may_differ(base, stride):
                known = symbols(functional.inputs, inputs, values)
                if all(expr_of(step).free_symbols <= known.keys() for step in stride):
                    stride = [known_number(known, step) for step in stride]
            return _with_strides(base, stride)
        return base
    return view_of_base(base, output.view, functools.partial(known_number, symbols(functional.inputs, inputs, values)))


def symbols(entries: Sequence[Input], inputs: Sequence[Any], values: dict[torch.fx.Node, Any]) -> dict[Symbol, Any]:
    """The values of all symbols in this run; strides tell only what sizes and numbers do not."""
    bound: dict[Symbol, Any] = {}
    tensors = []
    for entry, value in zip(entries, inputs, strict=True):
        if isinstance(value, torch.Tensor):
            tensors.append((entry.example, value))
            for number, known in zip(entry.example.shape, value.shape, strict=True):
                _bind(bound, number, known)
        else:
            _bind(bound, entry.example, value)
    for example, value in tensors:
        for number, known in zip(example.stride(), value.stride(), strict=True):
            _bind(bound, number, known)
        _bind(bound, example.storage_offset(), value.storage_offset())
    for node, value in values.items():
        example = node.meta.get("val")
        if isinstance(value, torch.Tensor) and isinstance(example, torch.Tensor):
            for number, known in zip(example.shape, value.shape, strict=True):  # that only data tells
                _bind(bound, number, known)
        else:
            _bind(bound, example, value)
    return bound


def _bind(bound: dict[Symbol, Any], number: Any, value: Any) -> None:
    if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        expr = expr_of(number)
        if isinstance(expr, Symbol):
            bound.setdefault(expr, value)


def known_number(known: dict[Symbol, Any], number: Any) -> int:
    """A number of the graph, given the values of symbols."""
    return int(expr_of(number).evaluate(known))


def _may_differ(value: torch.Tensor, stride: Sequence[Any]) -> bool:
    """Whether strides that depend on symbols may be other ones than operators give: those of what has no elements, or
    one in a dimension, follow rules of their own."""
    return (0 in value.shape or 1 in value.shape) and any(type(step) is not int for step in stride)


def _with_strides(value: torch.Tensor, stride: Sequence[Any]) -> torch.Tensor:
    """Operators may give other strides than was said."""
    if any(type(step) is not int for step in stride) or value.stride() == tuple(stride):
        return value
    return _copied(value, stride)


def view_of_base(base: torch.Tensor, view: ViewLayout, number: Callable[[Any], int]) -> torch.Tensor:
    """A view of a tensor; ``number`` gives the values of its sizes, strides and offset."""
    if base.dtype is not view.dtype:
        base = base.view(view.dtype) if not base.dtype.is_complex else torch.view_as_real(base)
    return base.as_strided(tuple(map(number, view.shape)), tuple(map(number, view.stride)),
                           base.storage_offset() + number(view.offset))
