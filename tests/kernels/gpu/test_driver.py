"""The launching function, with functions of this test in the place of CUDA's driver and of torch."""

from __future__ import annotations

import ctypes

import pytest

from firesteel.kernels.gpu import driver
from firesteel.kernels.gpu.versions import COUNT, LIMIT, UNALIGNED, UNEVEN, WIDE

LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p)  # fmt: skip
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
ASKED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class Pretended:
    """A descriptor whose functions note what they are called with: two buffers, a size, and how far indices reach."""

    def __init__(self, statuses=(0,), kinds=(UNALIGNED, UNALIGNED, 0), told=False):
        self.launches, self.asked, self.entered, self.statuses = [], [], [], list(statuses)
        self.kept = [LAUNCH(self.launch), STREAM(self.stream), ASKED(self.make), ASKED(self.enter)]
        launch, stream, make, enter = (ctypes.cast(f, ctypes.c_void_p).value for f in self.kept)
        self.kinds = (ctypes.c_int64 * 3)(*kinds)
        self.values = {"launcher": driver.launcher(), "function0": 1000, "shared0": 64, "words": 3, "device": 3,
                       "threads": 128, "make": make, "number": 7, "stream_of": stream, "launch": launch, "enter": enter,
                       "kinds": ctypes.addressof(self.kinds), "extent_at": 3 if told else 0,
                       "limit": LIMIT if told else driver.NO_LIMIT}
        self.words = (ctypes.c_int64 * len(driver._FIELDS))(*(self.values.get(name, 0) for name in driver._FIELDS))

    def launch(self, function, x, y, z, threads, ty, tz, shared, stream, parameters, extra):
        words = [ctypes.c_int64.from_address(parameters[number]).value for number in range(5)]
        self.launches.append((function, (x, y, z), (threads, ty, tz), shared, stream, words))
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    def stream(self, device, out):
        out[0] = 500 + device
        return 0

    def make(self, number, version):
        self.asked.append((number, version))
        if number != 7:
            return 1
        self.words[driver._FIELDS.index(f"function{version}")] = 2000 + version
        self.words[driver._FIELDS.index(f"shared{version}")] = 32
        return 0

    def enter(self, number, _):
        self.entered.append(number)
        return 0

    def run(self, words, programs):
        call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(driver.launcher())
        return call(ctypes.addressof(self.words), (ctypes.c_int64 * len(words))(*words), programs)


def test_launch():
    pretended = Pretended()
    assert pretended.run([64, 128, 5], 9) == 0
    assert pretended.launches == [(1000, (9, 1, 1), (128, 1, 1), 64, 503, [64, 128, 5, 0, 0])]
    assert not pretended.asked


def test_nothing_to_do():
    pretended = Pretended()
    assert pretended.run([64, 128, 5], 0) == 0 and not pretended.launches


def test_buffers_that_are_not_aligned_ask_for_another_kernel_once():
    pretended = Pretended()
    assert pretended.run([64, 132, 5], 1) == 0 and pretended.run([68, 128, 5], 1) == 0
    assert pretended.asked == [(7, UNALIGNED)]
    assert [launch[0] for launch in pretended.launches] == [2001, 2001]
    assert pretended.launches[0][3] == 32
    pretended.run([64, 128, 5], 1)  # a size of 5 is no address
    assert pretended.launches[-1][0] == 1000


def test_no_other_kernel():
    pretended = Pretended()
    pretended.words[driver._FIELDS.index("number")] = 8
    assert pretended.run([64, 132, 5], 1) == 1 and not pretended.launches


def test_sizes_choose_the_version():
    pretended = Pretended(kinds=(UNALIGNED, UNALIGNED, UNEVEN), told=True)
    for size, extent, version in [(32, 100, 0), (33, 100, UNEVEN), (32, LIMIT - 1, 0), (32, LIMIT, WIDE),
                                  (5, 1 << 40, UNEVEN | WIDE), (48, LIMIT, WIDE)]:
        assert pretended.run([64, 128, size, extent], 1) == 0
        assert pretended.launches[-1][0] == (2000 + version if version else 1000)
        assert pretended.launches[-1][-1] == [64, 128, size, 0, 0]  # what it was told is no parameter
    assert pretended.run([64, 132, 5, 1 << 40], 1) == 0
    assert pretended.asked == [(7, UNEVEN), (7, WIDE), (7, UNEVEN | WIDE), (7, COUNT - 1)]


@pytest.mark.parametrize("statuses, expected", [((201, 0), 0), ((201, 201), 201), ((700, 0), 700)])
def test_threads_without_a_context_get_one(statuses, expected):
    pretended = Pretended(statuses)
    assert pretended.run([64, 128, 5], 1) == expected
    assert pretended.entered == ([7] if statuses[0] == 201 else [])
    assert len(pretended.launches) == (2 if statuses[0] == 201 else 1)
