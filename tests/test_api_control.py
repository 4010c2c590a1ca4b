"""What users say about single functions and about all of them: disable, markers, run, stance, reset."""

from __future__ import annotations

import functools
import threading

import pytest
import torch

import firesteel as fs
from firesteel.capture import markers
from firesteel.errors import GraphBreakError, RecompileError, UserCodeError
from seeds.recording import Recorder

X = torch.arange(4.0)


def operations(recorder):
    """The names of all operations in all graphs."""
    return [node.name for gm in recorder.graphs for node in gm.graph.nodes if node.op.startswith("call")]


# disable


def helper(x):
    return x.cos()


@fs.disable
def excluded(x):
    return helper(x) + (100 if fs.is_compiling() else 1)


@fs.disable(reason="it talks to a device")
def excluded_with_reason(x):
    return helper(x)


@fs.disable(recursive=False)
def frame_only(x, *, twice=True):
    parts = [helper(part) for part in (x, x + 1)]
    return (parts[0] + parts[1]) * (2 if twice else 1)


def test_disable_keeps_name_and_doc():
    assert excluded.__name__ == "excluded" and torch.equal(excluded(X), X.cos() + 1)


def test_disabled_callee():
    recorder = Recorder()
    f = fs.compile(lambda x: excluded(x.sin()).exp(), backend=recorder)
    assert torch.equal(f(X), (X.sin().cos() + 1).exp())
    assert operations(recorder) == ["sin", "exp"]
    with pytest.raises(GraphBreakError, match="disabled"):
        fs.compile(lambda x: excluded(x.sin()), fullgraph=True)(X)


def test_disabled_method_and_lambda():
    class Model:
        @fs.disable
        def hidden(self, x):
            return x.cos()

        def forward(self, x):
            return self.hidden(x.sin()).exp()

    recorder = Recorder()
    assert torch.equal(fs.compile(Model().forward, backend=recorder)(X), X.sin().cos().exp())
    assert operations(recorder) == ["sin", "exp"]
    hidden = fs.disable(lambda x: x.cos())
    recorder = Recorder()
    assert torch.equal(fs.compile(lambda x: hidden(x.sin()), backend=recorder)(X), X.sin().cos())
    assert operations(recorder) == ["sin"]


def test_disable_of_a_compiled_function_and_compile_of_a_disabled_one():
    recorder = Recorder()
    compiled = fs.compile(helper, backend=recorder)
    assert torch.equal(fs.disable(compiled)(X), X.cos()) and recorder.graphs == []
    assert torch.equal(fs.compile(excluded, backend=recorder)(X), X.cos() + 1) and recorder.graphs == []


def test_disable_only_the_frame():
    recorder = Recorder()
    f = fs.compile(lambda x: frame_only(x.sin()).exp(), backend=recorder)
    for _ in range(3):
        y = X.sin()
        assert torch.equal(f(X), ((y.cos() + (y + 1).cos()) * 2).exp())
    assert operations(recorder) == ["sin", "cos", "exp"]  # both calls of helper use one compiled version
    assert torch.equal(frame_only(X, twice=False), X.cos() + (X + 1).cos())


def test_compile_of_a_function_whose_frame_is_disabled():
    recorder = Recorder()
    f = fs.compile(frame_only, backend=recorder)
    assert torch.equal(f(X, twice=False), X.cos() + (X + 1).cos())
    assert operations(recorder) == ["cos"] and f.__name__ == "frame_only"


def test_frame_only_method_with_exceptions():
    class Model:
        def inner(self, x):
            if x is None:
                raise ValueError("nothing")
            return x.cos()

        @fs.disable(recursive=False)
        def outer(self, x):
            try:
                return self.inner(None)
            except ValueError as error:
                return self.inner(x), str(error)

    recorder = Recorder()
    model = Model()
    result, text = fs.compile(lambda m, x: m.outer(x.sin()), backend=recorder)(model, X)
    assert torch.equal(result, X.sin().cos()) and text == "nothing"
    assert operations(recorder) == ["sin", "cos"]


def test_disabled_module():
    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = fs.disable(torch.nn.Linear(4, 4))

        def forward(self, x):
            return self.inner(x.sin()).exp()

    recorder = Recorder()
    model = Outer()
    assert type(model.inner) is torch.nn.Linear and list(model.state_dict()) == ["inner.weight", "inner.bias"]
    assert torch.equal(fs.compile(model, backend=recorder)(X), model(X))
    assert operations(recorder) == ["sin", "exp"]
    assert fs.compile(model.inner) is model.inner


