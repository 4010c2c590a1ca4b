"""Which names of torch's are answered while firesteel is installed, and how that is undone.

Functions that programs may hold already get another body. ``torch._dynamo`` and ``torch._inductor`` are modules that
stand in for torch's, if those are not loaded; where they are, functions in them are replaced.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from firesteel.torch_compat import patches
from firesteel.torch_compat.stand_ins import Package, loaded_module, replace_body

from . import answers, compiling

COMPILE = "torch.compile"
DYNAMO = "torch._dynamo"
INDUCTOR = "torch._inductor"
EXPORT = "torch.export.export"
AUTOMATIC = "nn.Module._compiled_call_impl"
TITLES = (COMPILE, DYNAMO, INDUCTOR, EXPORT, AUTOMATIC)
"""What is changed here, as `patches.applied` and the docs name it."""

_MARKERS = ("graph_break", "skip_frame", "mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_static_address",
            "mark_unbacked", "allow_in_graph", "disallow_in_graph", "forbid_in_graph", "assume_constant_result",
            "nonstrict_trace", "dont_skip_tracing", "disable", "run", "set_stance", "substitute_in_graph")
_BACKENDS = ("list_backends", "lookup_backend", "register_backend")


def install(*, export: bool = False) -> None:
    """Answer ``torch.compile``, ``torch.compiler``, ``torch._dynamo`` and ``Module.compile`` by firesteel from now on,
    and ``export``, ``save`` and ``load`` of ``torch.export`` if `export` is true; nothing of torch's own compiler is
    imported for that.

    ``backend="inductor"`` means firesteel's native backend. What programs hold already, such as ``from torch import
    compile``, is answered as well. `uninstall` undoes it. Does nothing where it is installed.

    >>> import torch
    >>> install()
    >>> twice = torch.compile(lambda x: x * 2, backend="inductor", dynamic=True)
    >>> twice(torch.ones(2))
    tensor([2., 2.])
    >>> uninstall()
    """
    import torch

    if not is_installed():
        _answer_compile(torch)
        _answer_dynamo()
        _answer_inductor()
    if export and EXPORT not in patches.applied():
        from firesteel.export import export as own_export

        from . import exported

        place: Any = sys.modules["torch.export"]
        for name, answer in (("export", own_export), ("save", exported.saving(place.save)), ("load", exported.load)):
            patches.set_attribute(EXPORT, place, name, answer)


def uninstall() -> None:
    """Undo `install`: torch's names mean torch's own compiler again. What was compiled stays what it is. Does nothing
    where firesteel is not installed.

    >>> import firesteel as fs
    >>> fs.install()
    >>> fs.uninstall()
    >>> fs.is_installed()
    False
    """
    patches.restore(TITLES)
    compiling.DEFAULT_BACKEND[0] = "inductor"


@contextmanager
def installed(*, export: bool = False) -> Iterator[None]:
    """Inside of the block, torch's names are answered by firesteel; see `install`. What was compiled in it stays
    compiled by firesteel.

    >>> import torch
    >>> with installed():
    ...     f = torch.compile(lambda x: x * 2 + 1)
    >>> f(torch.ones(2))
    tensor([3., 3.])
    """
    before = is_installed()
    install(export=export)
    try:
        yield
    finally:
        if not before:
            uninstall()


def is_installed() -> bool:
    """Whether torch's names are answered by firesteel now.

    >>> import firesteel as fs
    >>> with fs.installed():
    ...     inside = fs.is_installed()
    >>> inside, fs.is_installed()
    (True, False)
    """
    return COMPILE in patches.applied()


def _answer_compile(torch: Any) -> None:
    function = vars(torch)["compile"]
    if type(function) is types.FunctionType and function.__module__ == "torch" and not function.__code__.co_freevars:
        replace_body(COMPILE, function, compiling.__name__, "torch_compile")
    else:  # somebody has put another there
        patches.set_attribute(COMPILE, torch, "compile", compiling.torch_compile)


def _dynamo_names() -> dict[str, dict[str, Any]]:
    """The modules of ``torch._dynamo`` that programs use, and their names."""
    from firesteel import errors
    from firesteel.compiling_flag import is_compiling

    from .optimized_module import OptimizedModule

    markers = {name: getattr(answers, name) for name in _MARKERS}
    backends = {name: getattr(answers, name) for name in _BACKENDS}
    frames = {"OptimizedModule": OptimizedModule, "optimize": compiling.optimize,
              "optimize_assert": compiling.optimize_assert, "explain": answers.explain, "export": answers.export,
              "is_dynamo_supported": answers.is_supported, "is_inductor_supported": answers.is_supported}
    errors_of_torch = {
        "TorchDynamoException": errors.FiresteelError, "InternalTorchDynamoError": errors.InternalError,
        "Unsupported": errors.GraphBreakError, "BackendCompilerFailed": errors.BackendError,
        "UserError": errors.UserCodeError, "FailOnRecompileLimitHit": errors.RecompileLimitError,
        "RecompileError": errors.RecompileError, "RecompileLimitExceeded": errors.RecompileLimitError,
        "InvalidBackend": errors.BackendError}
    package = {**markers, **backends, **frames, "reset": answers.reset, "reset_code_caches": answers.reset,
               "is_compiling": is_compiling, "set_recursion_limit": answers.nothing}
    return {
        DYNAMO: package,
        f"{DYNAMO}.decorators": dict(markers),
        f"{DYNAMO}.eval_frame": {**frames, "reset_code": answers.nothing},
        f"{DYNAMO}.exc": errors_of_torch,
        f"{DYNAMO}.external_utils": {"is_compiling": is_compiling, "wrap_numpy": answers.wrap_numpy},
        f"{DYNAMO}.utils": {"is_compile_supported": answers.is_compile_supported},
        f"{DYNAMO}.trace_rules": {"clear_lru_cache": answers.nothing},  # init_process_group calls it
        f"{DYNAMO}.backends": {},
        f"{DYNAMO}.backends.registry": {**backends, "set_default_backend": answers.set_default_backend,
                                        "get_default_backend": answers.get_default_backend},
    }


def _answer_dynamo() -> None:
    if loaded_module(DYNAMO) is not None:
        _answer_real_dynamo()
        return
    Package(DYNAMO, _dynamo_names(), ["config", "_trace_wrapped_higher_order_op"],
            _answer_real_dynamo).put_in_place(DYNAMO)


def _answer_real_dynamo() -> None:
    """Replace functions in torch's own package, for programs that have loaded it, or need more of it."""
    names = _dynamo_names()
    # what torch's compiler calls itself stays as it is: only what programs reach is replaced
    for module in (DYNAMO, f"{DYNAMO}.backends.registry"):
        real = loaded_module(module)
        for name, value in names[module].items():
            if real is not None and hasattr(real, name):
                patches.set_attribute(DYNAMO, real, name, value)


def _answer_inductor() -> None:
    if loaded_module(INDUCTOR) is not None:
        return
    trees = {name: answers.nothing for name in ("mark_step_begin", "reset_cudagraph_trees")}
    names = {"list_mode_options": answers.list_mode_options, "cudagraph_mark_step_begin": answers.nothing}
    Package(INDUCTOR, {INDUCTOR: names, f"{INDUCTOR}.cudagraph_trees": trees}, ["config", "custom_graph_pass"],
            _nothing_to_answer).put_in_place(INDUCTOR)


def _nothing_to_answer() -> None:
    """``torch._inductor`` is not spoken to by programs except for its settings."""
