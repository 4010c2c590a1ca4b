"""``firesteel minify script.py``: the smallest script that fails in the same way, with the stage and the operator."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from . import FAILED, OK, InputError, check_file
from .progress_line import ProgressLine

if TYPE_CHECKING:
    from . import Commands

LEVELS = ("source", "capture", "autodiff", "kernels")


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "minify", help="make a script that fails inside of firesteel small, and name the stage and the operator",
        description="Make a script that fails inside of firesteel small: crashes, hangs and, where it calls fs.check, "
                    "wrong results too. FIRESTEEL_REPRO=1 writes such scripts. Every attempt runs in a process of its "
                    "own.")
    parser.add_argument("script", help="a Python file")
    parser.add_argument("--after", choices=LEVELS, help="what to make small: the program (source), a captured graph "
                        "(capture), a functional graph (autodiff), the operators of a kernel (kernels)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for everything (300)")
    parser.add_argument("--each", type=float, default=60.0, help="seconds after which a run hangs (60)")
    parser.add_argument("--out", help="the file to write; script.min.py if it is left out")
    parser.set_defaults(command=minify)


def minify(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from firesteel.errors import UserCodeError
    from firesteel.repair.minify import minify as make_small
    from firesteel.repair.minify import summary
    from firesteel.repair.session import ended_like_interrupts

    if not os.path.isfile(arguments.script):
        raise InputError(f"there is no file {arguments.script}")
    check_limits(arguments)
    line = ProgressLine(sys.stderr, arguments.limit)
    try:
        with ended_like_interrupts():
            result = make_small(arguments.script, arguments.after, limit=arguments.limit, each=arguments.each,
                                out=arguments.out, progress=line)
    except UserCodeError as error:
        raise InputError(error.reason + (f"; {error.hint}" if error.hint else "")) from None
    except SyntaxError as error:
        raise InputError(f"{arguments.script} is no Python: {error}") from None
    finally:
        line.end()
    print(summary(result))
    return OK if result.confirmed else FAILED


def check_limits(arguments: argparse.Namespace) -> None:
    """Refuse times that make no sense."""
    for name in ("limit", "each"):
        if not 0 < getattr(arguments, name) <= 86400:
            raise InputError(f"--{name} {getattr(arguments, name):g}: a number of seconds above 0")
    if arguments.out:
        check_file(arguments.out)