@pytest.mark.parametrize("thing", [3, torch.nn.Linear])
def test_things_that_cannot_be_disabled(thing):
    with pytest.raises(UserCodeError):
        fs.disable(thing)


# in the graph or not


def test_allow_in_graph():
    seen = []

    @fs.allow_in_graph
    def opaque(x, y):
        seen.append(1)
        return x * 2 + y

    recorder = Recorder()
    f = fs.compile(lambda x: opaque(x.sin(), x).cos(), backend=recorder)
    for _ in range(2):
        assert torch.equal(f(X), (X.sin() * 2 + X).cos())
    assert operations(recorder) == ["sin", "opaque", "cos"]


def test_disallow_in_graph_of_python_and_c_functions():
    @fs.disallow_in_graph
    def scaled(x):
        return x * 2

    fs.disallow_in_graph([torch.sub, torch.nn.functional.relu])
    try:
        recorder = Recorder()
        f = fs.compile(lambda x: torch.nn.functional.relu(torch.sub(scaled(x.sin()), 1)).cos(), backend=recorder)
        assert torch.equal(f(X), (X.sin() * 2 - 1).relu().cos())
        assert "sub" not in operations(recorder) and "relu" not in operations(recorder)
        assert operations(recorder)[0] == "sin" and operations(recorder)[-1] == "cos"
    finally:
        fs.allow_in_graph([torch.sub, torch.nn.functional.relu])
    recorder = Recorder()
    assert torch.equal(fs.compile(lambda x: torch.sub(x, 1), backend=recorder)(X), X - 1)
    assert operations(recorder) == ["sub"]


@pytest.mark.parametrize("mark", [fs.allow_in_graph, fs.disallow_in_graph])
def test_marks_need_functions(mark):
    with pytest.raises(UserCodeError, match="cannot be called"):
        mark([3])


def test_assume_constant_result():
    calls = []

    @fs.assume_constant_result
    def expensive():
        calls.append(1)
        return 3

    f = fs.compile(lambda x: x * expensive(), fullgraph=True)
    for _ in range(3):
        assert torch.equal(f(X), X * 3)
    assert len(calls) == 1


def test_graph_break_with_a_message():
    def f(x):
        x = x.sin()
        fs.graph_break("the sensor is read here")
        return x.cos()

    explanation = fs.explain(f)(X)
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 1)
    assert "the sensor is read here" in explanation.break_reasons[0].reason
    assert fs.graph_break() is None


def test_is_compiling():
    def f(x):
        return x + (1 if fs.is_compiling() else 2)

    assert torch.equal(fs.compile(f)(X), X + 1) and torch.equal(f(X), X + 2)


# torch's own markers


def test_torch_compiler_is_compiling():
    def f(x):
        return x + (1 if torch.compiler.is_compiling() else 2)

    assert torch.equal(fs.compile(f, fullgraph=True)(X), X + 1)


def test_torch_disable():
    import torch._dynamo

    @torch.compiler.disable
    def hidden(x):
        return helper(x)

    @torch._dynamo.disable(recursive=False)
    def hidden_frame(x):
        return helper(x).neg()

    recorder = Recorder()
    f = fs.compile(lambda x: hidden_frame(hidden(x.sin())).exp(), backend=recorder)
    assert torch.equal(f(X), X.sin().cos().cos().neg().exp())
    assert operations(recorder) == ["sin", "cos", "exp"]


def test_torch_graph_break():
    import torch._dynamo

    def f(x):
        x = x.sin()
        torch._dynamo.graph_break()
        return x.cos()

    assert fs.explain(f)(X).graph_break_count == 1


def test_torch_allow_in_graph():
    import torch._dynamo

    @torch.compiler.allow_in_graph
    def opaque(x):
        return x * 2

    recorder = Recorder()
    assert torch.equal(fs.compile(lambda x: opaque(x.sin()), backend=recorder)(X), X.sin() * 2)
    assert operations(recorder) == ["sin", "opaque"]


def test_torch_assume_constant_result():
    import torch._dynamo

    @torch.compiler.assume_constant_result
    def constant():
        return 5

    assert torch.equal(fs.compile(lambda x: x * constant(), fullgraph=True)(X), X * 5)


def test_torch_shape_hints_and_checks():
    import torch._dynamo

    def f(x):
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        torch._dynamo.mark_static(x, 0)
        torch._check(x.shape[0] > 2)
        torch._check(x.shape[0] > 2, lambda: "too small")
        return x + 1

    assert torch.equal(fs.compile(f, fullgraph=True)(X), X + 1)


