"""``firesteel run script.py args…``, ``firesteel run -m module args…``: an unchanged program, compiled by firesteel."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from . import InputError, check_file

if TYPE_CHECKING:
    from . import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "run", help="run an unchanged program with torch.compile answered by firesteel",
        usage="firesteel run [options] (-m module | script.py) [arguments of the program ...]",
        description="Run a program as python would, with torch.compile, torch.compiler and torch._dynamo answered by "
                    "firesteel. Torch's own compiler is not imported. The exit code is the program's.",
        epilog="options of firesteel stand before the script, everything after it belongs to the script")
    parser.add_argument("--auto", action="store_true",
                        help="also compile modules that nobody asked to compile, where that measures faster")
    parser.add_argument("--export", action="store_true", help="answer torch.export.export too")
    parser.add_argument("--summary", action="store_true", help="say at the end, on stderr, what was compiled")
    parser.add_argument("--report", metavar="FILE", help="write a page about everything that was compiled")
    parser.add_argument("--json", metavar="FILE", help="write the data of that page as JSON")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="module",
                        help="run a module or package, as python -m does")
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(command=run, is_program=True)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from firesteel.unchanged import program

    is_module = arguments.module is not None
    words = arguments.module if is_module else arguments.program
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise InputError("run needs a script, or -m and a module: firesteel run train.py --epochs 3")
    if not is_module and words[0].startswith("-") and words[0] != "-":
        raise InputError(f"run knows no option {words[0]}; options of the program stand after it")
    for file in (arguments.report, arguments.json):
        if file is not None:
            check_file(file)
    # the program may change the folder
    written = {kind: os.path.abspath(file) for kind, file in (("page", arguments.report), ("json", arguments.json))
               if file is not None}
    process = os.getpid()
    program.prepare(export=arguments.export, auto=arguments.auto)
    recordings: list[Any] = []
    if written:
        program.when_torch_is_imported(lambda: recordings.append(_start_recording()))
    try:
        return (program.run_module if is_module else program.run_script)(words[0], words[1:])
    except program.NoProgramError as error:
        raise InputError(str(error)) from None
    finally:
        if os.getpid() == process:  # a child that the program has forked comes by here too
            if recordings:
                _write(recordings[0], written)
            elif written:
                files = " and ".join(file for file in (arguments.report, arguments.json) if file is not None)
                print(f"firesteel: the program did not import torch: nothing is written to {files}", file=sys.stderr)
            if arguments.summary and (recordings or not written):
                _summarise(recordings)


def _start_recording() -> Any:
    from firesteel.debug.recording import recording

    return recording().start()


def _write(recording: Any, written: dict[str, str]) -> None:
    """Write what was asked for; the program has ended, and its exit code is not to change."""
    try:
        recording.stop()
        if "page" in written:
            recording.save(written["page"])
        if "json" in written:
            with open(written["json"], "w", encoding="utf-8") as file:
                file.write(recording.json())
    except Exception as error:
        print(f"firesteel: the report was not written: {type(error).__name__}: {error}", file=sys.stderr)


def _summarise(recordings: list[Any]) -> None:
    if "torch" not in sys.modules:
        print("firesteel: the program did not import torch", file=sys.stderr)
        return
    import firesteel

    print(recordings[0].summary() if recordings else f"firesteel: {firesteel.compile_times()}", file=sys.stderr)
    automatic = sys.modules.get("firesteel.unchanged.automatic")
    for line in automatic.outcome() if automatic is not None else []:
        print(f"firesteel --auto: {line}", file=sys.stderr)
