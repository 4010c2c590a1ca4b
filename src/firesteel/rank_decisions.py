"""What ranks decide together, through the store of their process group; see `config.agree_across_ranks`.

    rank 0: x is [4, 128]      posts that, and waits for the others
    rank 1: x is [4, 131]      posts that, is the last, and decides for all: the second size of x varies

No collective is used for it, for a rank may come to a decision that the others never come to. A decision is a name in
the store, which whoever writes it first has made. Who waits for others does so for a limited time, and then decides
with what is there; those who come later go by that. So ranks that decide the same thing decide alike, and no rank waits
for ever. Where the store fails, each rank decides for itself.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from . import config, torch_compat
from .cache_claims import naps
from .interruptions import safe_point
from .locks import new_lock
from .logs import log
from .systems import at_fork

LEAST_PATIENCE = 0.05
"""Seconds: each time that somebody does not come, the next wait is half as long, down to this."""


class Board:
    """The store of one group, and what this rank has seen in it."""

    def __init__(self, group: Any, generation: int) -> None:
        self.group = weakref.ref(group)
        self.store, self.rank, self.size = torch_compat.store_of_ranks(group)
        self.prefix = f"firesteel/{generation}"
        self.patience = 1.0
        """The part of `config.agree_wait` that this rank waits."""
        self.broken = self.size < 2
        self.lock = new_lock()
        self.seen: dict[str, int] = {}
        """How many items of lists have been read."""

    def read(self, name: str) -> str | None:
        """What stands under a name, None for nothing; never waits."""
        name = f"{self.prefix}/{name}"
        with self.lock:
            there: bool = self.store.check([name])
            return self.store.get(name).decode() if there else None

    def write(self, name: str, text: str) -> None:
        with self.lock:
            self.store.set(f"{self.prefix}/{name}", text)

    def first(self, name: str, text: str) -> str:
        """Write that, unless something stands there; what stands there then."""
        with self.lock:
            stands: str = self.store.compare_set(f"{self.prefix}/{name}", "", text).decode()
        return stands

    def count(self, name: str, more: int) -> int:
        with self.lock:
            counted: int = self.store.add(f"{self.prefix}/{name}", more)
        return counted

    def gathered(self, subject: str, mine: str, join: Callable[[Sequence[str]], str]) -> str:
        """The decision on a subject: what ``join`` makes of that which the ranks have posted."""
        decided = self.read(f"{subject}/decision")
        if decided is not None:
            return decided
        self.write(f"{subject}/from {self.rank}", mine)
        if self.count(f"{subject}/count", 1) < self.size:
            decided = self._wait_for(subject)
            if decided is not None:
                return decided
        posts = [self.read(f"{subject}/from {rank}") for rank in range(self.size)]
        return self.first(f"{subject}/decision", join([post for post in posts if post is not None]))

    def _wait_for(self, subject: str) -> str | None:
        began, times = time.monotonic(), 0
        while True:
            safe_point()
            decided = self.read(f"{subject}/decision")
            if decided is not None:
                self.patience = 1.0
                return decided
            if time.monotonic() - began >= self.patience * config.agree_wait:
                log("cache", "%s is decided without all ranks: not all have come to it after %.3g s", subject,
                    time.monotonic() - began)
                self.patience = max(self.patience / 2, LEAST_PATIENCE / max(config.agree_wait, LEAST_PATIENCE))
                return None
            time.sleep(naps(times))
            times += 1

    def added(self, subject: str) -> list[str]:
        """What ranks have added to a list since it was asked for last."""
        count = self.count(f"{subject}/count", 0)
        items: list[str] = []
        for number in range(self.seen.get(subject, 0) + 1, count + 1):
            item = self.read(f"{subject}/{number}")
            if item is None:  # not written yet
                break
            items.append(item)
            self.seen[subject] = number
        return items

    def add(self, subject: str, item: str) -> None:
        """Add to a list."""
        self.write(f"{subject}/{self.count(f'{subject}/count', 1)}", item)


class _State:
    """The board of the group that there is now."""

    board: Board | None = None
    generation = 0
    forked = False


_STATE = _State()
_LOCK = threading.Lock()


def _board() -> Board | None:
    if not config.agree_across_ranks or _STATE.forked:
        return None
    group = torch_compat.group_of_all_ranks()
    if group is None:
        return None
    with _LOCK:
        board = _STATE.board
        if board is None or board.group() is not group:
            _STATE.generation += 1
            board = _STATE.board = Board(group, _STATE.generation)
    return None if board.broken else board


def _asked(board: Board, ask: Callable[[Board], Any]) -> Any:
    try:
        return ask(board)
    except RuntimeError as error:  # whatever a store raises is one: its process may be gone
        board.broken = True
        log("cache", "ranks decide for themselves from now on: %s", error)
        return None


def are_made() -> bool:
    """Whether ranks decide together."""
    return _board() is not None


def gathered(subject: str, mine: str, join: Callable[[Sequence[str]], str]) -> str | None:
    """What all ranks go by: made by ``join`` from what each of them says. None where this rank decides for itself.

    Waits for the others, for `config.agree_wait` seconds at most.
    """
    board = _board()
    return None if board is None else _asked(board, lambda board: board.gathered(subject, mine, join))


def first(subject: str, mine: str) -> str | None:
    """What the first rank that came to it has said. None where this rank decides for itself."""
    board = _board()
    return None if board is None else _asked(board, lambda board: board.first(subject, mine))


def said(subject: str) -> str | None:
    """What a rank has said about a subject, if one has."""
    board = _board()
    return None if board is None else _asked(board, lambda board: board.read(subject))


def add(subject: str, item: str) -> None:
    """Tell the other ranks something more about a subject."""
    board = _board()
    if board is not None:
        _asked(board, lambda board: board.add(subject, item))


def added(subject: str) -> list[str]:
    """What ranks have told about a subject since this was asked last."""
    board = _board()
    return [] if board is None else _asked(board, lambda board: board.added(subject)) or []


def rank() -> int:
    """The number of this rank, where ranks decide together."""
    board = _board()
    return 0 if board is None else board.rank


def _in_child() -> None:
    """A forked child is none of the ranks, and its connection is the parent's."""
    _STATE.board, _STATE.forked = None, True


at_fork(after_in_child=_in_child)
