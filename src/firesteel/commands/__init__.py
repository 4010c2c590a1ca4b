"""The commands of the command line, one file a command.

A file of this folder is a command when it has a function ``add(commands)``, which adds a parser with
``commands.add_parser(...)`` and says with ``parser.set_defaults(command=...)`` what gets the parsed arguments:
a function that returns an exit code. Wrong input is an `InputError`: one line, and exit code 2. All files are imported
for every command, so what takes long is imported inside of functions.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
from typing import TYPE_CHECKING, Any

from firesteel.systems import why_unwritable

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

OK, FAILED, BAD_INPUT, STOPPED = 0, 1, 2, 130
"""Exit codes: done, the program under the command raised, wrong input, stopped by Ctrl-C."""


class InputError(Exception):
    """What the user typed cannot be used; the message says why."""


def check_file(path: str) -> None:
    """Refuse a file that cannot be written, before anything is done."""
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise InputError(f"there is no folder for {path}")
    problem = why_unwritable(path)
    if problem is not None:
        raise InputError(problem)


def add_all(commands: Any) -> None:
    """Add the commands of all files of this folder."""
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        if hasattr(module, "add"):
            module.add(commands)
