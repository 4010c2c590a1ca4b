"""Entries of the cache as bytes: the same on disk, in packed files and in remote stores, checked before they are used.

An entry says which format it has, which firesteel and which kind of machine it was made by, and has a checksum of that,
of its name and of its data. With `config.cache_secret` the checksum is a signature (HMAC), and entries without one that
is right are refused: a checksum finds what was damaged, a signature also what somebody else has written.

>>> content = sealed("plan", "0" * 40, b"data")
>>> opened("plan", "0" * 40, content)
b'data'
>>> opened("plan", "1" * 40, content)
Traceback (most recent call last):
    ...
firesteel.cache_entries.Refused: it is damaged, or the entry of another key
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import platform
import struct

from . import config
from .version import __version__

PORTABLE = frozenset({"learned", "gpu_kernel"})
"""Kinds of entries that do not depend on the CPU of the machine that made them."""

_MAGIC = b"firesteel\0"
_FORMAT = 2
_HEADER = struct.Struct("<10sHHHQ32s")  # magic, format, whether it is signed, lengths of maker and data, checksum


class Refused(Exception):
    """An entry that is not used; the message says why."""


@functools.cache
def machine() -> str:
    """The CPU of this machine and all that it can do, as LLVM tells it: machine code is made for exactly that."""
    try:
        import llvmlite.binding as llvm

        return f"{platform.machine()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    except (ImportError, OSError, RuntimeError):
        return f"{platform.machine()} unknown"


def maker(kind: str) -> str:
    """Who entries of a kind must have been made by to be used here: this version, for this machine."""
    return f"firesteel {__version__}" if kind in PORTABLE else f"firesteel {__version__} on {_machine_in_short()}"


@functools.cache
def _machine_in_short() -> str:
    *name, features = machine().split(" ", 2)
    return f"{' '.join(name)} {hashlib.sha256(features.encode()).hexdigest()[:12]}"


def sealed(kind: str, key: str, data: bytes) -> bytes:
    """An entry."""
    made_by = maker(kind).encode()
    secret = config.cache_secret
    check = checksum(secret, f"{kind} {key} ".encode(), made_by, data)
    return b"".join((_HEADER.pack(_MAGIC, _FORMAT, bool(secret), len(made_by), len(data), check), made_by, data))


def opened(kind: str, key: str, content: bytes) -> bytes:
    """The data of the entry of that name. Raises `Refused` for anything else."""
    if len(content) < _HEADER.size:
        raise Refused("it is damaged or not an entry")
    magic, version, signed, maker_length, length, check = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise Refused("it is damaged or not an entry")
    if version != _FORMAT:
        raise Refused(f"it has format {version}, and this version reads {_FORMAT}")
    if len(content) != _HEADER.size + maker_length + length:
        raise Refused("it is damaged: its length is wrong")
    secret = config.cache_secret
    if bool(signed) != bool(secret):
        raise Refused("it is not signed" if secret else "it is signed, and config.cache_secret is not set")
    made_by = content[_HEADER.size:_HEADER.size + maker_length]
    data = content[_HEADER.size + maker_length:]
    # The name is part of it: an entry that was moved to another key is not that key's entry.
    if not hmac.compare_digest(check, checksum(secret, f"{kind} {key} ".encode(), made_by, data)):
        raise Refused("its signature is wrong" if secret else "it is damaged, or the entry of another key")
    if made_by != maker(kind).encode():
        raise Refused(f"it was made by {made_by.decode(errors='replace')}")
    return data


def checksum(secret: str, *parts: bytes) -> bytes:
    """32 bytes that tell whether these parts are the ones that were written; with a secret, by whom."""
    state = hmac.new(secret.encode(), digestmod=hashlib.sha256) if secret else hashlib.sha256()
    for part in parts:
        state.update(b"%d " % len(part))
        state.update(part)
    return state.digest()
