"""When recordings are made, replayed and left alone. A stand-in records: it runs the function again into the results.

On a GPU, `tests/kernels/gpu/test_graphs_on_gpu.py` does the same with CUDA.
"""

from __future__ import annotations

import ctypes
import gc
from types import SimpleNamespace

import pytest
import torch

import firesteel as fs
from firesteel.functional.graph import Constant, FreshTensor, InputAlias, SameAs, ViewLayout
from firesteel.pipeline import cuda_graphs, recording
from firesteel.pipeline.cuda_graphs import RECORDINGS, GraphedFunction, graphed

pytestmark = pytest.mark.usefixtures("quick_collections")

CPU = torch.device("cpu")


def alias(value):
    """The same memory, without owning it."""
    if isinstance(value, list):
        return [alias(part) for part in value]
    if not isinstance(value, torch.Tensor):
        return value
    size = (value.untyped_storage().nbytes() - value.storage_offset() * value.element_size()) or 1
    memory = (ctypes.c_char * size).from_address(value.data_ptr())
    return torch.frombuffer(memory, dtype=value.dtype).as_strided(value.shape, value.stride())


class Graph:
    """Reads and overwrites the memory that it was recorded with, and what later ones have on top of its temporaries."""

    def __init__(self, run, given, results, stack):
        self.run, self.given, self.results, self.stack = run, alias(given), alias(results), stack

    def replay(self):
        recordings = self.stack.recordings
        at = next(at for at, recording in enumerate(recordings) if recording.graph is self)
        for later in recordings[at + 1:]:
            for number, result in enumerate(later.graph.results):
                if number not in later.aliases and isinstance(result, torch.Tensor):
                    result.fill_(-77)
        given = [list(part) if isinstance(part, list) else part for part in self.given]
        for result, new in zip(self.results, self.run(*given), strict=True):
            if isinstance(result, torch.Tensor) and result.data_ptr() != new.data_ptr():
                result.copy_(new)


def record_on_cpu(monkeypatch):
    """From now on functions are recorded as a `Graph`; gives the list of those that are."""
    made = []

    def record(run, given, device, stack, products):
        made.append(run)
        parts = [value for part in given for value in (part if isinstance(part, list) else [part])]
        before = [(value, value._version, value.clone()) for value in parts if isinstance(value, torch.Tensor)]
        results = list(run(*[list(part) if isinstance(part, list) else part for part in given]))
        for value, version, contents in before:  # nothing runs while a function is recorded
            if value._version != version:
                value.copy_(contents)
        return Graph(run, given, results, stack), results

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(recording, "follow_stream", lambda device: None)
    monkeypatch.setattr(cuda_graphs, "record", record)
    monkeypatch.setattr(cuda_graphs, "SMALL", 64)
    return made


@pytest.fixture(autouse=True)
def recorded(monkeypatch):
    return record_on_cpu(monkeypatch)


def function(run, examples, mutated=(), outputs=(), takes_list=False, saved=1000.0):
    entries = [SimpleNamespace(name="x", example=example) for example in examples]
    functional = SimpleNamespace(inputs=entries, outputs=list(outputs), state_changes=[],
                                 mutated=[SimpleNamespace(index=at) for at in mutated])
    return GraphedFunction(run, functional, CPU, "f", takes_list, saved)


def affine(x, w):
    return x * w, (x + w).sum().reshape(1)


def test_inputs_that_move_are_copied_and_others_are_not(recorded):
    w = torch.randn(100)
    f = function(affine, (torch.ones(100), w))
    moving = [torch.randn(100) for _ in range(6)]
    for x in moving:
        for got, want in zip(f(x, w), affine(x, w), strict=True):
            torch.testing.assert_close(got, want)
    assert len(recorded) == 1
    [one] = f.sizes[None].recordings
    assert one.positions == [1] and one.addresses == [w.data_ptr()] and list(one.copied) == [0]


