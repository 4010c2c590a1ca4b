"""firesteel: a compiler for PyTorch programs.

>>> import torch, firesteel as fs
>>> @fs.compile
... def f(x):
...     return torch.relu(x) * 2
>>> f(torch.tensor([-1.0, 3.0]))
tensor([0., 6.])
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firesteel import config, errors, export
    from firesteel.backends import list_backends, register_backend
    from firesteel.compiling import compile
    from firesteel.compiling_flag import is_compiling
    from firesteel.control import (
        allow_in_graph,
        assume_constant_result,
        disable,
        disallow_in_graph,
        graph_break,
        reset,
        restore_torch,
        run,
    )
    from firesteel.control_flow import associative_scan, cond, map, scan, while_loop
    from firesteel.debug.explain import CompileProfiler, capture_graph, compile_times, explain
    from firesteel.debug.recording import recording, report
    from firesteel.logs import set_logs
    from firesteel.packed_cache import load_cache, save_cache
    from firesteel.repair.asking import bisect, repro
    from firesteel.repair.checking import check
    from firesteel.runtime.stance import set_stance
    from firesteel.shape_markers import mark_dynamic, mark_static, maybe_mark_dynamic
    from firesteel.unchanged.installing import install, installed, is_installed, uninstall
    from firesteel.version import __version__ as __version__


# Loaded when first used: `import firesteel` must stay cheap.
_LAZY = {
    name: module
    for module, names in {
        "firesteel.compiling": ["compile"],
        "firesteel.backends": ["list_backends", "register_backend"],
        "firesteel.control": ["allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "graph_break",
                              "reset", "restore_torch", "run"],
        "firesteel.compiling_flag": ["is_compiling"],
        "firesteel.control_flow": ["associative_scan", "cond", "map", "scan", "while_loop"],
        "firesteel.debug.explain": ["CompileProfiler", "capture_graph", "compile_times", "explain"],
        "firesteel.debug.recording": ["recording", "report"],
        "firesteel.logs": ["set_logs"],
        "firesteel.export": ["export"],
        "firesteel.packed_cache": ["load_cache", "save_cache"],
        "firesteel.repair.asking": ["bisect", "repro"],
        "firesteel.repair.checking": ["check"],
        "firesteel.runtime.stance": ["set_stance"],
        "firesteel.shape_markers": ["mark_dynamic", "mark_static", "maybe_mark_dynamic"],
        "firesteel.unchanged.installing": ["install", "installed", "is_installed", "uninstall"],
    }.items()
    for name in names
}

_MODULES = ("config", "errors")
"""Loaded when first used as well: a program that changes no setting has no need of them at first."""

__all__ = [
    "CompileProfiler", "allow_in_graph", "associative_scan", "assume_constant_result", "bisect", "capture_graph",
    "check", "compile", "compile_times", "cond", "config", "disable", "disallow_in_graph", "errors", "explain",
    "export", "graph_break", "install", "installed", "is_compiling", "is_installed", "list_backends", "load_cache",
    "map", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "recording", "register_backend", "report", "repro",
    "reset", "restore_torch", "run", "save_cache", "scan", "set_logs", "set_stance", "uninstall", "while_loop",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if name in _MODULES:
        __import__(f"firesteel.{name}")  # no frame of `importlib`'s, which warnings would name
        return globals()[name]
    if name == "__version__":
        from firesteel.version import __version__

        return __version__
    if module is None:
        raise AttributeError(f"module 'firesteel' has no attribute {name!r}")
    from firesteel.importing import imports_uncollected

    with imports_uncollected():
        if name == "compile":
            from firesteel.tested_versions import plainly_supported

            if plainly_supported():
                from firesteel.compiling import compile  # imports nothing of the compiler

                globals()[name] = compile
                return compile
        return _load(name, module)


def _load(name: str, module: str) -> Any:
    from firesteel import support
    from firesteel.interruptions import uninterrupted

    if name in support.STAND_INS and not support.verdict().compiles:
        return support.STAND_INS[name]
    try:
        with uninterrupted():  # a child that is forked in the middle of an import would wait for its end for ever
            imported = importlib.import_module(module)
    except Exception:
        support.require()  # where nothing is supported, that is the reason
        raise
    value = imported if name == "export" else getattr(imported, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})


if any(variable.startswith("FIRESTEEL_") for variable in os.environ):
    from firesteel import config as config  # noqa: F401  (which reads them)
    from firesteel import logs as _logs  # noqa: F401
