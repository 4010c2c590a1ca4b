"""When recordings are made, replayed and left alone. A stand-in records: it runs the function again into the results.

On a GPU, `tests/kernels/gpu/test_on_gpu.py` runs the same with CUDA.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import firesteel as fs
from firesteel import torch_compat
from firesteel.autodiff.graph import Constant, InputAlias
from firesteel.runtime import cuda_graphs
from firesteel.runtime.cuda_graphs import RECORDINGS, GraphedFunction, Recording

CPU = torch.device("cpu")


class Graph:
    def __init__(self, run, given, results):
        self.run, self.given, self.results = run, given, results

    def replay(self):
        for result, new in zip(self.results, self.run(*self.given), strict=True):
            result.copy_(new)


class Graphed(GraphedFunction):
    """Records without CUDA."""

    recorded = 0

    def _record(self, inputs, fixed):
        self.recorded += 1
        known = {at for at, _ in fixed}
        given = [part if at in known else torch.empty_like(part) for at, part in enumerate(inputs)]
        results = list(self.run(*given))
        small = [cuda_graphs._is_small(result, results) for result in results]
        counts = [torch_compat.storage_users(result) for result in results]
        copied = [(at, part) for at, part in enumerate(given) if at not in known]
        return Recording(Graph(self.run, given, results), fixed, copied, results, small, counts)


@pytest.fixture(autouse=True)
def without_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(cuda_graphs, "SMALL", 64)


def graphed(run, examples, mutated=(), outputs=()):
    entries = [SimpleNamespace(name="x", example=example) for example in examples]
    functional = SimpleNamespace(inputs=entries, outputs=list(outputs), state_changes=[],
                                 mutated=[SimpleNamespace(index=at) for at in mutated])
    return Graphed(run, functional, CPU, "f", False)


def affine(x, w):
    return x * w, (x + w).sum().reshape(1)


def test_inputs_that_move_are_copied_and_others_are_not():
    w = torch.randn(100)
    f = graphed(affine, (torch.ones(100), w))
    moving = [torch.randn(100) for _ in range(6)]
    for x in moving:
        for got, want in zip(f(x, w), affine(x, w), strict=True):
            torch.testing.assert_close(got, want)
    assert f.recorded == 1
    [recording] = f.sizes[None].recordings
    assert recording.fixed == [(1, w.data_ptr())] and [at for at, _ in recording.copied] == [0]


def test_a_parameter_elsewhere_needs_another_recording():
    x, w, other = torch.randn(100), torch.randn(100), torch.randn(100)
    f = graphed(affine, (x, w))
    for weight in (w, w, other, w, other, other):
        torch.testing.assert_close(f(x, weight)[0], x * weight)
    assert f.recorded == 2


def test_results_that_are_held_are_not_overwritten():
    w = torch.randn(100)
    f = graphed(affine, (torch.ones(100), w))
    moving = [torch.randn(100) for _ in range(RECORDINGS + 4)]
    held = [f(x, w) for x in moving]
    for x, (product, total) in zip(moving, held, strict=True):
        torch.testing.assert_close(product, x * w)
        torch.testing.assert_close(total, (x + w).sum().reshape(1))
    assert f.recorded == RECORDINGS


def test_a_view_of_a_result_holds_it_too():
    w = torch.randn(100)
    f = graphed(affine, (torch.ones(100), w))
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

    f = graphed(run, (torch.ones(4),))
    for _ in range(3):
        y, same, part, other = f(torch.randn(4))
    assert y is same and part.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert other.untyped_storage().data_ptr() != y.untyped_storage().data_ptr()


def test_what_is_changed_has_to_stay_where_it_is():
    def run(x, state):
        state.add_(x)
        return (x * 2,)

    f = graphed(run, (torch.ones(4), torch.ones(4)), mutated=(1,))
    for _ in range(3):
        x, state = torch.randn(4), torch.zeros(4)
        f(x, state)
        torch.testing.assert_close(state, x)
    assert f.recorded == 0


def test_switched_off():
    f = graphed(affine, (torch.ones(100), torch.ones(100)))
    with fs.config.patch(cudagraphs=False):
        for _ in range(4):
            f(torch.ones(100), torch.ones(100))
    assert f.recorded == 0


def test_what_cannot_be_recorded_says_why():
    assert graphed(affine, (torch.ones(2), torch.ones(2)), outputs=[Constant(None)]).off is None
    assert "view" in graphed(affine, (torch.ones(2), torch.ones(2)), outputs=[InputAlias(0)]).off
    assert "meta" in graphed(affine, (torch.ones(2, device="meta"), torch.ones(2))).off