def test_an_input_that_begins_to_move_is_copied_from_then_on(recorded):
    x, w = torch.randn(100), torch.randn(100)
    f = function(affine, (x, w))
    for _ in range(3):
        torch.testing.assert_close(f(x, w)[0], x * w)
    assert f.sizes[None].recordings[0].positions == [0, 1]
    for _ in range(4):
        x = torch.randn(100)
        torch.testing.assert_close(f(x, w)[0], x * w)
    assert len(recorded) == 2
    [one] = f.sizes[None].recordings
    assert one.positions == [1]


def test_a_parameter_elsewhere_needs_another_recording(recorded):
    x, w, other = torch.randn(100), torch.nn.Parameter(torch.randn(100)), torch.nn.Parameter(torch.randn(100))
    f = function(affine, (x, w))
    with torch.no_grad():
        for weight in (w, w, other, w, other, other):
            torch.testing.assert_close(f(x, weight)[0], x * weight)
    assert len(recorded) == 2 and len(f.sizes[None].recordings) == 2


def test_results_that_are_held_are_not_overwritten(recorded):
    w = torch.randn(100)
    f = function(affine, (torch.ones(100), w))
    moving = [torch.randn(100) for _ in range(RECORDINGS + 6)]
    held = [f(x, w) for x in moving]
    for x, (product, total) in zip(moving, held, strict=True):
        torch.testing.assert_close(product, x * w)
        torch.testing.assert_close(total, (x + w).sum().reshape(1))
    assert 2 <= len(recorded) <= RECORDINGS  # at first others are recorded, then results are copied


def test_small_results_are_copied_when_callers_hold_them(recorded):
    w = torch.randn(100)
    f = function(lambda x, w: ((x + w).sum().reshape(1),), (torch.ones(100), w))
    moving = [torch.randn(100) for _ in range(10)]
    held = [f(x, w)[0] for x in moving]
    for x, total in zip(moving, held, strict=True):
        torch.testing.assert_close(total, (x + w).sum().reshape(1))
    assert len(recorded) == 2 and f.copied_out == {0}


def test_a_view_of_a_result_holds_it_too():
    w = torch.randn(100)
    f = function(affine, (torch.ones(100), w))
    f(w, w)
    f(w.clone(), w)
    x = torch.randn(100)
    view = f(x, w)[0][10:]
    f(torch.randn(100), w)
    torch.testing.assert_close(view, (x * w)[10:])


def test_one_object_twice_and_shared_memory_stay_so():
    def run(x):
        y = x * 2
        return y, y, y[:2], (x + 1)

    f = function(run, (torch.ones(4),))
    for _ in range(4):
        y, same, part, other = f(torch.randn(4))
    assert y is same and part.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert other.untyped_storage().data_ptr() != y.untyped_storage().data_ptr()


def test_results_that_are_inputs(recorded):
    def run(x, w):
        return x, x * w, w[1:]

    layout = ViewLayout((99,), (1,), 1, torch.float32)
    w = torch.randn(100)
    f = function(run, (torch.ones(100), w), outputs=[InputAlias(0), None, InputAlias(1, layout)])
    for _ in range(5):
        x = torch.randn(100)
        same, product, part = f(x, w)
        assert same is x and part.data_ptr() == w.data_ptr() + 4 and part.shape == (99,)
        assert part.untyped_storage().data_ptr() == w.untyped_storage().data_ptr()
        torch.testing.assert_close(product, x * w)
        del product
    assert len(recorded) == 1


def test_what_is_changed_has_to_stay_where_it_is(recorded):
    def run(x, state):
        state.add_(x)
        return (x * 2,)

    f = function(run, (torch.ones(4), torch.ones(4)), mutated=(1,))
    kept = []
    for _ in range(3):
        x, state = torch.randn(4), torch.zeros(4)
        kept.append(state)
        f(x, state)
        torch.testing.assert_close(state, x)
    assert not recorded


def add_to(x, state):
    state.add_(x)
    return (x * 2,)


