"""A store that machines share entries of the cache through: asked for what is missing here, sent what is made here.

`config.remote_cache` names it by a URL: ``redis://host:port/0``, or a path of fsspec. A store is anything with the two
methods of `RemoteStore`; `register_store` says how those of another scheme are opened.

Nothing here raises, and nothing takes long: a look has `config.remote_cache_timeout` seconds, in threads of its own,
for names are resolved and files opened without a limit by those who do that. A store that fails, or is slow or wrong
several times, is left alone for a while, and longer each time. Writing happens in a thread of its own, from a queue
that drops what it has no room for. What comes back is bytes that somebody else wrote: `disk_cache` checks them.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from .. import config
from ..errors import warn
from ..locks import new_lock
from ..logs import log
from ..records import dataclass
from ..systems import at_fork

LONGEST_ENTRY = 64 << 20
"""Larger entries are neither sent nor taken."""
QUEUED_ENTRIES, QUEUED_BYTES = 1000, 64 << 20
"""How much may wait for being sent; what comes beyond is dropped."""
READERS = 8
"""How many entries are looked for at a time."""
SLOW = 0.25
"""The part of the timeout from which on a look counts as slow."""
STRIKES = 3
"""So many slow looks in a row, or wrong entries at all, and the store is left alone."""
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 600.0
"""For how many seconds, at first and at most."""
IDLE = 1.0
"""For how many seconds the thread that sends waits for more before it ends."""
FLUSH = 2.0
"""How many timeouts the end of the program may wait for what is still to be sent."""


class RemoteStore(Protocol):
    """What keeps bytes under names, somewhere else. Any exception means that it could not."""

    def get(self, key: str) -> bytes | None:
        """The bytes of that name, None where there are none."""

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes, in the place of those that the name has."""


_OPENERS: dict[str, Callable[[str], RemoteStore]] = {}


def register_store(scheme: str, opener: Callable[[str], RemoteStore]) -> None:
    """Have URLs of a scheme opened by a function of yours, which gets the URL and returns a `RemoteStore`.

    It is called, and the store's methods are, by several threads.

    >>> class Folder(dict):
    ...     def put(self, key, data):
    ...         self[key] = data
    >>> register_store("dictionary", lambda url: Folder())
    """
    _OPENERS[scheme] = opener


def open_store(url: str) -> RemoteStore:
    """The store that a URL names. Raises ValueError or ImportError for one that cannot be."""
    scheme = url.partition("://")[0]
    if scheme in _OPENERS:
        return _OPENERS[scheme](url)
    if scheme in ("redis", "rediss"):
        from .redis_store import RedisStore

        return RedisStore(url, config.remote_cache_timeout)
    from .fsspec_store import FsspecStore

    return FsspecStore(url)


def without_password(url: str) -> str:
    """A URL as it may be shown to people.

    >>> without_password("redis://user:secret@host:6379/0"), without_password("s3://bucket/folder")
    ('redis://...@host:6379/0', 's3://bucket/folder')
    """
    scheme, separator, rest = url.partition("://")
    userinfo, at, host = rest.rpartition("@")
    return f"{scheme}{separator}...@{host}" if at else url


@dataclass
class _Look:
    """One look for several entries, by several threads."""

    names: deque[str]
    found: dict[str, bytes]
    slowest: float = 0.0
    error: str = ""