def test_torch_check_fails():
    def f(x):
        torch._check(x.shape[0] > 20, lambda: "too small")
        return x + 1

    with pytest.raises(RuntimeError, match="too small"):
        fs.compile(f)(X)


# run, stance, reset


def two_versions(x, flag):
    return x + 1 if flag else x - 1


def test_run_on_functions_methods_and_modules():
    recorder = Recorder()
    compiled = fs.compile(two_versions, backend=recorder)
    frozen = fs.run(compiled)
    assert torch.equal(frozen(X, True), X + 1) and recorder.graphs == []
    compiled(X, True)
    assert torch.equal(frozen(X, True), X + 1) and torch.equal(frozen(X, False), X - 1)
    assert len(recorder.graphs) == 1 and frozen.__name__ == "two_versions"

    module = fs.compile(torch.nn.Linear(4, 4), backend=recorder)
    assert torch.equal(fs.run(module)(X), module._firesteel_original(X)) and len(recorder.graphs) == 1
    assert fs.run(two_versions) is two_versions


def test_run_freezes_what_is_called():
    recorder = Recorder()

    @fs.compile(backend=recorder)
    def inner(x, flag):
        return x + 1 if flag else x - 1

    @fs.disable
    def between(x, flag):
        return inner(x, flag)

    outer = fs.compile(lambda x, flag: between(x * 2, flag) * 3, backend=recorder)
    outer(X, True)
    graphs = len(recorder.graphs)
    frozen = fs.run(outer)
    assert torch.equal(frozen(X, False), (X * 2 - 1) * 3) and torch.equal(frozen(X[:1], True), (X[:1] * 2 + 1) * 3)
    assert len(recorder.graphs) == graphs
    inner(X, False)
    assert len(recorder.graphs) == graphs + 1


def test_run_concerns_its_thread_only():
    recorder = Recorder()
    inside, done = threading.Event(), threading.Event()

    @fs.disable
    def wait():
        inside.set()
        done.wait(10)

    @fs.compile(backend=recorder)
    def f(x, waiting):
        if waiting:
            wait()
        return x * 2

    thread = threading.Thread(target=fs.run(f), args=(X, True))
    thread.start()
    assert inside.wait(10)
    assert torch.equal(f(X, False), X * 2) and len(recorder.graphs) == 1
    done.set()
    thread.join()
    assert len(recorder.graphs) == 1


def test_stance_force_eager():
    recorder = Recorder()
    compiled = fs.compile(two_versions, backend=recorder)
    with fs.set_stance("force_eager"):
        assert torch.equal(compiled(X, True), X + 1)
        assert recorder.graphs == []
    compiled(X, True)
    ran = []
    counting = fs.compile(lambda x: x + 1, backend=lambda gm, inputs: lambda *a: (ran.append(1), gm(*a))[1])
    counting(X)
    with fs.set_stance("force_eager"):
        assert torch.equal(counting(X), X + 1)
    assert len(ran) == 1  # also what was compiled before runs uncompiled
    counting(X)
    assert len(ran) == 2


def test_stance_force_eager_passes_arguments_on():
    def f(a, b=2, /, c=3, *rest, d, e=5, **named):
        return a, b, c, rest, d, e, named

    compiled = fs.compile(f)
    with fs.set_stance("force_eager"):
        for args, kwargs in [((1,), {"d": 4}), ((1, 9), {"d": 4, "e": 1}), ((1, 2, 3, 4, 5), {"d": 1, "z": 2}),
                             ((1,), {"c": 7, "d": 2})]:
            assert compiled(*args, **kwargs) == f(*args, **kwargs)
        f.__defaults__ = (20, 30)
        assert compiled(1, d=1) == f(1, d=1) == (1, 20, 30, (), 1, 5, {})


def test_stance_eager_on_recompile():
    recorder = Recorder()
    compiled = fs.compile(two_versions, backend=recorder)
    compiled(X, True)
    with fs.set_stance("eager_on_recompile"):
        assert torch.equal(compiled(X, True), X + 1) and torch.equal(compiled(X, False), X - 1)
        assert torch.equal(fs.compile(helper, backend=recorder)(X), X.cos())
    assert len(recorder.graphs) == 1
    compiled(X, False)
    assert len(recorder.graphs) == 2


