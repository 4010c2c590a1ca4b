"""200 small programs to be exported, by ours or torch's export, and how what comes out is held against eager."""

from __future__ import annotations

import copy
import io
import warnings
from importlib import import_module
from typing import Any

import torch
import torch.utils._pytree as pytree
from tests.export.programs.record import PROGRAMS, Call, Program

for _part in ("sizes", "inputs", "operators", "python", "layers", "mixed", "tools", "further"):
    import_module(f"tests.export.programs.{_part}")

__all__ = ["PROGRAMS", "Wrong", "compare", "export", "module_of", "outcome"]

SEED = 11


class Wrong(Exception):
    """An exported program does not do what the module does."""


def _copied(value: Any) -> Any:
    """Inputs of one call: equal, and nobody else's."""
    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)

    return pytree.tree_map(one, value)


def export(api: Any, program: Program, strict: bool) -> Any:
    """The exported program; ``api`` is `firesteel.export` or `torch.export`."""
    model = program.model()
    shapes = None if program.shapes is None else program.shapes(api.Dim)
    function = getattr(api, program.exporter)
    return function(model, _copied(program.args), _copied(program.kwargs) or None, dynamic_shapes=shapes, strict=strict)


def _same(mine: Any, wanted: Any, what: str) -> None:
    leaves, spec = pytree.tree_flatten(mine)
    others, other_spec = pytree.tree_flatten(wanted)
    if spec != other_spec:
        raise Wrong(f"{what}: the structure is {spec}, not {other_spec}")
    for leaf, other in zip(leaves, others, strict=True):
        if isinstance(other, torch.Tensor):
            if not isinstance(leaf, torch.Tensor):
                raise Wrong(f"{what}: {type(leaf)} instead of a tensor")
            try:
                torch.testing.assert_close(leaf, other, equal_nan=True)
            except AssertionError as error:
                raise Wrong(f"{what}: {error}") from None
        elif type(leaf) is not type(other) or leaf != other:
            raise Wrong(f"{what}: {leaf!r} instead of {other!r}")


def _gradients(result: Any, module: torch.nn.Module, call: Any) -> Any:
    leaves = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    inputs = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    sources = [*inputs, *(value for _, value in sorted(module.named_parameters()))]
    total: Any = sum(leaf.sum() for leaf in leaves)
    return torch.autograd.grad(total, sources, allow_unused=True)


def compare(program: Program, eager: torch.nn.Module, module: torch.nn.Module, what: str) -> None:
    """Calls in the same order, so that changes of buffers add up."""
    calls: list[Call] = [(program.args, program.kwargs), *program.further]
    for number, call in enumerate(calls):
        here, there = _copied(call), _copied(call)
        torch.manual_seed(SEED)
        wanted = eager(*here[0], **here[1])
        torch.manual_seed(SEED)
        try:
            result = module(*there[0], **there[1])
        except Exception as error:
            raise Wrong(f"{what}, inputs {number}: raises {type(error).__name__}: {error}") from error
        _same(result, wanted, f"{what}, results for inputs {number}")
        _same(there, here, f"{what}, inputs {number} after the call")
        mine = dict(module.named_buffers())
        for name, buffer in eager.named_buffers():
            if name in mine:
                _same(mine[name], buffer, f"{what}, buffer {name} after inputs {number}")
        if program.gradients:
            _same(_gradients(result, module, there), _gradients(wanted, eager, here), f"{what}, gradients {number}")
    for number, call in enumerate(program.refuses):
        given = _copied(call)
        try:
            module(*given[0], **given[1])
        except Exception:
            continue
        raise Wrong(f"{what}: takes inputs {number} that it must refuse")


def module_of(program: Program, exported: Any) -> Any:
    """What is called to run an exported program."""
    return exported.module() if program.check_guards else exported.module(check_guards=False)


def outcome(api: Any, program: Program, strict: bool) -> tuple[str, str]:
    """``accepted``, ``refused`` or ``wrong``, and why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grad = torch.is_grad_enabled()
        try:
            try:
                exported = export(api, program, strict)
            except Exception as error:
                return "refused", f"export: {type(error).__name__}: {error}"
            try:
                return "accepted", _checked(api, program, exported)
            except _RefusedLater as error:
                return "refused", str(error)
            except Wrong as error:
                return "wrong", str(error)
            except Exception as error:
                return "wrong", f"{type(error).__name__}: {error}"
        finally:
            torch.set_grad_enabled(grad)


class _RefusedLater(Exception):
    """What is done to a program after exporting raised."""


def _checked(api: Any, program: Program, exported: Any) -> str:
    loaded = None
    if program.saves:
        try:
            file = io.BytesIO()
            api.save(exported, file)
            file.seek(0)
            loaded = api.load(file)
        except Exception as error:
            raise _RefusedLater(f"saving: {type(error).__name__}: {error}") from error
    final, compares = exported, True
    state = copy.deepcopy(dict(exported.state_dict)) if program.after is not None else {}
    if program.after is not None:
        try:
            result = program.after(api, exported)
        except Exception as error:
            raise _RefusedLater(f"after: {type(error).__name__}: {error}") from error
        final = exported if result is None else result
        compares = all(value.device == final.state_dict[name].device for name, value in state.items())
    try:
        if compares:
            compare(program, program.model(), module_of(program, final), "exported")
        if loaded is not None:
            compare(program, program.model(), module_of(program, loaded), "loaded")
    except TypeError as error:
        raise _RefusedLater(f"module: {error}") from error
    return ""
