"""Who makes an entry of a shared cache: one process claims it, the others wait for what it makes.

A claim is a file beside the entry, made so that only one process can (``O_EXCL``; nothing here needs locks, which
network file systems may lack). It says who holds it. The holder touches it every few seconds; a claim that nobody
touches, or whose process is known to be gone, has expired, and one of those who wait takes it over. Who finds the claim
gone and no entry in its place makes its own without claiming, for there are entries that cannot be kept.

Claims only ever save work. Two processes that make the same entry because of a race write the same thing, each whole.

    claim there?  entry there?
    no            no            make it, under a claim of one's own
    -             yes           take it
    yes           no            wait; after `config.cache_wait` seconds make it all the same

The whole protocol, with its races, is in docs/decisions/0034-one-process-makes-what-others-wait-for.md.
"""

from __future__ import annotations

import enum
import functools
import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from . import config
from .locks import new_lock
from .logs import log
from .records import dataclass
from .systems import at_fork

BEAT = 2.0
"""Seconds between two touches of the claims that a process holds."""
EXPIRY = 15.0
"""Seconds without a touch after which a claim counts for nothing, by the clock of who waits."""
FIRST_NAP, LONGEST_NAP = 0.005, 0.5
"""How long those who wait sleep between two looks, at first and at most."""

_NONCE = re.compile(r"[0-9a-f]{16}")
_LONGEST = 2000  # bytes of a claim that are read
_READING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MAKING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class Turn(enum.Enum):
    """What to do about an entry now."""

    TAKE = "it is there"
    MAKE = "nobody else makes it"
    WAIT = "another process makes it"


@dataclass(frozen=True)
class Holder:
    """What a claim says. Claims that were taken over from the dead one after the other are of one line."""

    line: str
    nonce: str
    place: str
    """Where its process number means something: the boot of a machine, and there the namespace."""
    pid: int
    started: str
    """When the process started, in the system's own terms: numbers of processes are used again."""

    def is_gone(self) -> bool:
        """Whether its process is known to have ended. From another machine nothing is known."""
        if not self.place or self.place != _place():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return _started(self.pid) not in (None, self.started)


class Claim:
    """The claim of an entry, by one of those who want it."""

    def __init__(self, entry: str, is_there: Callable[[], bool], make_folders: Callable[[], object]) -> None:
        """``entry`` is the path of the entry, ``is_there`` looks whether it can be used."""
        self.path = entry.removesuffix(".entry") + ".claim"
        self.is_there = is_there
        self.make_folders = make_folders
        self.nonce = ""
        """Of the claim that is held; empty for none."""
        self.pid = 0
        self.line = ""  # of the claim that is waited for
        self.waited = False
        self.seen: tuple[str, int] | None = None  # its nonce and time of change
        self.changed = self.began = time.monotonic()

    def turn(self) -> Turn:
        """What to do now. After MAKE, `release` must be called when it is made, or could not be."""
        if config.cache_wait <= 0:
            return Turn.MAKE
        try:
            # Asked again and again: on network file systems this asks the server, where a look may be answered by
            # what this machine remembers of the folder.
            if not self._claim():
                return self._of_others()
            return self._unless_there()
        except OSError as error:
            log("cache", "no claims are made for %s: %s", self.path, error)
            return Turn.TAKE if self.is_there() else Turn.MAKE

    def _of_others(self) -> Turn:
        if self.is_there():
            return Turn.TAKE
        found = _read(self.path)
        if found is None:
            return Turn.WAIT  # released a moment ago
        holder, changed = found
        now = time.monotonic()
        line, nonce = (holder.line, holder.nonce) if holder is not None else ("", "")
        if not self.waited:
            self.waited, self.line, self.began = True, line, now
            log("cache", "waiting for %s, which process %s makes", self.path, holder and holder.pid)
        elif line and self.line and line != self.line:
            # The one who was waited for has left nothing, unless that came after the look above.
            return Turn.TAKE if self.is_there() else Turn.MAKE
        self.line = self.line or line
        if (nonce, changed) != self.seen:
            self.seen, self.changed = (nonce, changed), now
        if (holder is not None and holder.is_gone()) or now - self.changed > EXPIRY:
            log("cache", "the claim %s has expired", self.path)
            if self._take_over(nonce):
                return self._unless_there()
        if now - self.began > config.cache_wait:
            log("cache", "%s is not waited for any longer", self.path)
            return Turn.MAKE
        return Turn.WAIT

    def _unless_there(self) -> Turn:
        """With a claim in hand: another process may have made the entry just before."""
        if not self.is_there():
            return Turn.MAKE
        self.release()
        return Turn.TAKE

    def _claim(self) -> bool:
        """Make a claim; False where there is one."""
        try:
            nonce = _write(self.path, secrets.token_hex(8))
        except FileNotFoundError:
            self.make_folders()
            nonce = _write(self.path, secrets.token_hex(8))
        if nonce is not None:
            self._holds(nonce)
        return nonce is not None

    def _take_over(self, expired: str) -> bool:
        """Put a claim in the place of the expired one with that nonce.

        Whoever makes the file beside it may do so. It becomes the claim and vanishes in one step, so that nobody who
        makes that file later finds the expired claim still there.
        """
        beside = f"{self.path}.{expired[:8] or '0' * 8}.tmp"
        nonce = _write(beside, self.line or secrets.token_hex(8))
        if nonce is None:
            return False
        try:
            found = _read(self.path)
            if found is not None and (found[0].nonce if found[0] is not None else "") == expired:
                os.rename(beside, self.path)
                self._holds(nonce)
                return True
        except OSError:
            pass
        with suppress(OSError):
            os.unlink(beside)
        return False

    def _holds(self, nonce: str) -> None:
        self.nonce, self.pid = nonce, os.getpid()
        _BEATS.add(self)

    def release(self) -> None:
        """Let others have it. Does nothing for a claim that is not held, or that was taken away meanwhile."""
        nonce, self.nonce = self.nonce, ""
        if nonce and self.pid == os.getpid():
            _BEATS.remove(self)
            with suppress(OSError):
                found = _read(self.path)
                if found is not None and found[0] is not None and found[0].nonce == nonce:
                    os.unlink(self.path)


