"""Failures are found and made small: a short sample of the faults that `benchmarks/injected_faults.py` puts in."""

from __future__ import annotations

import ast
import sys
import time

import pytest
import torch

import firesteel as fs
from firesteel.cli import main
from firesteel.repair import apart, bisect, children, edits, failure, levels, minify, probe
from firesteel.repair import session as session_module
from firesteel.repair.asked_for import asked_for
from firesteel.repair.session import Session
from firesteel.repair.shrinker import Shrinker
from repair import faults

SMALL = """
import torch
import firesteel as fs

def f(x):
    first = torch.relu(x)
    second = first.cumsum(0)
    third = second.round()
    return third.exp()

torch.manual_seed(0)
x = torch.randn(4)
fs.check(f)(x)
"""


@pytest.fixture
def session(tmp_path):
    made = Session(60.0, 20.0, str(tmp_path), threads=1)
    yield made
    made.close()


def look(session, tmp_path, monkeypatch, name, text=SMALL):
    """Put a fault in and look for it; children inherit it."""
    faults.load()
    monkeypatch.setattr(minify, "confirm", lambda *given: True)
    with monkeypatch.context():
        from firesteel.kernels.cpu import passes
        from firesteel.kernels.lowering.registry import LOWERINGS
        from firesteel.kernels.operations import OPERATIONS

        known = dict(LOWERINGS), dict(OPERATIONS)
        monkeypatch.setattr(passes, "PASSES", passes.PASSES)
        try:
            faults.FAULTS[name].apply()
            return bisect.bisect_text(session, text, str(tmp_path / "small.py"), guards=False)
        finally:
            LOWERINGS.update(known[0])
            OPERATIONS.update(known[1])


def test_a_fault_is_found(session, tmp_path, monkeypatch):
    found = look(session, tmp_path, monkeypatch, "lowering_of_round_is_that_of_ceil")
    assert (found.failure.stage, found.failure.operators[0]) == ("lower", "aten.round.default")
    assert found.failure.kind == "difference" and found.minified.lines <= 14 and found.minified.level == "capture"


@pytest.mark.parametrize("name, kind, stage", [
    ("lowering_of_cumsum_crashes", "crash", "lower"), ("identities_removes_relu", "difference", "pass identities"),
])
def test_failures_have_their_stage(session, tmp_path, monkeypatch, name, kind, stage):
    found = []
    monkeypatch.setattr(bisect, "_minified", lambda session, text, first, out: found.append(first.failure)
                        or minify.Minified(text, first.failure, "source", 1, 0.0, out))
    look(session, tmp_path, monkeypatch, name)
    assert [(one.kind, one.stage) for one in found] == [(kind, stage)]


def test_nothing_is_found_where_nothing_is_wrong(session, tmp_path):
    found = bisect.bisect_text(session, SMALL, str(tmp_path / "small.py"), guards=False)
    assert found.failure is None and "nothing differs" in str(found) and not (tmp_path / "small.py").exists()


def test_a_lost_guard(session, tmp_path, monkeypatch):
    from firesteel.capture.guards import GuardSet

    real = GuardSet.add
    monkeypatch.setattr(GuardSet, "add", lambda self, guard: None if guard.source is not None
                        and guard.source.name == "FACTOR" else real(self, guard))
    monkeypatch.setattr(bisect, "_minified", lambda session, text, first, out: minify.Minified(
        "'head'\n" + text, first.failure, "source", 1, 0.0, out))
    text = "import torch, firesteel as fs\nFACTOR = 2.0\ndef f(x, k):\n    return x * FACTOR + k\n" \
           "fs.check(f)(torch.ones(3), 1)\n"
    found = bisect.bisect_text(session, text, str(tmp_path / "small.py"))
    assert found.failure.stage == "guards" and found.failure.operators == ("FACTOR",)
    assert "checked(*args)\nFACTOR = 3.25\nchecked(*args)" in found.minified.text


def test_shrinking_keeps_what_is_needed():
    def fails(text):
        return "relu" in text and "fs.check(f)(" in text and "def f(" in text

    shrinker = Shrinker(SMALL, fails, lambda text: {"first": "torch.randn(4)"}, lambda: False)
    small = shrinker.shrink()
    assert fails(small) and len(small.splitlines()) <= 6 and "cumsum" not in small and "exp" not in small


FOREIGN = """
import math
import torch
import firesteel as fs

FACTOR = 1.25

def wrong(graph, examples):
    whole = [node for node in graph.graph.nodes if 'relu' in node.name]
    if whole and math.pi > 3:
        return lambda *inputs: tuple(result * FACTOR for result in graph.forward(*inputs))
    return graph.forward

def f(x, other):
    y = torch.relu(x + 1) + other
    return y.exp().sum()

fs.config.recompile_limit = 7
fs.check(f, backend=wrong, dynamic=True)(torch.rand(4, 6), torch.ones(6))
"""


