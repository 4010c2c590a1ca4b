"""What a unit learned about its inputs, remembered from one process to the next.

A function starts with every size a constant. When a size, stride or number differs on a later call, it becomes a
symbol, which costs a second compilation. `remember` keeps what differed, so that the next process, which asks `recall`
before its first compilation, starts with the symbols and compiles once.

What is remembered is advice: it decides what is tried first and never what is right. So the key may be generous. It is
the content of the code and not its place: an edited function starts anew, a project that was moved does not.

One entry of the disk cache holds all that is known of one code object, its continuations included.
"""

from __future__ import annotations

import json
import sys
import types
import weakref
from collections.abc import Iterable
from typing import Any

from .. import disk_cache
from ..locks import new_lock
from ..logs import log
from ..records import dataclass

KIND = "learned"
_LONGEST_NAME = 300
_MOST_NAMES = 2000  # per code object; a program whose names are new in each run must not make its entry grow for ever


@dataclass(frozen=True, slots=True)
class Learned:
    """Which inputs of a unit vary. Names are those of sources, such as ``x`` or ``self.cache.key[0]``.

    >>> Learned(frozenset({("x", 0)})) | Learned(numbers=frozenset({"step"}))
    Learned(x.size(0), step)
    """

    dims: frozenset[tuple[str, int]] = frozenset()
    strides: frozenset[tuple[str, int]] = frozenset()
    numbers: frozenset[str] = frozenset()

    def __or__(self, other: Learned) -> Learned:
        if self >= other:
            return self
        return Learned(self.dims | other.dims, self.strides | other.strides, self.numbers | other.numbers)

    def __ge__(self, other: Learned) -> bool:
        """Whether this knows all that `other` knows."""
        return self.dims >= other.dims and self.strides >= other.strides and self.numbers >= other.numbers

    def __len__(self) -> int:
        return len(self.dims) + len(self.strides) + len(self.numbers)

    def __str__(self) -> str:
        parts = [f"{name}.size({dim})" for name, dim in sorted(self.dims)]
        parts += [f"{name}.stride({dim})" for name, dim in sorted(self.strides)]
        return ", ".join([*parts, *sorted(self.numbers)])

    def __repr__(self) -> str:
        return f"Learned({self})"


NOTHING = Learned()


class _Record:
    """What this process knows of one code object."""

    __slots__ = ("code", "key", "root", "starts")

    def __init__(self, code: types.CodeType) -> None:
        identity = id(code)
        self.code = weakref.ref(code, lambda _: _records.pop(identity, None))
        self.key = code_key(code)
        self.root: str | None = None  # the cache directory that `starts` was read from
        self.starts: dict[int, Learned] = {}


# By identity: equal code objects of different functions share an entry on disk, and comparing code is slow. A record
# holds its code weakly, and the place in this table goes with the code.
_records: dict[int, _Record] = {}
_lock = new_lock()


def recall(code: types.CodeType, start_index: int) -> Learned:
    """What is known about the unit that starts at that instruction of `code`. Reads the disk once per code object."""
    root = disk_cache.directory()
    if root is None:
        return NOTHING
    with _lock:
        record = _record_of(code)
        if record.root != root:
            record.root, record.starts = root, _read(record.key)
        varying = record.starts.get(start_index, NOTHING)
    if varying:
        log("cache", "%s starts with what earlier runs learned: %s vary", code.co_qualname, varying)
    return varying


def remember(code: types.CodeType, start_index: int, learned: Learned) -> None:
    """Add to what is known about that unit, here and on disk. Does nothing when it is known already."""
    root = disk_cache.directory()
    learned = _lasting(learned)
    if root is None or not learned:
        return
    with _lock:
        record = _record_of(code)
        if record.root == root and record.starts.get(start_index, NOTHING) >= learned:
            return
        # Other processes may have added to the entry since it was read here.
        on_disk = _read(record.key)
        starts = dict(on_disk)
        if record.root == root:
            _add(starts, record.starts)
        _add(starts, {start_index: learned})
        record.root, record.starts = root, starts
        if starts == on_disk or sum(map(len, starts.values())) > _MOST_NAMES:
            return
        disk_cache.put(KIND, record.key, _to_json(code, starts))


