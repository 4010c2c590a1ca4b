"""``firesteel cache info|clear|pack|unpack``: what is kept on disk for the next run, here or on another machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from . import OK, InputError

if TYPE_CHECKING:
    from . import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "cache", help="show, clear, pack or unpack what is kept on disk for the next run",
        description="Show or clear what is kept on disk for the next run: compiled kernels, and which sizes of a "
                    "function's arguments vary. Pack it into one file, and take it from that on another machine.",
        epilog="FIRESTEEL_CACHE_DIR sets the directory, FIRESTEEL_DISK_CACHE=0 switches the cache off. Unpack files "
               "that you trust: they contain machine code.")
    parser.add_argument("action", choices=("info", "clear", "pack", "unpack"),
                        help="say what there is, remove it, write it into a file, take it from a file")
    parser.add_argument("file", nargs="?", help="for pack and unpack")
    parser.set_defaults(command=cache)


def cache(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from firesteel import disk_cache

    if (arguments.file is not None) != (arguments.action in ("pack", "unpack")):
        given = "needs a file" if arguments.file is None else "takes no file"
        raise InputError(f"cache {arguments.action} {given}: firesteel cache pack kernels.zip")
    if arguments.action == "info" or disk_cache.directory() is None:
        print(disk_cache.info())
    elif arguments.action == "clear":
        print(f"removed {_entries(disk_cache.clear())} from {disk_cache.directory()}")
    else:
        _carry(arguments.action, arguments.file)
    return OK


def _carry(action: str, file: str) -> None:
    from firesteel import disk_cache
    from firesteel.packed_cache import CacheFileError, load_cache, save_cache

    try:
        if action == "pack":
            print(f"packed {_entries(save_cache(file))} into {file}")
        else:
            print(f"unpacked {_entries(load_cache(file))} into {disk_cache.directory()}")
    except CacheFileError as error:
        raise InputError(error.reason) from None


def _entries(number: int) -> str:
    return f"{number} {'entry' if number == 1 else 'entries'}"
