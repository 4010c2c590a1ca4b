"""Other modules that programs use in the midst of tensor work: math, heapq, bisect, re, weakref, warnings, ..."""

import array
import base64
import bisect
import contextvars
import datetime
import decimal
import fractions
import hashlib
import heapq
import json
import logging
import math
import os.path
import re
import statistics
import struct
import sys
import threading
import traceback
import uuid
import warnings
import weakref
from pathlib import PurePosixPath

from . import given

_VARIABLE = contextvars.ContextVar("_VARIABLE", default=2)
_LOCAL = threading.local()
_LOCAL.scale = 3
_LOCK = threading.Lock()
_RLOCK = threading.RLock()
_PATTERN = re.compile(r"layer\.(\d+)\.(\w+)")
_LOGGER = logging.getLogger("python_programs")


def math_functions(x):
    return (
        x * math.sqrt(2),
        math.floor(2.7),
        math.gcd(12, 18),
        math.comb(5, 2),
        math.isclose(0.1 + 0.2, 0.3),
        math.prod([1, 2, 3]),
        math.pi,
        math.fsum([0.1] * 10),
        math.log2(8),
        math.hypot(3, 4),
        math.copysign(1, -0.0),
    )


def heap_queue(x):
    heap = []
    for value in [5, 7, 1, 3]:
        heapq.heappush(heap, value)
    smallest = heapq.heappop(heap)
    return (
        x * smallest,
        heap,
        heapq.nlargest(2, heap),
        heapq.nsmallest(2, [(3, "c"), (1, "a")]),
        list(heapq.merge([1, 4], [2, 3])),
    )


def bisection(x):
    def grade(score, breakpoints=(60, 70, 80, 90), grades="FDCBA"):
        return grades[bisect.bisect(breakpoints, score)]

    a = [1, 3, 5]
    bisect.insort(a, 4)
    return x, [grade(s) for s in (33, 99, 77, 70)], a, bisect.bisect_left(a, 3)


def regular_expression_match(x):
    m = re.match(r"(\w+) (\w+)", "Isaac Newton, physicist")
    return x, m.group(0), m.group(1, 2), m.groups(), m.span(), m[1], bool(re.search("c", "abcdef"))


def regular_expression_sub(x):
    return (
        x,
        re.sub(r"\s+", " ", "a  b   c"),
        re.split(r"\W+", "Words, words"),
        re.findall(r"\d+", "1 a 22"),
        re.sub(r"(\w)(\d)", r"\2\1", "a1 b2"),
    )


def compiled_pattern(x):
    out = {}
    for name in ("layer.0.weight", "layer.12.bias", "head"):
        m = _PATTERN.fullmatch(name)
        if m is not None:
            out[name] = x * int(m.group(1))
    return out, [m.group() for m in _PATTERN.finditer("layer.1.a layer.2.b")]


def weak_references(x):
    class Obj:
        pass

    o = Obj()
    r = weakref.ref(o)
    alive = r() is o
    d = weakref.WeakValueDictionary()
    d["k"] = o
    return x, alive, d["k"] is o, len(d)


def thread_local(x):
    return x * _LOCAL.scale, hasattr(_LOCAL, "other"), getattr(_LOCAL, "other", 1)


def locks(x):
    with _LOCK:
        y = x + 1
    with _RLOCK, _RLOCK:
        y = y * 2
    return y, _LOCK.locked()


def lock_made_inside(x):
    lock = threading.Lock()
    lock.acquire()
    held = lock.locked()
    lock.release()
    return x, held, lock.locked()


def context_variables(x):
    token = _VARIABLE.set(5)
    inside = _VARIABLE.get()
    _VARIABLE.reset(token)
    return x * inside, _VARIABLE.get()


def warnings_caught(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("not shown", UserWarning, stacklevel=2)
        y = x + 1
    return y


def warnings_recorded(x):
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        warnings.warn("deprecated", DeprecationWarning, stacklevel=1)
    return x, len(w), str(w[0].message), w[0].category


def logging_calls(x):
    _LOGGER.debug("shape %s", x.shape)
    if _LOGGER.isEnabledFor(logging.DEBUG):
        x = x * 100
    return x + 1


def json_text(x):
    text = json.dumps({"a": [1, 2.5, None, True], "b": "é"})
    return x * json.loads("[1, 2]")[1], text, json.loads(text)["a"][3], json.dumps([1], indent=1)


def number_types(x):
    f = fractions.Fraction(3, 4) + fractions.Fraction("1/4")
    return (
        x * float(f),
        decimal.Decimal("0.1") + decimal.Decimal("0.2"),
        str(fractions.Fraction(6, 4)),
        statistics.mean([1, 2, 3, 4]),
        statistics.median([3, 1, 2]),
    )


def paths(x):
    p = PurePosixPath("/usr") / "lib" / "x.tar.gz"
    return (
        x,
        os.path.join("a", "b.txt"),
        os.path.splitext("a.tar.gz"),
        p.name,
        p.suffix,
        str(p.parent),
        os.path.basename("/a/b"),
    )


def dates(x):
    d = datetime.date(2024, 2, 28) + datetime.timedelta(days=2)
    return (
        x * d.day,
        d.isoformat(),
        datetime.datetime(2020, 1, 2, 3).strftime("%Y/%m"),
        datetime.timedelta(hours=1).total_seconds(),
    )


def bytes_tools(x):
    return (
        x,
        struct.pack("<hi", 1, 2),
        struct.unpack("<h", b"\x01\x00"),
        base64.b64encode(b"abc"),
        hashlib.sha256(b"a").hexdigest()[:8],
        list(array.array("i", [1, 2])),
    )


def python_version(x):
    if sys.version_info >= (3, 8) and sys.byteorder in ("little", "big"):
        x = x + 1
    return x, sys.maxsize > 2**32, uuid.UUID(int=5).hex


def traceback_text(x):
    try:
        raise ValueError("bad")
    except ValueError as error:
        return x, traceback.format_exception_only(error)


@given(lambda: (re.compile("a+"), [1, 2]))
def objects_from_outside(x, pattern, numbers):
    return x * len(pattern.findall("aa b a")), math.dist([0, 0], numbers), pattern.pattern


def environment(x):
    if os.environ.get("PYTHON_PROGRAMS_SCALE", "0") == "1":
        x = x * 2
    return x, os.sep, os.getenv("PYTHON_PROGRAMS_NONE") is None
