"""All that one machine compiled as one file, for other machines of the same kind.

The file begins with a line of JSON that says who wrote it, then come the entries, each with its name and length in a
line before it, and at the end a checksum of all of that; with `config.cache_secret` it is a signature. A file is taken
as a whole or not at all: one that is damaged, was written by another version or for another CPU, or says anything that
`save_cache` does not write, is refused with a `CacheFileError`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

import torch

from . import cache_entries, config, disk_cache
from .errors import FiresteelError
from .version import __version__

_MAGIC = b"firesteel cache 2\n"
_EARLIER = b"PK"  # files of versions before were archives
_LONGEST_LINE = 1 << 16
_CHECK = 32


class CacheFileError(FiresteelError, ValueError):
    """A file is no packed cache that can be used here, or cannot be written.

    >>> import firesteel as fs
    >>> with fs.config.patch(disk_cache=True, cache_dir="/tmp/firesteel-example"):
    ...     fs.load_cache("/nowhere/kernels.cache")
    Traceback (most recent call last):
        ...
    firesteel.packed_cache.CacheFileError: This packed cache cannot be used.
      Why: /nowhere/kernels.cache: No such file or directory
      What to do: Make it again with firesteel cache pack, with the same versions on a machine of the same kind.
    """

    headline = "This packed cache cannot be used."
    default_hint = "Make it again with firesteel cache pack, with the same versions on a machine of the same kind."


def save_cache(path: str | os.PathLike[str]) -> int:
    """Write what has been compiled into one file: kernels, plans, what was learned about sizes, what was measured.

    It holds what the cache directory has for this machine and this version. Returns how many entries that is. What
    this process makes later is not in it.

    >>> import tempfile, firesteel as fs
    >>> with tempfile.TemporaryDirectory() as folder, fs.config.patch(cache_dir=folder + "/cache", disk_cache=True):
    ...     fs.save_cache(folder + "/kernels.cache"), fs.load_cache(folder + "/kernels.cache")
    (0, 0)
    """
    path = os.fspath(path)
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    count = 0
    try:
        with open(temporary, "xb") as file:
            check = _new_check()
            head = json.dumps({**_maker(), "signed": bool(config.cache_secret)}).encode() + b"\n"
            _write(file, check, _MAGIC, head)
            for kind, key, data in _entries():
                content = cache_entries.sealed(kind, key, data)
                _write(file, check, f"{kind} {key} {len(content)}\n".encode(), content)
                count += 1
            _write(file, check, b"\n")
            file.write(check.digest())
        os.replace(temporary, path)
    except OSError as error:
        raise CacheFileError(f"{path}: {error.strerror}", "Choose a path that can be written to.") from None
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    return count


def load_cache(path: str | os.PathLike[str]) -> int:
    """Take what `save_cache` has written, here or on another machine; returns how many entries that were.

    They are put into the cache directory, where every process finds them. The file contains machine code: load those
    that you trust, or set `config.cache_secret` on both sides, which refuses all others. Raises
    `errors.FiresteelError` for a file that is damaged or was made by another version or for another kind of machine,
    of which nothing is taken.

    >>> import firesteel as fs
    >>> with fs.config.patch(disk_cache=False):
    ...     fs.load_cache("kernels.cache")
    Traceback (most recent call last):
        ...
    firesteel.packed_cache.CacheFileError: This packed cache cannot be used.
      Why: the cache on disk is switched off
      What to do: Set config.disk_cache, or a directory for it.
    """
    path = os.fspath(path)
    if disk_cache.directory() is None:
        raise CacheFileError("the cache on disk is switched off", "Set config.disk_cache, or a directory for it.")
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise CacheFileError(f"{path} is no file")
            _check_whole(path, file, status.st_size)
            for _ in _read(path, file, status.st_size):  # before the first is taken, all are looked at
                pass
            return sum(_keep(kind, key, data) for kind, key, data in _read(path, file, status.st_size))
    except OSError as error:
        raise CacheFileError(f"{path}: {error.strerror}") from None


def _keep(kind: str, key: str, data: bytes) -> int:
    if not disk_cache.put(kind, key, data, shared=False):
        raise CacheFileError(f"{disk_cache.directory()} cannot be written to", "Choose another FIRESTEEL_CACHE_DIR.")
    return 1


def _entries() -> Iterator[tuple[str, str, bytes]]:
    """Kind, key and data of all entries in the cache that this machine and version can use."""
    root = disk_cache.directory()
    for kind, file, _ in disk_cache.files(root) if root is not None else ():
        name = os.path.basename(file)
        if name.endswith(".entry") and kind != "sources":  # which only means something here
            key = name.removesuffix(".entry")
            data = disk_cache.get(kind, key)
            if data is not None:
                yield kind, key, data


def _maker() -> dict[str, str]:
    return {"firesteel": __version__, "torch": torch.__version__, "machine": cache_entries.machine()}


def _new_check() -> Any:
    secret = config.cache_secret
    return hmac.new(secret.encode(), digestmod=hashlib.sha256) if secret else hashlib.sha256()


def _write(file: BinaryIO, check: Any, *parts: bytes) -> None:
    for part in parts:
        check.update(part)
        file.write(part)


def _check_whole(path: str, file: BinaryIO, size: int) -> None:
    """Raise for a file that is no packed cache, was made by others, or has changed since; in this order."""
    magic = file.read(len(_MAGIC))
    if magic != _MAGIC:
        known = magic.startswith((_MAGIC[:16], _EARLIER))
        raise CacheFileError(f"{path} was packed by another version" if known else f"{path} is not a packed cache")
    head = file.readline(_LONGEST_LINE)
    try:
        said = json.loads(head)
        signed = said.pop("signed")
        differences = [_difference(name, said[name], own) for name, own in _maker().items() if said[name] != own]
        if set(said) != set(_maker()) or type(signed) is not bool:
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CacheFileError(f"{path} is damaged: it does not say who wrote it") from None
    if differences:
        raise CacheFileError(f"{path} {'; it '.join(differences)}")
    if signed != bool(config.cache_secret):
        raise CacheFileError(f"{path} is {'signed, and' if signed else 'not signed, but'} config.cache_secret is "
                             f"{'not set' if signed else 'set'}", "Set the secret that the file was packed with.")
    check = _new_check()
    file.seek(0)
    left = size - _CHECK
    while left > 0 and (piece := file.read(min(left, 1 << 20))):
        check.update(piece)
        left -= len(piece)
    if left or not hmac.compare_digest(file.read(_CHECK + 1), check.digest()):
        raise CacheFileError(f"{path} is damaged, or its signature is wrong" if signed else f"{path} is damaged")


def _difference(name: str, there: object, here: str) -> str:
    if name != "machine" or not isinstance(there, str):
        return f"was packed with {name} {str(there)[:40]}, and this is {here}"
    own, other = here.split(" ", 2), there.split(" ", 2)
    if own[:2] != other[:2] or len(other) != 3:
        return f"was packed on {' '.join(other[:2])[:60]}, and this is {' '.join(own[:2])}"
    features = {text for text in (*own[2].split(","), *other[2].split(",")) if text}
    differ = sorted(f for f in features if (f in own[2].split(",")) != (f in other[2].split(",")) and f[:1] == "+")
    return f"was packed on a CPU that differs in {', '.join(differ)[:200]}"


def _read(path: str, file: BinaryIO, size: int) -> Iterator[tuple[str, str, bytes]]:
    """The entries of a file whose checksum is right. That it was written by `save_cache` is not said by that."""
    file.seek(len(_MAGIC))
    file.readline(_LONGEST_LINE)
    seen = set()
    while (line := file.readline(_LONGEST_LINE)) != b"\n":
        try:
            kind, key, length = line.decode("ascii").removesuffix("\n").split(" ")
            disk_cache.entry_path("", kind, key)  # raises ValueError for names that are none
            if not length.isdigit() or int(length) > size or (kind, key) in seen:
                raise ValueError
            data = cache_entries.opened(kind, key, file.read(int(length)))
        except cache_entries.Refused as reason:
            raise CacheFileError(f"{path} has an entry that is not used: {reason}") from None
        except ValueError:
            raise CacheFileError(f"{path} is damaged: a line between its entries says nothing") from None
        seen.add((kind, key))
        yield kind, key, data
    if size - file.tell() != _CHECK:
        raise CacheFileError(f"{path} is damaged: its end is missing")
