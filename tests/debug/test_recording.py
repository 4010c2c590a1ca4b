"""Recordings: what they hold, what they keep alive, and what they cost when there are none."""

from __future__ import annotations

import gc
import json
import threading
import weakref

import pytest
import torch

import firesteel as fs
from firesteel import config, events
from firesteel.debug import recorder
from firesteel.debug.record import Record
from firesteel.debug.report import time_text

pytestmark = pytest.mark.usefixtures("quick_collections")


@fs.disable
def plain(x):
    return x * 3


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        hidden = torch.nn.functional.gelu(self.linear(x))
        return torch.softmax(hidden, -1) * 2


def with_break(x, n):
    y = x.sin() * n
    y = plain(y)
    return y.cos() + 1


FORWARD = Block.forward.__code__.co_firstlineno
BROKEN = with_break.__code__.co_firstlineno


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> Record:
    torch.manual_seed(0)
    folder = str(tmp_path_factory.mktemp("cache"))
    with config.patch(disk_cache=True, cache_dir=folder, raise_on_internal_error=True), \
            fs.recording(measure=True) as r:
        model = fs.compile(Block())
        for _ in range(2):
            model(torch.randn(4, 8)).sum().backward()
        compiled = fs.compile(with_break)
        for n in (2, 2, 5):
            compiled(torch.ones(6), n)
    assert not events.OBSERVERS
    return r.record


def test_compilations_have_their_stages(record):
    assert not record.problems
    names = {stage.name for stage in record.stages}
    assert {"capture", "differentiate", "partition", "passes", "lower", "schedule", "generate", "host",
            "trace"} <= names
    assert any(stage.kind == "pass" for stage in record.stages)
    for stage in record.stages:
        assert stage.seconds >= 0 and stage.began >= 0 and stage.began + stage.seconds <= record.seconds
    first = record.compilations[0]
    inside = [stage for stage in record.stages if stage.compilation == first.number and stage.depth == 1]
    assert 0 < sum(stage.seconds for stage in inside) <= first.seconds
    backward = [stage for stage in record.stages if stage.name == "backward"]
    assert [stage.graph for stage in backward] == [0] and backward[0].depth == 0


def test_graphs_before_and_after_each_stage(record):
    graph = record.graphs[0]
    assert graph.name == "forward" and graph.operators == 4
    assert "gelu" in graph.texts["captured"] and f"test_recording.py:{FORWARD + 1}" in graph.texts["captured"]
    assert "gradients" in graph.texts["differentiated"]
    forward, backward = graph.programs
    assert (forward.name, backward.name) == ("forward_forward", "forward_backward")
    for program in graph.programs:
        assert {"functional", "loops", "plan", "host program"} <= set(program.texts)
        assert program.passes and program.drawing.startswith("<svg")
    assert "gelu_backward" in backward.texts["functional"]


def test_kernels_say_what_is_in_them(record):
    kernels = [kernel for graph, program, kernel in record.kernels() if program.name == "forward_forward"]
    fused = next(kernel for kernel in kernels if not kernel.is_call)
    assert {"aten.gelu.default", "aten._softmax.default"} <= set(fused.operators)
    assert {place.line for place in fused.places} == {FORWARD + 1, FORWARD + 2}
    assert fused.read >= 4 * 8 * 4 and fused.written >= 4 * 8 * 4
    assert "for " in fused.loops and "define" in fused.source
    assert fused.seconds > 0 and fused.copy_seconds > 0
    call = next(kernel for kernel in kernels if kernel.is_call)
    assert call.operators == ["aten.addmm.default"] and call.read == 4 * (4 * 8 + 8 * 8 + 8) and not call.source


def test_guards_breaks_shares_and_caches(record):
    guards = [guard for compilation in record.compilations for guard in compilation.guards]
    assert any("x.shape" in guard.text and guard.place.line == FORWARD + 1 for guard in guards)
    (broken,) = record.breaks
    assert (broken.place.line, broken.advice) == (BROKEN + 2, "remove the disable marker to compile it")
    (again,) = record.recompilations
    assert (again.failures[0].before, again.failures[0].now, again.place.line) == ("2", "5", BROKEN + 1)
    assert [(one.name, one.calls) for one in record.plain] == [("plain", 3)]
    shares = {share.function: (share.inside, share.outside, share.measured) for share in record.shares}
    assert shares == {"with_break": (4, 1, True), "forward": (4, 0, False)}
    assert sum(sum(counts) for counts in record.caches.values()) > 0


