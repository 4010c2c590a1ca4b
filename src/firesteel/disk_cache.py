"""A cache on disk, addressed by content: what one process found out helps the next one.

Entries are bytes under a kind and a key. The key is a digest of everything that the bytes depend on, so an entry is
never changed, only replaced by an equal or better one, and never has to be declared out of date.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder, config.patch(disk_cache=True, cache_dir=folder):
...     key = digest("relu", 4)
...     put("example", key, b"machine code"), get("example", key), get("example", digest("relu", 5))
(True, b'machine code', None)

Nothing here raises for a reason that lies in the disk: a cache that cannot be used is the same as an empty one. An
entry is believed only if this user or the administrator wrote it, nobody else could have, and its checksum holds.
The layout is ``<directory>/<kind>/<first two digits of the key>/<key>.entry``.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import struct
import sys
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import config
from .events import note
from .locks import new_lock
from .logs import log

SIZE_LIMIT = 1 << 30
"""How many bytes the entries may take together before the ones not used for longest go."""

_MAGIC = b"firesteel\0"
_FORMAT = 1
_HEADER = struct.Struct("<10sHQ32s")  # magic, format, length of the data, checksum of kind, key and data

_PACKED = b"firesteel cache 1"  # how `pack` marks its files

_DAY = 86400.0
_BLOCK = 4096  # what a file takes at least
_NAME = re.compile(r"[0-9a-f]{40}\.entry(\.[0-9a-f]{8}\.tmp)?")
_KIND = re.compile(r"[a-z][a-z0-9_]*")
_KEY = re.compile(r"[0-9a-f]{40}")

# Not through links; and who opens a pipe or a device must not wait for somebody at its other end.
_READING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_lock = new_lock()
_unusable: set[str] = set()  # directories that a write failed in; not tried again by this process
_written: dict[str, int] = {}  # bytes written per directory since the last look at its size


def digest(*parts: object) -> str:
    """The key for what these parts describe. Parts are bytes, or print the same in every process that means the same.

    >>> digest("a", "b") == digest("a", "b"), digest("a", "b") == digest("ab"), len(digest())
    (True, False, 40)
    """
    checksum = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode("utf-8", "backslashreplace")
        checksum.update(b"%d " % len(data))
        checksum.update(data)
    return checksum.hexdigest()[:40]


def directory() -> str | None:
    """Where entries are kept; None when the cache is switched off or the user has no home."""
    if not config.disk_cache or _switched_off_in_torch():
        return None
    return config.cache_dir or _user_directory()


def _switched_off_in_torch() -> bool:
    """Whether ``torch.compiler.config`` forbids all caches."""
    if "torch" not in sys.modules:
        return False
    from .torch_compat import compiler_setting

    return bool(compiler_setting("force_disable_caches"))


def _user_directory() -> str | None:
    home = os.path.expanduser("~")
    if home == "~":
        return None
    if sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    else:
        given = os.environ.get("XDG_CACHE_HOME", "")
        base = given if os.path.isabs(given) else os.path.join(home, ".cache")
    return os.path.join(base, "firesteel")


def _path(root: str, kind: str, key: str) -> str:
    if not _KIND.fullmatch(kind) or not _KEY.fullmatch(key):
        raise ValueError(f"a cache entry has a kind in small letters and a key made by digest(), not {kind!r}, {key!r}")
    return os.path.join(root, kind, key[:2], f"{key}.entry")


def _checksum(kind: str, key: str, data: bytes) -> bytes:
    # The name is part of it: an entry that was moved to another key is not that key's entry.
    checksum = hashlib.sha256(f"{kind} {key} ".encode())
    checksum.update(data)
    return checksum.digest()


# Reading


def get(kind: str, key: str) -> bytes | None:
    """The entry of that kind and key, or None when there is none that can be trusted."""
    root = directory()
    if root is None:
        return None
    data = _get(root, kind, key)
    note("cache", name=f"{kind} on disk", hit=data is not None)
    return data


def _get(root: str, kind: str, key: str) -> bytes | None:
    path = _path(root, kind, key)
    try:
        file = os.open(path, _READING)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        content = b"" if (distrust := _distrust(status)) else _read(file, status.st_size)
    except OSError:
        return None
    finally:
        os.close(file)
    data = None if distrust else _open(kind, key, content)
    if data is None:
        log("cache", "the entry %s is ignored: %s", path, distrust or "it is damaged or not ours")
    elif time.time() - status.st_mtime > _DAY:
        # Its age is what decides when the cache is full. Once a day is exact enough and keeps reading cheap.
        try:
            os.utime(path)
        except OSError:
            pass
    return data


def _distrust(status: os.stat_result) -> str | None:
    """Why a file is not believed, by its owner and permissions."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it"
    return None