def test_what_is_cut_is_compiled_in_the_same_way(session, tmp_path):
    first = session.run(FOREIGN, look=True)
    small = minify.minify_tried(session, FOREIGN, first, None, str(tmp_path / "small.py"))
    assert (small.failure.stage, small.failure.seen, small.level) == ("backend", "value of a result", "capture")
    assert "fs.check(f, backend=wrong, dynamic=True)" in small.text and "recompile_limit = 7" in small.text
    assert FOREIGN[FOREIGN.index("def wrong"):FOREIGN.index("    if whole")] in small.text and "exp" not in small.text
    assert "manual_seed" in small.text or not edits.draws(ast.parse(small.text)), small.text
    assert small.confirmed and small.failure.operators[0] in ("relu", "aten.relu.default")


@pytest.mark.parametrize("change", [
    ("backend=wrong, dynamic=True", "backend=wrong"), ("FACTOR = 1.25", "FACTOR = 2"), ("    if whole", "    if True"),
    ("fs.config.recompile_limit = 7\n", ""), ("check(f, backend=wrong, dynamic=True)", "check(f)"),
])
def test_what_is_asked_of_the_compiler_stays(change):
    tree = ast.parse(FOREIGN)
    changed = ast.parse(FOREIGN.replace(*change))
    assert not asked_for(changed).is_no_other_than(asked_for(tree))
    less = ast.parse(FOREIGN.replace("return y.exp().sum()", "return y").replace("import math\n", "import math, os\n"))
    assert asked_for(less).is_no_other_than(asked_for(tree))
    tried = []
    shrinker = Shrinker(FOREIGN, lambda text: tried.append(text) or True, lambda text: {}, lambda: len(tried) > 40)
    shrinker.shrink()
    assert all(asked_for(ast.parse(text)).is_no_other_than(asked_for(tree)) for text in tried) and tried


def test_a_wrong_value_does_not_become_another_difference(session):
    """Without the argument eager raises another error than compiled code: that is no wrong value."""
    text = FOREIGN.replace("    return y.exp().sum()", "    return y.exp().sum() if other is not None else y + nothing")
    one = session.failure(text)
    assert (one.kind, one.seen) == ("difference", "value of a result")
    raises = text.replace("return graph.forward", "raise ValueError").replace("relu(x + 1)", "atan(x + 1)").replace(
        "torch.ones(6))", "None)")
    other = session.failure(raises)
    assert (other.kind, other.seen) != (one.kind, one.seen) and not other.is_same(one)
    strides = session.failure(text.replace("result * FACTOR", "torch.stack([result, result])[0].double()"))
    assert strides.seen == "dtype of a result" and not strides.is_same(one)


