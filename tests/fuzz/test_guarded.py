"""Tensors next to pages without access behave like others, and one access too far is a crash that is reported."""

from __future__ import annotations

import pytest
import torch

from .guarded import PAGE, guarded
from .program import Program
from .worker import Task, worker


@pytest.mark.parametrize("side", ["begin", "end"])
def test_tensors_lie_at_the_edge_of_a_page(side: str) -> None:
    with guarded(side):
        x = torch.arange(15.0).view(3, 5)
        made = torch.tensor([1, 2, 3])
        parameter = torch.nn.Linear(3, 2).weight
        view = x[1:, 2]
        empty = torch.zeros(0)
    for tensor in (x, made, parameter):
        start = tensor.data_ptr()
        end = start + tensor.numel() * tensor.element_size()
        assert (start if side == "begin" else end) % PAGE == 0
        assert tensor.storage_offset() == 0
    assert torch.equal(x, torch.arange(15.0).view(3, 5)) and made.tolist() == [1, 2, 3]
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert empty.shape == (0,)
    x.mul_(2)
    assert view.tolist() == [14.0, 24.0]


OVERRUN = """
import ctypes
import torch

def make():
    x = torch.arange(5.0)
    def fn(x):
        # one element too far, as a wrong kernel would read it
        return x + ctypes.c_float.from_address(x.data_ptr() + 4 * {element}).value
    calls = [((x,), {{}})]
    def before(index):
        pass
    def observe():
        return {{}}
    return fn, calls, before, observe
"""


@pytest.mark.parametrize("seed, element", [(0, 5), (1, -1)])
def test_an_access_too_far_crashes_the_guarded_program_only(seed: int, element: int) -> None:
    program = Program(seed, OVERRUN.format(element=element))
    with worker(timeout=30) as mine:
        verdict = mine.check(Task("native-guarded", program=program))
        assert verdict.kind == "crash" and not verdict.plain and "SIGSEGV" in verdict.differences[0]
        inside = Program(seed, OVERRUN.format(element=2))
        assert mine.check(Task("native-guarded", program=inside)).kind == "equal"
