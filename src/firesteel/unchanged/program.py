"""Runs another program in this process as ``python program.py`` would: its own ``__main__``, arguments and tracebacks.

torch is not imported before the program imports it, for a program may set variables that torch reads then. Firesteel is
installed the moment it does.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any

_ONLY_OURS = ("<frozen runpy>", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


class NoProgramError(Exception):
    """There is no such script or module; the message says so in a line."""


def run_script(path: str, arguments: Sequence[str]) -> int:
    """Run a file, a folder or archive with a ``__main__.py``, or for ``-`` what standard input has; returns the exit
    code. `SystemExit` passes through."""
    if path == "-":
        return _run_input(arguments)
    if not os.path.exists(path):
        raise NoProgramError(f"there is no file {path}")
    sys.argv[:] = [path, *arguments]
    packed = os.path.isdir(path) or not path.endswith((".py", ".pyw")) and _is_archive(path)
    _set_first_path(os.path.abspath(path) if packed else os.path.dirname(os.path.realpath(path)))
    main = _new_main()
    if packed:
        return _watched(lambda: _run_as_main("__main__", alter_argv=False))
    absolute = os.path.abspath(path)
    main.__file__ = absolute
    main.__loader__ = SourceFileLoader("__main__", absolute)
    vars(main)["__cached__"] = None

    def execute() -> None:
        with open(absolute, "rb") as file:
            source = file.read()
        exec(compile(source, absolute, "exec", dont_inherit=True), vars(main))

    return _watched(execute)


def _run_input(arguments: Sequence[str]) -> int:
    sys.argv[:] = ["-", *arguments]
    _set_first_path("")
    main = _new_main()
    main.__file__ = "<stdin>"

    def execute() -> None:
        exec(compile(sys.stdin.buffer.read(), "<stdin>", "exec", dont_inherit=True), vars(main))

    return _watched(execute)


def run_module(name: str, arguments: Sequence[str]) -> int:
    """Run a module or package as ``python -m name`` does; returns the exit code."""
    _set_first_path(os.getcwd())
    sys.argv[:] = ["-m", *arguments]
    try:
        there = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            return _watched(_raising(error))
        there = False
    except (ValueError, ImportError) as error:
        raise NoProgramError(f"{name} cannot be run as a module: {error}") from None
    if not there:
        raise NoProgramError(f"there is no module {name!r}")
    _new_main()
    return _watched(lambda: _run_as_main(name, alter_argv=True))


def _raising(error: BaseException) -> Callable[[], None]:
    def again() -> None:
        raise error

    return again


def _run_as_main(name: str, alter_argv: bool) -> None:
    import runpy

    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _is_archive(path: str) -> bool:
    import zipfile

    return zipfile.is_zipfile(path)


def _set_first_path(folder: str) -> None:
    """The folder of the program is where it looks first, in place of the one of the command that runs it."""
    if sys.flags.safe_path:
        return
    if sys.path:
        sys.path[0] = folder
    else:
        sys.path.append(folder)


_earlier: list[types.ModuleType] = []


def _new_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    vars(main).update({"__builtins__": __builtins__, "__annotations__": {}})
    _earlier.append(sys.modules["__main__"])  # its functions are still running
    sys.modules["__main__"] = main
    return main


def _watched(execute: Callable[[], None]) -> int:
    """Run the program. An error that leaves it is printed as Python prints it, without our frames."""
    try:
        execute()
    except SystemExit:
        raise
    except BaseException as error:
        shown = _of_the_program(error.__traceback__)
        error.__traceback__ = shown
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, shown
        sys.excepthook(type(error), error, shown)
        if isinstance(error, KeyboardInterrupt):
            sys.excepthook = lambda *_: None  # it was printed; Python itself ends the process by the signal
            raise
        return 1
    return 0


def _of_the_program(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback from the first frame of the program on."""
    own = os.path.dirname(os.path.abspath(__file__))
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith(own + os.sep) and file not in _ONLY_OURS:
            return traceback
        traceback = traceback.tb_next
    return None


# When the program imports torch


class _Watching:
    """A finder that finds nothing, and calls a function when torch has been imported."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        load = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            loader.exec_module = load
            load(module)
            self._then()

        loader.exec_module = exec_module
        return spec


def when_torch_is_imported(then: Callable[[], None]) -> None:
    """Call a function once torch is there: now, or when somebody imports it."""
    if "torch" in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Watching(then))  # type: ignore[arg-type]


# Processes that the program starts


class _InChild:
    """Goes to a process that ``multiprocessing`` starts, where unpickling it prepares that process as this one was."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def __reduce__(self) -> Any:
        # a child in which firesteel cannot be imported runs without it
        code = ("try:\n    from firesteel.unchanged.program import prepare\n"
                f"    prepare(**{self.options!r})\nexcept ImportError:\n    pass\n")
        return exec, (code,)


def prepare(*, export: bool = False, auto: bool = False) -> None:
    """Answer torch's names in this process, and in those that it starts through ``multiprocessing``."""
    def then() -> None:
        from .installing import install

        install(export=export)
        if auto:
            from .automatic import compile_modules_that_pay

            compile_modules_that_pay()

    when_torch_is_imported(then)
    _prepare_children({"export": export, "auto": auto})


def _prepare_children(options: dict[str, Any]) -> None:
    import multiprocessing.spawn as spawn

    usual = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        return {"firesteel": _InChild(options), **usual(name)}

    spawn.get_preparation_data = get_preparation_data