def test_the_first_run_has_a_limit_too(tmp_path, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text("import time\ntime.sleep(60)\n")
    seconds = []
    monkeypatch.setattr(apart, "forks_lack_nothing", lambda: True)  # to be here when they are asked for
    real = session_module.in_child
    monkeypatch.setattr(session_module, "in_child", lambda work, limits: seconds.append(limits.seconds) or real(
        work, children.Limits(0.5)))
    with pytest.raises(minify.NoFailure):
        minify.minify(str(script), limit=4.0)
    assert seconds and max(seconds) <= 2.0
    seconds.clear()
    with pytest.raises(minify.NoFailure):
        minify.minify(str(script), each=1.0)
    assert seconds[0] == 2.0


def test_runs_import_nothing_of_firesteel(tmp_path):
    """All of it is there before the first run: each would import it again."""
    with fs.config.patch(verify=False):
        messages = apart.where_forks_work(messages_of_runs, str(tmp_path), progress=lambda _: None)
    assert messages == ["[]"] * 4


def messages_of_runs(folder, progress):
    """What programs say that they have imported."""
    faults.load()
    session = Session(60.0, 20.0, folder, progress, threads=1)
    messages = []
    for name in ("network", "function", "losses", "python"):
        text = faults.PROGRAMS[name] + '''
import sys
raise ValueError([one for one in sys.modules if one.startswith("firesteel.") and one not in KNOWN])
'''
        messages.append(session.failure(f"import sys\nKNOWN = set(sys.modules)\n{text}").message)
    session.close()
    return messages


def test_a_run_hangs_that_takes_much_longer_than_those_that_end(session):
    session.each = 6.0
    before = session.limits().seconds
    for seconds in (0.1, 0.5, 0.2):
        session.call(lambda seconds=seconds: time.sleep(seconds))
    assert before == session.limits().seconds == 6.0
    session.impatient = True
    assert 2.5 <= session.limits().seconds < 6.0 and session.limits(9.0).seconds == 9.0
    assert session.call(lambda: time.sleep(600)).failure.kind == "hang"


def test_what_is_made_small_does_not_fail_by_itself(session, monkeypatch):
    from firesteel.kernels.lowering.registry import LOWERINGS

    text = SMALL.replace("third.exp()", "third.exp() + 1")
    with monkeypatch.context() as patch:
        patch.setitem(LOWERINGS, "aten.round.default", lambda *given: {}["a fault"])
        failure = session.failure(text)
        assert failure.kind == "exception" and failure.eager == ""
        broken = session.failure(text.replace("third.exp() + 1", "third.exp() + third[7]"))
        assert broken.eager == "IndexError" and not broken.is_same(failure) and failure.is_same(broken)


def test_of_several_operators_the_one_is_named_that_plain_python_mends(session, tmp_path):
    text = SMALL.replace("import torch\n", "import os\nimport torch\n").replace(
        "torch.manual_seed(0)", '''
def stops(graph, examples):
    if any(node.name.startswith("cumsum") for node in graph.graph.nodes):
        os.abort()
    return graph.forward

torch.manual_seed(0)''').replace("fs.check(f)", "fs.check(f, backend=stops)")
    failure = session.failure(text)
    assert failure.kind == "crash" and failure.operators == ()
    assert minify.refined(session, text, failure).operators[0] == "aten.cumsum.default"


def test_a_hang_in_a_capture_is_named_when_the_time_is_up(session):
    """What it takes to name it is kept back of the time."""
    text = "import firesteel as fs\n\n\ndef f(x):\n    return f'{x}'\n\n\nfs.check(f)(3)\n"
    session.end = time.monotonic() + 10.0
    session.reserve = 15.0
    assert session.is_over
    assert minify.faulty_expressions(session, text) == ["FORMAT_VALUE f'{x}'"]


def test_frames_of_other_compilers_are_no_operators():
    class Instruction:
        argval = "x"

    def frame():
        inst = Instruction()
        assert inst
        return sys._getframe()

    assert probe.operators_behind([frame()]) == ((), "")


def test_scripts_that_torchs_own_compiler_runs(session, tmp_path):
    text = "import torch\n\n\ndef f(x):\n    return torch.compile\n\n\nraise ValueError\n"
    with pytest.raises(minify.NoFailure, match=r"begin the script with import firesteel; firesteel.install\(\)"):
        minify.minify_tried(session, text, session.run(text), None, str(tmp_path / "small.py"))


def test_failures_are_the_same_in_spite_of_names_and_sizes():
    one = failure.Failure("exception", "lower", "KeyError", "no kernel for relu_3 of size [4, 8]", "a.py:f")
    other = failure.Failure("exception", "lower", "KeyError", "no kernel for relu of size [1]", "a.py:f")
    assert one.is_same(other)
    for change in ({"stage": "schedule"}, {"error": "ValueError"}, {"where": "b.py:f"}, {"kind": "crash"},
                   {"message": "something else altogether"}):
        assert not one.is_same(failure.Failure(**{**vars(other), **change})), change


def test_wrong_input(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("x = 1\n")
    for command in (["minify", str(tmp_path / "nowhere.py")], ["minify", str(script), "--limit", "0"],
                    ["minify", str(script), "--out", str(tmp_path / "no" / "folder.py")], ["minify", str(script)],
                    ["bisect", f"{script}:f"]):
        assert main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1
    script.write_text("raise ValueError('mine')\n")
    assert main(["minify", str(script)]) == 2 and "fails by itself" in capsys.readouterr().err
    script.write_text("class Thing:\n    pass\n")
    assert main(["bisect", f"{script}:Thing"]) == 2
    assert "fails by itself: UserCodeError: Thing is a class; " in capsys.readouterr().err


def test_bisect_of_a_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()).eval()
    found = fs.bisect(model, guards=False)(torch.ones(2))
    assert found.failure is None, found
    with pytest.raises(fs.errors.UserCodeError, match="no source"):
        fs.bisect(torch.nn.Linear(2, 2))(object())


def test_scripts_of_functional_graphs_and_kernels(tmp_path):
    functional, kernels = apart.where_forks_work(scripts_of_levels, str(tmp_path), progress=lambda _: None)
    forward, backward = functional
    assert "aten.relu" in forward and "aten.cumsum" in forward and "requires_grad" not in forward
    assert "cumsum" in backward and "tangent" in backward
    assert len(kernels) >= 2 and all("fs.check(f)(" in kernel for kernel in kernels)


def scripts_of_levels(folder, progress):
    """Scripts of the functional graphs, first to last, and of the kernels of a program that is differentiated."""
    session = Session(60.0, 20.0, folder, progress, threads=1)
    text = SMALL.replace("torch.randn(4)", "torch.randn(4, requires_grad=True)")
    found = [levels.scripts_behind(session, text, after) for after in ("autodiff", "kernels")]
    session.close()
    return found[0][::-1], found[1]


LYING = """
import torch
import firesteel as fs

@torch.library.custom_op("minify::lie", mutates_args=())
def lie(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0, keepdim=True)

@lie.register_fake
def _(x):
    return torch.empty_like(x)

@fs.compile(tier="wait")
def f(x):
    return lie(x.sin()).cos()

f(torch.ones(2, 3))
"""


def test_programs_whose_compiled_code_raises(session):
    first = session.run(LYING, look=True)
    assert (first.failure.stage, first.failure.error) == (minify.RUN, "WrongFakeKernel")
    text, checked = minify._checked(session, LYING, first)
    assert "register_fake" in text and "fs.check(f)(x)" in text
    assert (checked.failure.stage, checked.failure.operators) == ("fake tensors", ("minify.lie.default",))
