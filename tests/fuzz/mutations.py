"""Guards checked by machine: everything that a program reads is changed in turn, and compiled must equal plain.

A tracing plain run finds the places that the program reads ([reads](reads.py)). The program is then called until it is
compiled, and for each place: called with the change in force, and called again with everything as it was. While a
change is in force, compiled code that does not fit runs as plain Python (every fifth time it is compiled anew), so that
what is left to go wrong is an entry whose guards accept what it was not made for: a stale result.
"""

from __future__ import annotations

import contextlib
import functools
import math
import random
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed.tensor  # by torch.testing.assert_close, which must not import it amid a program
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import firesteel as fs

from .harness import (
    SEED,
    CallRecord,
    CountingBackend,
    Outcome,
    Transform,
    _call,
    _loaded,
    _quiet,
    _record,
    _restored_global_state,
    compare_calls,
    identity,
)
from .program import Program
from .reads import CONTAINERS, Path, Roots, Trace, Walk, follow, show, traced
from .values import Dice

WARM_UP = 3
"""Rounds of all calls before the first change: numbers that vary have become inputs by then."""
RECOMPILED = 5
"""Every so many changes are compiled anew."""
MAX_CALLS = 2
Undo = Callable[[], None]


class CannotChange(Exception):
    """The place is not there in this run, or does not take the change."""


@dataclass(frozen=True)
class Change:
    """One change: its kind (for the statistics), what it is (for people), and how it is made."""

    kind: str
    text: str
    make: Callable[[Roots], Undo]

    @contextlib.contextmanager
    def in_force(self, roots: Roots) -> Iterator[None]:
        undo = self.make(roots)
        try:
            yield
        finally:
            undo()


# What a value becomes


def other_value(value: Any) -> list[tuple[str, Any]]:
    """Values that a program can tell from this one."""
    kind = type(value)
    if kind is bool:
        return [("bool", not value)]
    if kind is int:
        return [("int", value + 1), ("type of a number", float(value))]
    if kind is float:
        return [("float", -0.0 if value == 0 and math.copysign(1, value) > 0 else value * 1.5 + 0.25)]
    if kind is str:
        return [("str", value + "_" if value.isidentifier() else value[::-1] + "x")]
    if value is None:
        return [("None", 2)]
    if isinstance(value, torch.Tensor):
        return list(_other_tensors(value))
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)):
        return [("function", scaled(value))]
    if isinstance(value, property) and value.fget is not None:
        return [("property", property(scaled(value.fget), value.fset))]
    if isinstance(value, staticmethod):
        return [("static method", staticmethod(scaled(value.__func__)))]
    if isinstance(value, classmethod):
        return [("class method", classmethod(scaled(value.__func__)))]
    if kind is tuple and value:
        return [("tuple", value[::-1]), ("tuple", value[:-1])]
    if kind is list:
        return [("list", value[::-1]), ("type of a container", tuple(value))]
    if kind is dict:
        return [("dict", dict(reversed(value.items())))]
    if isinstance(value, torch.nn.Module):
        return [("module", torch.nn.Identity())]
    if isinstance(value, torch.dtype):
        return [("dtype", torch.float64 if value is not torch.float64 else torch.float32)]
    return []


def _other_tensors(value: torch.Tensor) -> Iterator[tuple[str, Any]]:
    plain = value.detach()
    if value.is_floating_point():
        yield "dtype of a tensor", plain.double() if value.dtype is not torch.float64 else plain.float()
        yield "requires_grad", plain.clone().requires_grad_(not value.requires_grad)
    yield "shape of a tensor", torch.cat([plain, plain]) if plain.dim() else plain[None]
    if plain.dim() >= 2:
        yield "strides of a tensor", plain.t().contiguous().t() if plain.dim() == 2 else plain.transpose(0, 1)
    if isinstance(value, torch.nn.Parameter):
        yield "class of a tensor", plain.clone()
    yield "another tensor", plain.clone() if value.is_floating_point() else plain + 1


