"""What commands work on: ``module:function`` or ``path/to/file.py:function``, and the arguments of a call as text."""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import inspect
import os
import sys
from dataclasses import dataclass
from typing import Any

from ..errors import with_article
from . import InputError


@dataclass(frozen=True)
class NamedFunction:
    """A function of the user's, and what it is to be called with."""

    text: str
    module: Any
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def add_target(parser: argparse.ArgumentParser) -> None:
    """Give a command the arguments that name a function and a call of it."""
    parser.add_argument("target", help="module:function, or path/to/file.py:function; dots reach into objects")
    parser.add_argument("--args", default="", metavar="EXPR",
                        help="arguments of the call as Python, evaluated in the module with torch imported")


def load_target(arguments: argparse.Namespace) -> NamedFunction:
    """The function that was named and the arguments that were given; `InputError` where they do not fit."""
    module, function = load(arguments.target)
    args, kwargs = evaluate(arguments.args, module)
    check_call(function, arguments.target, args, kwargs)
    return NamedFunction(arguments.target, module, function, args, kwargs)


def load(target: str) -> tuple[Any, Any]:
    """The module and the function of ``module:function``."""
    where, colon, name = target.rpartition(":")
    if not colon or not where or not name:
        raise InputError(f"{target!r} is not of the form module:function")
    sys.path.insert(0, os.getcwd())
    before, sys.argv = sys.argv, [where]  # a script that reads options when it is imported is not to read ours
    try:
        module = _load_file(where) if where.endswith(".py") else importlib.import_module(where)
    except InputError:
        raise
    except SystemExit as error:
        raise InputError(f"importing {where} ends the program (sys.exit({error.code!r})); put what does so behind "
                         'if __name__ == "__main__"') from None
    except ModuleNotFoundError as error:
        if error.name is None or not (where == error.name or where.startswith(error.name + ".")):
            raise InputError(f"importing {where} failed: {error}") from error
        raise InputError(f"there is no module {error.name!r}") from None
    except Exception as error:
        raise InputError(f"importing {where} failed: {type(error).__name__}: {error}") from error
    finally:
        sys.argv = before
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


def evaluate(text: str, module: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments that a piece of Python stands for."""
    import torch

    def collect(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, kwargs

    try:
        return eval(f"_firesteel_collect({text}\n)", {**vars(module), "torch": torch, "_firesteel_collect": collect})
    except Exception as error:
        raise InputError(f"--args {text!r} cannot be evaluated: {type(error).__name__}: {error}") from None


def check_call(function: Any, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse what cannot be called, and arguments that do not fit its parameters."""
    if not callable(function):
        raise InputError(f"{target} is {with_article(type(function).__name__)} and cannot be called")
    called = function.forward if hasattr(function, "forward") and not inspect.isclass(function) else function
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return  # C functions without a signature; the call itself will tell
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"{target}{signature} {error}; give the arguments with --args") from None