def _record_of(code: types.CodeType) -> _Record:
    identity = id(code)
    record = _records.get(identity)
    if record is None or record.code() is not code:
        record = _records[identity] = _Record(code)
    return record


def _add(starts: dict[int, Learned], more: dict[int, Learned]) -> None:
    for index, learned in more.items():
        starts[index] = starts.get(index, NOTHING) | learned


# What is written


def _lasting(learned: Learned) -> Learned:
    """Without names that mean nothing to another process: those with an address in them, and unreasonably long ones."""
    if not any(map(_passing, _names(learned))):
        return learned
    return Learned(frozenset(item for item in learned.dims if not _passing(item[0])),
                   frozenset(item for item in learned.strides if not _passing(item[0])),
                   frozenset(name for name in learned.numbers if not _passing(name)))


def _names(learned: Learned) -> Iterable[str]:
    yield from learned.numbers
    for name, _ in (*learned.dims, *learned.strides):
        yield name


def _passing(name: str) -> bool:
    return " at 0x" in name or len(name) > _LONGEST_NAME


def _to_json(code: types.CodeType, starts: dict[int, Learned]) -> bytes:
    units = {str(index): as_json(learned) for index, learned in sorted(starts.items())}
    return json.dumps({"function": code.co_qualname, "units": units}, indent=1).encode()


def as_json(learned: Learned) -> dict[str, Any]:
    """What JSON can hold of it, the same for equal ones."""
    return {"dims": sorted(map(list, learned.dims)), "strides": sorted(map(list, learned.strides)),
            "numbers": sorted(learned.numbers)}


def _read(key: str) -> dict[int, Learned]:
    data = disk_cache.get(KIND, key)
    if data is None:
        disk_cache.fetch(KIND, [key])
        data = disk_cache.get(KIND, key)
    if data is None:
        return {}
    try:
        return {int(index): from_json(unit) for index, unit in json.loads(data)["units"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log("cache", "what was learned is ignored, entry %s is not of the expected form: %s", key, error)
        return {}


def from_json(unit: Any) -> Learned:
    """From what `as_json` gave; raises for anything else."""
    pairs = [frozenset((_checked(name, str), _checked(dim, int)) for name, dim in unit[part])
             for part in ("dims", "strides")]
    return Learned(pairs[0], pairs[1], frozenset(_checked(name, str) for name in unit["numbers"]))


def _checked(value: Any, expected: type) -> Any:
    if type(value) is not expected:
        raise TypeError(f"{value!r} is not of type {expected.__name__}")
    return value


# The key


def code_key(code: types.CodeType) -> str:
    """A digest of what a code object does and what it calls things, the same in every process and directory."""
    from ..version import __version__

    return disk_cache.digest("learned 1", sys.implementation.cache_tag, __version__, _describe(code))


def _describe(code: types.CodeType) -> tuple[Any, ...]:
    """The code without its line numbers and its directory, in terms that print the same in every process."""
    filename = code.co_filename.replace("\\", "/").rpartition("/")[2]
    return (
        "code", code.co_qualname, filename, code.co_flags, code.co_argcount, code.co_posonlyargcount,
        code.co_kwonlyargcount, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_names, code.co_code,
        code.co_exceptiontable, tuple(map(_constant, code.co_consts)),
    )


def _constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return _describe(value)
    if isinstance(value, tuple):
        return ("tuple", *map(_constant, value))
    if isinstance(value, frozenset):
        # Its order differs between processes, because the hashes of strings do.
        return ("frozenset", *sorted(repr(_constant(item)) for item in value))
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, type(...))):
        return value
    return type(value).__qualname__  # code made by hand may hold any object, and its repr may be an address
