"""`explain`, `capture_graph`, `compile_times` and the profiler."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from rich.console import Console

import firesteel as fs
from firesteel.errors import GraphBreakError, UserCodeError

X = torch.arange(4.0)


def inner(x):
    x = x.sin()
    fs.graph_break()
    return x.cos()


def outer(x):
    return inner(x) + 1


def test_numbers_and_operations():
    explanation = fs.explain(outer)(X)
    assert (explanation.graph_count, explanation.graph_break_count, explanation.op_count) == (3, 1, 3)
    assert all(isinstance(graph, torch.fx.GraphModule) for graph in explanation.graphs)
    assert [str(op) for ops in explanation.ops_per_graph for op in ops][:2] == ["sin", "cos"]
    assert torch.equal(explanation.result, X.sin().cos() + 1)
    assert all(seconds > 0 for _, seconds in explanation.compile_times)
    assert {name for name, _ in explanation.compile_times} >= {"outer", "inner"}


def test_breaks_carry_the_whole_user_stack():
    (reason,) = fs.explain(outer)(X).break_reasons
    assert [frame.function for frame in reason.frames] == ["outer", "inner"]
    assert [frame.source for frame in reason.frames] == ["return inner(x) + 1", "fs.graph_break()"]
    assert all(frame.filename == __file__ for frame in reason.frames)


def test_each_place_counts_once():
    def f(x):
        for _ in range(5):
            fs.graph_break()
            x = x + 1
        fs.graph_break()
        return x

    explanation = fs.explain(f)(X)
    lines = [reason.frames[-1].source for reason in explanation.break_reasons]
    assert lines.count("fs.graph_break()") == 2 and len(lines) <= 3  # the loop's own next step may be a third


def test_guards_say_what_was_relied_on():
    def f(x, config):
        return x * config["scale"]

    explanation = fs.explain(f)(X, {"scale": 2})
    text = "\n".join(str(guard) for guard in explanation.guards)
    assert "x.shape == (4,)" in text and "config['scale']" in text
    assert explanation.out_guards is explanation.guards


def test_text():
    text = str(fs.explain(outer)(X))
    assert text.splitlines()[0] == "firesteel produced 3 graphs with 1 graph break and 3 ops"
    assert f'File "{__file__}"' in text and "fs.graph_break()" in text and "What to do: remove the call" in text
    assert "Compile times:" in text and "guards, in .guards" in text
    assert str(fs.explain(lambda x: x + 1)(X)).startswith("firesteel produced 1 graph with 0 graph breaks and 1 op\n")


def test_terminal():
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    console.print(fs.explain(outer)(X))
    text = console.file.getvalue()
    assert "graph breaks" in text and "graph_break() was called" in text and "compile times" in text
    assert "test_explain.py" in text


def test_notebook():
    text = fs.explain(outer)(X)._repr_html_()
    assert text.count("<table>") == text.count("</table>") == 3
    assert "graph_break() was called" in text and "x.shape == (4,)" in text

    def with_markup(x):
        if x.sum() < 0:
            return -x
        return x

    assert "x.sum() &lt; 0" in fs.explain(with_markup)(X)._repr_html_()


def test_brackets_in_reasons_are_not_markup():
    def f(x):
        fs.graph_break("[bold]not markup[/nothing]")
        return x + 1

    console = Console(file=io.StringIO(), width=200)
    console.print(fs.explain(f)(X))
    assert "[bold]not markup[/nothing]" in console.file.getvalue()


def test_modules_methods_and_compiled_functions():
    class Model(torch.nn.Module):
        def forward(self, x):
            return self.method(x).relu()

        def method(self, x):
            return x + 1

    model = Model()
    compiled = fs.compile(outer)
    for target in (model, fs.compile(model), model.method, fs.compile(model.method), compiled):
        assert fs.explain(target)(X).graph_count >= 1
    assert compiled._firesteel_unit.entries == []  # explaining does not add to what is compiled


def test_plain_functions_are_named():
    def numbers(x):
        yield x

    explanation = fs.explain(numbers)(X)
    assert explanation.graph_count == 0 and explanation.skipped[0][0] == "numbers"
    assert "Not compiled: numbers" in str(explanation)


def test_wrong_use():
    with pytest.raises(UserCodeError, match="write explain"):
        fs.explain(outer, X)


def test_errors_of_the_program_pass_through():
    def f(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fs.explain(f)(X)


def test_what_is_not_one_graph_is_said_without_fullgraph():
    with pytest.raises(fs.errors.GraphBreakError, match="^This program cannot be captured in one graph") as caught:
        fs.capture_graph(lambda x: print(x))(X)
    assert "fullgraph" not in str(caught.value)


def test_capture_graph():
    captured = fs.capture_graph(lambda x, y: torch.sin(x) + y)(X, 2)
    graph, guards = captured
    assert captured.graph_module is graph is captured[0] and captured.guards is guards is captured[1]
    assert [node.name for node in graph.graph.nodes if node.op == "placeholder"] == ["x"]
    assert torch.equal(graph(X)[0], X.sin() + 2)
    with pytest.raises(GraphBreakError, match="graph_break"):
        fs.capture_graph(outer)(X)
    with pytest.raises(GraphBreakError, match="0 graphs"):
        fs.capture_graph(lambda x: x)(X)


def test_compile_times():
    assert "nothing was compiled" in fs.compile_times()
    fs.compile(outer)(X)
    text = fs.compile_times()
    assert "outer" in text and "inner" in text and __file__ in text


def test_profiler():
    with fs.CompileProfiler() as prof:
        compiled = fs.compile(outer, backend=prof)
        compiled(X)
        fs.compile(lambda x: x + 1)(X)  # another backend: not counted
        assert prof.frame_count == 3 and "no recompilation" in prof.report() and "graph breaks:" in prof.report()
        compiled(X[:2])
    report = prof.report()
    assert prof.recompilations and "x.shape == (4,)" in report and "recompilations:" in report
    compiled(X[:3])
    assert prof.report() == report or prof.frame_count > 3  # still a backend; listening has ended


def test_explains_what_is_compiled_with_options():
    def f(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    x = torch.ones(3)
    assert fs.explain(f)(x).graph_break_count == 1
    assert fs.explain(f, options={"capture_branches": True})(x).graph_break_count == 0
    assert fs.explain(f, mode="default", backend="native")(x).graph_break_count == 1
    declared = fs.explain(lambda x: x + 1, dynamic_shapes={
        "x": {0: fs.export.Dim("n", max=64)}})(x)
    assert any("64" in str(guard) for guard in declared.guards)
    with pytest.raises(fs.errors.UserCodeError, match="unknown mode"):
        fs.explain(f, mode="fast")
    with pytest.raises(fs.errors.UserCodeError, match="both mode= and options="):
        fs.explain(f, mode="default", options={})


def assumed(x):
    y = x * 2
    if (x > 5).any():
        y = y + 1
    return y


def test_branches_that_are_assumed_are_shown():
    explanation = fs.explain(assumed)(torch.ones(2))
    line = assumed.__code__.co_firstlineno + 2
    assert explanation.assumptions == [f"it is false: if (x > 5).any(): ({__file__}:{line} in assumed)"]
    assert "Assumed of data: it is false" in str(explanation) and "assumed of data" in explanation._repr_html_()
    assert fs.explain(assumed)(torch.full((2,), 6.0)).assumptions[0].startswith("it is true")
    assert fs.explain(outer)(X).assumptions == []


def test_the_profiler_counts_beyond_the_limit():
    with fs.CompileProfiler() as prof, fs.config.patch(recompile_limit=2, dynamic_numbers=False):
        compiled = fs.compile(lambda x, n: x * n, backend=prof, dynamic=False)
        for n in range(5):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled(X, n)
    assert prof.frame_count == 2 and len(prof.recompilations) == 2
    assert [why for _, why in prof.uncompiled] == [f"n == 1 and type(n) is int (found {n})" for n in (3, 4)]
    assert "2 calls ran uncompiled, beyond the limit" in prof.report()


@pytest.mark.parametrize("width", [60, 80])
def test_tables_fold(width):
    @fs.disable
    def long_name_of_something_that_cannot_be_captured_because_it_is_too_long(x):
        return x.sin()

    explanation = fs.explain(lambda x: long_name_of_something_that_cannot_be_captured_because_it_is_too_long(x) + 1)(X)
    file = io.StringIO()
    Console(file=file, width=width).print(explanation)
    text = file.getvalue()
    assert "…" not in text
    cells = [line.split("│") for line in text.splitlines() if line.count("│") == 5]
    for column, whole in ((2, explanation.break_reasons[0].reason), (4, explanation.break_reasons[0].hint)):
        assert "".join(line[column].strip() for line in cells).replace(" ", "") == whole.replace(" ", "")


def test_notebooks_fold_guards():
    html = fs.explain(outer)(X)._repr_html_()
    folded = html[html.index("<details>"):html.index("</details>")]
    assert "guards</summary>" in folded and "x.shape == " in folded and "<pre style='white-space:pre-wrap'>" in folded


def test_names_of_what_ran_as_plain_python():
    class Plain(torch.nn.Module):
        @torch.compiler.disable
        def forward(self, x):
            return x.sin()

    module = Plain()
    fs.disallow_in_graph(torch.cos)
    try:
        explanation = fs.explain(lambda x: torch.cos(module(x + 1)))(X)
    finally:
        fs.allow_in_graph(torch.cos)
    assert [reason.reason for reason in explanation.break_reasons][-1] == "torch.cos is marked with disallow_in_graph"
    assert {callee.name: callee.reason for callee in explanation.plain} == {
        "Plain": "it is marked as one that is not compiled", "torch.cos": "it is marked with disallow_in_graph"}
    for text in (str(explanation), explanation._repr_html_()):
        assert "_VariableFunctions" not in text and "disable.<locals>" not in text
