"""Which sizes become symbols, how often a function is compiled for them, and the guards that remain."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel import config


class Counted:
    """A compiled function that counts compilations and compares every call with eager: values, strides, gradients."""

    def __init__(self, function, **options):
        self.function = function
        self.graphs = []
        self.compiled = fs.compile(function, backend=self.backend, **options)

    def backend(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward

    def __call__(self, *args):
        expected = self.function(*args)
        found = self.compiled(*args)
        for actual, wanted in zip(leaves(found), leaves(expected), strict=True):
            assert type(actual) is type(wanted)
            if isinstance(wanted, torch.Tensor):
                assert actual.shape == wanted.shape and actual.stride() == wanted.stride()
                assert actual.requires_grad == wanted.requires_grad
                torch.testing.assert_close(actual, wanted)
            else:
                assert actual == wanted
        return found

    @property
    def count(self):
        return len(self.graphs)

    def guards(self):
        """Texts of the shape guards of the newest entry."""
        entry = self.compiled._firesteel_unit.entries[-1]
        return [str(guard.expr) for guard in entry.shape_guards]


def leaves(value):
    return torch.utils._pytree.tree_leaves(value)


def scale(x, y):
    return (x * 2 + y).sum(dim=0) * x.shape[0], x.shape[0] + 1


def test_static_first_then_dynamic_where_it_changed():
    f = Counted(scale)
    for rows in (3, 5, 7, 11):
        f(torch.randn(rows, 4), torch.randn(rows, 4))
    assert f.count == 2
    # the second dimension has not changed, so it is still a constant
    f(torch.randn(3, 5), torch.randn(3, 5))
    assert f.count == 3
    f(torch.randn(9, 6), torch.randn(9, 6))
    assert f.count == 3


def test_dynamic_true_makes_all_sizes_symbols_at_once():
    f = Counted(scale, dynamic=True)
    for rows, columns in ((3, 4), (5, 9), (2, 2)):
        f(torch.randn(rows, columns), torch.randn(rows, columns))
    assert f.count == 1


def test_dynamic_false_never_does():
    f = Counted(scale, dynamic=False)
    for rows in (3, 5, 7):
        f(torch.randn(rows, 4), torch.randn(rows, 4))
    assert f.count == 3


@pytest.mark.parametrize("setting, dynamic, count", [("0", True, 3), ("1", False, 1), ("1", None, 1), ("0", None, 3)])
def test_the_setting_goes_before_the_argument(setting, dynamic, count):
    with config.patch(dynamic_shapes=setting):
        f = Counted(scale, dynamic=dynamic)
        for rows in (3, 5, 7):
            f(torch.randn(rows, 4), torch.randn(rows, 4))
    assert f.count == count


def test_equal_sizes_are_different_symbols_until_the_program_needs_them_equal():
    f = Counted(lambda x, y: (x.sum(), y.sum()), dynamic=True)
    f(torch.randn(4), torch.randn(4))
    f(torch.randn(4), torch.randn(5))
    assert f.count == 1
    g = Counted(lambda x, y: x + y, dynamic=True)
    g(torch.randn(4), torch.randn(4))
    assert [text for text in g.guards() if "==" in text] == ["s0 == s1"]
    g(torch.randn(4), torch.randn(1))
    assert g.count == 2


@pytest.mark.parametrize("sizes", [(0, 5, 6, 0, 7), (1, 5, 6, 1, 7), (5, 6, 1, 0, 7, 1, 0)])
def test_zero_and_one_have_entries_of_their_own(sizes):
    f = Counted(lambda x: (x + x.shape[0], x.shape[0]))
    for size in sizes:
        f(torch.randn(size, 3))
    assert f.count == len({size for size in sizes if size < 2}) + (2 if sizes[0] > 1 else 1)


def test_numbers_follow_the_same_policy():
    f = Counted(lambda x, n, a: x[:n] * a + n)
    x = torch.randn(10)
    for n, a in ((3, 0.5), (4, 1.5), (7, -2.5)):
        f(x, n, a)
    assert f.count == 2
    g = Counted(lambda x, n, a: x[:n] * a + n, dynamic=True)
    for n, a in ((3, 0.5), (4, 1.5), (7, -2.5)):
        g(x, n, a)
    assert g.count == 1


def test_a_changing_number_may_be_a_size():
    f = Counted(lambda x, n: torch.zeros(n, 2) + x.view(-1, 2)[:n].sum() + torch.arange(n).view(n, 1))
    for n in (2, 3, 5, 6):
        f(torch.randn(12), n)
    assert f.count == 2


# ------------------------------------------------------------------------------------------------------------- layouts


def test_strides_follow_sizes():
    f = Counted(lambda x: x.transpose(0, 1) + 1, dynamic=True)
    f(torch.randn(3, 4, 5))
    f(torch.randn(6, 2, 7))
    assert f.count == 1
    f(torch.randn(6, 7, 2).transpose(1, 2))  # another layout
    assert f.count == 2
    f(torch.randn(5, 4, 3).transpose(1, 2))
    assert f.count == 2


def test_channels_last_input():
    f = Counted(lambda x: torch.nn.functional.relu(x) + x.mean(), dynamic=True)
    for size in (4, 6, 9):
        f(torch.randn(2, 3, size, size + 1).to(memory_format=torch.channels_last))
    assert f.count == 1


def test_slices_of_a_larger_tensor():
    large = torch.randn(8, 32)
    f = Counted(lambda x: x * 2 + x.size(1))
    for size in (5, 6, 9):
        f(large[:, :size])
    assert f.count == 2
    # a stride that changes as well becomes a symbol of its own
    for width in (40, 50, 60):
        f(torch.randn(8, width)[:, :7])
    assert f.count == 3


def test_expanded_input():
    f = Counted(lambda x: x + 1, dynamic=True)
    for size in (3, 4, 9):
        f(torch.randn(1, 5).expand(size, 5))
    assert f.count == 1


def test_view_of_another_tensor_with_gradient():
    f = Counted(lambda x: (x * x).sum(dim=1), dynamic=True)
    for size in (3, 4, 9):
        base = torch.randn(size, 6, requires_grad=True)
        f(base[:, 1:4])
        f(base * 2)
    assert f.count <= 3


def test_in_place_on_a_dynamic_input():
    def f(x, y):
        x.add_(y)
        x[0] = 3
        return x.view(-1)[: x.size(0)]

    compiled = fs.compile(f, dynamic=True)
    for size in (3, 4, 9):
        a, y = torch.randn(size, 2), torch.randn(size, 2)
        b = a.clone()
        torch.testing.assert_close(compiled(a, y), f(b, y))
        torch.testing.assert_close(a, b)


def test_parameters_stay_static():
    layer = torch.nn.Linear(4, 3)
    f = fs.compile(layer, dynamic=True)
    f(torch.randn(5, 4))
    (unit,) = [unit for units in type(f)._firesteel_compiler.units.values() for unit in units]
    (entry,) = unit.entries
    assert {source.name for source in entry.symbols.values()} == {
        "input.size(0)", "input.size(1)", "input.stride(0)"}


# -------------------------------------------------------------------------------------------------------------- breaks


def test_sizes_in_continuations():
    def f(x):
        y = x * 2
        fs.graph_break()
        return y.sum(dim=0) + y.size(0)

    for options in ({"dynamic": True}, {}):
        g = Counted(f, **options)
        for size in (3, 4, 7, 9):
            g(torch.randn(size, 2))
        assert g.count == (2 if options else 4)


def test_loop_over_a_size_is_one_entry_for_each():
    def f(x):
        total = x[0]
        for i in range(1, x.size(0)):
            total = total + x[i] * i
        return total

    g = Counted(f, dynamic=True)
    for size in (3, 4, 3, 4):
        g(torch.randn(size, 2))
    assert g.count == 2


def test_branches_on_sizes_are_guarded():
    def f(x):
        if x.shape[0] > 5:
            return x * 2
        return x + 1 if x.shape[1] % 2 == 0 else x - 1

    g = Counted(f, dynamic=True)
    for rows, columns in ((3, 4), (4, 6), (7, 3), (2, 3), (9, 9), (5, 5)):
        g(torch.randn(rows, columns))
    assert g.count == 3


def test_recompilation_names_the_size_and_the_line(capsys):
    def f(x):
        if x.shape[0] > 5:
            return x * 2
        return x + 1

    g = fs.compile(f, dynamic=True)
    g(torch.randn(3))
    fs.set_logs("recompiles")
    g(torch.randn(8))
    text = capsys.readouterr().err
    assert "x.size(0) <= 5" in text and "x.size(0) = 8" in text and "test_dynamic_shapes.py" in text


def test_a_size_an_operation_cannot_take_is_a_constant():
    def f(x):
        return torch.nn.functional.one_hot(x.long() % 3, 3).sum(dim=0) + torch.cartesian_prod(x, x).sum()

    g = Counted(f, dynamic=True)
    for size in (3, 4):
        g(torch.arange(size).float())


def test_guards_of_typical_programs_are_few():
    def attention(q, k, v):
        b, h, n, d = q.shape
        scores = torch.softmax(q @ k.transpose(-1, -2) / d ** 0.5, dim=-1)
        return (scores @ v).transpose(1, 2).reshape(b, n, h * d)

    f = Counted(attention, dynamic=True)
    for b, h, n, d in ((2, 3, 4, 5), (3, 2, 7, 8), (4, 5, 2, 3)):
        f(*(torch.randn(b, h, n, d) for _ in range(3)))
    assert f.count == 1
    relations = [text for text in f.guards() if "stride" not in text and ">= 2" not in text]
    assert len(relations) <= 7, relations


@pytest.mark.parametrize("grad", [False, True])
def test_views_of_one_tensor_and_the_tensor_itself(grad):
    def f(a, b, c):
        return (a + 1).sum() + (b * 2).sum() + c.sum(), b.size(0)

    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        g = Counted(f, dynamic=True)
        for size in (6, 8, 11):
            base = torch.randn(size, 4, requires_grad=grad)
            views = [base[1:], base, base[:3]]
            g(*(views[i] for i in order))


def test_writing_to_a_view_changes_the_other_views():
    def f(a, b):
        a.mul_(2)
        return b + 1

    compiled = fs.compile(f, dynamic=True)
    for size in (5, 7, 9):
        base = torch.randn(size, 3)
        other = base.clone()
        torch.testing.assert_close(compiled(base[1:], base[:-1]), f(other[1:], other[:-1]))
        torch.testing.assert_close(base, other)
    for size in (5, 7):
        base = torch.randn(size, 3)
        other = base.clone()
        torch.testing.assert_close(compiled(base[1:], base), f(other[1:], other))
        torch.testing.assert_close(base, other)


class Grows(torch.nn.Module):
    """A cache that the first call fills and later calls make longer."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 8))

    def forward(self, x, cache):
        cache["keys"] = torch.cat([cache["keys"], x]) if "keys" in cache else x * 1
        return (x @ self.weight) @ cache["keys"].t()


@pytest.mark.parametrize("length", [5, 8])
def test_a_cache_as_long_as_the_prompt_it_came_from_is_expected_to_grow(length):
    module = Grows()
    graphs, mine, other = [], {}, {}

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    compiled = fs.compile(module, backend=backend)
    made = []
    with torch.no_grad():
        for rows in (length, 1, 1, 1, 1):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(compiled(x, mine), module(x, other))
            made.append(len(graphs))
    assert made == [1, 2, 2, 2, 2]
    torch.testing.assert_close(mine["keys"], other["keys"])


def test_only_tensors_that_are_new_are_expected_to_vary():
    def f(x, y):
        return x.sum() + y * 2

    compiled = fs.compile(f, backend="eager")
    y = torch.randn(6)
    for rows in (6, 7):  # y is as long as x was, and has been seen with it
        x = torch.randn(rows)
        torch.testing.assert_close(compiled(x, y), f(x, y))
    entry = compiled._firesteel_unit.entries[-1]
    assert [source.name for source in entry.symbols.values()] == ["x.size(0)"]