def test_states_that_are_there_for_a_while_are_recorded_one_after_the_other(recorded):
    """As the caches of a server, one for each request."""
    f = function(add_to, (torch.ones(4), torch.ones(4)), mutated=(1,))
    kept = []
    for _ in range(20):
        state, want = torch.zeros(4), torch.zeros(4)
        kept.append(state)  # so that the next one lies elsewhere
        recorded.clear()
        for _ in range(cuda_graphs.PAID + 4):
            x = torch.randn(4)
            want += x
            f(x, state)
            torch.testing.assert_close(state, want)
        assert len(recorded) <= 2 and len(f.sizes[None].recordings) <= RECORDINGS
        assert recorded, "no later state runs without"


def test_states_in_turn_do_not_drive_out_each_others_recordings(recorded):
    f = function(add_to, (torch.ones(4), torch.ones(4)), mutated=(1,))
    states = [torch.zeros(4) for _ in range(RECORDINGS + 2)]
    for _ in range(4 * cuda_graphs.PAID):
        for state in states:
            for _ in range(2):
                f(torch.randn(4), state)
    assert len(recorded) <= 2 * RECORDINGS


def test_inputs_of_one_memory_cannot_be_copied_where_one_is_changed(recorded):
    def run(x, state):
        state.add_(1)
        return (x * 2 + state,)

    f = function(run, (torch.ones(4), torch.ones(4)), mutated=(1,))
    base = torch.zeros(8)
    for start in (0, 1, 2):
        x, state = base[start: start + 4], base[:4]
        want = state + 1
        f(x, state)
        torch.testing.assert_close(state, want)
    assert not recorded and f.sizes[None].off


def test_elements_that_share_memory_are_copied_once():
    f = function(lambda x: (x * 2,), (torch.ones(3, 4),))
    for _ in range(5):
        x = torch.randn(3, 1).expand(3, 4)
        torch.testing.assert_close(f(x)[0], x * 2)


class Training:
    """Forward and backward of sum(w * x * x), with the results of forward kept as autograd would."""

    def __init__(self, w):
        self.forward = function(lambda x, w: ((w * x * x).sum().reshape(1), x * x, w * x), (w, w))
        shared = self.forward.as_forward(1, [0])
        self.backward = function(lambda given: (given[2] * given[0], given[2] * 2 * given[1]), (w, w, torch.ones(1)),
                                 takes_list=True)
        self.backward.as_backward([2], [0, 1], shared)
        self.w = w

    def step(self, x):
        loss, *saved = self.forward(x, self.w)
        return loss, self.backward([*saved, torch.ones(1)])

    def check(self, x, results):
        loss, (of_w, of_x) = results
        torch.testing.assert_close(loss, (self.w * x * x).sum().reshape(1))
        torch.testing.assert_close(of_w, x * x)
        torch.testing.assert_close(of_x, 2 * x * self.w)


def test_backward_reads_what_forward_saved_where_it_is(recorded):
    training = Training(torch.randn(100))
    for _ in range(6):
        x = torch.randn(100)
        training.check(x, training.step(x))
    assert len(recorded) == 2
    [one] = training.backward.sizes[None].recordings
    assert one.positions == [0, 1] and list(one.copied) == [2]


def test_gradients_that_are_held_use_another_recording(recorded):
    training = Training(torch.randn(100))
    total, want = torch.zeros(0), torch.zeros(100)
    for number in range(6):
        x = torch.randn(100)
        gradient = training.step(x)[1][0]
        total = gradient if not number else total.add_(gradient)  # as autograd accumulates into .grad
        want += x * x
        del gradient
    torch.testing.assert_close(total, want)
    assert len(training.backward.sizes[None].recordings) <= 2


def test_a_model_that_is_called_twice_before_backward(recorded):
    training = Training(torch.randn(100))
    for _ in range(6):
        x, y = torch.randn(100), torch.randn(100)
        first, second = training.forward(x, training.w), training.forward(y, training.w)
        for given, (loss, *saved) in ((y, second), (x, first)):
            training.check(given, (loss, training.backward([*saved, torch.ones(1)])))
        del first, second, saved, loss
    assert len(training.forward.sizes[None].recordings) == 2
    assert len(training.backward.sizes[None].recordings) == 2
    assert len(recorded) == 4


