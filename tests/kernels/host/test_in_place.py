"""Inputs that a program changes: written by the kernel itself where nobody can tell, copied to at the end elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import firesteel as fs
from firesteel import config
from firesteel.kernels.host import in_place
from firesteel.kernels.host.in_place import finish_write, finish_writes, kept_memory, written_memories, written_memory
from firesteel.kernels.ir import ExternCall
from firesteel.kernels.plan import WriteBack
from firesteel.pipeline import compile as compiling

N = 200


@pytest.fixture(autouse=True)
def plans(monkeypatch):
    """The plans that are made during a test."""
    made = []
    original = compiling.compile_graph

    def noting(*args):
        executable = original(*args)
        made.append(executable.plan)
        return executable

    monkeypatch.setattr(compiling, "compile_graph", noting)
    with config.patch(raise_on_internal_error=True), torch.no_grad():
        torch.manual_seed(0)
        yield made


def agree(f, make, dynamic=None):
    """Compiled and eager do the same to arguments, which ``make`` makes anew, and return the same."""
    compiled = fs.compile(f, backend="native", fullgraph=True, dynamic=dynamic)
    for _ in range(3):
        state = torch.get_rng_state()
        mine = make()
        torch.set_rng_state(state)
        theirs = make()
        versions = [t._version for t in mine]
        result, expected = compiled(*mine), f(*theirs)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(mine, theirs)
        changed = [t._version > version for t, version in zip(mine, versions, strict=True)]
        assert changed == [t._version > version for t, version in zip(theirs, versions, strict=True)]
    return compiled


def is_direct(plan):
    targets = [step.target for step in plan.steps if isinstance(step, ExternCall)]
    copies = any(isinstance(step, WriteBack) for step in plan.steps)
    assert copies or (written_memory in targets and finish_write in targets) or (
        written_memories in targets and finish_writes in targets)
    return not copies


def squares(count):
    return lambda: [torch.randn(N, N) for _ in range(count)]


def of_others(out, x, y):
    out.copy_(torch.relu(x) + y)


def of_itself(x, y):
    x.mul_(y).add_(1)
    return x.t()


def read_again(x, y):
    x.add_(y)
    return (x * 2).amax(0)


def two(x, y):
    x.add_(1)
    y.mul_(2)


def after_a_call(x, y):
    x.copy_(torch.relu(x @ y))


def rows(x, y):
    x.copy_(torch.softmax(x, 1) + y.mean(1, keepdim=True))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("f", "count"), [(of_others, 3), (of_itself, 2), (read_again, 2), (two, 2), (after_a_call, 2),
                                          (rows, 2)])
def test_kernels_write_to_the_input(plans, f, count, dynamic):
    agree(f, squares(count), dynamic)
    assert is_direct(plans[-1])


def flipped(x):
    x.copy_(x.flip(0))


def transposed(x):
    x.copy_(x.t() + 1)


def normalised(x):
    x.sub_(x.mean(0))


def normalised_rows(x):
    x.sub_(x.mean(1, keepdim=True)).div_(x.var(1, keepdim=True) + x.amax(0))


def old_value_later(x, y):
    old = (x + 1) @ y
    x.mul_(2)
    return old


def old_rows(x):
    old = x.flip(0) * 2
    x.mul_(3)
    return old


def also_returned(x, y):
    new = x * y
    x.copy_(new)
    return new


def swapped(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def crossed(x, y):
    new = x.flip(0) + y
    y.copy_(x + y.flip(0))
    x.copy_(new)


def slice_written(x, y):
    x[3:9] = y[:6] * 2


@pytest.mark.parametrize(("f", "count"), [
    (flipped, 1), (transposed, 1), (normalised, 1), (normalised_rows, 1), (old_value_later, 2), (old_rows, 1),
    (also_returned, 2), (swapped, 2), (crossed, 2), (slice_written, 2),
])  # fmt: skip
@pytest.mark.parametrize("dynamic", [False, True])
def test_old_contents_that_are_wanted(f, count, dynamic):
    agree(f, squares(count), dynamic)


def test_an_input_that_is_read_elsewhere_is_copied_to(plans):
    agree(flipped, squares(1))
    assert not is_direct(plans[-1])


def test_other_layouts(plans):
    agree(of_others, lambda: [torch.randn(N, N).t(), torch.randn(N, N), torch.randn(N, N)])
    agree(of_others, lambda: [torch.randn(N, 2 * N)[:, ::2], torch.randn(N, N), torch.randn(N, N)])
    agree(of_others, lambda: [torch.randn(N, N, dtype=torch.float64), torch.randn(N, N), torch.randn(N, N)])
    agree(of_others, lambda: [torch.randn(N * N + 1)[1:].view(N, N), torch.randn(N, N), torch.randn(N, N)])


@pytest.mark.parametrize("shift", [-N, -1, 0, 1, 7, N])
def test_memory_that_guards_do_not_see(plans, shift):
    """Tensors over arrays of numpy have storages of their own, but may overlap: such calls run uncompiled."""

    def make():
        array = torch.randn(N * N + 2 * N).numpy()
        at = N + shift
        return [torch.from_numpy(np.asarray(array[N:N + N * N]).reshape(N, N)), torch.randn(N, N),
                torch.from_numpy(array[at:at + N * N].reshape(N, N))]

    compiled = fs.compile(of_others, backend="native")
    for inputs in (squares(3)(), make(), make()):
        out, x, y = inputs
        expected = torch.relu(x) + y
        compiled(out, x, y)
        assert torch.equal(out, expected)


@pytest.mark.parametrize("shift", [1, N, N * N])
def test_views_of_one_tensor(shift):
    def make():
        base = torch.randn(3 * N * N)
        return [base[:N * N].view(N, N), torch.randn(N, N), base[shift:shift + N * N].view(N, N)]

    agree(of_others, make)
    agree(of_others, lambda: make()[::-1])


def looked_up(x, table, index):
    x.copy_(table[index] + 1)


def test_nothing_is_written_when_an_index_is_wrong():
    index = torch.arange(N)
    agree(looked_up, lambda: [torch.randn(N, N), torch.randn(N, N), index])
    compiled = fs.compile(looked_up, backend="native", fullgraph=True)
    compiled(torch.randn(N, N), torch.randn(N, N), index)
    x = torch.randn(N, N)
    old = x.clone()
    with pytest.raises(IndexError):
        compiled(x, torch.randn(N, N), index + 1)
    assert torch.equal(x, old)


def looked_up_before_a_call(x, table, index):
    x.copy_(torch.relu(table[index] @ table))


def test_an_index_is_checked_before_the_next_call(plans):
    index = torch.arange(N)
    compiled = agree(looked_up_before_a_call, lambda: [torch.randn(N, N), torch.randn(N, N), index])
    assert is_direct(plans[-1])
    x = torch.randn(N, N)
    old = x.clone()
    with pytest.raises(IndexError):
        compiled(x, torch.randn(N, N), index + 1)
    assert torch.equal(x, old)


def looked_up_first(matrix, index):
    return matrix[index].sum() + torch.linalg.cholesky(matrix)


def looked_up_last(matrix, index):
    return torch.linalg.cholesky(matrix) + matrix[index + 1].sum()


@pytest.mark.parametrize("f", [looked_up_first, looked_up_last])
def test_the_first_error_of_the_program_is_raised(f):
    compiled = fs.compile(f, backend="native", fullgraph=True)
    identity, index = torch.eye(4), torch.arange(3)
    torch.testing.assert_close(compiled(identity, index), f(identity, index))
    for matrix, wrong in ((identity, index + 2), (-identity, index), (-identity, index + 2)):
        with pytest.raises(Exception) as expected:  # noqa: PT011
            f(matrix, wrong)
        with pytest.raises(expected.type):
            compiled(matrix, wrong)


def test_modules_and_saved_tensors():
    class Running(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(N, N))

        def forward(self, x):
            self.total.mul_(0.9).add_(x)
            return self.total + 1

    one, other = Running(), Running()
    compiled = fs.compile(one, backend="native")
    for _ in range(3):
        x = torch.randn(N, N)
        torch.testing.assert_close(compiled(x), other(x))
        torch.testing.assert_close(one.total, other.total)
    saved = torch.randn(N, N)
    with torch.enable_grad():
        weight = torch.ones(N, N, requires_grad=True)
        loss = (weight * saved).sum()
    fs.compile(of_itself, backend="native")(saved, torch.randn(N, N))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_inference_tensors():
    with torch.inference_mode():
        out = torch.zeros(N, N)
        x, y = squares(2)()
        compiled = fs.compile(of_others, backend="native")
        compiled(out, x, y)
        assert torch.equal(out, torch.relu(x) + y)
    assert written_memory(out, x) is not out  # outside of inference mode writing to it is an error
    with pytest.raises(RuntimeError, match="inference"):
        finish_write(out, written_memory(out, x))


def test_overlap():
    base = torch.zeros(100)
    assert written_memory(base[:50], base[50:]).data_ptr() == base.data_ptr()
    assert written_memory(base[:50], base[49:]).data_ptr() != base.data_ptr()
    assert written_memory(base[10:], base[:20:9]).data_ptr() != base[10:].data_ptr()
    assert written_memory(base[10:], base[:10:9], base[:0]).data_ptr() == base[10:].data_ptr()


def test_memory_that_keeps_its_contents():
    base = torch.arange(20.0)
    assert kept_memory(base[:10], base[10:]).data_ptr() == base.data_ptr()
    copied = kept_memory(base[:10], base[9:])
    assert copied.data_ptr() != base.data_ptr() and torch.equal(copied, base[:10])
    first, second = written_memories(2, 1, base[:10], base[10:])
    assert first.data_ptr() == base.data_ptr() and second.data_ptr() == base[10:].data_ptr()
    first, second = written_memories(2, 1, base[:10], base[10:], base[5:12])
    assert torch.equal(first, base[:10]) and first.data_ptr() != base.data_ptr()
    assert second.data_ptr() != base[10:].data_ptr()


def test_many_inputs_are_looked_at_together():
    base = torch.zeros(100)
    parts = [base[k : k + 10] for k in range(0, 100, 10)]
    assert all(a is b for a, b in zip(written_memories(3, 0, *parts), parts, strict=False))
    # the second is also the last
    made = written_memories(3, 0, *parts, parts[1])
    assert made[0] is parts[0] and made[1] is not parts[1] and made[2] is parts[2]
    made = written_memories(2, 0, parts[0], parts[1], base[5:8])
    assert made[0] is not parts[0] and made[1] is parts[1]
    version = parts[1]._version
    finish_writes(2, *parts[:2], torch.ones(10), parts[1])
    assert parts[0].eq(1).all() and parts[1].eq(0).all() and parts[1]._version > version


def test_the_steps_are_walked_once_however_many_inputs_are_changed(plans, monkeypatch):
    looks = []
    original = in_place._written
    monkeypatch.setattr(in_place, "_written", lambda step: looks.append(1) or original(step))

    def change(*tensors):
        for tensor in tensors:
            tensor.mul_(2).add_(1)

    fs.compile(change, backend="native", fullgraph=True)(*[torch.ones(number + 2, 3) for number in range(30)])
    (plan,) = plans
    assert is_direct(plan) and len(looks) <= 3 * len(plan.steps)
