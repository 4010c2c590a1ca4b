"""Calling nn.Modules: hooks are honoured, and without hooks forward is inlined directly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from .. import torch_compat
from ..function_marks import is_disabled
from .break_reasons import torchscript_break
from .objects import class_member, find_on_class
from .signals import GraphBreak, SkipFrame
from .source import ConstantSource, InstanceDictSource
from .values.base import Value
from .values.methods import MethodValue
from .values.modules import ModuleValue

if TYPE_CHECKING:
    from .tracer import Tracer

HOOK_TABLES = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
GLOBAL_HOOK_TABLES = ("_global_backward_pre_hooks", "_global_backward_hooks", "_global_forward_hooks",
                      "_global_forward_pre_hooks")


_GLOBALS = vars(torch.nn.modules.module)


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether a call of the module runs more than its forward."""
    table = module.__dict__  # without a loop: every call of a compiled module asks
    return bool(table.get("_forward_hooks") or table.get("_forward_pre_hooks")
                or table.get("_backward_hooks") or table.get("_backward_pre_hooks")
                or _GLOBALS["_global_forward_hooks"] or _GLOBALS["_global_forward_pre_hooks"]
                or _GLOBALS["_global_backward_hooks"] or _GLOBALS["_global_backward_pre_hooks"])


def _changes_hooks(tx: Tracer, module: ModuleValue) -> bool:
    """Whether the program itself has added or removed hooks."""
    tables = [module.real.__dict__.get(name) for name in HOOK_TABLES]
    tables.extend(getattr(torch.nn.modules.module, name) for name in GLOBAL_HOOK_TABLES)
    known = [tx.known.get(id(table)) for table in tables]
    return any(table is not None and tx.effects.is_changed(table) for table in known)


def guard_no_hooks(tx: Tracer, module: ModuleValue) -> None:
    """Rely on the module having no hooks, and on there being no global ones."""
    assert module.source is not None
    where = InstanceDictSource(module.source)
    tx.guard(where, "hooks", "not ({0}['_forward_hooks'] or {0}['_forward_pre_hooks'] or {0}['_backward_hooks'] "
                             "or {0}['_backward_pre_hooks'])")
    tx.guard(ConstantSource.of(torch.nn.modules.module.__dict__, "torch.nn.modules.module"), "hooks",
             "not (" + " or ".join(f"{{0}}[{name!r}]" for name in GLOBAL_HOOK_TABLES) + ")")


def call_module(tx: Tracer, module: ModuleValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``module(*args, **kwargs)``."""
    cls = module.cls
    if is_disabled(module.real):
        raise GraphBreak(f"{module.describe()} is marked as disabled", "remove the disable marker to compile it")
    if torch_compat.is_torchscript_class(cls):
        raise torchscript_break()
    if issubclass(cls, LazyModuleMixin) and module.source is not None and not tx.compiler.exports \
            and module.real.has_uninitialized_params():
        raise SkipFrame("a lazy module makes its parameters in its first call", makes_ready=True)
    raw, owner = find_on_class(cls, "__call__", tx)
    assert owner is not None
    if owner is torch.nn.Module and torch_compat.MODULE_METHODS.quick():
        tx.guard_stamp(torch_compat.MODULE_METHODS)
        compiled = module.real.__dict__.get("_compiled_call_impl")
        if has_hooks(module.real) or compiled is not None or _changes_hooks(tx, module):
            if compiled is not None:
                raise GraphBreak("a module compiled by another compiler")
            if torch_compat.is_sharded(module.real):
                raise GraphBreak(f"{module.describe()} is sharded: its parameters are gathered before and freed behind "
                                 "its forward, which is compiled for itself",
                                 "accept the break, or compile the sharded modules one by one")
            implementation = class_member(tx, cls, "_call_impl", *find_on_class(cls, "_call_impl"))  # type: ignore[arg-type]
            return tx.call(MethodValue(module, implementation), args, kwargs)
        if id(module) not in tx.unhooked:
            guard_no_hooks(tx, module)
            tx.unhooked[id(module)] = module
        return tx.call(module.get_attr(tx, "forward"), args, kwargs)
    return tx.call(MethodValue(module, class_member(tx, cls, "__call__", raw, owner)), args, kwargs)