def test_stance_fail_on_recompile():
    compiled = fs.compile(two_versions)
    compiled(X, True)
    with fs.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(X, True), X + 1)
        with pytest.raises(RecompileError, match=r"two_versions .* the last failing guard is .*found False"):
            compiled(X, False)
        with pytest.raises(RecompileError, match="there is no compiled version"):
            fs.compile(helper)(X)
    assert torch.equal(compiled(X, False), X - 1)


def test_stance_as_statement_and_decorator():
    from firesteel.runtime import stance

    recorder = Recorder()
    compiled = fs.compile(helper, backend=recorder)

    @fs.set_stance("force_eager")
    def eager_call(x):
        return compiled(x)

    assert stance.current() == "default"
    assert torch.equal(eager_call(X), X.cos()) and recorder.graphs == []
    fs.set_stance("force_eager")
    try:
        compiled(X)
        assert recorder.graphs == []
    finally:
        fs.set_stance("default")
    compiled(X)
    assert len(recorder.graphs) == 1
    with pytest.raises(UserCodeError, match="unknown stance"):
        fs.set_stance("relaxed")
    assert stance.current() == "default"


def test_stance_is_restored_after_an_exception():
    from firesteel.runtime import stance

    with pytest.raises(ZeroDivisionError), fs.set_stance("force_eager"):
        1 / 0  # noqa: B018
    assert stance.current() == "default"


def test_reset():
    recorder = Recorder()
    compiled = fs.compile(two_versions, backend=recorder)
    compiled(X, True)
    compiled(X, True)
    assert len(recorder.graphs) == 1
    fs.reset()
    assert torch.equal(compiled(X, True), X + 1) and len(recorder.graphs) == 2


def test_disabled_functions_are_named_with_their_reason():
    @torch.compiler.disable(reason="too odd")
    def odd(x):
        return x + 1

    @fs.disable(recursive=False)
    def only_this(x):
        return x + 2

    explained = fs.explain(lambda x: only_this(odd(x) * 2))(torch.ones(2))
    reasons = [str(reason.reason) for reason in explained.break_reasons]
    assert "odd is marked as disabled (too odd)" in reasons[0]
    assert "only_this is marked as disabled" in reasons[1]


def test_the_limit_that_was_reached_is_named():
    def add(x, word):
        return x + len(word)

    limited = fs.compile(add, backend="eager", recompile_limit=1)
    limited(torch.ones(2), "a")
    with pytest.warns(fs.errors.FiresteelWarning, match="the argument recompile_limit of fs.compile sets the limit"):
        limited(torch.ones(2), "bb")


def test_dir_lists_the_public_names():
    assert set(fs.__all__) <= set(dir(fs))
    assert "importlib" not in dir(fs)
    assert set(fs.export.__all__) <= set(dir(fs.export)) and "Mapping" not in dir(fs.export)


@pytest.mark.parametrize("mark", [fs.compile, fs.disable, fs.disable(recursive=False), fs.assume_constant_result])
def test_wraps_around_a_marked_function_does_not_make_it_that_function(mark):
    def inner(x):
        return 3

    inner = mark(inner)

    @functools.wraps(inner)
    def around(x):
        return inner(x) * 2

    assert fs.compile(lambda x: x + around(1))(torch.ones(2)).tolist() == [7.0, 7.0]
    assert fs.compile(around)(1) == 6


# What torch's other markers say


def layer(x, by=1):
    return x + by


def test_nested_compile_regions_are_captured_inline():
    region = torch.compiler.nested_compile_region(layer)
    recorder = Recorder()
    compiled = fs.compile(lambda x: region(x * 2, by=3) * 3, backend=recorder, fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [15.0, 15.0]
    assert len(recorder.graphs) == 1


def test_a_step_that_raises_only_while_it_is_captured_breaks_the_graph(monkeypatch):
    region = torch.compiler.nested_compile_region(layer)
    names = ("torch._higher_order_ops.invoke_subgraph", "invoke_subgraph_placeholder")
    monkeypatch.delitem(markers._TORCH_MARKERS, names)  # it raises then where it finds itself compiled
    compiled = fs.compile(lambda x: region(x * 2) * 3, backend="eager", fullgraph=True)
    with pytest.raises(GraphBreakError, match="raises RuntimeError here while it is captured, and not when it runs"):
        compiled(torch.ones(2))
    assert fs.compile(lambda x: region(x * 2) * 3, backend="eager")(torch.ones(2)).tolist() == [9.0, 9.0]
