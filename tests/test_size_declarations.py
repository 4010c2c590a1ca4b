"""compile(dynamic_shapes=...): declared sizes are symbols at once, the rest is constant, relations are checked."""

from __future__ import annotations

import inspect
import types

import pytest
import torch

import firesteel as fs
from firesteel.errors import ConstraintViolationError, DeclaredSizesError, UserCodeError
from firesteel.export import Dim
from seeds.recording import Recorder

ones = torch.ones


def add(x, y, n=1):
    return x.sum() * n + y.sum()


def compiled(function, dynamic_shapes, **options):
    recorder = Recorder()
    return fs.compile(function, backend=recorder, dynamic_shapes=dynamic_shapes, **options), recorder


def test_declared_sizes_are_symbols_and_others_constants():
    f, recorder = compiled(add, {"x": {0: Dim("batch")}})
    for batch in 3, 4, 5:
        assert f(ones(batch, 2), ones(7)) == 2 * batch + 7
    assert len(recorder.graphs) == 1
    f(ones(3, 2), ones(8)), f(ones(3, 2), ones(9)), f(ones(3, 2), ones(7), 5)  # not declared: one version each
    assert len(recorder.graphs) == 4


def test_numbers():
    f, recorder = compiled(add, {"n": Dim.DYNAMIC, "x": [Dim.DYNAMIC]})
    for number in 5, 6, 7:
        assert f(ones(number), ones(2), number) == number * number + 2
    assert len(recorder.graphs) == 1
    f, recorder = compiled(add, {"n": 3})
    f(ones(2), ones(2), 3)
    with pytest.raises(DeclaredSizesError, match="n == 3 is declared, and n is 4"):
        f(ones(2), ones(2), 4)


@pytest.mark.parametrize("native_guards", ["always", "never"])
def test_relations_hold_in_every_call(native_guards):
    with fs.config.patch(native_guards=native_guards):
        check_relations()


def check_relations():
    batch = Dim("batch", min=3, max=8)
    f, recorder = compiled(add, {"x": [batch, 2], "y": [2 * batch + 1]})
    for size in 3, 4, 8:
        assert f(ones(size, 2), ones(2 * size + 1)) == 4 * size + 1
    assert len(recorder.graphs) == 1
    for args, message in [
        ((ones(4, 2), ones(8)), r"is declared, and x.size\(0\) is 4, y.size\(0\) is 8"),
        ((ones(9, 2), ones(19)), r"x.size\(0\) <= 8"), ((ones(2, 2), ones(5)), r"x.size\(0\) >= 3"),
        ((ones(4, 3), ones(9)), r"x.size\(1\) == 2 is declared, and x.size\(1\) is 3"),
        ((ones(4), ones(9)), "x has 1 dimensions, and 2 are declared"),
    ]:
        with pytest.raises(DeclaredSizesError, match=message):
            f(*args)
    assert f(ones(5, 2), ones(11)) == 21 and len(recorder.graphs) == 1


def test_one_name_is_one_size():
    n = Dim("n")
    f, recorder = compiled(lambda x, y: x + y.T, {"x": [n, n], "y": [n, n]})
    f(ones(3, 3), ones(3, 3)), f(ones(4, 4), ones(4, 4))
    assert len(recorder.graphs) == 1
    with pytest.raises(DeclaredSizesError, match=r"x.size\(0\) == x.size\(1\)"):
        f(ones(4, 5), ones(5, 4))


def test_a_multiple_of_a_size_that_is_nowhere_itself():
    f, _ = compiled(add, {"x": [2 * Dim("half")]})
    assert f(ones(4), ones(1)) == 5
    with pytest.raises(DeclaredSizesError, match=r"x.size\(0\) is 5"):
        f(ones(5), ones(1))


def test_a_declared_size_that_the_program_fixes_is_an_error():
    f, _ = compiled(lambda x: x + ones(4), {"x": {0: Dim("n")}})
    with pytest.raises(ConstraintViolationError, match="needs it to be 4"):
        f(ones(4))
    f, _ = compiled(lambda x: x + ones(4), {"x": {0: Dim.AUTO}})
    assert torch.equal(f(ones(4)), 2 * ones(4))


def test_inside_of_containers_and_in_varying_arguments():
    def f(pair, table, obj, *rest, **named):
        return pair[0].sum() + table["a"].sum() + obj.w.sum() + rest[0].sum() + named["k"].sum()

    size = [Dim("n")]
    g, recorder = compiled(f, {
        "pair": [size, None], "table": {"a": size}, "*args": [size], "**kwargs": {"k": size}})
    for n in 3, 4, 5:
        assert g([ones(n), 1], {"a": ones(n)}, types.SimpleNamespace(w=ones(2)), ones(n), k=ones(n)) == 4 * n + 2
    assert len(recorder.graphs) == 1
    with pytest.raises(DeclaredSizesError):
        g([ones(3), 1], {"a": ones(3)}, types.SimpleNamespace(w=ones(2)), ones(3), k=ones(4))


def test_modules_methods_and_breaks():
    class Model(torch.nn.Module):
        def forward(self, x):
            x = x * 2
            fs.graph_break()
            return x + 1

    for target in (Model(), Model().forward):
        f, recorder = compiled(target, {"x": {0: Dim("batch")}})
        for batch in 3, 4, 5:
            assert torch.equal(f(ones(batch)), 3 * ones(batch))
        assert len(recorder.graphs) == 2


