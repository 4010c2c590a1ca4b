"""The command line: ``firesteel explain module:function --args "torch.randn(3), 2"`` and its other commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

import firesteel

from .commands import BAD_INPUT, FAILED, OK, STOPPED, InputError, add_all

__all__ = ["BAD_INPUT", "FAILED", "OK", "STOPPED", "InputError", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 when the program under the command raised, 2 for bad
    input, 130 when it was stopped by Ctrl-C."""
    parser = _parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        command = " ".join(sys.argv[1:2] if argv is None else argv[:1])
        parser.exit(BAD_INPUT, f"firesteel: unrecognized arguments: {' '.join(unknown)}; see firesteel {command} "
                               "--help\n")
    try:
        return arguments.command(arguments)
    except InputError as error:
        print(f"firesteel: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt as error:
        if getattr(arguments, "is_program", False):
            raise
        print("firesteel: stopped" + (f"; {error}" if str(error) else ""), file=sys.stderr)
        return STOPPED
    except SystemExit as error:
        if getattr(arguments, "is_program", False):
            raise
        print(f"firesteel: the program under the command ended itself: sys.exit({error.code!r})", file=sys.stderr)
        return FAILED


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with what was typed."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"firesteel: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="firesteel", description="A compiler for PyTorch programs.")
    parser.add_argument("--version", action="version", version=f"firesteel {firesteel.__version__}")
    add_all(parser.add_subparsers(required=True, metavar="command"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
