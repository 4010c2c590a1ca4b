"""``firesteel cache info|clear``: what is kept on disk for the next run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from . import OK

if TYPE_CHECKING:
    from . import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "cache", help="show or clear what is kept on disk for the next run",
        description="Show or clear what is kept on disk for the next run: which sizes of a function's arguments vary.",
        epilog="FIRESTEEL_CACHE_DIR sets the directory, FIRESTEEL_DISK_CACHE=0 switches the cache off")
    parser.add_argument("action", choices=("info", "clear"), help="say what there is, or remove it")
    parser.set_defaults(command=cache)


def cache(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from firesteel import disk_cache

    if arguments.action == "info" or disk_cache.directory() is None:
        print(disk_cache.info())
    else:
        removed = disk_cache.clear()
        print(f"removed {removed} {'entry' if removed == 1 else 'entries'} from {disk_cache.directory()}")
    return OK
