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

import functools
import hashlib
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from . import config, remote_cache
from .cache_claims import Claim, Turn, wait_for
from .cache_entries import Refused, opened, sealed
from .events import note
from .locks import new_lock
from .logs import log
from .records import dataclass

SIZE_LIMIT = 1 << 30
"""How many bytes the entries may take together before the ones not used for longest go."""

_DAY = 86400.0
_BLOCK = 4096  # what a file takes at least
_NAME = re.compile(r"[0-9a-f]{40}\.(entry|claim)(\.[0-9a-f]{8}\.tmp)?")
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


def entry_path(root: str, kind: str, key: str) -> str:
    """Where an entry lies."""
    if not _KIND.fullmatch(kind) or not _KEY.fullmatch(key):
        raise ValueError(f"a cache entry has a kind in small letters and a key made by digest(), not {kind!r}, {key!r}")
    return os.path.join(root, kind, key[:2], f"{key}.entry")


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
    path = entry_path(root, kind, key)
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
    try:
        if distrust:
            raise Refused(distrust)
        data = opened(kind, key, content)
    except Refused as reason:
        log("cache", "the entry %s is ignored: %s", path, reason)
        return None
    if time.time() - status.st_mtime > _DAY:
        # Its age is what decides when the cache is full. Once a day is exact enough and keeps reading cheap.
        try:
            os.utime(path)
        except OSError:
            pass
    return data


def fetch(kind: str, keys: Iterable[str]) -> None:
    """Look for entries in the remote store, if there is one, and keep them here. Takes a bounded time."""
    root = directory()
    if root is None or not config.remote_cache:
        return
    contents = remote_cache.read([f"{kind}/{key}" for key in keys])
    for name, content in contents.items():
        key = name.partition("/")[2]
        try:
            opened(kind, key, content)
        except Refused as reason:
            remote_cache.lied(name, str(reason))
        else:
            _put(root, kind, key, content)


def _distrust(status: os.stat_result) -> str | None:
    """Why a file is not believed, by its owner and permissions."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if not hasattr(os, "geteuid") or config.cache_secret:  # then signatures say who wrote it
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


# Writing


def put(kind: str, key: str, data: bytes, shared: bool = True) -> bool:
    """Keep an entry, and send it to the remote store, if there is one, in the background.

    Other processes see either all of it or nothing. ``shared``: whether it is of use on other machines. Returns whether
    it was kept here.
    """
    root = directory()
    if root is None:
        return False
    content = sealed(kind, key, data)
    if config.remote_cache and shared:
        remote_cache.write(f"{kind}/{key}", content)
    return _put(root, kind, key, content)


def _put(root: str, kind: str, key: str, content: bytes) -> bool:
    if root in _unusable:
        return False
    path = entry_path(root, kind, key)
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


# Made once, by one of many processes


def made_once(kind: str, keys: Sequence[str], take: Callable[[str], bool],
              make: Callable[[Sequence[str]], None]) -> None:
    """Have each of these entries made by one process of all that share the cache, while the others wait for it.

    ``take`` uses an entry that is there, and says whether that worked; ``make`` makes and puts those that nobody else
    makes. For each key, the last of these that is called is ``make``, or a ``take`` that worked.
    """
    root = directory()
    if root is None:
        make(keys)
        return
    with _claimed(root, kind, keys, take) as (mine, others):
        if mine:
            fetch(kind, mine)
            missing = [key for key in mine if not (config.remote_cache and take(key))]
            if missing:
                make(missing)
    while others:  # holding nothing: whoever waits is waited for by nobody
        ready = wait_for(list(others.values()))
        turns = dict(ready)
        alone = [key for key, claim in others.items() if turns.get(claim) is Turn.MAKE]
        others = {key: claim for key, claim in others.items() if claim not in turns}
        try:
            if alone:
                make(alone)
        finally:
            for claim, _ in ready:
                claim.release()


@contextmanager
def _claimed(root: str, kind: str, keys: Sequence[str],
             take: Callable[[str], bool]) -> Iterator[tuple[list[str], dict[str, Claim]]]:
    """Claim what can be claimed: the keys of that, and the claims of what others make."""
    claims: list[Claim] = []
    mine: list[str] = []
    others: dict[str, Claim] = {}
    try:
        for key in keys:
            claim = _claim(root, kind, key, functools.partial(take, key))
            claims.append(claim)
            match claim.turn():
                case Turn.MAKE:
                    mine.append(key)
                case Turn.WAIT:
                    others[key] = claim
        yield mine, others
    finally:
        for claim in claims:
            claim.release()


def _claim(root: str, kind: str, key: str, is_there: Callable[[], bool]) -> Claim:
    path = entry_path(root, kind, key)
    return Claim(path, is_there, functools.partial(_make_folders, root, os.path.dirname(path)))


def get_or_make(kind: str, key: str, make: Callable[[], bytes]) -> bytes:
    """The entry of that kind and key, from here or from the remote store, or made by one process of all."""
    data = get(kind, key)
    if data is not None:
        return data
    results: list[bytes] = []

    def take(key: str) -> bool:
        data = get(kind, key)
        if data is not None:
            results.append(data)
        return data is not None

    def make_it(keys: Sequence[str]) -> None:
        results.append(make())
        put(kind, key, results[-1])

    made_once(kind, [key], take, make_it)
    return results[-1]


@contextmanager
def making(kind: str, key: str | None, take: Callable[[], bool]) -> Iterator[None]:
    """Around what may make an entry: waits while another process does, and claims it otherwise.

    ``take`` uses the entry if it is there, and says whether that worked. Inside, what it has not got is to be made.
    """
    root = directory()
    if root is None or key is None or take():
        yield
        return
    claim = _claim(root, kind, key, take)
    turn = claim.turn()
    if turn is Turn.WAIT:
        [(_, turn)] = wait_for([claim])
    try:
        if turn is Turn.MAKE and config.remote_cache:
            fetch(kind, [key])
            take()
        yield
    finally:
        claim.release()


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
    for _, path, status in files(root):
        if path.endswith(".entry"):
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


def files(root: str) -> Iterator[tuple[str, str, os.stat_result]]:
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
        for kind, path, status in files(root):
            if path.endswith(".entry"):
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
    for _, path, _ in files(root):
        folders.add(os.path.dirname(path))
        removed += _remove(path) and path.endswith(".entry")
    _remove(os.path.join(root, "last_sweep"))
    for folder in [*folders, *{os.path.dirname(folder) for folder in folders}, root]:
        try:
            os.rmdir(folder)
        except OSError:  # not empty
            pass
    _unusable.discard(root)
    return removed
