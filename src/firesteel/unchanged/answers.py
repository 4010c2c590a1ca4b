"""Functions of ``torch._dynamo`` and its modules as firesteel answers them. Nothing of the compiler is imported before
one of them needs it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from .compiling import DEFAULT_BACKEND, TORCH_BACKENDS

_HOMES = {
    name: module
    for module, names in {
        "backends": ["list_backends", "register_backend"],
        "control": ["allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "reset", "run"],
        "debug.explain": ["capture_graph", "explain"],
        "runtime.stance": ["set_stance"],
        "shape_markers": ["mark_dynamic", "mark_static", "maybe_mark_dynamic"],
    }.items()
    for name in names
}


def _own(name: str) -> Any:
    """Firesteel's function of a name, imported when it is first used."""
    return getattr(importlib.import_module(f"firesteel.{_HOMES[name]}"), name)


def reset() -> None:
    """Forget everything compiled in this process."""
    _own("reset")()


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """Run a function uncompiled. torch's own functions, which say ``wrapping=False``, stay what they are."""
    if not wrapping:
        return (lambda function: function) if fn is None else fn
    return _own("disable")(fn, recursive, reason=reason)


def graph_break(msg: str = "") -> None:
    """Break the graph here."""


def skip_frame(msg: str = "") -> None:
    """Stop compiling the function that calls this: a break, for the rest of it goes on in graphs here."""


def mark_dynamic(t: Any, index: Any, *, hint_override: int | None = None, min: int | None = None,
                 max: int | None = None, specialize_on: Any = None) -> None:
    """Say that a dimension varies. `specialize_on` asks for versions that are made here when they pay."""
    _own("mark_dynamic")(t, index, min=min, max=max)


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Say that a dimension is likely to vary."""
    _own("maybe_mark_dynamic")(t, index)


def mark_unbacked(t: Any, index: Any, *_args: Any, **_options: Any) -> None:
    """Say that nothing is to be decided on a size; here it is a symbol like others."""
    _own("maybe_mark_dynamic")(t, index)


def mark_static(t: Any, index: Any = None) -> Any:
    """Say that a dimension, or each, keeps its size."""
    return _own("mark_static")(t, index)


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Say that a tensor stays where it is in memory; nothing here relies on that."""


def allow_in_graph(fn: Any) -> Any:
    """Record calls of a function as one operation."""
    return _own("allow_in_graph")(fn)


def disallow_in_graph(fn: Any) -> Any:
    """Break the graph at calls of a function."""
    return _own("disallow_in_graph")(fn)


def forbid_in_graph(fn: Any) -> Any:
    """Refuse a function in graphs: a break, and an error under fullgraph=True."""
    return _own("disallow_in_graph")(fn)


def assume_constant_result(fn: Any) -> Any:
    """Promise that a function returns the same for the same arguments."""
    return _own("assume_constant_result")(fn)


def nonstrict_trace(fn: Any) -> Any:
    """Trace a function without looking at its Python; here its Python is followed."""
    return fn


def dont_skip_tracing(fn: Any = None) -> Any:
    """Trace what would be left alone; here no files are left alone."""
    return dont_skip_tracing if fn is None else fn


def run(fn: Any = None) -> Any:
    """Use what is compiled and never compile."""
    return run if fn is None else _own("run")(fn)


def explain(f: Any, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Run a function once and say what was captured, where it broke, and why."""
    if extra_args or extra_kwargs:
        return _own("explain")(f)(*extra_args, **extra_kwargs)
    return _own("explain")(f)


def export(f: Any, *extra_args: Any, **_options: Any) -> Any:
    """One graph of torch's functions and its guards, or an error."""
    return _own("capture_graph")(f)(*extra_args) if extra_args else _own("capture_graph")(f)


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The names that ``backend=`` takes: torch's name of the native one first of all."""
    debugging = set(TORCH_BACKENDS) - {"inductor", "firesteel"} if exclude_tags and "debug" in exclude_tags else set()
    return sorted({"inductor", *_own("list_backends")()} - debugging)


def lookup_backend(compiler_fn: Any) -> Any:
    """The backend of a name."""
    from firesteel.backends.registry import lookup_backend as lookup

    from .compiling import our_backend

    return lookup(our_backend(compiler_fn) if isinstance(compiler_fn, str) else compiler_fn)


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """Give a backend a name."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    return _own("register_backend")(compiler_fn, name=name)


def set_default_backend(backend: Any) -> None:
    """What ``torch.compile`` uses when no backend is named."""
    lookup_backend(backend)  # an unknown one is refused here
    DEFAULT_BACKEND[0] = backend


def get_default_backend() -> Any:
    """What ``torch.compile`` uses when no backend is named."""
    return DEFAULT_BACKEND[0]


def set_stance(stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> Any:
    """Choose what compiled functions may do."""
    return _own("set_stance")(stance, skip_guard_eval_unsafe=skip_guard_eval_unsafe, force_backend=force_backend)


def substitute_in_graph(original_fn: Any, *, can_constant_fold_through: bool = False,
                        skip_signature_check: bool = False, **_internals: Any) -> Callable[[Any], Any]:
    """Follow the decorated function where a program calls another, which is usually written in C."""
    def decorate(traceable: Any) -> Any:
        from firesteel.capture.call_handlers import equivalent_of

        equivalent_of(original_fn)(traceable)

        @functools.wraps(traceable)
        def original(*args: Any, **kwargs: Any) -> Any:
            return original_fn(*args, **kwargs)

        return original

    return decorate


def wrap_numpy(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy arrays as one of tensors."""
    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        import numpy
        import torch

        from firesteel.torch_compat import pytrees as pytree

        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.numpy(), (args, kwargs))
        return pytree.tree_map_only(numpy.ndarray, torch.as_tensor, f(*args, **kwargs))

    return wrapped


def is_supported() -> bool:
    """Whether programs are compiled on this Python, torch and platform."""
    from firesteel.tested_versions import plainly_supported

    return plainly_supported()


def is_compile_supported(device_type: str) -> bool:
    """Whether programs are compiled for a kind of device."""
    from firesteel.devices import KINDS

    return is_supported() and device_type in KINDS


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """Which options each mode sets, in the names that torch's inductor has for them."""
    options: dict[str, dict[str, Any]] = {
        "default": {}, "lite": {},
        "reduce-overhead": {"triton.cudagraphs": True},
        "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
        "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
    }
    return dict(options[mode]) if mode else options


def nothing(*_args: Any, **_options: Any) -> None:
    """What has no meaning here and does no harm: the end of a step of recorded launches, which are told apart by their
    arguments."""
