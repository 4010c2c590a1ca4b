"""The launching function, with functions of this test in the place of CUDA's driver and of torch."""

from __future__ import annotations

import ctypes

import pytest

from firesteel.kernels.gpu import driver

LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p)  # fmt: skip
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
ASKED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)


class Pretended:
    """A descriptor whose functions note what they are called with."""

    def __init__(self, statuses=(0,)):
        self.launches, self.asked, self.entered, self.statuses = [], [], [], list(statuses)
        self.kept = [LAUNCH(self.launch), STREAM(self.stream), ASKED(self.make), ASKED(self.enter)]
        launch, stream, make, enter = (ctypes.cast(f, ctypes.c_void_p).value for f in self.kept)
        values = {"launcher": driver.launcher(), "aligned": 1000, "unaligned": 0, "words": 3, "buffers": 2,
                  "threads": 128, "shared": 64, "unaligned_shared": 0, "device": 3, "make": make, "number": 7,
                  "stream_of": stream, "launch": launch, "enter": enter}
        self.words = (ctypes.c_int64 * len(driver._FIELDS))(*(values[name] for name in driver._FIELDS))

    def launch(self, function, x, y, z, threads, ty, tz, shared, stream, parameters, extra):
        words = [ctypes.c_int64.from_address(parameters[number]).value for number in range(5)]
        self.launches.append((function, (x, y, z), (threads, ty, tz), shared, stream, words))
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    def stream(self, device, out):
        out[0] = 500 + device
        return 0

    def make(self, number):
        self.asked.append(number)
        if number != 7:
            return 1
        self.words[driver._FIELDS.index("unaligned")] = 2000
        self.words[driver._FIELDS.index("unaligned_shared")] = 32
        return 0

    def enter(self, number):
        self.entered.append(number)
        return 0

    def run(self, words, programs):
        call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(driver.launcher())
        return call(ctypes.addressof(self.words), (ctypes.c_int64 * 3)(*words), programs)


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
    assert pretended.asked == [7]
    assert [launch[0] for launch in pretended.launches] == [2000, 2000]
    assert pretended.launches[0][3] == 32
    pretended.run([64, 128, 5], 1)  # a size of 5 is no address
    assert pretended.launches[-1][0] == 1000


def test_no_other_kernel():
    pretended = Pretended()
    pretended.words[driver._FIELDS.index("number")] = 8
    assert pretended.run([64, 132, 5], 1) == 1 and not pretended.launches


@pytest.mark.parametrize("statuses, expected", [((201, 0), 0), ((201, 201), 201), ((700, 0), 700)])
def test_threads_without_a_context_get_one(statuses, expected):
    pretended = Pretended(statuses)
    assert pretended.run([64, 128, 5], 1) == expected
    assert pretended.entered == ([7] if statuses[0] == 201 else [])
    assert len(pretended.launches) == (2 if statuses[0] == 201 else 1)