def test_backward_that_never_runs_and_backward_that_runs_twice(recorded):
    training = Training(torch.randn(100))
    for number in range(8):
        x = torch.randn(100)
        loss, *saved = training.forward(x, training.w)
        for _ in range(number % 3):
            training.check(x, (loss, training.backward([*saved, torch.ones(1)])))
        kept = saved if number == 4 else None
        if kept:
            torch.testing.assert_close(kept[0], x * x)
    assert len(recorded) <= 6


def test_results_of_forward_that_are_held_are_copied_rather_than_all_that_is_saved(recorded):
    w = torch.randn(100)
    f = function(lambda x, w: (x * w, x * x), (w, w))
    f.as_forward(1, [0])
    held = []
    for _ in range(8):
        x = torch.randn(100)
        result, saved = f(x, w)
        held.append((result, x * w))
        torch.testing.assert_close(saved, x * x)
        del saved
    for result, want in held:
        torch.testing.assert_close(result, want)
    assert len(recorded) == 2


def test_a_recording_that_is_gone_frees_its_memory(recorded):
    gc.collect()
    others = set(recording._memory.values())
    training = Training(torch.randn(100))
    for _ in range(3):
        x = torch.randn(100)
        training.check(x, training.step(x))
    assert any(one in training.forward.sizes[None].recordings for one in recording._memory.values())
    training.forward._drop(training.forward.sizes[None], training.forward.sizes[None].recordings)
    gc.collect()
    for _ in range(4):
        x = torch.randn(100)
        training.check(x, training.step(x))
    assert len(training.backward.sizes[None].recordings) == 1  # what read the old memory is gone, too
    recorded.clear()
    del training
    gc.collect()
    assert set(recording._memory.values()) <= others


def test_a_recording_is_not_replayed_below_one_whose_results_are_held(recorded):
    w = torch.randn(100)
    f = function(lambda x, w: (x * w,), (torch.ones(100), w))
    f.static = False
    held = {}
    for number in range(24):  # two sizes in turn, and what the last call of each gave is held
        size = 100 if number % 2 else 50
        x, v = torch.randn(size), w[:size]
        held[size] = f(x, v)[0], x * v
        for got, want in held.values():
            torch.testing.assert_close(got, want)
    assert len(recorded) <= 2 * RECORDINGS
    assert f.copied_out == {0}
    del got, want
    recorded.clear()
    held.clear()
    for number in range(8):
        x = torch.randn(100)
        torch.testing.assert_close(f(x, w)[0], x * w)
    assert not recorded


def test_the_result_of_the_last_call_is_held_without_copies(recorded):
    w = torch.randn(100)
    f = function(lambda x, w: (x * w,), (torch.ones(100), w))
    f.static = False
    got, wanted, inputs = None, None, []
    for number in range(24):
        size = (100, 50, 70)[number % 3]
        x, v = torch.randn(size), w[:size]
        inputs.append(x)  # so that each is elsewhere
        wanted, before = x * v, wanted
        last, got = got, f(x, v)[0]  # the last one is there until the call returns
        if last is not None:
            torch.testing.assert_close(last, before)
        del last
    torch.testing.assert_close(got, wanted)
    assert not f.copied_out and len(recorded) <= 6


def test_what_is_held_of_a_recording_that_is_dropped(recorded):
    x, w = torch.randn(100), torch.randn(100)
    f = function(lambda x, w: (x * w,), (x, w))
    f(x, w)
    first = f(x, w)[0], x * w
    second = f(x, w)[0], x * w
    third = f(x, w)[0], x * w
    found = []
    for _ in range(6):
        x = torch.randn(100)  # inputs begin to move
        found.append((f(x, w)[0], x * w))
        for got, want in (first, second, third, *found):
            torch.testing.assert_close(got, want)


def test_copies_that_cost_more_than_launches(recorded):
    f = function(affine, (torch.ones(100), torch.ones(100)), saved=15.0)
    for _ in range(4):
        x = torch.randn(100)
        torch.testing.assert_close(f(x, x)[0], x * x)
    assert not recorded and f.sizes[None].off


