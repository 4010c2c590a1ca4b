"""Kernels are ranges of torch's profilers, with their operators and the user's lines as names."""

from __future__ import annotations

import functools
import gc
import weakref

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import firesteel as fs
from firesteel.kernels.host import launch_ranges

HERE = "test_launch_ranges.py"


def events_of(run):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    assert not launch_ranges._WATCH[0] and not launch_ranges._OPEN.ranges
    return list(profiler.events())


def fused(x):
    return torch.softmax(x.sin() * 2, -1)


LINE = fused.__code__.co_firstlineno + 1


@pytest.mark.parametrize("size", [8, 400], ids=["held", "with Python let go"])
def test_kernels_of_a_fully_native_call(size):
    compiled = fs.compile(fused, tier="wait")
    x = torch.randn(size, size)
    compiled(x)
    events = events_of(lambda: compiled(x))
    (kernel,) = [event for event in events if event.name == f"kernel sin, mul, _softmax ({HERE}:{LINE})"]
    (call,) = [event for event in events if event.name.startswith("firesteel: fused")]
    assert kernel.cpu_parent is call
    torch.testing.assert_close(compiled(x), fused(x))


def test_names_do_not_come_from_the_cache(tmp_path):
    def first(x):
        return x.sin() + 1

    def second(x):  # the same graph, on another line
        return x.sin() + 1

    with fs.config.patch(cache_dir=str(tmp_path), disk_cache=True):
        for function in (first, second):
            compiled = fs.compile(function, backend="native")
            line = function.__code__.co_firstlineno + 1
            names = [event.name for event in events_of(lambda f=compiled: f(torch.ones(3)))]
            assert f"kernel sin, add ({HERE}:{line})" in names


def test_backward_and_products_of_our_own():
    def product(x, w):
        return (x.cos() @ w).sin()

    compiled = fs.compile(product, backend="native")
    x, w = torch.randn(512, 512), torch.randn(512, 512, requires_grad=True)

    def run():
        compiled(x, w).sum().backward()

    run()
    names = [event.name for event in events_of(run)]
    assert any(name.startswith("kernel ") and "cos" in name for name in names)
    assert "kernel product" in names or "aten::mm" in names
    backward = names.index("CompiledFunctionBackward")
    assert any(name.startswith("kernel ") for name in names[backward:])


def test_functions_beside_kernels_are_put_back_and_let_go():
    def helper(x):
        return x + 1

    namespace = {"helper": helper}
    exec("def run(x):\n    return helper(x)", namespace)
    run = namespace["run"]
    launch_ranges.follow_calls(run, {"helper": "helper"})
    assert [event.name for event in events_of(functools.partial(run, 1))] == ["kernel helper"]
    assert namespace["helper"] is helper
    dead = weakref.ref(run)
    del run
    namespace.clear()
    gc.collect()
    assert dead() is None


def test_titles():
    from firesteel.kernels.titles import title

    assert title([]) == "kernel"
    assert title(["aten.add.Tensor"] * 3) == "kernel add"
    many = [f"aten.op{n}.default" for n in range(9)]
    assert title(many) == "kernel op0, op1, op2, op3, op4, op5, 3 more"
