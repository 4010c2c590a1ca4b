"""What a program needs of its sizes against what was declared: conflicts, fixes, ranges, and calls of the result."""

import pickle

import pytest
import torch

import firesteel as fs
from firesteel import errors
from firesteel.export import Dim, dims, export
from firesteel.export.constraints import ConstraintViolationError
from firesteel.export.dynamic_shapes import AdditionalInputs
from firesteel.export.errors import InputMismatchError
from firesteel.export.suggested_fixes import refine_dynamic_shapes_from_suggested_fixes

AUTO, DYNAMIC, STATIC = Dim.AUTO, Dim.DYNAMIC, Dim.STATIC
BOTH = pytest.mark.parametrize("strict", [True, False], ids=["strict", "non-strict"])


class Toy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(5, 3)

    def forward(self, w, x, y, z):
        x0 = x + y
        x1 = self.l(w)
        x2 = x0.flatten()
        x3 = x2 + z
        return x1, x3


class Decides(Toy):
    def forward(self, w, x, y, z):
        assert w.shape[0] <= 512
        torch._check(x.shape[0] >= 4)
        if w.shape[0] == x.shape[0] + 2:
            return super().forward(w, x, y, z)
        return w


class Program(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


TOY = (torch.randn(6, 5), torch.randn(4), torch.randn(8, 4), torch.randn(32))
ALL_AUTO = {"w": (AUTO, AUTO), "x": (AUTO,), "y": (AUTO, AUTO), "z": (AUTO,)}


def sizes_of(program):
    """The sizes of the user's inputs."""
    placeholders = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    return {name: [str(size) for size in placeholders[name].shape] for name in program.graph_signature.user_inputs}


def ranges_of(program):
    return {str(symbol): str(bounds) for symbol, bounds in program.range_constraints.items()}


@BOTH
def test_sizes_are_found_out(strict):
    program = export(Toy(), TOY, dynamic_shapes=ALL_AUTO, strict=strict)
    assert sizes_of(program) == {"w": ["s0", "5"], "x": ["s2"], "y": ["s3", "s2"], "z": ["s2*s3"]}
    assert ranges_of(program) == {"s0": "VR[2, int_oo]", "s2": "VR[2, int_oo]", "s3": "VR[2, int_oo]",
                                  "s2*s3": "VR[4, int_oo]"}
    module = program.module()
    other = (torch.randn(2, 5), torch.randn(7), torch.randn(3, 7), torch.randn(21))
    assert [result.shape for result in module(*other)] == [(2, 3), (21,)]
    for wrong, says in (((torch.randn(2, 4), *other[1:]), "shape[1]"), ((*other[:3], torch.randn(20)), "s2*s3"),
                        ((torch.randn(1, 5), *other[1:]), ">= 2"), ((torch.randn(2, 5).double(), *other[1:]), "dtype"),
                        ((torch.randn(5), *other[1:]), "dimensions")):
        with pytest.raises(InputMismatchError) as caught:
            module(*wrong)
        assert says in str(caught.value)


@BOTH
def test_decisions_become_ranges_and_relations(strict):
    program = export(Decides(), TOY, dynamic_shapes=ALL_AUTO, strict=strict)
    assert sizes_of(program) == {"w": ["s2 + 2", "5"], "x": ["s2"], "y": ["s3", "s2"], "z": ["s2*s3"]}
    assert ranges_of(program) == {"s2 + 2": "VR[6, 512]", "s2": "VR[4, 510]", "s3": "VR[2, int_oo]",
                                  "s2*s3": "VR[8, int_oo]"}


@BOTH
def test_dynamic_and_static_do_not_agree(strict):
    with pytest.raises(ConstraintViolationError) as caught:
        export(Toy(), TOY, dynamic_shapes={**ALL_AUTO, "w": (AUTO, DYNAMIC)}, strict=strict)
    message = str(caught.value)
    assert "Constraints violated (w.shape[1])!" in message and "constant (5)" in message
    assert "x1 = self.l(w)" in message and "w.shape[1] = Dim.STATIC" in caught.value.fixes
    spec = {**ALL_AUTO, "x": (STATIC,), "y": (AUTO, DYNAMIC)}
    with pytest.raises(errors.ConstraintViolationError) as other:
        export(Toy(), TOY, dynamic_shapes=spec, strict=strict)
    assert "y.shape[1]" in str(other.value) and "constant (4)" in str(other.value) and "x0 = x + y" in str(other.value)
    fixed = refine_dynamic_shapes_from_suggested_fixes(str(other.value), spec)
    assert sizes_of(export(Toy(), TOY, dynamic_shapes=fixed, strict=strict))["y"] == ["s2", "4"]


def foo(x, y):
    w = x + y
    return w + torch.ones(4)


@BOTH
def test_all_conflicts_are_listed_with_their_lines(strict):
    dx, dy, d1 = dims("dx", "dy", "d1")
    spec = {"x": (dx, d1), "y": (dy, d1)}
    inputs = (torch.randn(6, 4), torch.randn(6, 4))
    with pytest.raises(ConstraintViolationError) as caught:
        export(Program(foo), inputs, dynamic_shapes=spec, strict=strict)
    error = caught.value
    assert str(error).startswith("Constraints violated (d1, dy)!")
    assert "d1 = x.shape[1] = y.shape[1]" in str(error) and "constant (4)" in str(error)
    assert "dy = y.shape[0] and dx = x.shape[0] must always be equal" in str(error)
    assert "return w + torch.ones(4)" in str(error) and "w = x + y" in str(error)
    assert str(error).endswith("Suggested fixes:\n  d1 = 4\n  dy = dx")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    d1 = 4
    dy = dx
    program = export(Program(foo), inputs, dynamic_shapes={"x": (dx, d1), "y": (dy, d1)}, strict=strict)
    assert sizes_of(program) == {"x": ["dx", "4"], "y": ["dx", "4"]} and ranges_of(program) == {"dx": "VR[0, int_oo]"}


def below(x, y):
    assert x.shape[0] < y.shape[0]
    return x + 1


def three_quarters(x, y):
    assert 4 * x.shape[0] == 3 * y.shape[0]
    return x + 1


def two_more(x, y):
    assert x.shape[0] + 2 == y.shape[0]
    return x + 1


def not_seven(x, y):
    assert x.shape[0] != 7
    return x + 1


FIXES = [
    (lambda x, y: x.reshape(-1, 3), "a % 3 == 0", ["_a = Dim('_a', min=1, max=33)", "a = 3*_a"], [(9, 8)], [(8, 8)]),
    (lambda x, y: x.reshape(2, -1) if y.shape[0] > 3 else x, "b >= 4",
     ["b = Dim('b', min=4, max=100)", "_a = Dim('_a', max=50)", "a = 2*_a"], [(4, 4), (2, 9)], [(5, 4), (4, 3)]),
    (lambda x, y: x.narrow(0, 0, 5), "a >= 5", ["a = Dim('a', min=5, max=100)"], [(5, 2)], [(4, 2)]),
    (lambda x, y: x + torch.ones(6), "constant (6)", ["a = 6"], [(6, 9)], [(7, 9)]),
    (two_more, "b = y.shape[0] must always be a + 2", ["a = Dim('a', max=98)", "b = a + 2"], [(5, 7)], [(5, 6)]),
    (below, "a <= b - 1", ["a = Dim.AUTO", "b = Dim.AUTO"], [(3, 4)], [(4, 4)]),
    (not_seven, "a != 7", ["a = Dim.AUTO"], [(6, 4)], [(7, 4)]),
    (three_quarters, "4*a == 3*b", ["_a = Dim('_a', min=1, max=25)", "a = 3*_a", "b = 4*_a"], [(3, 4), (9, 12)],
     [(3, 5), (4, 4)]),
    (lambda x, y: torch.outer(x, y).flatten() + torch.ones(48), "a*b == 48", ["a = Dim.AUTO", "b = Dim.AUTO"],
     [(4, 12)], [(5, 9)]),
]


@BOTH
@pytest.mark.parametrize("function, says, fixes, takes, refuses", FIXES)
def test_the_suggested_fixes_make_the_export_succeed(function, says, fixes, takes, refuses, strict):
    a, b = dims("a", "b", max=100)
    spec = {"x": {0: a}, "y": (b,)}
    module, inputs = Program(function), (torch.randn(6), torch.randn(8))
    with pytest.raises(ConstraintViolationError) as caught:
        export(module, inputs, dynamic_shapes=spec, strict=strict)
    assert says in str(caught.value) and list(caught.value.fixes) == fixes
    scope = {"Dim": Dim, "a": a, "b": b}
    exec("\n".join(caught.value.fixes), scope)
    pasted = {"x": {0: scope["a"]}, "y": (scope["b"],)}
    assert refine_dynamic_shapes_from_suggested_fixes(str(caught.value), spec) == pasted
    exported = export(module, inputs, dynamic_shapes=pasted, strict=strict).module()
    for sizes in takes:
        given = [torch.randn(size) for size in sizes]
        torch.testing.assert_close(exported(*given), function(*given))
    for sizes in refuses:
        with pytest.raises(InputMismatchError):
            exported(*[torch.randn(size) for size in sizes])


def test_declared_relations_are_kept_and_checked():
    dx, dh = Dim("dx", min=4, max=256), Dim("dh", max=512)
    program = export(Program(lambda x, y: x.sum() + y.sum()), (torch.ones(8, 3), torch.ones(16, 4)),
                     dynamic_shapes={"x": (dx, None), "y": (2 * dx, dh)})
    assert sizes_of(program) == {"x": ["dx", "3"], "y": ["2*dx", "dh"]}
    assert ranges_of(program) == {"dx": "VR[4, 256]", "2*dx": "VR[8, 512]", "dh": "VR[0, 512]"}
    module = program.module()
    assert module(torch.ones(5, 3), torch.ones(10, 1)) == 25
    for x, y in (((5, 3), (11, 4)), ((3, 3), (6, 4)), ((257, 3), (514, 4)), ((5, 3), (10, 513)), ((5, 4), (10, 4))):
        with pytest.raises(InputMismatchError):
            module(torch.ones(x), torch.ones(y))


@BOTH
def test_a_multiple_of_a_dim_that_is_no_size_itself(strict):
    n = Dim("n", min=4, max=512)
    module = Program(lambda x, y: x.reshape(x.shape[0] // 4, 4, -1).sum(1) * y)
    program = export(module, (torch.ones(16, 3), torch.ones(3)), dynamic_shapes={"x": {0: 4 * n}, "y": None},
                     strict=strict)
    assert sizes_of(program)["x"] == ["4*n", "3"]
    assert ranges_of(program) == {"4*n": "VR[16, 2048]", "n": "VR[4, 512]"}
    x, y = torch.randn(24, 3), torch.randn(3)
    torch.testing.assert_close(program.module()(x, y), module(x, y))
    with pytest.raises(InputMismatchError, match="4\\*n"):
        program.module()(torch.ones(17, 3), y)


def one_is_special(x, y):
    if x.shape[0] == 1:
        return x * 2
    return x + y


@BOTH
def test_sizes_of_zero_and_one(strict):
    def exported(function, spec, size=4):
        inputs = (torch.ones(size, 3), torch.ones(size, 3))
        return export(Program(function), inputs, dynamic_shapes={"x": (spec, None), "y": (spec, None)}, strict=strict)

    # An example of size 1 is a constant under AUTO, and a conflict where dynamism was asked for.
    assert ranges_of(exported(torch.add, AUTO, 1)) == {}
    with pytest.raises(InputMismatchError, match="must be 1, but is 2"):
        exported(torch.add, AUTO, 1).module()(torch.ones(2, 3), torch.ones(2, 3))
    for spec, fix in ((Dim("n"), "n = 1"), (DYNAMIC, "x.shape[0] = Dim.STATIC")):
        with pytest.raises(ConstraintViolationError) as caught:
            exported(torch.add, spec, 1)
        assert fix in caught.value.fixes
    # Sizes of 0 and 1 are as good as others where the program does not ask about them.
    program = exported(torch.add, Dim("n"))
    assert ranges_of(program) == {"n": "VR[0, int_oo]"}
    assert [len(program.module()(torch.ones(n, 3), torch.ones(n, 3))) for n in (0, 1, 2)] == [0, 1, 2]
    # Where it does, it is valid for those it was traced for.
    program = exported(one_is_special, Dim("n", max=9))
    assert ranges_of(program) == {"n": "VR[2, 9]"}
    with pytest.raises(InputMismatchError):
        program.module()(torch.ones(1, 3), torch.ones(1, 3))
    with pytest.raises(ConstraintViolationError) as caught:
        exported(one_is_special, Dim("n", min=1, max=9))
    assert "x.shape[0] == 1" in str(caught.value) and caught.value.fixes == ("n = Dim('n', min=2, max=9)",)


def test_named_dims_stay_when_they_meet_automatic_ones():
    a = Dim("a", max=100)
    program = export(Program(two_more), (torch.randn(6), torch.randn(8)), dynamic_shapes={"x": {0: a}, "y": {0: AUTO}})
    assert sizes_of(program) == {"x": ["a"], "y": ["a + 2"]}
    with pytest.raises(ConstraintViolationError, match="2\\*x.shape"):
        export(Program(lambda x, y: (x.repeat(2) + y)), (torch.randn(4), torch.randn(8)),
               dynamic_shapes={"x": {0: AUTO}, "y": {0: a}})


def test_dims_called_like_symbols():
    program = export(Program(torch.outer), (torch.randn(3), torch.randn(4)),
                     dynamic_shapes={"x": {0: AUTO}, "y": {0: Dim("s0", max=9)}})
    assert sizes_of(program) == {"x": ["s1"], "y": ["s0"]}


def test_one_tensor_in_two_places_and_unused_inputs():
    x = torch.randn(4, 3)
    n = Dim("n")
    program = export(Program(lambda x, y: x + y), (x, x), dynamic_shapes={"x": {0: n}, "y": {0: n}})
    assert program.module()(torch.ones(5, 3), torch.ones(5, 3)).shape == (5, 3)
    program = export(Program(lambda x, y: x + 1), (x, torch.ones(8)), dynamic_shapes={"x": {0: n}, "y": {0: 2 * n}})
    assert sizes_of(program) == {"x": ["n", "3"], "y": ["2*n"]}
    with pytest.raises(InputMismatchError):
        program.module()(torch.ones(5, 3), torch.ones(11))


def test_examples_that_vary():
    more = AdditionalInputs()
    more.add((torch.randn(7, 3), torch.randn(3)))
    program = export(Program(torch.mul), (torch.randn(4, 3), torch.randn(3)), dynamic_shapes=more)
    assert sizes_of(program) == {"x": ["s0", "3"], "y": ["3"]}
    more.verify(program)


@pytest.mark.parametrize("strict", [True, False])
def test_examples_that_the_program_does_not_fit(strict):
    def program(x, y):
        return x + 1 if x.shape[0] % 2 == 0 else x - 1

    more = AdditionalInputs()
    more.add((torch.ones(6, 3), torch.ones(3)))
    export(Program(program), (torch.ones(4, 3), torch.ones(3)), dynamic_shapes=more, strict=strict)
    more.add((torch.ones(7, 3), torch.ones(3)))
    with pytest.raises(fs.errors.UserCodeError, match="example 1 of AdditionalInputs does not fit"):
        export(Program(program), (torch.ones(4, 3), torch.ones(3)), dynamic_shapes=more, strict=strict)


def test_the_error_is_public():
    assert fs.export.ConstraintViolationError is ConstraintViolationError
    assert issubclass(ConstraintViolationError, fs.errors.ConstraintViolationError)


@pytest.mark.parametrize("strict", [True, False])
def test_checks_that_torch_makes_in_python_are_part_of_the_contract(strict):
    """In training, batch norm refuses one value per channel; no operator of the graph does."""
    norm = torch.nn.BatchNorm1d(3)
    program = fs.export.export(norm, (torch.randn(4, 3),), dynamic_shapes=({0: fs.export.Dim("b")},), strict=strict)
    (interval,) = program.range_constraints.values()
    assert interval.lower == 2
    with pytest.raises(InputMismatchError):
        program.module()(torch.ones(1, 3))
    assert not norm.running_var.isnan().any()