def naps(times: int) -> float:
    """How long to sleep after having looked so often; not the same in all processes."""
    return min(FIRST_NAP * 1.5**min(times, 40), LONGEST_NAP) * (0.75 + 0.5 * secrets.randbelow(1000) / 1000)


def wait_for(claims: Sequence[Claim]) -> list[tuple[Claim, Turn]]:
    """Sleep until at least one of the claims, which others hold, has its turn; those that have."""
    # Loaded wherever something is compiled; it needs torch, which who only looks after a cache does not.
    interruptions: Any = sys.modules.get("firesteel.interruptions")
    times = 0
    while True:
        ready: list[tuple[Claim, Turn]] = [(claim, turn)
                                           for claim in claims if (turn := claim.turn()) is not Turn.WAIT]
        if ready:
            return ready
        if interruptions is not None:
            interruptions.safe_point()
        time.sleep(naps(times))
        times += 1


def _read(path: str) -> tuple[Holder | None, int] | None:
    """What a claim says, and when it was touched. No holder for one that says nothing; None where there is none.

    It is opened, not looked at: that is what makes network file systems ask the server.
    """
    try:
        file = os.open(path, _READING)
    except FileNotFoundError:
        return None
    try:
        changed = os.fstat(file).st_mtime_ns
        text = os.read(file, _LONGEST)
    finally:
        os.close(file)
    try:
        said = json.loads(text)
        line, nonce, place, started = [_checked(said[name], str) for name in ("line", "nonce", "place", "started")]
        holder = Holder(line, nonce, place, _checked(said["pid"], int), started)
        if not _NONCE.fullmatch(holder.nonce):  # it becomes part of a name
            raise ValueError("the nonce is none")
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, changed
    return holder, changed


def _checked(value: Any, expected: type) -> Any:
    if type(value) is not expected:
        raise TypeError(f"{value!r} is not of type {expected.__name__}")
    return value


def _write(path: str, line: str) -> str | None:
    """Make a claim of this process; its nonce, or None where there is a file already."""
    try:
        file = os.open(path, _MAKING, 0o600)
    except FileExistsError:
        return None
    nonce, pid = secrets.token_hex(8), os.getpid()
    said = {"line": line, "nonce": nonce, "place": _place(), "pid": pid, "started": _started(pid) or ""}
    try:
        os.write(file, json.dumps(said).encode())
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(file)
    return nonce


@functools.cache
def _place() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When a process started, "" for one that has ended and whose parent has not noticed, None where nobody says."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    except (OSError, IndexError):
        return None


class _Beats:
    """Touches the claims that this process holds. The thread ends when there are none."""

    def __init__(self) -> None:
        self.lock = new_lock()
        self.forget()

    def forget(self) -> None:
        """In a forked child: claims are the parent's."""
        self.held: set[Claim] = set()
        self.thread: threading.Thread | None = None
        self.none_left = threading.Event()

    def add(self, claim: Claim) -> None:
        with self.lock:
            self.held.add(claim)
            if self.thread is None:
                self.none_left = threading.Event()
                self.thread = threading.Thread(target=self.run, args=(self.none_left,), name="firesteel claims",
                                               daemon=True)
                try:
                    self.thread.start()
                except RuntimeError:  # the interpreter is ending
                    self.thread = None

    def remove(self, claim: Claim) -> None:
        with self.lock:
            self.held.discard(claim)
            if not self.held:
                self.none_left.set()
                self.thread = None

    def run(self, none_left: threading.Event) -> None:
        while not none_left.wait(BEAT):
            with self.lock:
                held = list(self.held)
            for claim in held:
                with suppress(OSError):
                    if not none_left.is_set():
                        os.utime(claim.path)


_BEATS = _Beats()
at_fork(after_in_child=_BEATS.forget)
