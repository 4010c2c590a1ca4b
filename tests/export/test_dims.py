"""Dims, derived dims and hints."""

import pytest
import torch

import firesteel as fs
from firesteel.errors import UserCodeError
from firesteel.shapes.dims import Dim, DimHint, HintKind, as_ours, dims


def test_a_dim_has_a_name_and_a_range():
    n = Dim("n", min=4, max=256)
    assert (n.name, n.min, n.max, n.is_derived, repr(n)) == ("n", 4, 256, False, "n")
    assert Dim("m").min == 0 and Dim("m").max is None and Dim("m").given_min is None


@pytest.mark.parametrize("make, text, least, most, size", [
    (lambda n: 2 * n, "2*n", 8, 20, 10), (lambda n: n + 1, "n + 1", 5, 11, 6), (lambda n: n - 3, "n - 3", 1, 7, 2),
    (lambda n: 3 * (2 * n + 1), "6*n + 3", 27, 63, 33), (lambda n: 1 + n * 4 - 1, "4*n", 16, 40, 20),
])
def test_derived_dims_are_affine(make, text, least, most, size):
    derived = make(Dim("n", min=4, max=10))
    assert (repr(derived), derived.min, derived.max, derived.size_for(5)) == (text, least, most, size)
    assert derived.root.name == "n" and derived.root_for(size) == 5


def test_a_size_that_no_root_gives():
    assert (4 * Dim("n")).root_for(17) is None
    assert Dim("n") + 0 == Dim("n") and 1 * Dim("n") == Dim("n") and 2 * Dim("n") != Dim("n")
    assert Dim("n") != Dim("n", max=3)


@pytest.mark.parametrize("wrong", [
    lambda: Dim("n", min=5, max=4), lambda: Dim("n", min=-1), lambda: Dim("2n"), lambda: Dim("lambda"),
    lambda: Dim("n") * 0, lambda: -1 * Dim("n"), lambda: Dim("n") * 1.5, lambda: Dim("n") * Dim("m"),
    lambda: 7 - Dim("n"), lambda: Dim("n") // 2, lambda: Dim("n", max=2.0), lambda: Dim.AUTO(min=3, max=2),
    lambda: Dim.STATIC(min=4, max=3),
])
def test_what_is_no_dim_is_refused(wrong):
    with pytest.raises(UserCodeError):
        wrong()


def test_several_dims():
    a, b = dims("a", "b", min=2, max=8)
    assert (a.name, b.name, a.max, b.min) == ("a", "b", 8, 2)


def test_hints():
    assert Dim.AUTO == DimHint(HintKind.AUTO) and Dim.AUTO != Dim.DYNAMIC
    assert Dim.DYNAMIC(min=2, max=9).max == 9
    assert 2 * Dim.AUTO + 1 is Dim.AUTO  # what the relation is, is found out


def test_static_sizes_lie_within_their_bounds():
    class Plus(torch.nn.Module):
        def forward(self, x):
            return x + 1

    program = fs.export.export(Plus(), (torch.ones(3),), dynamic_shapes=({0: Dim.STATIC(min=2, max=4)},))
    assert not program.range_constraints
    with pytest.raises(UserCodeError, match="outside of the declared range"):
        fs.export.export(Plus(), (torch.ones(3),), dynamic_shapes=({0: Dim.STATIC(min=5)},))


def test_dims_of_torch_are_understood():
    theirs = torch.export.Dim("n", min=3, max=9)
    assert as_ours(theirs) == Dim("n", min=3, max=9)
    assert as_ours(2 * theirs + 1) == 2 * Dim("n", min=3, max=9) + 1
    assert as_ours(torch.export.Dim("m")) == Dim("m")
    assert as_ours(torch.export.Dim.AUTO) == Dim.AUTO and as_ours(torch.export.Dim.STATIC) == Dim.STATIC
    assert as_ours(7) == 7 and as_ours(None) is None
