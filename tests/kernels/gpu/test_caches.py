"""Caches that get one more row: written where they are, without a copy, where nobody can tell."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.kernels.host.in_place import finish_writes, kept_memory, written_memories
from firesteel.kernels.ir import ExternCall
from firesteel.kernels.plan import Allocate, WriteBack
from firesteel.pipeline import compile as stages
from kernels.gpu.pretended_gpu import PretendedGpu

ROWS, WIDTH = 40, 512


@pytest.fixture
def plans(monkeypatch):
    fs.reset()
    torch.manual_seed(0)
    executable, noted = stages._executable, []

    def noting(passed, lowered, plan, *args):
        noted.append(plan)
        return executable(passed, lowered, plan, *args)

    monkeypatch.setattr(stages, "_executable", noting)
    return noted


def agree(program, make, calls=3):
    gpu = PretendedGpu()
    mine, theirs = make(), make()
    with gpu.here(), torch.no_grad():
        compiled = fs.compile(program, backend=gpu, fullgraph=True)
        for number in range(calls):
            x, at = torch.randn(1, WIDTH), torch.tensor([3 * number + 1])
            torch.testing.assert_close(compiled(x, at, *mine), program(x, at, *theirs))
            torch.testing.assert_close(mine, theirs)
    assert not gpu.failures


def caches():
    torch.manual_seed(1)
    return [torch.randn(ROWS, WIDTH) for _ in range(2)]


def decode(x, at, keys, values):
    keys.index_copy_(0, at, x * 2)
    values.index_copy_(0, at, x + 1)
    return torch.softmax(x @ keys.t(), -1) @ values


def targets(plan):
    return [step.target for step in plan.steps if isinstance(step, ExternCall)]


def test_rows_are_written_into_caches(plans):
    agree(decode, caches)
    [plan] = plans
    assert targets(plan).count(written_memories) == 1 and finish_writes in targets(plan)
    assert not any(isinstance(step, WriteBack) for step in plan.steps)
    assert not [step for step in plan.steps if isinstance(step, Allocate) and step.buffer.shape[0].value == ROWS], \
        "no memory for a copy"


def test_one_cache(plans):
    def program(x, at, cache):
        cache.index_copy_(0, at, torch.tanh(x))
        return cache.sum(0)

    agree(program, lambda: caches()[:1])
    assert kept_memory in targets(plans[0])


def test_a_cache_whose_old_contents_are_read_later_is_copied(plans):
    def program(x, at, cache):
        old = torch.sort(cache, 0)[0]
        new = cache.index_copy(0, at, x)
        result = (cache * 2).sum(0) + torch.cumsum(new, 0)[-1]
        cache.copy_(new)
        return result, old[0] @ cache.t()

    agree(program, lambda: caches()[:1])


def test_caches_that_share_memory(plans):
    """What was read of one after the other has been written is as in eager."""
    def make():
        torch.manual_seed(1)
        whole = torch.randn(ROWS + 8, WIDTH)
        return [whole[:ROWS], whole[8:]]

    def program(x, at, keys, values):
        keys.index_copy_(0, at, x * 2)
        return x @ keys.t() + x @ values.t()

    agree(program, make)


def test_a_cache_in_inference_mode(plans):
    with torch.inference_mode():
        mine, theirs = caches(), caches()
    gpu = PretendedGpu()
    with gpu.here():
        compiled = fs.compile(decode, backend=gpu)
        x, at = torch.randn(1, WIDTH), torch.tensor([5])
        with torch.inference_mode():
            torch.testing.assert_close(compiled(x, at, *mine), decode(x, at, *theirs))
            torch.testing.assert_close(mine, theirs)
