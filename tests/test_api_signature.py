"""The arguments of compile that torch.compile has as well, and what users say to torch's own compiler."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap
import warnings

import pytest
import torch

import firesteel as fs
from firesteel.errors import FiresteelWarning, GraphBreakError, RecompileError, RecompileLimitError, UserCodeError
from firesteel.stage_times import TIMES
from seeds.recording import Recorder

X = torch.arange(4.0)


def text_of(x, text):
    return x + len(text)


def run_fresh(code):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# name


def test_name_stands_before_the_names_of_functions():
    fs.compile(text_of, backend="eager", name="encoder")(X, "a")
    assert TIMES[-1].name == "encoder:text_of"
    fs.compile(text_of, backend="eager")(X, "a")
    assert TIMES[-1].name == "text_of"


def test_a_backend_that_takes_a_name_gets_it():
    given = []

    def backend(gm, example_inputs, *, name=None):
        given.append(name)
        return gm.forward

    fs.compile(text_of, backend=backend, name="decoder")(X, "a")
    fs.compile(text_of, backend=backend)(X, "a")
    assert given == ["decoder", None]


# recompile_limit, isolate_recompiles


def test_recompile_limit_of_one_call():
    recorder = Recorder()
    limited = fs.compile(text_of, backend=recorder, recompile_limit=2)
    with pytest.warns(FiresteelWarning, match="was compiled 2 times"):
        for text in "a", "bb", "ccc":
            assert torch.equal(limited(X, text), X + len(text))
    assert len(recorder.graphs) == 2
    other = fs.compile(text_of, backend=recorder)
    for text in "a", "bb", "ccc":
        other(X, text)
    assert len(recorder.graphs) == 5


def test_recompile_limit_with_fullgraph_raises():
    limited = fs.compile(text_of, backend="eager", recompile_limit=1, fullgraph=True)
    limited(X, "a")
    with pytest.raises(RecompileLimitError, match="recompile limit of 1"):
        limited(X, "bb")


def test_recompiles_are_isolated_unless_shared():
    recorder = Recorder()
    for _ in range(2):
        fs.compile(text_of, backend=recorder)(X, "a")
    assert len(recorder.graphs) == 2
    shared = [fs.compile(text_of, backend=recorder, isolate_recompiles=False) for _ in range(2)]
    for compiled in shared:
        compiled(X, "a")
    assert len(recorder.graphs) == 3
    fs.compile(text_of, backend=recorder, isolate_recompiles=False, dynamic=True)(X, "a")  # other options
    assert len(recorder.graphs) == 4
    fs.compile(text_of, backend=recorder, isolate_recompiles=True)(X, "a")
    assert len(recorder.graphs) == 5


def test_shared_recompiles_count_together():
    first, second = (fs.compile(text_of, backend="eager", isolate_recompiles=False, recompile_limit=2)
                     for _ in range(2))
    first(X, "a"), second(X, "bb")
    with pytest.warns(FiresteelWarning, match="was compiled 2 times"):
        second(X, "ccc")


@pytest.mark.parametrize("given", [{"recompile_limit": 0}, {"recompile_limit": True}, {"recompile_limit": "2"},
                                   {"name": 3}])
def test_wrong_values(given):
    with pytest.raises(UserCodeError, match=next(iter(given))):
        fs.compile(text_of, **given)


def test_copies_of_modules_keep_the_arguments():
    module = fs.compile(torch.nn.Linear(4, 4), backend="eager", name="head", recompile_limit=3, mode="default")
    for other in (copy.deepcopy(module), copy.copy(module), pickle.loads(pickle.dumps(module))):
        compiler = type(other)._firesteel_compiler
        assert compiler.name == "head" and compiler.recompile_limit == 3 and compiler.mode == "default"


# options


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_unknown_options_are_refused_by_every_backend_of_ours(backend):
    with pytest.raises(UserCodeError, match="no option 'max_autotun'.*\n.*did you mean 'max_autotune'"):
        fs.compile(text_of, backend=backend, options={"max_autotun": True})
    with pytest.raises(UserCodeError, match="takes a value of type bool"):
        fs.compile(text_of, backend=backend, options={"max_autotune": 3})
    fs.compile(text_of, backend=backend, options={"max_autotune": True})


# TorchScript


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def scripted(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@pytest.mark.parametrize("make", [
    lambda: torch.jit.script(torch.nn.Linear(4, 4)), lambda: torch.jit.trace(torch.nn.Linear(4, 4), X),
    lambda: torch.jit.script(scripted), lambda: torch.jit.trace(scripted, X),
    lambda: torch.jit.script(torch.nn.Linear(4, 4)).forward,
], ids=["module", "traced module", "function", "traced function", "method"])
def test_torchscript_runs_as_it_is(quiet, make):
    program = make()
    assert fs.compile(program) is program
    explanation = fs.explain(program)(X)
    assert torch.equal(explanation.result, program(X)) and explanation.graph_count == 0
    (_, reason), = explanation.skipped
    assert "TorchScript" in reason and reason in str(explanation)
    with pytest.raises(GraphBreakError, match="TorchScript"):
        fs.compile(program, fullgraph=True)


def test_torchscript_inside_of_a_compiled_module(quiet):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.jit.script(torch.nn.Linear(4, 4)),
                                torch.jit.trace(torch.nn.Linear(4, 4), X))
    torch.testing.assert_close(fs.compile(model)(X), model(X))
    program = torch.jit.script(scripted)
    for function, breaks in (model[1], 1), (model[2], 1), (program, 0):
        explanation = fs.explain(lambda x, function=function: function(x) * 2)(X)
        reasons = [one.reason for one in explanation.break_reasons]
        assert reasons == ["TorchScript is compiled already, by another compiler"] * breaks


# export as a call


def test_export_can_be_called():
    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    assert torch.equal(fs.export(Add(), (X, X)).module()(X, X), X + X)
    assert torch.equal(fs.export(Add(), (X,), {"y": X}, strict=False).module()(X, y=X), X + X)
    assert fs.export.export is not fs.export and fs.export.Dim("n").name == "n"


# the stance


def test_stance_that_compiles_at_the_second_call():
    recorder = Recorder()
    compiled = fs.compile(lambda x, n: x * n, backend=recorder)
    with fs.set_stance("eager_then_compile"):
        assert torch.equal(compiled(torch.ones(3), 4), torch.full((3,), 4.0)) and recorder.graphs == []
        for size, number in (5, 6), (7, 8), (9, 10):  # what differs from the first call is a symbol at once
            assert torch.equal(compiled(torch.ones(size), number), torch.full((size,), float(number)))
    assert len(recorder.graphs) == 1


def test_stance_that_forces_a_backend():
    mine, forced = Recorder(), Recorder()
    compiled = fs.compile(text_of, backend=mine)
    with fs.set_stance(force_backend=forced):
        compiled(X, "a")
    compiled(X, "bb")
    assert len(forced.graphs) == len(mine.graphs) == 1
    with pytest.raises(UserCodeError, match="force_backend"):
        fs.set_stance("force_eager", force_backend="eager")


def test_torchs_stance_counts():
    ran = []
    compiled = fs.compile(lambda x: x + 1, backend=lambda gm, inputs: lambda *a: (ran.append(1), gm(*a))[1])
    compiled(X)
    with torch.compiler.set_stance("force_eager"):
        assert torch.equal(compiled(X), X + 1) and len(ran) == 1
        with fs.set_stance("default"):  # ours does not lift theirs
            compiled(X)
        assert len(ran) == 1
    compiled(X)
    assert len(ran) == 2
    torch.compiler.set_stance("fail_on_recompile")
    try:
        compiled(X)
        with pytest.raises(RecompileError):
            compiled(torch.ones(2, 2))
    finally:
        torch.compiler.set_stance("default")

    @torch.compiler.set_stance("eager_on_recompile")
    def call():
        return compiled(torch.ones(2, 2, 2))

    call()
    assert len(ran) == 3
    recorder = Recorder()
    with torch.compiler.set_stance(force_backend=recorder):
        compiled(torch.ones(2, 2, 2))
    assert len(ran) == 3 and len(recorder.graphs) == 1


def test_torchs_stance_counts_that_was_set_before_anything_was_compiled():
    assert run_fresh("""
        import torch
        from torch.compiler import set_stance
        set_stance("force_eager")
        import firesteel as fs
        ran = []
        compiled = fs.compile(lambda x: x + 1, backend=lambda gm, inputs: ran.append(1) or gm)
        compiled(torch.ones(2))
        print(len(ran))
        set_stance("default")
        compiled(torch.ones(2))
        print(len(ran))
        from firesteel import torch_compat
        torch_compat.stop_following_stance()
        set_stance("force_eager")
        compiled(torch.ones(3))
        print(len(ran))
        """) == ["0", "1", "2"]


# settings of torch.compiler.config


def test_torchs_limits_count():
    recorder = Recorder()
    with torch.compiler.config.patch(recompile_limit=1):
        compiled = fs.compile(text_of, backend=recorder)
        with pytest.warns(FiresteelWarning, match="was compiled 1 times"):
            compiled(X, "a"), compiled(X, "bb")
        with fs.config.patch(recompile_limit=3):  # ours, when it was changed
            compiled = fs.compile(text_of, backend=recorder)
            compiled(X, "a"), compiled(X, "bb"), compiled(X, "ccc")
    assert len(recorder.graphs) == 4
    with torch.compiler.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        compiled = fs.compile(text_of, backend=recorder)
        compiled(X, "a")
        with pytest.raises(RecompileLimitError):
            compiled(X, "bb")


def test_torchs_settings_of_sizes_count():
    recorder = Recorder()
    with torch.compiler.config.patch(automatic_dynamic_shapes=False):
        compiled = fs.compile(lambda x: x + 1, backend=recorder)
        for size in 3, 4, 5:
            compiled(torch.ones(size))
    assert len(recorder.graphs) == 3
    with torch.compiler.config.patch(assume_static_by_default=False):
        compiled = fs.compile(lambda x: x + 1, backend=recorder)
        for size in 3, 4, 5:
            compiled(torch.ones(size))
    assert len(recorder.graphs) == 4


@pytest.mark.parametrize("setting, text, graphs", [
    ("dynamic_sources", "L['x']:0", 1), ("dynamic_sources", r"L\['x.*'\]", 1),
    ("dynamic_sources", "L['y'], L['x']", 1),
    ("dynamic_sources", "L['x']:1", 3), ("unbacked_sources", ".*", 1), ("dynamic_sources", "L['z']", 3),
])
def test_torchs_named_sources_count(setting, text, graphs):
    recorder = Recorder()
    with torch.compiler.config.patch({setting: text}):
        compiled = fs.compile(lambda x: x + 1, backend=recorder, dynamic=False)
        for size in 3, 4, 5:
            compiled(torch.ones(size, 2))
    assert len(recorder.graphs) == graphs


def test_torchs_static_sources_and_dynamic_values_count():
    recorder = Recorder()
    if hasattr(torch.compiler.config, "static_sources"):
        with torch.compiler.config.patch(static_sources="L['x']:0"):
            compiled = fs.compile(lambda x: x + 1, backend=recorder)
            for size in 3, 4, 5:
                compiled(torch.ones(size, 2))
        assert len(recorder.graphs) == 3
    if hasattr(torch.compiler.config, "dynamic_values"):
        before = len(recorder.graphs)
        with torch.compiler.config.patch(dynamic_values="111"):
            compiled = fs.compile(lambda x, n: x * n, backend=recorder)
            for size in 111, 4, 5:
                compiled(torch.ones(size, 2), size)
        assert len(recorder.graphs) == before + 1


def test_torchs_switch_for_caches_counts(tmp_path):
    from firesteel import disk_cache

    with fs.config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        assert disk_cache.directory() == str(tmp_path)
        with torch.compiler.config.patch(force_disable_caches=True):
            assert disk_cache.directory() is None


def test_wrong_calls_are_said_in_good_words():
    with pytest.raises(UserCodeError, match="an int object cannot be called"):
        fs.compile(3)
    with pytest.raises(UserCodeError, match="mark_dynamic got an int, not a tensor"):
        fs.mark_dynamic(3, 0)
    with pytest.raises(UserCodeError, match="did you mean 'capture_branches'"):
        fs.compile(lambda x: x, options={"capture_branch": True})
    with pytest.raises(UserCodeError, match="the options are .*capture_branches"):
        fs.compile(lambda x: x, options={"zzz": True})
