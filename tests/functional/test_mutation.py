"""Writes: to inputs, to intermediates, through views; what was written is seen by all views."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.functional import Unsupported, trace
from functional.programs import assert_same


def x():
    return torch.arange(24.0).reshape(4, 6)


PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def in_place(a):
    a.add_(1)
    return a * 2


@program
def in_place_returned(a):
    return a.mul_(2)


@program
def in_place_twice(a):
    b = a.add_(1)
    c = b.exp()
    a.sub_(3)
    return b, c


@program
def through_select(a):
    a[1].add_(5)
    return a + 1


@program
def through_slice(a):
    a[1:3].mul_(-1)
    return a.sum(0)


@program
def through_step(a):
    a[::2, 1::2] = 7
    return a.clone()


@program
def through_transpose(a):
    a.t().add_(torch.arange(4.0))
    return a + 0


@program
def through_view(a):
    a.view(-1)[3:9].zero_()
    return a * 1


@program
def through_view_and_transpose(a):
    a.t().unsqueeze(0)[0, 2:4].copy_(torch.ones(2, 4) * 9)
    return a.relu()


@program
def through_permute(a):
    a.view(2, 2, 6).permute(2, 0, 1)[3].fill_(1.5)
    return a - 1


@program
def through_diagonal(a):
    a.diagonal().add_(100)
    return a.abs()


@program
def through_as_strided(a):
    a.as_strided((2, 2), (1, 6), 3).fill_(-1)
    return a + 1


@program
def through_split(a):
    p, q = a.split(3, dim=1)
    p.mul_(2)
    q.sub_(p)
    return a.clone(), p + q


@program
def through_unbind(a):
    rows = a.unbind(0)
    rows[2].add_(rows[1])
    return torch.stack(rows)


@program
def through_chunk(a):
    for part in a.chunk(2):
        part.add_(1)
    return a.mean()


@program
def through_squeeze(a):
    b = a.unsqueeze(1).squeeze(1)
    b += 1
    return a * b


@program
def through_expand_source(a):
    a.copy_(a[0:1].expand(4, 6).clone() + 1)
    return a.cos()


@program
def old_view_sees_new_contents(a):
    v = a[1]
    w = a.t()
    a.add_(10)
    return v * 1, w * 1


@program
def value_before_write(a):
    b = a.clone()
    c = a + 0
    a.zero_()
    return b, c


@program
def clone_is_not_the_input(a):
    return a.clone()


@program
def write_to_clone(a):
    b = a.clone()
    b.add_(1)
    return b


@program
def write_to_intermediate_view(a):
    b = a * 2
    b[0].fill_(0)
    b.t()[1].add_(1)
    return b


@program
def write_to_noncontiguous_intermediate(a):
    b = (a * 2).t()
    b.add_(torch.ones(6, 4))
    b[2:4].mul_(3)
    return b, b.sum(0)


@program
def write_restrides(a):
    b = torch.empty(6, 4).t()
    b.copy_(a)
    return b, b.t().view(-1)


@program
def setitem_with_mask(a):
    a[a > 5] = 0
    return a.sum()


@program
def setitem_with_index(a):
    a[torch.tensor([0, 2])] = a[torch.tensor([1, 3])]
    return a * 1


@program
def index_put_accumulates(a):
    a.index_put_((torch.tensor([0, 0, 1]),), torch.ones(3, 6), accumulate=True)
    return a + 1


@program
def index_copy(a):
    a.index_copy_(1, torch.tensor([0, 5]), torch.zeros(4, 2))
    return a + 1


@program
def scatter_add(a):
    a.scatter_add_(1, torch.tensor([[0, 1], [2, 3]]), torch.ones(2, 2))
    return a + 1


@program
def masked_fill(a):
    a.masked_fill_(a > 3, -1.0)
    return a.clamp_(min=0).sqrt_()


@program
def out_argument(a):
    out = torch.empty(4, 6)
    torch.add(a, 1, out=out)
    return out, out * 2


@program
def out_argument_is_input(a):
    torch.mul(a, 2, out=a)
    return a + 1


@program
def out_argument_resized(a):
    out = torch.empty(0)
    torch.add(a, 1, out=out)
    return out


@program
def out_argument_is_view(a):
    b = torch.zeros(2, 4, 6)
    torch.exp(a * 0.1, out=b[1])
    return b


@program
def out_of_two(a):
    values, indices = torch.empty(4), torch.empty(4, dtype=torch.long)
    torch.max(a, 1, out=(values, indices))
    return values, indices


@program
def other_dtype_in_place(a):
    a.add_(torch.ones(4, 6, dtype=torch.float64))
    return a


@program
def comparison_in_place(a):
    a.gt_(5)
    return a


@program
def metadata_of_intermediate(a):
    b = a + 1
    c = b[0]
    b.t_()
    b[1].mul_(2)
    b.unsqueeze_(0)
    return b, c


@program
def swap_rows(a):
    t = a[0].clone()
    a[0] = a[1]
    a[1] = t
    return a.sum()


@program
def foreach(a):
    b = a * 2
    torch._foreach_add_([a, b], 1.0)
    return b


@program
def increments_of_views(a):
    for i in range(4):
        a[i] += a[i - 1]
    return a.norm()


@program
def detached_write(a):
    a.detach().add_(1)
    a.data.mul_(2)
    return a + 1


@program
def same_value_written_twice(a):
    b, c = torch.empty(4, 6), torch.empty(4, 6)
    y = a + 1
    b.copy_(y)
    c.copy_(y)
    return b, c, y


@program
def shared_views_of_copies(a):
    b = torch.empty(4, 6)
    y = a + 1
    b.copy_(y)
    return b[0], b[1], y


@pytest.mark.parametrize("name", PROGRAMS)
def test_writes(name):
    assert_same(PROGRAMS[name], x())


@pytest.mark.parametrize("name", [
    "in_place", "through_slice", "through_transpose", "through_view_and_transpose", "through_split", "write_restrides",
    "metadata_of_intermediate", "increments_of_views", "old_view_sees_new_contents",
])
def test_writes_to_an_input_with_gaps(name):
    assert_same(PROGRAMS[name], torch.arange(96.0).reshape(8, 12)[::2, 1:7])


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("through_view", "through_as_strided")
                                  and "permute" not in name])
def test_writes_to_a_transposed_input(name):
    assert_same(PROGRAMS[name], torch.arange(24.0).reshape(6, 4).t())


def test_two_inputs_swapped():
    def swap(a, b):
        t = a.clone()
        a.copy_(b)
        b.copy_(t)

    assert_same(lambda a, b: (swap(a, b), a + b)[1], torch.ones(3), torch.zeros(3))


def test_batch_norm_in_training_changes_its_buffers():
    def norm(a, mean, var):
        return torch.nn.functional.batch_norm(a, mean, var, training=True)

    graph = assert_same(norm, torch.randn(8, 3, 4, 4), torch.zeros(3), torch.ones(3))
    assert [change.index for change in graph.mutated] == [1, 2]


def test_growing_cache():
    def step(cache, k, position):
        cache.index_copy_(1, position, k)
        return torch.softmax(cache.sum(-1), -1), cache

    assert_same(step, torch.zeros(2, 8, 4), torch.randn(2, 1, 4), torch.tensor([3]))


def test_random_fills():
    def fill(a):
        a.uniform_()
        b = torch.empty(3, 4).normal_()
        return a + 1, b, torch.bernoulli(b.sigmoid())

    assert_same(fill, torch.ones(5), exact=True)


def test_inputs_that_share_memory_and_change_are_left_to_eager():
    def write(a, b):
        a.add_(1)
        return b * 2

    base = torch.ones(4, 4)
    with pytest.raises(Unsupported, match="share memory"):
        trace(torch.fx.symbolic_trace(write), [base, base[1]])


def test_reshaping_an_input_is_left_to_eager():
    with pytest.raises(Unsupported, match="of an input"):
        trace(torch.fx.symbolic_trace(lambda a: a.t_() + 1), [torch.ones(2, 3)])


@pytest.mark.parametrize("change, counted", [
    (lambda a: torch._foreach_add_([a, a.clone()], 1), True),
    (lambda a: torch._foreach_add_([a, a], 1), True),  # one by one
    (lambda a: torch._foreach_mul_([a[1:]], 2), True),
    (lambda a: torch._foreach_zero_([a.data]), False),
    (lambda a: torch._fused_sgd_([a], [a + 1], [], weight_decay=0, momentum=0, lr=0.5, dampening=0, nesterov=False,
                                 maximize=False, is_first_step=False), False),
])
def test_autograd_counts_changes_in_lists_as_in_eager(change, counted):
    eager = x()
    change(eager)
    assert (eager._version > 0) is counted
    graph = trace(torch.fx.symbolic_trace(lambda a: (change(a), a + 1)[1]), [x()])
    assert [bool(mutation.writes) for mutation in graph.mutated] == [counted]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_autograd_counts_as_many_changes_as_in_eager(backend):
    def changed(x, y, z):
        x.add_(1)
        x.mul_(y)
        x[0:1].zero_()
        y.data.add_(1)
        torch._foreach_add_([z, x], 1)
        z += x
        return x * 2

    def counts(function):
        arguments = [torch.ones(3) for _ in range(3)]
        function(*arguments)
        return [argument._version for argument in arguments]

    assert counts(changed) == [4, 0, 2]
    compiled = fs.compile(changed, backend=backend)
    assert counts(compiled) == counts(compiled) == [4, 0, 2]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_what_is_written_may_be_what_was_there(backend):
    def changed(x):
        inside = x.detach()
        inside.copy_(x)
        return x * inside

    def facts(function):
        leaf = torch.arange(1.0, 4.0).requires_grad_()
        x = leaf * 1
        result = function(x)
        found = [x._version, result]
        for _ in range(2):
            found.append(torch.autograd.grad(result, leaf, torch._neg_view(torch.ones(3)), retain_graph=True)[0])
        return [*found, x._version]

    for one, other in zip(facts(fs.compile(changed, backend=backend)), facts(changed), strict=True):
        assert one == other if isinstance(one, int) else one.equal(other)