class _Remote:
    """The store of one URL, and how it has behaved."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.lock, self.opening = new_lock(), new_lock()
        self.store: RemoteStore | None = None
        self.paused_until = 0.0
        self.pause = FIRST_PAUSE
        self.slow_looks = self.lies = 0
        self.queue: deque[tuple[str, bytes]] = deque()
        self.queued_bytes = 0
        self.queued = threading.Condition(self.lock)
        self.sent = threading.Event()
        self.writer: threading.Thread | None = None

    def is_paused(self) -> bool:
        return time.monotonic() < self.paused_until

    def leave_alone(self, why: str) -> None:
        """Do not ask for a while."""
        with self.lock:
            if not self.is_paused():
                log("cache", "the remote cache %s is left alone for %.0f s: %s", without_password(self.url),
                    self.pause, why)
                self.paused_until = time.monotonic() + self.pause
                self.pause = min(2 * self.pause, LONGEST_PAUSE)
                self.slow_looks = self.lies = 0
                self.store = None  # a thread may hang in it

    def opened(self) -> RemoteStore:
        with self.opening:
            if self.store is None:
                try:
                    self.store = open_store(self.url)
                except (ValueError, ImportError) as error:
                    if self.paused_until != float("inf"):
                        self.paused_until = float("inf")
                        warn(f"the remote cache {without_password(self.url)} cannot be used: {error}")
                    raise
            return self.store

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        if self.is_paused() or not names:
            return {}
        look = _Look(deque(names), {})
        threads = [threading.Thread(target=self._look, args=(look,), daemon=True, name="firesteel remote cache")
                   for _ in range(min(len(names), READERS))]
        try:
            for thread in threads:
                thread.start()
        except RuntimeError:  # the interpreter is ending
            return {}
        # The time of one look, and then some for each, as long as a good store may take.
        end = time.monotonic() + config.remote_cache_timeout * (1 + SLOW * (len(names) - 1) / len(threads))
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        late = any(thread.is_alive() for thread in threads)
        found = dict(look.found)
        look.names.clear()
        if late or look.error:
            self.leave_alone(look.error or "it takes too long")
        elif look.slowest > SLOW * config.remote_cache_timeout:
            self.slow_looks += 1
            if self.slow_looks >= STRIKES:
                self.leave_alone("it is slow")
        else:
            self.slow_looks = 0
        return found

    def _look(self, look: _Look) -> None:
        try:
            store = self.opened()
            while True:
                try:
                    name = look.names.popleft()
                except IndexError:
                    return
                started = time.monotonic()
                data = store.get(name)
                look.slowest = max(look.slowest, time.monotonic() - started)
                if isinstance(data, bytes) and len(data) <= LONGEST_ENTRY:
                    look.found[name] = data
        except Exception as error:  # whatever a store raises, the program is none of its business
            look.error = f"{type(error).__name__}: {error}"

    def lied(self, name: str, why: str) -> None:
        """An entry that came from there is not used."""
        log("cache", "the entry %s of the remote cache is ignored: %s", name, why)
        self.lies += 1
        if self.lies >= STRIKES:
            self.leave_alone("its entries cannot be used")

    # Writing

    def write(self, name: str, content: bytes) -> None:
        if len(content) > LONGEST_ENTRY or self.is_paused():
            return
        with self.lock:
            if len(self.queue) >= QUEUED_ENTRIES or self.queued_bytes + len(content) > QUEUED_BYTES:
                log("cache", "%s is not sent to the remote cache: too much waits for that", name)
                return
            self.queue.append((name, content))
            self.queued_bytes += len(content)
            self.sent.clear()
            if self.writer is None:
                self.writer = threading.Thread(target=self._send, daemon=True, name="firesteel remote cache")
                try:
                    self.writer.start()
                except RuntimeError:  # the interpreter is ending
                    self.writer = None
            self.queued.notify()

    def _send(self) -> None:
        while True:
            with self.lock:
                while not self.queue:
                    self.sent.set()
                    if not self.queued.wait(IDLE) and not self.queue:
                        self.writer = None
                        return
                name, content = self.queue.popleft()
                self.queued_bytes -= len(content)
            if self.is_paused():
                continue
            try:
                self.opened().put(name, content)
            except Exception as error:
                self.leave_alone(f"{type(error).__name__}: {error}")

    def flush(self, seconds: float) -> bool:
        """Wait until all that is queued has been sent, so long at most; whether it has been."""
        return self.writer is None or self.sent.wait(seconds)


_lock = new_lock()
_remotes: dict[str, _Remote] = {}


def _current() -> _Remote | None:
    url = config.remote_cache
    if not url:
        return None
    with _lock:
        remote = _remotes.get(url)
        if remote is None:
            remote = _remotes[url] = _Remote(url)
        return remote


def read(names: Sequence[str]) -> dict[str, bytes]:
    """What the store has of these, as it has it: not checked yet."""
    remote = _current()
    return {} if remote is None else remote.read(names)


def lied(name: str, why: str) -> None:
    """Tell that what `read` returned under a name was no entry of that name."""
    remote = _current()
    if remote is not None:
        remote.lied(name, why)


def write(name: str, content: bytes) -> None:
    """Send an entry, some time soon, if there is room in the queue."""
    remote = _current()
    if remote is not None:
        remote.write(name, content)


def flush(seconds: float | None = None) -> bool:
    """Wait for what is still to be sent; whether all of it is. The end of a program does so for a short time."""
    end = time.monotonic() + (FLUSH * config.remote_cache_timeout if seconds is None else seconds)
    return all([remote.flush(max(0.0, end - time.monotonic())) for remote in list(_remotes.values())])


def _in_child() -> None:
    """Connections, queues and threads are the parent's."""
    _remotes.clear()


at_fork(after_in_child=_in_child)
atexit.register(flush)