def test_sizes_are_recorded_one_by_one_up_to_a_limit(recorded, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "SIZES", 3)
    w = torch.ones(1)
    f = function(affine, (torch.ones(100), w))
    f.static = False
    for size in [5, 6, 7, 8, 9] * 3:
        x = torch.randn(size)
        torch.testing.assert_close(f(x, w)[0], x * w)
    assert len(recorded) == 3


def test_sizes_that_grow_with_every_call_are_not_recorded(recorded, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "SEEN", 20)
    w = torch.ones(1)
    f = function(affine, (torch.ones(100), w))
    f.static = False
    for size in range(5, 45):
        x = torch.randn(size)
        torch.testing.assert_close(f(x, w)[0], x * w)
    assert not recorded and len(f.sizes) == 20
    for _ in range(3):
        x = torch.randn(7)
        torch.testing.assert_close(f(x, w)[0], x * w)
    assert len(recorded) == 1


def test_switched_off(recorded):
    f = function(affine, (torch.ones(100), torch.ones(100)))
    with fs.config.patch(cudagraphs=False):
        for _ in range(4):
            f(torch.ones(100), torch.ones(100))
    assert not recorded


def test_a_failure_while_recording_leaves_the_function_as_it_is(monkeypatch):
    def fail(run, given, device, stack, products):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(cuda_graphs, "record", fail)
    f = function(affine, (torch.ones(100), torch.ones(100)))
    for _ in range(4):
        x = torch.randn(100)
        torch.testing.assert_close(f(x, x)[0], x * x)
    assert "not permitted" in f.off


def test_what_cannot_be_recorded_or_does_not_pay_says_why(capsys):
    from firesteel.kernels.ir import ExternCall

    calls = SimpleNamespace(steps=[ExternCall(torch.ops.aten.mm.default, (), {}, ())] * 9)

    def made(examples, outputs, plan=calls, nodes=()):
        entries = [SimpleNamespace(name="x", example=example) for example in examples]
        functional = SimpleNamespace(inputs=entries, outputs=outputs, state_changes=[], mutated=[],
                                     graph=SimpleNamespace(nodes=nodes))
        return graphed(affine, functional, CPU, "f", False, plan)

    def value(device):
        return FreshTensor(SimpleNamespace(meta={"val": torch.ones(2, device=device)}))

    fs.set_logs("fallbacks")
    try:
        function = made([torch.ones(2)], [Constant(None), value("cpu")])
        assert isinstance(function, GraphedFunction) and function.products
        launches = SimpleNamespace(steps=[ExternCall(torch.ops.aten.sort.default, (), {}, ())] * 9)
        assert not made([torch.ones(2)], [Constant(None)], launches).products
        assert isinstance(made([torch.ones(2)], [InputAlias(0)]), GraphedFunction)
        other = ViewLayout((2,), (1,), 0, torch.int32)
        assert made([torch.ones(2)], [InputAlias(0, other)]) is affine
        assert made([torch.ones(2)], [InputAlias(0), SameAs(0)]) is affine
        assert made([torch.ones(2, device="meta")], []) is affine
        assert made([torch.ones(2)], [value("meta")]) is affine
        assert made([torch.ones(2)], [], SimpleNamespace(steps=calls.steps[:2])) is affine
        nonzero = SimpleNamespace(op="call_function", target=torch.ops.aten.nonzero.default, args=(), meta={})
        assert made([torch.ones(2)], [], nodes=[nonzero]) is affine
        branches = SimpleNamespace(op="call_function", target=SimpleNamespace(with_bodies=None), name="cond", args=(),
                                   meta={})
        assert made([torch.ones(2)], [], nodes=[branches]) is affine
        away = SimpleNamespace(op="call_function", target=torch.ops.aten.relu.default, name="relu", args=(),
                               meta={"val": torch.ones(2, device="meta")})
        assert made([torch.ones(2)], [], nodes=[away]) is affine
    finally:
        fs.set_logs("")
    said = capsys.readouterr().err
    for reason in ("is a view", "an input, twice", "on the device meta", "on another device", "launches so little",
                   "waits for the GPU", "cond is control flow", "relu is on the device meta"):
        assert reason in said