@pytest.mark.parametrize("given, message", [
    ({"z": None}, "no parameter of add"), ([1], "is a list"), ({"x": "n"}, "a str for x"), ({3: None}, "no names"),
    ({"*args": [[Dim("n")]]}, "does not take"),
    ({"x": [Dim("n", max=4)], "y": [Dim("n", max=5)]}, "two dims named n"),
])
def test_wrong_declarations(given, message):
    with pytest.raises(UserCodeError, match=message):
        fs.compile(add, backend="eager", dynamic_shapes=given)


def test_two_names_of_one_argument():
    with pytest.raises(UserCodeError, match="names of the same"):
        fs.compile(add, dynamic_shapes={}, shapes_spec={})


def test_every_argument_of_torch_compile_is_taken():
    ours = inspect.signature(fs.compile).parameters
    for name, parameter in inspect.signature(torch.compile).parameters.items():
        assert name in ours and ours[name].kind == parameter.kind
    assert {"name", "recompile_limit", "isolate_recompiles", "shapes_spec", "dynamic_shapes"} <= ours.keys()


# torch's own classes


@pytest.fixture
def spec():
    return pytest.importorskip("torch.fx.experimental.dynamic_spec", reason="this torch has no dynamic_spec")


def test_torchs_declarations(spec):
    batch, n = spec.ShapeVar("batch", min=2, max=8), spec.IntVar("n")
    f, recorder = compiled(add, None, shapes_spec=spec.ParamsSpec({
        "x": spec.TensorSpec([batch, 2]), "y": spec.TensorSpec([batch * 2 + 1]), "n": n}))
    for size in 3, 4, 5:
        assert f(ones(size, 2), ones(2 * size + 1), size + 2) == 2 * size * (size + 2) + 2 * size + 1
    assert len(recorder.graphs) == 1
    for args in (ones(4, 2), ones(8), 6), (ones(9, 2), ones(19), 6), (ones(4, 3), ones(9), 6):
        with pytest.raises(DeclaredSizesError):
            f(*args)


def test_torchs_containers(spec):
    size = spec.TensorSpec([spec.ShapeVar("n")])

    def f(pair, table, obj, *rest, **named):
        return pair[0].sum() + table["a"].sum() + obj.w.sum() + rest[0].sum() + named["k"].sum()

    g, recorder = compiled(f, spec.ShapesSpec(spec.ParamsSpec({
        "pair": spec.SeqSpec([size]), "table": spec.DictSpec({"a": size}), "obj": spec.ObjectSpec({"w": size}),
        "*args": [size], "**kwargs": {"k": size}})))
    for n in 3, 4, 5:
        assert g([ones(n), 1], {"a": ones(n)}, types.SimpleNamespace(w=ones(n)), ones(n), k=ones(n)) == 5 * n
    assert len(recorder.graphs) == 1


def test_torchs_assumptions(spec):
    if "assumptions" not in inspect.signature(spec.ShapesSpec).parameters:
        pytest.skip("this torch has no assumptions")
    batch = spec.ShapeVar("batch")
    f, recorder = compiled(lambda x: x + 1, spec.ShapesSpec(
        spec.ParamsSpec({"x": spec.TensorSpec([batch])}), assumptions=[batch % 2 == 0, batch < 10]))
    f(ones(4)), f(ones(6))
    for size in 5, 12:
        with pytest.raises(DeclaredSizesError):
            f(ones(size))
    assert len(recorder.graphs) == 1


def test_torchs_decorator(spec):
    if not hasattr(spec, "dynamic_spec"):
        pytest.skip("this torch has no dynamic_spec decorator")

    class Model(torch.nn.Module):
        @spec.dynamic_spec({"x": spec.TensorSpec([spec.ShapeVar("n")])})
        def forward(self, x):
            return x + 1

    f, recorder = compiled(Model(), None)
    f(ones(4)), f(ones(6))
    assert len(recorder.graphs) == 1
    with pytest.raises(UserCodeError, match="@dynamic_spec"):
        compiled(Model(), {"x": [None]})


def test_dims_of_torch_export():
    batch = torch.export.Dim("batch", min=2, max=8)
    f, recorder = compiled(lambda x, y: x.sum() + y.sum(), {"x": {0: batch}, "y": [2 * batch, torch.export.Dim.STATIC]})
    for size in 3, 4, 5:
        assert f(ones(size), ones(2 * size, 1)) == 3 * size
    assert len(recorder.graphs) == 1
    for sizes in (9, 18), (3, 7):
        with pytest.raises(DeclaredSizesError):
            f(ones(sizes[0]), ones(sizes[1], 1))


def test_a_declared_size_that_the_program_fixes_is_no_mark():
    f = fs.compile(lambda x: x.view(4, 2), dynamic_shapes={"x": {0: fs.export.Dim("batch", max=64)}})
    with pytest.raises(fs.errors.ConstraintViolationError, match="x is declared dynamic, but the program") as caught:
        f(torch.ones(8))
    assert "mark_static" not in str(caught.value) and "dynamic_shapes" in str(caught.value)
