"""``firesteel report script.py:f --args "torch.randn(3)"``: compiles a function and writes the page about that."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import firesteel
from firesteel.errors import BackendError, UserCodeError

from . import FAILED, OK, InputError, check_file
from .printing import show_error
from .targets import add_target, load_target

if TYPE_CHECKING:
    from . import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report", help="compile a function, call it, and write a page about it",
        description="Compile a function, call it a few times, and write a page that shows graphs, breaks, kernels and "
                    "what compiling took. For whole programs: firesteel run --report out.html script.py",
        epilog="""example: firesteel report models.py:forward --args "torch.randn(64, 64)" -o out.html""")
    add_target(parser)
    parser.add_argument("-o", "--output", default="report.html", metavar="FILE", help="the page (report.html)")
    parser.add_argument("--json", metavar="FILE", help="write the data of the page as JSON too")
    parser.add_argument("--trace", metavar="FILE", help="write the stages for chrome://tracing too")
    parser.add_argument("--calls", type=int, default=2, help="how often the function is called (2)")
    parser.add_argument("--measure", action="store_true", help="run each kernel for the CPU by itself, for its time")
    parser.add_argument("--passes", action="store_true", help="keep graphs as they are behind each pass")
    parser.add_argument("--mode", help='a mode of compile, such as "max-autotune"')
    parser.set_defaults(command=report)


def report(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.calls < 1:
        raise InputError(f"--calls {arguments.calls}: a number of at least 1")
    for file in filter(None, (arguments.output, arguments.json, arguments.trace)):
        check_file(file)
    target = load_target(arguments)
    try:
        compiled = firesteel.compile(target.function, mode=arguments.mode, tier="wait")
        with firesteel.recording(measure=arguments.measure, passes=arguments.passes) as recording:
            for _ in range(arguments.calls):
                compiled(*target.args, **target.kwargs)
    except (BackendError, UserCodeError) as error:
        raise InputError(str(error)) from None
    except Exception as error:
        show_error(error)
        return FAILED
    recording.save(arguments.output)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as written:
            written.write(recording.json())
    if arguments.trace:
        recording.chrome_trace(arguments.trace)
    print(recording.summary())
    print(f"The page is {arguments.output}")
    return OK
