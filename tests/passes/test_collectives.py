"""Where collectives begin and are waited for: graphs before and after."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from firesteel.passes.collectives import collectives
from passes.pass_checks import body, functional, transformed


@pytest.fixture(autouse=True)
def group():
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("torch is built without gloo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def targets(graph):
    names = {node: str(node.target).split(".")[1] for node in graph.graph.nodes if node.op == "call_function"}
    return " ".join(names.values())


def started(x):
    return torch.ops._c10d_functional.all_reduce(x, "sum", "0")


wait = torch.ops._c10d_functional.wait_tensor


def test_graph_before_and_after():
    def step(x0, x1):
        a = wait(started(x0))
        b = x1.exp()
        c = wait(started(x1))
        return a + b, c

    x = torch.randn(8), torch.randn(8)
    before = body(functional(step, x))
    assert before == (
        "all_reduce: f32[8] = _c10d_functional.all_reduce.default(x0, 'sum', '0')\n"
        "wait_tensor: f32[8] = _c10d_functional.wait_tensor.default(all_reduce)\n"
        "exp: f32[8] = aten.exp.default(x1)\n"
        "all_reduce_1: f32[8] = _c10d_functional.all_reduce.default(x1, 'sum', '0')\n"
        "wait_tensor_1: f32[8] = _c10d_functional.wait_tensor.default(all_reduce_1)\n"
        "add: f32[8] = aten.add.Tensor(wait_tensor, exp)\n"
        "return add, wait_tensor_1")
    assert body(transformed(collectives, step, *x)) == (
        "all_reduce: f32[8] = _c10d_functional.all_reduce.default(x0, 'sum', '0')\n"
        "all_reduce_1: f32[8] = _c10d_functional.all_reduce.default(x1, 'sum', '0')\n"
        "exp: f32[8] = aten.exp.default(x1)\n"
        "wait_tensor: f32[8] = _c10d_functional.wait_tensor.default(all_reduce)\n"
        "add: f32[8] = aten.add.Tensor(wait_tensor, exp)\n"
        "wait_tensor_1: f32[8] = _c10d_functional.wait_tensor.default(all_reduce_1)\n"
        "return add, wait_tensor_1")


def test_what_a_collective_needs_comes_first():
    def step(x0, x1):
        c = x1.exp()
        d = x0.sin()
        a = wait(started(d))
        return c + 1, wait(started(a.cos()))

    graph = transformed(collectives, step, torch.randn(8), torch.randn(8))
    assert targets(graph) == "sin all_reduce exp add wait_tensor cos all_reduce wait_tensor"


def test_they_begin_in_the_order_of_the_program():
    def step(x0, x1):
        a = started((x0 @ x0) @ x0)
        b = started(x1)
        return wait(b), wait(a)

    graph = transformed(collectives, step, torch.randn(4, 4), torch.randn(8))
    assert targets(graph) == "mm mm all_reduce all_reduce wait_tensor wait_tensor"
    first, second = (node for node in graph.graph.nodes if "all_reduce" in str(node.target))
    assert first.meta["val"].ndim == 2 and second.meta["val"].ndim == 1


def test_they_begin_behind_what_may_raise():
    def step(x0, x1):
        a = x1[x0]
        return a, wait(started(x1))

    graph = transformed(collectives, step, torch.tensor([0, 1]), torch.randn(8))
    assert targets(graph) == "index all_reduce wait_tensor"


def test_what_is_not_waited_for_is_waited_for_at_the_end():
    def step(x0):
        started(x0 * 2)
        return x0.sin()

    assert targets(functional(step, [torch.randn(8)])) == "mul all_reduce sin"
    assert targets(transformed(collectives, step, torch.randn(8))) == "mul all_reduce sin wait_tensor"


def test_other_graphs_are_left_alone():
    graph = functional(lambda x0: x0.sin(), [torch.randn(8)])
    assert collectives(graph) is graph