def scaled(function: Any) -> Any:
    """A function that gives other results."""

    def changed(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            return torch.mul(result, 3.0)
        if type(result) in (int, float):
            return result + 1
        return result

    return changed


# How places are set


def replace_at(path: Path, kind: str, other: Callable[[Any], Any]) -> Change:
    """Put another value at a place."""
    *before, step = path
    how, key = step

    def make(roots: Roots) -> Undo:
        try:
            holder = roots.resolve(tuple(before))
            new = other(follow(holder, step))
            function = roots.function
            called = getattr(function, "__func__", function), getattr(type(function), "__call__", None)
            if how in ("default", "keyword default") and holder in called:
                _check_not_given(roots, follow(holder, step), new)
            return put(holder, how, key, new)
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            raise CannotChange from error

    return Change(kind, f"{show(path)}: {kind}", make)


def _check_not_given(roots: Roots, *defaults: Any) -> None:
    """Whether a call gives an argument that is the default is not seen in the one call that notices another default
    (`docs/guards.md`)."""
    for args, kwargs in roots.calls:
        if any(value is default for value in (*args, *kwargs.values()) for default in defaults):
            raise CannotChange


def put(holder: Any, how: str, key: Any, new: Any) -> Undo:
    """Set what a step leads to; the result undoes it."""
    if how == "global":
        return _put_item(holder.namespace, key, new)
    if how in ("argument", "keyword"):
        return _put_item(holder.calls[key[0]][0 if how == "argument" else 1], key[1], new)
    if how == "item" and not isinstance(holder, tuple):
        return _put_item(holder, key, new)
    if how == "attribute" and isinstance(vars(holder), dict):
        return _put_item(vars(holder), key, new)
    if how in ("slot", "member", "attribute"):
        return put_attribute(holder, key, new)
    if how == "cell":
        cell = holder.__closure__[key]
        old = cell.cell_contents
        cell.cell_contents = new
        return functools.partial(setattr, cell, "cell_contents", old)
    if how == "default":
        old = holder.__defaults__
        holder.__defaults__ = (*old[:key], new, *old[key + 1:])
        return functools.partial(setattr, holder, "__defaults__", old)
    if how == "keyword default":
        return _put_item(holder.__kwdefaults__, key, new)
    if how == "part" and isinstance(holder, functools.partial) and key != "keywords":
        state = holder.__reduce__()[2]
        parts = {"func": holder.func, "args": holder.args, key: new}
        holder.__setstate__((parts["func"], parts["args"], holder.keywords, vars(holder)))
        return functools.partial(holder.__setstate__, state)
    raise CannotChange


def _put_item(table: Any, key: Any, new: Any) -> Undo:
    old = table[key]
    table[key] = new

    def undo() -> None:
        table[key] = old

    return undo


def put_attribute(holder: Any, name: str, new: Any) -> Undo:
    """``setattr`` that can be undone; a name that the holder itself did not have is deleted again."""
    own = vars(holder) if hasattr(holder, "__dict__") else {name: getattr(holder, name)}
    had, old = name in own, own.get(name)
    setattr(holder, name, new)
    return functools.partial(setattr, holder, name, old) if had else functools.partial(delattr, holder, name)


def at(path: Path, kind: str, act: Callable[[Any], Undo], what: str = "") -> Change:
    """Do something to the object at a place."""

    def make(roots: Roots) -> Undo:
        try:
            return act(roots.resolve(path))
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            raise CannotChange from error

    return Change(kind, f"{show(path)}: {kind} {what}".rstrip(), make)


# Changes of one object


def changes_at(path: Path, value: Any) -> Iterator[Change]:
    """Everything that can be changed at a place."""
    if path[-1][0] not in ("function", "class", "base", "key"):
        for position, (kind, _) in enumerate(other_value(value)):
            yield replace_at(path, kind, functools.partial(_nth, position))
    if type(value) in CONTAINERS:
        yield at(path, "items of a container", _shrink)
        yield at(path, "items of a container", _grow)
    elif isinstance(value, types.FunctionType) and value.__code__.co_filename.startswith("<fuzz"):
        yield at(path, "code of a function", _other_code)
    elif isinstance(value, torch.nn.Module):
        yield at(path, "training mode", _switch_training)
        for kind in ("forward hook", "forward pre-hook", "backward hook"):
            yield at(path, kind, functools.partial(_hook, kind))
        yield at(path, "attribute that hides a member", functools.partial(_hide, "forward"))
    elif isinstance(value, type):
        for name in ("__bool__", "__len__", "__getattribute__", "__eq__"):
            if name not in vars(value):
                yield at(path, "special method added", functools.partial(_add_special, name), name)
    elif isinstance(value, torch.Tensor):
        yield at(path, "contents of a tensor", _other_contents)
        yield at(path, "attribute of a tensor", lambda tensor: put_attribute(tensor, "note", 3))
    elif type(value).__module__.startswith("fuzz_program") and path[-1][0] != "class":
        yield at(path, "class of an object", _other_class)
        for name, member in vars(type(value)).items():
            if isinstance(member, types.FunctionType) and not name.startswith("__"):
                yield at(path, "attribute that hides a member", functools.partial(_hide, name), name)


def _nth(position: int, value: Any) -> Any:
    try:
        return other_value(value)[position][1]
    except IndexError:
        raise CannotChange from None


def _restore(value: Any, saved: Any) -> None:
    if isinstance(value, (dict, set)):
        value.clear()
        value.update(saved)
    else:
        value.clear()
        value.extend(saved)


def _shrink(value: Any) -> Undo:
    saved = value.copy()
    value.popitem() if isinstance(value, dict) else value.remove(sorted(value, key=repr)[0]) \
        if isinstance(value, set) else value.pop()
    return functools.partial(_restore, value, saved)


def _grow(value: Any) -> Undo:
    saved = value.copy()
    if isinstance(value, dict):
        value["more"] = next(iter(value.values()), 1)
    elif isinstance(value, set):
        value.add(next(iter(sorted(value, key=repr)), 0))
        value.add(77)
    else:
        value.append(value[0] if value else 1)
    return functools.partial(_restore, value, saved)


def _other_code(value: types.FunctionType) -> Undo:
    old = value.__code__
    consts = tuple(const + 1 if type(const) is int and const > 1 else const * 1.5 if type(const) is float else const
                   for const in old.co_consts)
    value.__code__ = old.replace(co_consts=consts)
    return functools.partial(setattr, value, "__code__", old)


def _switch_training(value: torch.nn.Module) -> Undo:
    before = {module: module.training for module in value.modules()}
    value.train(not value.training)

    def undo() -> None:
        for module, training in before.items():
            module.training = training

    return undo


def _hook(kind: str, value: torch.nn.Module) -> Undo:
    if kind == "forward hook":
        handle = value.register_forward_hook(lambda module, args, result: _scale(result))
    elif kind == "forward pre-hook":
        handle = value.register_forward_pre_hook(lambda module, args: tuple(_scale(arg) for arg in args))
    else:
        handle = value.register_full_backward_hook(lambda module, grads, outer: None)
    return handle.remove


def _scale(value: Any) -> Any:
    return value * 2 if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _hide(name: str, value: Any) -> Undo:
    if name in vars(value):
        raise CannotChange
    vars(value)[name] = scaled(getattr(value, name))

    def undo() -> None:
        vars(value).pop(name, None)

    return undo


def _add_special(name: str, value: type) -> Undo:
    if name == "__getattribute__":
        base = value.__getattribute__

        def special(self: Any, attribute: str) -> Any:
            found = base(self, attribute)
            return found + 1 if type(found) is int and not attribute.startswith("_") else found
    elif name == "__eq__":
        def special(self: Any, other: Any) -> Any:  # type: ignore[misc]
            return True
    else:
        def special(self: Any) -> Any:  # type: ignore[misc]
            return 0 if name == "__len__" else False
    return put_attribute(value, name, special)


def _other_class(value: Any) -> Undo:
    old = type(value)
    members = {name: scaled(member) for name, member in vars(old).items()
               if isinstance(member, types.FunctionType) and not name.startswith("__")}
    value.__class__ = type(old.__name__, (old,), {**members, "__module__": old.__module__, "__slots__": ()})
    return functools.partial(setattr, value, "__class__", old)


def _other_contents(value: torch.Tensor) -> Undo:
    saved = value.detach().clone()
    with torch.no_grad():
        if value.dtype is torch.bool:
            value.logical_not_()
        else:
            value.add_(1)

    def undo() -> None:
        with torch.no_grad():
            value.copy_(saved)

    return undo


# Torch


class SeesOperators(TorchDispatchMode):
    """A dispatch mode that changes what it sees."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.mul.Tensor and result.is_floating_point():
            return torch.ops.aten.add.Tensor(result, 1)
        return result


class SeesFunctions(TorchFunctionMode):
    """A function mode that changes what it sees."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (torch.Tensor.mul, torch.mul, torch.Tensor.__mul__) and result.is_floating_point():
            return torch.add(result, 1)
        return result


def _entering(manager: Callable[[], Any]) -> Callable[[Roots], Undo]:
    def make(roots: Roots) -> Undo:
        stack = contextlib.ExitStack()
        stack.enter_context(manager())
        return stack.close

    return make


def _setting(getter: Callable[[], Any], setter: Callable[[Any], Any], new: Any) -> Callable[[Roots], Undo]:
    def make(roots: Roots) -> Undo:
        old = getter()
        setter(new if old != new else (not new if isinstance(new, bool) else old))
        return functools.partial(setter, old)

    return make


def state_changes() -> Iterator[Change]:
    """Global state of torch that programs depend on without naming it."""
    yield Change("grad mode", "no_grad", _entering(torch.no_grad))
    yield Change("inference mode", "inference_mode", _entering(torch.inference_mode))
    yield Change("autocast", "autocast", _entering(lambda: torch.autocast("cpu", torch.bfloat16)))
    yield Change("autocast", "autocast dtype", _setting(lambda: torch.get_autocast_dtype("cpu"), lambda dtype:
                                                        torch.set_autocast_dtype("cpu", dtype), torch.float16))
    yield Change("default dtype", "default dtype", _setting(torch.get_default_dtype, torch.set_default_dtype,
                                                            torch.float64))
    yield Change("deterministic algorithms", "deterministic algorithms", _setting(
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True))
    yield Change("threads", "number of threads", _setting(torch.get_num_threads, torch.set_num_threads, 2))
    yield Change("dispatch mode", "dispatch mode", _entering(SeesOperators))
    yield Change("function mode", "function mode", _entering(SeesFunctions))
    yield Change("backend flag", "mkldnn.enabled", _setting(
        lambda: torch.backends.mkldnn.enabled, lambda value: setattr(torch.backends.mkldnn, "enabled", value), True))
    yield Change("matmul precision", "float32 matmul precision", _setting(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"))


def patches(trace: Trace) -> Iterator[Change]:
    """Functions and methods of torch that the program calls, replaced."""
    for name in trace.functions:
        space, _, function = name.rpartition(".")
        yield Change("function of torch", name, functools.partial(_patch, sys.modules[space], function))
    for name in trace.methods:
        yield Change("method of Tensor", f"Tensor.{name}", functools.partial(_patch, torch.Tensor, name))
    for name in trace.operators():
        if hasattr(torch.Tensor, name):
            yield Change("operator of Tensor", f"Tensor.{name}", functools.partial(_patch, torch.Tensor, name))
    for cls in trace.modules:
        if cls.__module__.startswith("torch.nn"):
            yield Change("forward of a module of torch", cls.__name__, functools.partial(_patch, cls, "forward"))
    if trace.modules:
        yield Change("nn.Module", "nn.Module.__call__", functools.partial(_patch, torch.nn.Module, "__call__"))
        yield Change("global hook", "global forward hook", lambda roots: torch.nn.modules.module.
                     register_module_forward_hook(lambda module, args, result: _scale(result)).remove)


def _patch(holder: Any, name: str, roots: Roots) -> Undo:
    original = getattr(holder, name)

    def patched(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if isinstance(result, torch.Tensor) and result.is_floating_point() and result._base is None and \
                not name.endswith("_"):
            return torch.ops.aten.mul.Tensor(result, 3.0)
        return result + 1 if type(result) in (int, float) else result

    return put_attribute(holder, name, patched)


def hidden_builtins(trace: Trace, namespace: dict[str, Any]) -> Iterator[Change]:
    """Builtins that a global of the same name hides from now on."""
    import builtins

    for name in sorted(trace.names):
        function = getattr(builtins, name, None)
        if isinstance(function, types.BuiltinFunctionType) and name not in namespace:
            yield Change("hidden builtin", name, functools.partial(_hide_builtin, name, function))


def _hide_builtin(name: str, function: Any, roots: Roots) -> Undo:
    roots.namespace[name] = scaled(function)

    def undo() -> None:
        roots.namespace.pop(name, None)

    return undo


# Runs


def find_changes(program: Program, limit: int) -> list[Change]:
    """Every change of what the program reads; a random choice of `limit` where there are more."""
    trace = Trace()
    with _loaded(program) as namespace, _quiet(), _restored_global_state():
        roots, before, observe, use = _made(namespace)
        for _ in range(WARM_UP):
            for index, (args, kwargs) in enumerate(roots.calls):
                before(index)
                with contextlib.redirect_stdout(None), contextlib.suppress(Exception):
                    traced(trace, program.filename, functools.partial(use, roots.function, tuple(args), kwargs))
        found = [change for path, value in Walk(roots, trace, namespace["__name__"]).places()
                 for change in changes_at(path, value)]
        found += [*state_changes(), *patches(trace), *hidden_builtins(trace, namespace)]
    dice = Dice(program.seed)
    return found if len(found) <= limit else dice.sample(found, limit)


def _made(namespace: dict[str, Any]) -> tuple[Roots, Any, Any, Any]:
    torch.manual_seed(SEED)
    random.seed(SEED)
    function, calls, before, observe, *more = namespace["make"]()
    roots = Roots(namespace, function, [(list(args), dict(kwargs)) for args, kwargs in calls[:MAX_CALLS]])
    return roots, before, observe, more[0] if more else _call


def run_changes(program: Program, changes: list[Change], transform: Transform, compiles: bool) -> list[CallRecord]:
    """Call the program, change, call, change back, call; `WARM_UP` rounds first, and two records for each change."""
    outcome = Outcome()
    with _loaded(program) as namespace, _quiet(), _restored_global_state():
        roots, before, observe, use = _made(namespace)
        transformed = transform(roots.function)
        indices = range(len(roots.calls))

        def call(index: int, mode: contextlib.AbstractContextManager[Any]) -> None:
            before(index)
            args, kwargs = roots.calls[index]

            def late(function: Any, _args: Any, _kwargs: Any) -> Any:
                args, kwargs = roots.calls[index]  # perhaps changed
                return use(function, tuple(args), kwargs)

            try:
                outcome.calls.append(
                    _record(program, transformed, tuple(args), kwargs, observe, namespace, mode, late))
            except CannotChange:
                outcome.calls.append(CallRecord([], "cannot change", ("", "")))

        for _ in range(WARM_UP):
            for index in indices:
                call(index, contextlib.nullcontext())
        for number, change in enumerate(changes):
            fits = compiles and number % RECOMPILED
            with fs.set_stance("eager_on_recompile") if fits else contextlib.nullcontext():
                call(number % len(indices), change.in_force(roots))
                call(number % len(indices), contextlib.nullcontext())
    return outcome.calls


@dataclass(frozen=True)
class Stale:
    """A change after which compiled and plain differ."""

    change: Change
    difference: str


@dataclass(frozen=True)
class Checked:
    """The changes made to one program, and those that compiled code did not notice."""

    program: Program
    changes: list[Change]
    stale: list[Stale]


def check_guards(program: Program, limit: int = 60, backend: str | None = None) -> Checked:
    """Change everything that a program reads, plain and compiled."""
    changes = find_changes(program, limit)
    plain = run_changes(program, changes, identity, False)
    made = [change for change, record in zip(changes, plain[len(plain) - 2 * len(changes)::2], strict=True)
            if record.stdout != "cannot change"]
    stale: list[Stale] = []
    wanted = made
    for _ in range(3):  # what comes after a difference is no news, so go on without it
        found = first_difference(program, wanted, backend)
        if found is None:
            break
        stale.append(found)
        wanted = [change for change in wanted if change is not found.change]
    return Checked(program, made, stale)


def first_difference(program: Program, changes: list[Change], backend: str | None) -> Stale | None:
    """The first change of these after which compiled code differs from plain."""
    plain = run_changes(program, changes, identity, False)
    fs.reset()
    limits = {"recompile_limit": 10_000, "accumulated_recompile_limit": 100_000}
    try:
        with fs.config.patch(raise_on_internal_error=True, disk_cache=False, **limits):
            compiled = run_changes(
                program, changes, lambda function: fs.compile(function, backend=backend or CountingBackend()), True)
    finally:
        fs.reset()
    warm = len(plain) - 2 * len(changes)
    again: list[CallRecord] | None = None
    for position, (left, right) in enumerate(zip(plain, compiled, strict=True)):
        difference = next(compare_calls(left, right, False), None)
        if difference is None:
            continue
        again = again or run_changes(program, changes, identity, False)
        if next(compare_calls(left, again[position], False), None) is not None:
            return None  # the program is not the same twice
        if position < warm:
            return Stale(Change("no change", "before any change", _nothing), difference)
        change = changes[(position - warm) // 2]
        return Stale(change, ("afterwards: " if (position - warm) % 2 else "") + difference)
    return None


def _nothing(roots: Roots) -> Undo:
    raise CannotChange
