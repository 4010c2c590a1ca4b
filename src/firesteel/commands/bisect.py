"""``firesteel bisect script.py:f --args "..."``: the stage, and the operator or guard, at which f goes wrong."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from . import FAILED, OK, InputError
from .minify import check_limits
from .progress_line import ProgressLine
from .targets import add_target, load_target

if TYPE_CHECKING:
    from . import Commands

DYNAMIC = {"auto": "", "yes": ", dynamic=True", "no": ", dynamic=False"}


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bisect", help="find the stage of firesteel, and the operator or guard, at which a function goes wrong",
        description="Compare a function with eager PyTorch stage by stage: captured graph, functional graph, each "
                    "pass, each kernel, on the CPU and on the GPU where there is one. Then change what it reads, to "
                    "find guards that are missing. Floats are judged by a run in float64. The exit code is 1 where "
                    "something was found.",
        epilog="""example: firesteel bisect models.py:forward --args "torch.randn(64, 64)" """)
    add_target(parser)
    parser.add_argument("--dynamic", choices=tuple(DYNAMIC), default="auto",
                        help="sizes are symbols: those that change (auto), all (yes), none (no)")
    parser.add_argument("--no-guards", action="store_true", help="do not look for missing guards")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for everything (300)")
    parser.add_argument("--each", type=float, default=60.0, help="seconds after which a run hangs (60)")
    parser.add_argument("--out", help="the script to write; script.bisect.py if it is left out")
    parser.set_defaults(command=bisect)


def bisect(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from firesteel.errors import UserCodeError
    from firesteel.repair.bisect import bisect_script
    from firesteel.repair.session import ended_like_interrupts

    target = load_target(arguments)
    file = getattr(target.module, "__file__", None)
    if file is None or not file.endswith(".py"):
        raise InputError(f"{arguments.target} has no Python file")
    check_limits(arguments)
    name = arguments.target.rpartition(":")[2]
    out = arguments.out or f"{os.path.splitext(os.path.basename(file))[0]}.bisect.py"
    line = ProgressLine(sys.stderr, arguments.limit)
    try:
        with ended_like_interrupts():
            result = bisect_script(file, name, arguments.args, DYNAMIC[arguments.dynamic], limit=arguments.limit,
                                   each=arguments.each, out=out, guards=not arguments.no_guards, progress=line,
                                   loaded=target.module)
    except UserCodeError as error:
        raise InputError(error.reason + (f"; {error.hint}" if error.hint else "")) from None
    finally:
        line.end()
    print(result)
    return OK if result.failure is None else FAILED
