"""The command line: ``firesteel explain module:function --args "torch.randn(3), 2"`` and ``firesteel cache``."""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Sequence
from typing import Any

import firesteel
from firesteel.errors import FiresteelError, UserCodeError

OK, FAILED, BAD_INPUT = 0, 1, 2


class InputError(Exception):
    """What the user typed cannot be used; the message says why."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 when the program under the command raised, 2 for bad input."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        return arguments.command(arguments)
    except InputError as error:
        print(f"firesteel: {error}", file=sys.stderr)
        return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="firesteel", description="A compiler for PyTorch programs.")
    parser.add_argument("--version", action="version", version=f"firesteel {firesteel.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    explain = commands.add_parser(
        "explain", help="run a function once and say what was captured, where it broke, and why",
        description="Run a function once under the compiler and say what was captured, where it broke, and why.",
        epilog="""example: firesteel explain models.py:forward --args "torch.randn(3), 2" """)
    explain.add_argument("target", help="module:function, or path/to/file.py:function; dots reach into objects")
    explain.add_argument("--args", default="", metavar="EXPR",
                         help="arguments of the call as Python, evaluated in the module with torch imported")
    explain.add_argument("--graphs", action="store_true", help="print each captured graph as code")
    explain.add_argument("--guards", action="store_true", help="print what the captured code relies on")
    explain.set_defaults(command=_explain)
    cache = commands.add_parser(
        "cache", help="show or clear what is kept on disk for the next run",
        description="Show or clear what is kept on disk for the next run: which sizes of a function's arguments vary.",
        epilog="FIRESTEEL_CACHE_DIR sets the directory, FIRESTEEL_DISK_CACHE=0 switches the cache off")
    cache.add_argument("action", choices=("info", "clear"), help="say what there is, or remove it")
    cache.set_defaults(command=_cache)
    return parser


def _explain(arguments: argparse.Namespace) -> int:
    module, function = _load(arguments.target)
    args, kwargs = _arguments(arguments.args, module)
    _check_call(function, arguments.target, args, kwargs)
    try:
        explanation = firesteel.explain(function)(*args, **kwargs)
    except UserCodeError as error:
        raise InputError(str(error)) from None
    except Exception as error:
        _show_error(error)
        return FAILED
    _show(explanation)
    if arguments.graphs:
        for number, graph in enumerate(explanation.graphs, 1):
            print(f"\ngraph {number}:{graph.code}", end="")
    if arguments.guards:
        print("\nguards:")
        for guard in explanation.guards:
            print(f"  {guard}")
    return OK


def _cache(arguments: argparse.Namespace) -> int:
    from firesteel import disk_cache

    if arguments.action == "info" or disk_cache.directory() is None:
        print(disk_cache.info())
    else:
        removed = disk_cache.clear()
        print(f"removed {removed} {'entry' if removed == 1 else 'entries'} from {disk_cache.directory()}")
    return OK


def _load(target: str) -> tuple[Any, Any]:
    """The module and the function of ``module:function``."""
    where, colon, name = target.rpartition(":")
    if not colon or not where or not name:
        raise InputError(f"{target!r} is not of the form module:function")
    sys.path.insert(0, os.getcwd())
    try:
        module = _load_file(where) if where.endswith(".py") else importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is None or not (where == error.name or where.startswith(error.name + ".")):
            raise InputError(f"importing {where} failed: {error}") from error
        raise InputError(f"there is no module {error.name!r}") from None
    except Exception as error:
        raise InputError(f"importing {where} failed: {type(error).__name__}: {error}") from error
    try:
        return module, functools.reduce(getattr, name.split("."), module)
    except AttributeError as error:
        raise InputError(f"{where} has no {name}: {error}") from None


def _load_file(path: str) -> Any:
    if not os.path.exists(path):
        raise InputError(f"there is no file {path}")
    name = os.path.basename(path)[: -len(".py")]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _arguments(text: str, module: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments that a piece of Python stands for."""
    import torch

    def collect(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, kwargs

    try:
        return eval(f"_firesteel_collect({text}\n)", {**vars(module), "torch": torch, "_firesteel_collect": collect})
    except Exception as error:
        raise InputError(f"--args {text!r} cannot be evaluated: {type(error).__name__}: {error}") from None


def _check_call(function: Any, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not callable(function):
        raise InputError(f"{target} is a {type(function).__name__} and cannot be called")
    called = function.forward if hasattr(function, "forward") and not inspect.isclass(function) else function
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return  # C functions without a signature; the call itself will tell
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"{target}{signature} {error}; give the arguments with --args") from None


def _show(explanation: Any) -> None:
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(explanation)
    else:
        print(explanation)


def _show_error(error: Exception) -> None:
    import traceback

    if isinstance(error, FiresteelError):
        print(f"firesteel: {error}", file=sys.stderr)
    else:
        traceback.print_exception(error)


if __name__ == "__main__":
    sys.exit(main())
