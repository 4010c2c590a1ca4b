"""How many rounds are left of the loops around a call."""

from __future__ import annotations

import ctypes
import dataclasses
import inspect
import json
import re
import sys
from contextlib import nullcontext

import torch

from firesteel import loops_around
from firesteel.loops_around import filled_at, rounds_left


def left(depth: int = 1) -> list[int]:
    """The rounds left of the loops in the caller's frame."""
    frame = sys._getframe(depth)
    return [rounds for (whose, _), rounds in rounds_left(frame).items() if whose == id(frame)]


def test_nested_loops_over_all_that_can_be_counted():
    seen = []
    for _ in range(2):
        for _ in [1, 2, 3]:
            seen.append(left())
    assert seen == [[1, 2], [1, 1], [1, 0], [0, 2], [0, 1], [0, 0]]
    for iterable in ((1, 2), {1: 2, 3: 4}, {1: 2, 3: 4}.items(), {5, 6}, "ab", enumerate([1, 2]), zip([1, 2], range(9)),
                     map(str, [1, 2]), reversed([1, 2]), range(1 << 70, (1 << 70) + 2)):
        seen = []
        for _ in iterable:
            seen.append(left()[1:])
        assert seen == [[1], [0]], iterable


def test_generators_and_loaders():
    def progress(iterable):
        yield from ()
        for item in iterable:
            yield item

    loader = torch.utils.data.DataLoader(list(range(10)), batch_size=4)
    for made in (progress(range(3)), enumerate(progress([1, 2, 3])), loader):
        seen = []
        for _ in made:
            seen.append(left()[1])
        assert seen == [2, 1, 0]


def test_loops_that_do_not_say():
    seen = []
    for _ in iter(lambda: len(seen) < 2, False):
        seen.append(left())
    while len(seen) < 3:
        seen.append(left())
    assert seen == [[], [], []]


def test_loops_in_blocks_and_around_c_code():
    class Module(torch.nn.Module):
        def forward(self):
            return left(4) if sys._getframe(3).f_code is here else left(3)

    here = sys._getframe().f_code
    seen = []
    with nullcontext(), nullcontext():
        for number in range(3):
            with nullcontext():
                for _ in (1, 2):
                    try:
                        seen.append(left())
                    finally:
                        if number > 1:
                            break
    assert seen == [[2, 1], [2, 0], [1, 1], [1, 0], [0, 1]]
    for _ in range(2):
        seen.append(max((left(), sorted([0], key=lambda _: seen.append(left(2)))), key=len))
    assert seen[5:] == [[1], [1], [0], [0]]


def test_what_comes_after_a_loop_is_not_inside():
    def leaves(kind: str) -> list[int]:
        try:
            for _ in range(3):
                if kind == "returns":
                    return left()
                if kind == "breaks":
                    break
        finally:
            after.append(left())
        return left()

    after: list[list[int]] = []
    assert leaves("breaks") == [] and leaves("returns") == [2] and after == [[], []]


def test_never_more_is_read_than_is_filled():
    """Where one Python function calls another, the interpreter notes how much of the caller's stack is filled."""
    seen, wrong, exact, inexact = set(), [], 0, 0

    def check(caller, event, argument):
        nonlocal exact, inexact
        while caller is not None:
            code, at = caller.f_code, caller.f_lasti
            if (id(code), at) not in seen:
                seen.add((id(code), at))
                address = loops_around._read(id(caller) + loops_around._FRAME)
                top = ctypes.c_int.from_address(address + 64).value
                hidden = set(code.co_cellvars).difference(code.co_varnames)
                noted = top - code.co_nlocals - len(hidden) - len(code.co_freevars)
                if top >= 0:
                    filled = filled_at(code.co_code, at)
                    exact += filled == noted
                    inexact += filled < noted
                    wrong.extend([(code, at)] if filled > noted else [])
            caller = caller.f_back

    sys.setprofile(lambda frame, event, argument: check(frame.f_back, event, argument) if event == "call" else None)
    try:
        json.dumps({"a": [1, 2, {"b": None}]}, indent=2)
        re.compile(r"(a|b)*c{2,3}(?P<x>[a-z]+)")
        dataclasses.make_dataclass("Point", [("x", int)], frozen=True)
        inspect.signature(torch.nn.Linear)
        torch.optim.Adam(torch.nn.Linear(2, 2).parameters()).step()
    finally:
        sys.setprofile(None)
    assert not wrong and exact > 50 and inexact < 0.1 * exact
