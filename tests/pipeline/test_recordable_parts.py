"""What is recorded of a plan and what is left out, and that parts compute what the whole does.

Kernels are those of the CPU, and what cannot be recorded is chosen by the tests. A stand-in records.
"""

from __future__ import annotations

import copy
import random

import pytest
import torch

import firesteel as fs
from firesteel.autodiff.joint import trace_training
from firesteel.functional import trace
from firesteel.kernels.host.printer import host_function
from firesteel.kernels.ir import ExternCall
from firesteel.kernels.options import Options
from firesteel.kernels.plan import kernels_of
from firesteel.pipeline import cuda_graphs, parted_graph, recordable_parts, trials
from firesteel.pipeline.compile import compile_functional
from firesteel.pipeline.cuda_graphs import GraphedFunction
from firesteel.pipeline.parted_graph import PartedFunction
from firesteel.pipeline.training import TrainingUnit
from pipeline.test_cuda_graphs import record_on_cpu

CPU = torch.device("cpu")
ATEN = torch.ops.aten
SORTS = (ATEN.sort.default, ATEN.sort.stable)


class Recorder:
    """Functions that are recorded in parts; ``refuses`` says which steps of a plan are not."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch
        self.recorded = record_on_cpu(monkeypatch)
        self.refused = lambda step: False
        monkeypatch.setattr(parted_graph, "record", self.record)
        monkeypatch.setattr(parted_graph, "follow_stream", lambda device: None)
        monkeypatch.setattr(parted_graph, "REPLAY", 0.5)
        monkeypatch.setattr(trials.Trial, "is_over", lambda trial: True)
        monkeypatch.setattr(trials.Trial, "is_slower", lambda trial: False)
        self.fails = lambda plan: False

    def record(self, run, given, device, stack, products):
        """Nothing but values is kept, and a replay runs the part again into the same memory."""
        if self.fails(run):
            raise RuntimeError("operation not permitted when stream is capturing")
        copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in given]
        results = run(*copies)
        self.recorded.append(run)

        class Graph:
            def replay(self):
                for result, new in zip(results, run(*given), strict=True):
                    if isinstance(result, torch.Tensor) and result.data_ptr() != new.data_ptr():
                        result.copy_(new)

        return Graph(), list(results)

    def function(self, program, examples, refuses):
        """The program, of whose plan the steps that ``refuses`` names are left out."""
        return self.graphed(trace(torch.fx.symbolic_trace(program), examples), refuses)

    def graphed(self, functional, refuses, name="f"):
        compiled = compile_functional(functional, Options(), name)
        kernels = kernels_of(compiled.plan)
        addresses = {id(kernel): code.address for kernel, code in zip(kernels, compiled.compiled, strict=True)}
        plain = recordable_parts.obstacle

        def obstacle(step, *args):
            return refuses(step) or plain(step, *args)

        def part_of(plan):
            host = host_function(plan, addresses, keep=(kernels, compiled), results_as_planned=True)

            def run(*given):
                with torch.no_grad():
                    return host.run(*given)

            run.plan = plan
            return run

        self.monkeypatch.setattr(recordable_parts, "obstacle", obstacle)
        function = GraphedFunction(compiled.run, compiled.functional, CPU, name, False, 1e6)
        function.parted = PartedFunction(compiled.plan, CPU, part_of, name)
        self.monkeypatch.setattr(recordable_parts, "obstacle", plain)
        return function


def calls(*operators):
    """Says which steps are calls of these operators."""
    return lambda step: f"{step.target} is left out" if getattr(step, "target", None) in operators else None


def test_indices_that_are_counted_wait_and_others_do_not():
    index = ATEN.index.Tensor
    assert recordable_parts.waits(index, [torch.bool]) and recordable_parts.waits(index, [torch.int64, torch.uint8])
    assert not recordable_parts.waits(index, [torch.int64])
    assert not recordable_parts.waits(ATEN.add.Tensor, [torch.bool])
    assert recordable_parts.waits(ATEN.nonzero.default, [])


@pytest.fixture
def recorder(monkeypatch):
    fs.reset()
    torch.manual_seed(0)
    return Recorder(monkeypatch)


def reasons(function):
    return [part.of_plan.reason for part in function.parted.parts]


def compare(function, program, make, count=6):
    """Call a function several times, holding what some calls gave."""
    held = []
    for number in range(count):
        given = make()
        wanted = [value.clone() if isinstance(value, torch.Tensor) else value for value in given]
        want = program(*wanted)
        got = function(*given)
        torch.testing.assert_close(tuple(got), tuple(want) if isinstance(want, (tuple, list)) else (want,))
        torch.testing.assert_close(given, wanted)
        if number % 3 == 2:
            held.append((got, want))
        del got
    for got, want in held:
        torch.testing.assert_close(tuple(got), tuple(want) if isinstance(want, (tuple, list)) else (want,))


def test_a_call_in_the_middle_is_left_out(recorder):
    def program(x, w):
        y = torch.tanh(x) @ w
        z, at = torch.sort(y, dim=-1)
        return torch.exp(z @ w), at

    w = torch.randn(8, 8) / 8  # exponents of some size would show every rounding
    function = recorder.function(program, [torch.randn(4, 8), w], calls(*SORTS))
    assert [reason and reason.split()[0] for reason in reasons(function)] == [None, "aten.sort.default", None]
    compare(function, program, lambda: (torch.randn(4, 8), w))
    assert len(recorder.recorded) >= 2


def test_what_nothing_recorded_needs_comes_last(recorder):
    def program(x):
        order = torch.argsort(x, dim=-1)
        y = torch.exp(x @ x)
        return y * 2 @ y, order

    function = recorder.function(program, [torch.randn(8, 8)], calls(*SORTS))
    assert [reason is None for reason in reasons(function)] == [True, False]
    compare(function, program, lambda: (torch.randn(8, 8),))


def test_a_part_that_cannot_be_recorded_is_parted_until_the_operator_is_left_out(recorder, capsys):
    def program(x):
        y = torch.tanh(x @ x)
        z = torch.sort(y @ x)[0] @ x
        return torch.tanh(y @ y) + z

    function = recorder.function(program, [torch.randn(8, 8)], lambda step: None)
    assert reasons(function) == [None]
    recorder.fails = lambda run: any(isinstance(step, ExternCall) and step.target in SORTS
                                     for step in run.plan.steps)
    fs.set_logs("fallbacks")
    try:
        compare(function, program, lambda: (torch.randn(8, 8),))
    finally:
        fs.set_logs("")
    left_out = [part.of_plan for part in function.parted.parts if part.of_plan.reason is not None]
    assert len(left_out) == 1 and SORTS[0] in [getattr(step, "target", None) for step in left_out[0].plan.steps]
    assert "not permitted when stream is capturing" in capsys.readouterr().err
    assert None in reasons(function)


def test_what_raises_between_recorded_parts_raises_once(recorder):
    def program(x):
        y = torch.exp(x @ x)
        return torch.linalg.cholesky(y) @ y + 1

    function = recorder.function(program, [torch.eye(4)], lambda step: calls(ATEN.linalg_cholesky_ex.default)(step)
                                 or (isinstance(step, ExternCall) and "check" in str(step.target) and "raises"))
    bad = -10 * torch.ones(4, 4)
    good = torch.eye(4)
    for x in (good, bad, good, good, bad, good):
        try:
            want = program(x)
        except torch.linalg.LinAlgError:
            with pytest.raises(torch.linalg.LinAlgError):
                function(x)
        else:
            torch.testing.assert_close(function(x)[0], want)


def test_recording_is_given_up_where_replays_are_slower(recorder, monkeypatch, capsys):
    def program(x):
        return torch.sort(torch.tanh(x @ x) @ x)[0] @ x

    monkeypatch.undo()
    fresh = Recorder(monkeypatch)
    monkeypatch.setattr(trials.Trial, "is_over", REAL_OVER)
    monkeypatch.setattr(trials.Trial, "is_slower", REAL_SLOWER)
    function = fresh.function(program, [torch.randn(8, 8)], calls(*SORTS))
    kinds = []
    for name in ("replay", "run"):
        owner = cuda_graphs.Recording if name == "replay" else function
        plain = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, plain=plain, name=name: (kinds.append(name), plain(*given))[1])
    clock = iter(range(1000))
    monkeypatch.setattr(trials.time, "perf_counter", lambda: next(clock) * (1 + kinds[-1:].count("replay")))
    fs.set_logs("fallbacks")
    try:
        for _ in range(16):
            x = torch.randn(8, 8)
            torch.testing.assert_close(function(x)[0], program(x))
    finally:
        fs.set_logs("")
    assert function.sizes[None].off and kinds[-4:] == ["run"] * 4 and kinds.count("replay") >= 3
    assert "replays of its parts are slower" in capsys.readouterr().err


def test_a_function_that_is_recorded_again_while_it_is_measured_runs_once(recorder, monkeypatch):
    """An input begins to move just when a call without the recording is to be measured."""
    def program(x, state):
        state.add_(1)
        return torch.sort(torch.tanh(x @ x) @ x)[0] @ x + state

    monkeypatch.setattr(trials.Trial, "is_over", lambda trial: False)
    function = recorder.function(program, [torch.randn(8, 8), torch.zeros(8)], calls(*SORTS))
    mine, theirs = torch.zeros(8), torch.zeros(8)
    still = torch.randn(8, 8)
    for number in range(12):
        x = still if number < 2 else torch.randn(8, 8)
        want = program(x, theirs)
        got = function(x, mine)
        torch.testing.assert_close(got[0], want)
        torch.testing.assert_close(mine, theirs)
        del got
    assert function.sizes[None].attempts == 2


REAL_OVER, REAL_SLOWER = trials.Trial.is_over, trials.Trial.is_slower


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

    def forward(self, x):
        return torch.tanh(self.second(torch.sort(torch.tanh(self.first(x)), dim=0)[0]) * x).square().mean(1)


@pytest.mark.parametrize("to_none", [True, False])
def test_forward_of_training_is_recorded_in_parts(recorder, to_none):
    forwards = []

    def half(functional, name, takes_list):
        if takes_list:
            compiled = compile_functional(functional, Options(), name, takes_list=True)
            return GraphedFunction(compiled.run, compiled.functional, CPU, name, True, 1e6)
        forwards.append(recorder.graphed(functional, calls(*SORTS), name))
        return forwards[-1]

    def backend(module, examples):
        return TrainingUnit(module, examples, trace_training(module, examples), half)

    model = Net()
    compiled, eager = fs.compile(model, backend=backend, fullgraph=True), copy.deepcopy(model)
    kept = []
    for number in range(10):
        x = torch.randn(8, 16)
        losses = [run(x) for run in (compiled, eager)]
        for loss in losses:
            loss.sum().backward()
        kept.append([loss.detach() for loss in losses])
        for p, q in zip(model.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)
        if number % 3 != 1:
            model.zero_grad(to_none), eager.zero_grad(to_none)
        del losses, loss
    for got, want in kept:
        torch.testing.assert_close(got, want)
    assert None in reasons(forwards[0]) and forwards[0].sizes[None].recordings


def random_program(seed):
    """A program of products, sorts, reductions and changes of its last input."""
    dice = random.Random(seed)
    count = dice.randint(6, 14)

    def program(x, w, state):
        values = [x, w, torch.tanh(x)]
        choose = random.Random(seed + 1)
        for _ in range(count):
            a, b = choose.choice(values), choose.choice(values)
            kind = choose.randrange(7)
            if kind == 0:
                values.append(torch.tanh(a @ b))
            elif kind == 1:
                values.append(torch.sort(a, dim=choose.randrange(2))[0])
            elif kind == 2:
                values.append(torch.sigmoid(a) * b)
            elif kind == 3:
                values.append(torch.softmax(a, 1) + b.sum(0))
            elif kind == 4:
                values.append(torch.cumsum(a, 0).clamp(-3, 3).t())
            elif kind == 5:
                state.copy_(torch.tanh(state @ a))
            else:
                values.append(a.t() - state)
        picked = [choose.choice(values[3:]) for _ in range(2)]
        return picked[0] + 1, picked[1] * 1, values[-1].sum()

    return program


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_with_random_steps_left_out(recorder, seed, monkeypatch):
    """Inputs move or stay, results are held or not, and the first calls are measured with and without the recording.

    The bits are those of the same kernels without a recording, which are near to eager's.
    """
    monkeypatch.setattr(trials.Trial, "is_over", lambda trial: trial.calls >= 4)
    dice = random.Random(100 + seed)
    program = random_program(seed)
    chosen: dict[int, bool] = {}

    def refuses(step):
        return "chosen" if chosen.setdefault(id(step), dice.random() < 0.3) else None

    function = recorder.function(program, [torch.randn(6, 6), torch.randn(6, 6), torch.randn(6, 6)], refuses)
    assert any(reason is None for reason in reasons(function))
    w, state, held = torch.randn(6, 6), torch.randn(6, 6), []
    mine, eager = state.clone(), state.clone()
    exact = {"rtol": 0, "atol": 0}
    x = torch.randn(6, 6)
    for number in range(10):
        x = x if dice.random() < 0.5 else torch.randn(6, 6)
        want, near = function.run(x, w, mine), program(x, w, eager)
        got = function(x, w, state)
        torch.testing.assert_close(tuple(got), tuple(want), **exact)
        torch.testing.assert_close(state, mine, **exact)
        torch.testing.assert_close(tuple(got), near, rtol=1e-2, atol=1e-2)
        if number % 3 == 1:
            held.append((got, want))
        del got
    for got, want in held:
        torch.testing.assert_close(tuple(got), tuple(want), **exact)
    assert recorder.recorded and function.sizes[None].recordings