def _read(file: int, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := os.read(file, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _open(kind: str, key: str, content: bytes) -> bytes | None:
    """The data of an entry, if the content is one."""
    if len(content) < _HEADER.size:
        return None
    magic, version, length, checksum = _HEADER.unpack_from(content)
    data = content[_HEADER.size:]
    if magic != _MAGIC or version != _FORMAT or length != len(data) or checksum != _checksum(kind, key, data):
        return None
    return data


# Writing


def put(kind: str, key: str, data: bytes) -> bool:
    """Keep an entry. Other processes see either all of it or nothing. Returns whether it was kept."""
    root = directory()
    if root is None or root in _unusable:
        return False
    path = _path(root, kind, key)
    content = _HEADER.pack(_MAGIC, _FORMAT, len(data), _checksum(kind, key, data)) + data
    try:
        try:
            _write(path, content)
        except FileNotFoundError:  # a new folder, or one that another process has just cleared
            _make_folders(root, os.path.dirname(path))
            _write(path, content)
    except OSError as error:
        _unusable.add(root)
        log("cache", "the cache in %s is not written to any more by this process: %s", root, error)
        return False
    _count(root, len(content))
    return True


def _make_folders(root: str, folder: str) -> None:
    os.makedirs(os.path.dirname(root) or ".", exist_ok=True)
    # makedirs gives its mode to the last folder only.
    for part in (root, os.path.dirname(folder), folder):
        try:
            os.mkdir(part, 0o700)
        except FileExistsError:
            pass


def _write(path: str, content: bytes) -> None:
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    file = os.open(temporary, flags, 0o600)
    try:
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(file, left):]
        finally:
            os.close(file)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


# Size


def _count(root: str, size: int) -> None:
    """Look at the size of the whole cache once a day, and when this process alone has written a good part of it."""
    with _lock:
        first = root not in _written
        _written[root] = _written.get(root, 0) + max(size, _BLOCK)
        if not first and _written[root] < SIZE_LIMIT // 8:
            return
        _written[root] = 0
    stamp = os.path.join(root, "last_sweep")
    try:
        if first and time.time() - os.stat(stamp).st_mtime < _DAY:
            return
    except OSError:
        pass
    try:
        _write(stamp, b"")  # in the place of whatever is there: a pipe would be waited for
    except OSError:
        return
    sweep()


def sweep() -> int:
    """Bring the cache below its limit, the entries not used for longest first; returns how many went."""
    root = directory()
    if root is None:
        return 0
    entries, removed, now = [], 0, time.time()
    for _, path, status in _files(root):
        if not path.endswith(".tmp"):
            entries.append((status.st_mtime, max(status.st_size, _BLOCK), path))
        elif now - status.st_mtime > _DAY:  # left behind by a process that died
            removed += _remove(path)
    total = sum(size for _, size, _ in entries)
    if total > SIZE_LIMIT:
        entries.sort()
        for _, size, path in entries:
            if total <= SIZE_LIMIT * 3 // 4:
                break
            removed += _remove(path)
            total -= size
    return removed


def _remove(path: str) -> int:
    try:
        os.unlink(path)
    except OSError:  # gone already
        return 0
    return 1


def _files(root: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """(kind, path, stat) of every file that is ours. The directory is the user's choice and may hold other things."""
    for kind in _list(root):
        if not kind.is_dir(follow_symlinks=False) or not _KIND.fullmatch(kind.name):
            continue
        for folder in _list(kind.path):
            if len(folder.name) != 2 or not folder.is_dir(follow_symlinks=False):
                continue
            for file in _list(folder.path):
                try:
                    if _NAME.fullmatch(file.name) and file.is_file(follow_symlinks=False):
                        yield kind.name, file.path, file.stat(follow_symlinks=False)
                except OSError:
                    pass


def _list(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


# From one machine to another


def pack(path: str | os.PathLike[str]) -> int:
    """Write all entries into one file; returns how many there were. Each keeps its own checksum."""
    root = directory()
    packed = 0
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = _PACKED
        for kind, file, _ in _files(root) if root is not None else ():
            key = os.path.basename(file).removesuffix(".entry")
            data = get(kind, key) if _KEY.fullmatch(key) else None
            if data is not None:
                archive.writestr(f"{kind}/{key}", _HEADER.pack(_MAGIC, _FORMAT, len(data), _checksum(kind, key, data))
                                 + data)
                packed += 1
    return packed


def unpack(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Take the entries of a file that `pack` wrote; returns how many were taken and how many ignored, because they are
    damaged or not entries. Raises ValueError for other files.

    Entries are machine code among other things: a checksum finds what was damaged on the way, and not what somebody
    wrote in order to harm.
    """
    taken = ignored = 0
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.comment != _PACKED:
                raise ValueError(f"{os.fspath(path)} is not a packed cache")
            for item in archive.infolist():
                kind, _, key = item.filename.partition("/")
                if item.file_size > SIZE_LIMIT or not _KIND.fullmatch(kind) or not _KEY.fullmatch(key):
                    ignored += 1
                    continue
                try:
                    data = _open(kind, key, archive.read(item))
                except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
                    data = None
                if data is not None and put(kind, key, data):
                    taken += 1
                else:
                    ignored += 1
    except (zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{os.fspath(path)} is not a packed cache, or is damaged: {error}") from None
    return taken, ignored


# For people


@dataclass(frozen=True)
class Info:
    """What a cache holds: for each kind how many entries, and how many bytes they have."""

    directory: str | None
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.directory is None:
            return "the disk cache is switched off"
        lines = [f"{kind}: {count} {'entry' if count == 1 else 'entries'}, {_amount(size)}"
                 for kind, (count, size) in sorted(self.kinds.items())]
        return "\n".join([self.directory, *(lines or ["empty"])])


def _amount(size: int) -> str:
    amount, units = float(size), iter(("bytes", "KiB", "MiB"))
    for unit in units:
        if amount < 1024:
            return f"{size} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def info() -> Info:
    """What the cache holds now."""
    root = directory()
    kinds: dict[str, tuple[int, int]] = {}
    if root is not None:
        for kind, path, status in _files(root):
            if not path.endswith(".tmp"):
                count, size = kinds.get(kind, (0, 0))
                kinds[kind] = count + 1, size + status.st_size
    return Info(root, kinds)


def clear() -> int:
    """Remove all entries, and nothing else that the directory may hold; returns how many there were.

    Works at any time: processes that are running lose nothing but the entries.
    """
    root = directory()
    if root is None:
        return 0
    removed, folders = 0, set()
    for _, path, _ in _files(root):
        folders.add(os.path.dirname(path))
        removed += _remove(path) and not path.endswith(".tmp")
    _remove(os.path.join(root, "last_sweep"))
    for folder in [*folders, *{os.path.dirname(folder) for folder in folders}, root]:
        try:
            os.rmdir(folder)
        except OSError:  # not empty
            pass
    _unusable.discard(root)
    return removed
