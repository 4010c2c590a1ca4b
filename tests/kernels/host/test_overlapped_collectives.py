"""Compiled programs compute while collectives are in flight, and leave what these read alone until they have waited."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.distributed as dist

import firesteel as fs

DELAY = 0.1


@pytest.fixture
def slow_group():
    """A group of one process whose collectives read and write when they end, which is late; gives what happened."""
    if not dist.is_available():
        pytest.skip("torch is built without torch.distributed")
    events = []

    class Slow(dist.ProcessGroup):
        def later(self, results, finish):
            number = sum(event.startswith("start") for event in events) + 1
            events.append(f"start {number}")
            future = torch.futures.Future()

            def end():
                finish()
                events.append(f"end {number}")
                future.set_result(results)

            threading.Timer(DELAY, end).start()
            return torch._C._distributed_c10d._create_work_from_future(future)

        def getBackendName(self):  # noqa: N802 (torch's name)
            return "slow"

        def allreduce(self, tensors, options=None):
            return self.later(tensors, lambda: [tensor.mul_(3) for tensor in tensors])

        def alltoall_base(self, output, given, to_get, to_give, options=None):
            return self.later([output], lambda: output.copy_(given))

    if not hasattr(dist.Backend, "SLOW"):
        dist.Backend.register_backend("slow", lambda store, rank, size, timeout: make(rank, size), devices=["cpu"])
    make.cls = Slow
    dist.init_process_group("slow", store=dist.HashStore(), rank=0, world_size=1)
    yield events
    dist.destroy_process_group()


def make(rank, size):
    return make.cls(rank, size)


def compiled_run(function, *args):
    """What a function gives compiled, in a call behind the first."""
    compiled = fs.compile(function, fullgraph=True, tier="wait")
    compiled(*[arg.clone() for arg in args])
    return compiled, [arg.clone() for arg in args]


def test_collectives_of_a_plain_program_are_in_flight_together(slow_group):
    def step(x, y):
        a, b, c = x * 2, y * 2, x + y
        dist.all_reduce(a)
        dist.all_reduce(b)
        dist.all_reduce(c)
        return a, b, c, (x @ y).relu()

    x, y = torch.ones(8, 8), torch.full((8, 8), 2.0)
    expected = step(x, y)
    assert slow_group == [f"{what} {number}" for number in (1, 2, 3) for what in ("start", "end")]
    compiled, args = compiled_run(step, x, y)
    slow_group.clear()
    torch.testing.assert_close(compiled(*args), expected)
    assert slow_group[:3] == ["start 1", "start 2", "start 3"]


def test_what_a_collective_reads_is_not_overwritten(slow_group):
    def step(x, y):
        given = x.sin()
        result = torch.empty_like(given)
        work = dist.all_to_all_single(result, given, async_op=True)
        for _ in range(4):  # temporaries as large as what is being read
            y = y.flip(0).cumsum(0).flip(1).cumsum(1) * 0.1
        x.fill_(7.0)
        work.wait()
        return result, y

    x, y = torch.linspace(0, 1, 64).view(8, 8), torch.full((8, 8), 0.1)
    compiled, (changed, other) = compiled_run(step, x, y)
    result, rest = compiled(changed, other)
    torch.testing.assert_close(result, x.sin())
    torch.testing.assert_close(rest, step(x.clone(), y)[1])
    assert changed.eq(7).all()


def test_arguments_in_flight_are_written_behind_the_wait(slow_group):
    def step(x):
        result = torch.empty_like(x)
        work = dist.all_to_all_single(result, x, async_op=True)
        work.wait()
        x.mul_(0).add_(5)
        return result

    x = torch.linspace(0, 1, 1 << 15)
    compiled, (changed,) = compiled_run(step, x)
    torch.testing.assert_close(compiled(changed), x)
    assert changed.eq(5).all()


def test_computing_goes_on_while_a_result_is_in_flight(slow_group):
    seen = []

    @torch.library.custom_op("collectives_test::note", mutates_args=())
    def note(x: torch.Tensor) -> torch.Tensor:
        seen.extend(slow_group)
        return x + 1

    note.register_fake(torch.empty_like)

    def step(x, y):
        a = x * 2
        dist.all_reduce(a)
        a = a.exp()
        z = note(y)
        return a, z

    x, y = torch.ones(4), torch.ones(4)
    compiled, args = compiled_run(step, x, y)
    slow_group.clear()
    seen.clear()
    a, _ = compiled(*args)
    torch.testing.assert_close(a, torch.full((4,), 6.0).exp())
    assert seen == ["start 1"]  # and no end
