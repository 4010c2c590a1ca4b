"""``torch.compile`` as firesteel answers it: the arguments of every supported torch, in our words."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from firesteel.compiling import compile as fs_compile
from firesteel.errors import BackendError, UserCodeError, warn

if TYPE_CHECKING:
    import torch

TORCH_BACKENDS = {"inductor": "native", "eager": "eager", "aot_eager": "aot_eager", "firesteel": "native",
                  "aot_eager_decomp_partition": "aot_eager", "eager_noexcept": "eager", "pre_dispatch_eager": "eager",
                  "cudagraphs": "native"}
"""Backends of torch's and what they are here."""
MEANINGLESS = frozenset({"aot_torchxla_trace_once", "openxla", "openxla_eval", "onnxrt", "tvm", "tensorrt", "ts",
                         "aot_ts", "ipex", "hpu_backend", "neuron"})
"""Backends that hand graphs to another compiler, which are there if their package is installed."""
OPTIONS = {"max_autotune": "max_autotune", "triton.cudagraphs": "cuda_graphs", "freezing": "freeze",
           "activation_memory_budget": "memory_budget"}
"""Options of torch's inductor and the ones here that mean the same."""
DEFAULT_BACKEND: list[Any] = ["inductor"]
"""What ``torch.compiler.set_default_backend`` said last."""

_ignored: set[str] = set()


def torch_compile(model: Any = None, *, backend: Any = None, options: Mapping[str, Any] | None = None,
                  mode: str | None = None, disable: bool = False, isolate_recompiles: bool = False,
                  **given: Any) -> Any:
    """``torch.compile``: a module becomes an `OptimizedModule`, everything else what `firesteel.compile` makes of it.

    Each call has compiled versions of its own and takes over those of others that fit, which is what
    `isolate_recompiles` asks for and does no harm where it does not.
    """
    how = _translated(DEFAULT_BACKEND[0] if backend is None else backend, mode, options, given)

    def apply(target: Any) -> Any:
        if target is None:
            raise UserCodeError("torch.compile got None", "pass a function, method or nn.Module")
        return target if disable else compile_one(target, how)

    return apply if model is None else apply(model)


def compile_one(target: Any, how: dict[str, Any]) -> Any:
    """Compile under options that have been translated; a module is wrapped as torch wraps it."""
    import torch

    if isinstance(target, type):
        return _with_compiled_calls(target, how)
    if not isinstance(target, torch.nn.Module):
        return fs_compile(target, **how)
    from .optimized_module import OptimizedModule

    if isinstance(target, OptimizedModule):
        target = target._orig_mod
    twin = fs_compile(target, **how)
    return target if twin is target else OptimizedModule(target, how, twin)


def _with_compiled_calls(kind: type, how: dict[str, Any]) -> type:
    """A class that somebody has decorated: calls of its objects are compiled, and it stays the same class."""
    call = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    if isinstance(call, types.FunctionType):
        kind.__call__ = fs_compile(call, **how)  # type: ignore[method-assign]
    return kind


def _translated(backend: Any, mode: Any, options: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `firesteel.compile` that say the same."""
    asked = backend
    how = {name: value for name, value in given.items() if value is not None and value is not False}
    if "dynamic" in given:
        how["dynamic"] = given["dynamic"]
    guards = isinstance(options, Mapping) and "guard_filter_fn" in options
    if guards:
        options = {name: value for name, value in options.items() if name != "guard_filter_fn"} or None
        _say_once("options={'guard_filter_fn': ...} is ignored: firesteel leaves no guard out")
    if isinstance(backend, str):
        backend = our_backend(backend)
        if asked == "cudagraphs" and mode is None and options is None:
            mode = "reduce-overhead"
    if isinstance(options, Mapping) and backend == "native":
        options = _own_options(options)
    if mode is not None:
        how["mode"] = mode
    if options is not None:
        how["options"] = dict(options)
    if backend != "native":  # to name the default one would ask for a compilation in the first call
        how["backend"] = backend
    return how


def our_backend(name: str) -> Any:
    """The backend to use for a name of torch's: one of ours, or what an installed package offers to torch."""
    if name in TORCH_BACKENDS:
        return TORCH_BACKENDS[name]
    from firesteel.backends.registry import list_backends

    if name in list_backends():
        return name
    from importlib.metadata import entry_points

    for point in entry_points(group="torch_dynamo_backends"):
        if point.name == name:
            return point.load()
    if name in MEANINGLESS:
        raise BackendError(name, "it belongs to torch's own compiler and another package, and means nothing here",
                           "leave backend= out, or run this program without firesteel")
    return name  # the error that names all backends


def _own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of ours among those of torch's inductor, which has several hundred about itself."""
    from dataclasses import fields

    from firesteel.kernels.options import Options

    known = {field.name for field in fields(Options)}
    kept: dict[str, Any] = {}
    for name, value in options.items():
        ours = OPTIONS.get(name.replace("-", "_"), name)
        if ours in known:
            kept[ours] = value
        else:
            _say_once(f"options={{{name!r}: ...}} is about torch's inductor and is ignored by firesteel")
    return kept


def _say_once(sentence: str) -> None:
    if sentence not in _ignored:
        _ignored.add(sentence)
        warn(sentence)


def optimize(backend: Any = "inductor", *, nopython: bool = False, disable: bool = False, dynamic: bool | None = None,
             **_internals: Any) -> Callable[[Any], Any]:
    """``torch._dynamo.optimize(backend)(f)``: the older way to write ``torch.compile(f, backend=backend)``."""
    return torch_compile(None, backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic)


def rebuild(module: torch.nn.Module, how: dict[str, Any]) -> Any:
    """What a pickled or copied `OptimizedModule` is made from."""
    return compile_one(module, how)


optimize_assert = functools.partial(optimize, nopython=True)