def test_json_and_trace(record):
    again = json.loads(record.as_json())
    assert [graph["name"] for graph in again["graphs"]] == [graph.name for graph in record.graphs]
    trace = record.chrome_trace()["traceEvents"]
    assert sum(event["ph"] == "X" for event in trace) == len(record.stages)
    assert [event["name"] for event in trace if event["ph"] == "i"] == ["recompile with_break"]


def test_nothing_of_the_program_is_kept():
    model = Block()
    gone = weakref.ref(model), weakref.ref(model.linear.weight)
    with fs.recording() as r:
        compiled = fs.compile(model, backend="eager")
        compiled(torch.randn(2, 8))
    del compiled, model
    fs.reset()
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    assert len(r.record.graphs) == 1


def test_a_failing_recording_fails_nothing(monkeypatch):
    from firesteel.debug import recorder

    def fail(*args):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(recorder, "captured_text", fail)
    with config.patch(raise_on_internal_error=False), fs.recording() as r:
        assert fs.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).sum() == 4
    assert "on purpose" in r.record.problems[0] and not r.record.graphs


def test_several_threads_and_the_background():
    def work(number):
        function = eval(f"lambda x: (x + {number}).sin() * {number}", {})
        fs.compile(function)(torch.ones(3))

    with fs.recording() as r:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        fs.compile(lambda x: x.cos() + 5, options={"background": True})(torch.ones(3))
    assert len(r.record.graphs) == 4 and not r.record.problems
    assert all(len(graph.programs) == 1 and graph.programs[0].kernels for graph in r.record.graphs)


def test_recordings_inside_of_each_other():
    with fs.recording() as outer:
        fs.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        with fs.recording() as inner:
            fs.compile(lambda x: x + 2, backend="eager")(torch.ones(2))
        assert len(outer.record.graphs) == 2  # as far as it has come
    assert len(inner.record.graphs) == 1


def test_functions_wait_for_nothing_while_somebody_records():
    def function(x):
        return x + 1

    with config.patch(compile_after=100.0):
        compiled = fs.compile(function)
        compiled(torch.ones(2))
        with fs.recording() as r:
            compiled(torch.ones(2))
    assert [one.function for one in r.record.compilations] == ["function"]


def test_graphs_behind_each_pass():
    with fs.recording(passes=True) as r:
        fs.compile(lambda x: (x + 0) * 1 + x.t().t())(torch.ones(3, 3))
    texts = r.record.graphs[0].programs[0].texts
    after = [name for name in texts if name.startswith("after ")]
    assert after and "after passes" not in after
    assert len(set(texts.values())) == len(texts)


def test_stages_that_are_not_kept_are_counted(monkeypatch):
    monkeypatch.setattr(recorder, "MOST_STAGES", 3)
    with fs.recording() as r:
        fs.compile(lambda x: x.sin() + 1)(torch.ones(3))
    assert len(r.record.stages) == 3
    totals = {total.name: total for total in r.record.totals.values()}
    assert {"capture", "trace", "generate"} <= set(totals) and all(total.runs >= 1 for total in totals.values())
    assert r.record.compiling >= sum(totals[name].seconds for name in ("capture", "trace", "generate"))
    assert f"capture {time_text(totals['capture'].seconds)}" in r.summary()


def test_a_global_that_is_gone():
    namespace = {"torch": torch, "k": 2.0}
    exec("def f(x):\n    y = x.sin()\n    return y * k", namespace)
    compiled = fs.compile(namespace["f"])
    with fs.recording() as r:
        compiled(torch.ones(3))
        del namespace["k"]
        with pytest.raises(NameError):
            compiled(torch.ones(3))
    (failure,) = r.record.recompilations[0].failures
    assert (failure.before, failure.now) == ("", "not to be had: KeyError: 'k'") and failure.place.line == 3
    assert "k == 2.0 (is not to be had: KeyError: 'k')" in r.summary()


def test_a_graph_that_must_be_whole_and_is_not():
    def branches(x):
        if x.sum() > 0:
            return x
        return x + 1

    with fs.recording() as r, pytest.raises(fs.errors.GraphBreakError):
        fs.compile(branches, fullgraph=True)(torch.ones(3))
    (only,) = r.record.breaks
    assert only.reason == "a branch depends on the value of a tensor" and "torch.where" in only.advice
    assert only.place.line == branches.__code__.co_firstlineno + 1
    assert "fullgraph=True" in r.record.compilations[only.compilation].result
    assert r.summary().startswith("0 graphs, 1 break, ")
