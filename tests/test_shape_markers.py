"""Marks on dimensions: ours and torch's, and what a later mark does to an earlier one."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
import textwrap
import timeit

import pytest
import torch

import firesteel as fs
from firesteel.errors import ConstraintViolationError, UserCodeError
from firesteel.shape_markers import UNMARKED, Marks, class_marked_static, dims_marked


def marks(dynamic=None, maybe=(), static=()):
    return Marks(dynamic or {}, frozenset(maybe), frozenset(static))


def test_unmarked():
    x = torch.ones(2, 3)
    assert dims_marked(x) is UNMARKED
    x.note = "an attribute of the user's"
    assert dims_marked(x) is UNMARKED


def test_each_marker():
    x = torch.ones(2, 3, 4, 5, 6)
    fs.mark_dynamic(x, 0)
    fs.mark_dynamic(x, -1, min=2, max=64)
    fs.maybe_mark_dynamic(x, 1)
    fs.mark_static(x, [2, -2])
    assert dims_marked(x) == marks({0: (None, None), 4: (2, 64)}, {1}, {2, 3})


def test_several_dimensions_at_once():
    x = torch.ones(2, 3, 4)
    fs.mark_dynamic(x, (0, -1), max=9)
    fs.maybe_mark_dynamic(x, [1])
    assert dims_marked(x) == marks({0: (None, 9), 2: (None, 9)}, {1})
    fs.mark_static(x)
    assert dims_marked(x) == marks(static={0, 1, 2})


def test_the_last_mark_counts():
    x = torch.ones(4)
    fs.mark_dynamic(x, 0, max=5)
    fs.mark_static(x, 0)
    assert dims_marked(x) == marks(static={0})
    fs.maybe_mark_dynamic(x, 0)
    assert dims_marked(x) == marks(maybe={0})
    fs.mark_dynamic(x, 0, min=3)
    assert dims_marked(x) == marks({0: (3, None)})
    fs.mark_dynamic(x, 0)
    assert dims_marked(x) == marks({0: (None, None)})


@pytest.mark.parametrize("mark", [
    lambda x: fs.mark_dynamic(x, 2), lambda x: fs.mark_dynamic(x, -3), lambda x: fs.maybe_mark_dynamic(x, [0, 5]),
    lambda x: fs.mark_static(x, 2), lambda x: fs.mark_dynamic(x[0, 0], 0), lambda x: fs.mark_dynamic(x, "0"),
    lambda x: fs.mark_dynamic(x, 0.5), lambda x: fs.mark_dynamic(x, None), lambda x: fs.mark_dynamic([1, 2], 0),
    lambda x: fs.mark_static([1, 2]), lambda x: fs.mark_static(dict, 0), lambda x: fs.mark_dynamic(x, 0, min=-1),
    lambda x: fs.mark_dynamic(x, 0, max=2.5), lambda x: fs.mark_dynamic(x, 0, min=9, max=3),
    lambda x: fs.mark_dynamic(x, 0, min=2, max=2), lambda x: fs.mark_dynamic(x, 0, min=3),
    lambda x: fs.mark_dynamic(x, [0, 1], max=2),
])
def test_what_makes_no_sense_is_refused(mark):
    x = torch.ones(2, 3)
    with pytest.raises(UserCodeError) as error:
        mark(x)
    assert error.value.hint
    assert dims_marked(x) is UNMARKED


def test_an_error_says_what_is_wrong():
    with pytest.raises(UserCodeError, match=r"dimension 4 of a tensor with 2 dimensions\n.*from -2 to 1"):
        fs.mark_dynamic(torch.ones(2, 3), 4)
    with pytest.raises(UserCodeError, match="dimension 1 of the tensor has size 3, outside of min=4"):
        fs.mark_dynamic(torch.ones(2, 3), 1, min=4)


def test_marks_belong_to_the_object():
    x = torch.nn.Parameter(torch.ones(2, 3))
    fs.mark_dynamic(x, 0)
    layer = torch.nn.Module()
    layer.weight = x
    assert dims_marked(layer.weight).dynamic == {0: (None, None)}
    for other in (x.clone(), x.detach(), x[:], x + 1, x.view(2, 3)):
        assert dims_marked(other) is UNMARKED


def test_a_copy_has_marks_of_its_own():
    x = torch.ones(2, 3)
    fs.mark_dynamic(x, 0)
    y = copy.deepcopy(x)
    fs.mark_static(y)
    assert dims_marked(x) == marks({0: (None, None)}) and dims_marked(y) == marks(static={0, 1})


def test_a_marked_tensor_can_be_saved():
    x = torch.ones(2, 3)
    fs.mark_dynamic(x, 0, max=8)
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True), x)


def test_dimensions_that_are_gone_are_not_reported():
    x = torch.ones(2, 3)
    fs.mark_dynamic(x, 0)
    fs.mark_static(x, 1)
    x.resize_(6)
    assert dims_marked(x) == marks({0: (None, None)})


def test_torch_markers():
    from torch._dynamo import decorators

    x = torch.ones(2, 3, 4, 5, 6)
    decorators.mark_dynamic(x, 0, min=2, max=8)
    decorators.mark_dynamic(x, -1)
    decorators.maybe_mark_dynamic(x, [1])
    decorators.mark_static(x, (0, 2))  # torch lets dynamic win
    decorators.mark_unbacked(x, 3)
    assert dims_marked(x) == marks({0: (2, 8), 4: (None, None)}, {1, 3}, {2})

    y = torch.ones(2, 3)
    decorators.mark_static(y)
    assert dims_marked(y) == marks(static={0, 1})
    decorators.mark_unbacked(y, 1, strict=True)
    assert dims_marked(y) == marks({1: (None, None)}, static={0})
    decorators.maybe_mark_dynamic(y, 17)
    assert dims_marked(y) == marks({1: (None, None)}, static={0})


def test_ours_go_before_torchs():
    x = torch.ones(2, 3)
    torch._dynamo.mark_dynamic(x, [0, 1])
    fs.mark_static(x, 0)
    assert dims_marked(x) == marks({1: (None, None)}, static={0})


def test_classes():
    class Ours(torch.nn.Linear):
        pass

    class Derived(Ours):
        pass

    class Torchs(torch.nn.Linear):
        pass

    assert fs.mark_static(Ours) is Ours
    torch._dynamo.mark_static(Torchs)
    assert [class_marked_static(cls) for cls in (Ours, Derived, Torchs, torch.nn.Linear)] == [True, True, True, False]


def test_marking_inside_of_compiled_code_does_nothing():
    @fs.compile(fullgraph=True)
    def f(x):
        fs.mark_dynamic(x, 0)
        fs.maybe_mark_dynamic(x, [0], )
        y = x * 2
        fs.mark_static(y, index=0)
        fs.mark_static(y)
        return y

    x = torch.ones(3)
    torch.testing.assert_close(f(x), x * 2)
    assert dims_marked(x) is UNMARKED and dims_marked(f(x)) is UNMARKED


def test_unmarked_tensors_cost_next_to_nothing():
    plain, attributed = torch.ones(2), torch.nn.Parameter(torch.ones(2))
    attributed.note = "an attribute of the user's"
    for x in (plain, attributed):
        best = min(timeit.repeat(lambda: dims_marked(x), number=10_000, repeat=5)) / 10_000
        assert best < 1e-6  # 0.06 to 0.15 µs on an idle machine


def test_torch_dynamo_is_not_imported():
    program = textwrap.dedent("""
        import sys, torch, firesteel as fs
        x = torch.ones(2, 3)
        fs.mark_dynamic(x, 0, max=8); fs.maybe_mark_dynamic(x, 1); fs.mark_static(x)
        fs.mark_static(torch.nn.Linear)
        assert fs.shape_markers.dims_marked(x).static == {0, 1}
        print("torch._dynamo" in sys.modules)
    """)
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


# With the compiler


def compilations(mark, sizes, f=lambda x: (x * 2).sum(0), **options):
    """How often `f` is compiled for tensors of these shapes, each marked before its call; results are checked."""
    graphs = []

    def counting(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    compiled = fs.compile(f, backend=counting, **options)
    for shape in sizes:
        x = torch.randn(shape)
        mark(x)
        torch.testing.assert_close(compiled(x), f(x))
    return len(graphs)


BATCHES = [(5, 3), (6, 3), (7, 3), (8, 3)]


@pytest.mark.parametrize("mark", [lambda x: fs.mark_dynamic(x, 0), lambda x: fs.maybe_mark_dynamic(x, -2),
                                  lambda x: fs.mark_dynamic(x, 0, min=2, max=8),
                                  lambda x: torch._dynamo.mark_dynamic(x, 0),
                                  lambda x: torch._dynamo.maybe_mark_dynamic(x, 0)])
@pytest.mark.parametrize("dynamic", [None, False])
def test_a_marked_dimension_is_compiled_once(mark, dynamic):
    assert compilations(mark, BATCHES, dynamic=dynamic) == 1


@pytest.mark.parametrize("mark", [lambda x: fs.mark_static(x, 0), lambda x: fs.mark_static(x),
                                  lambda x: torch._dynamo.mark_static(x, 0)])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_static_dimension_is_compiled_for_each_size(mark, dynamic):
    assert compilations(mark, BATCHES, dynamic=dynamic) == len(BATCHES)


def test_other_dimensions_follow_the_policy():
    assert compilations(lambda x: fs.mark_dynamic(x, 0), [(5, 3), (6, 3), (6, 4), (7, 5)]) == 2
    assert compilations(lambda x: fs.mark_static(x, 1), [(5, 3), (6, 3), (7, 3), (7, 4)], dynamic=True) == 2


def test_sizes_outside_of_the_bounds_are_another_compilation():
    def mark(x):
        if x.shape[0] <= 6:
            fs.mark_dynamic(x, 0, max=6)

    assert compilations(mark, [(5, 3), (6, 3), (4, 3)]) == 1
    assert compilations(mark, [(5, 3), (6, 3), (7, 3), (4, 3), (9, 3)]) == 2


def needs_five(x):
    return x + torch.ones(5, 3)


@pytest.mark.parametrize("mark", [fs.mark_dynamic, lambda x, dim: torch._dynamo.mark_dynamic(x, dim)])
def test_a_marked_dimension_that_cannot_vary_is_an_error(mark):
    x = torch.ones(5, 3)
    mark(x, 0)
    with pytest.raises(ConstraintViolationError, match="dimension 0 of x .* needs it to be 5") as error:
        fs.compile(needs_five)(x)
    assert error.value.frames[-1].source == "return x + torch.ones(5, 3)"


def test_a_dimension_that_may_vary_and_does_not_is_no_error():
    assert compilations(lambda x: fs.maybe_mark_dynamic(x, 0), [(5, 3), (5, 3)], f=needs_five) == 1


@pytest.mark.parametrize("marker, compilations", [(None, 2), (fs.mark_static, 5), ("torch", 5)])
def test_numbers_of_a_class_marked_static_stay_constants(marker, compilations):
    class Scaled(torch.nn.Module):
        factor = 1

        def __init__(self):
            super().__init__()
            self.factor = 1

        def forward(self, x):
            return x * self.factor

    if marker == "torch":
        Scaled._dynamo_marked_static = True  # what torch's own marker sets
    elif marker is not None:
        marker(Scaled)
    graphs = []
    module = Scaled()
    compiled = fs.compile(module, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
    for factor in range(2, 7):
        module.factor = factor
        assert compiled(torch.ones(2))[0] == factor
    assert len(graphs) == compilations
