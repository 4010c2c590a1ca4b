"""Plans on disk: another process takes the short cut, and only when everything is as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel import config, disk_cache
from firesteel.functional import trace
from firesteel.kernels import lowering, plan_cache
from firesteel.kernels.cpu import engine
from firesteel.kernels.host.results import with_results
from firesteel.kernels.ir import ExternCall
from firesteel.kernels.lowering import lower
from firesteel.kernels.options import Options
from firesteel.kernels.plan import kernels_of
from firesteel.kernels.plan_text import NotStorable, plan_text, read_plan
from firesteel.kernels.scheduling import schedule
from firesteel.kernels.targets import target_for
from firesteel.pipeline import compile as stages
from firesteel.pipeline.compile import compile_graph

CPU = target_for(torch.device("cpu"))
TABLE = torch.arange(12.0).view(3, 4)


def fused(x):
    return torch.softmax(x * 2.5, -1) + 1


def with_products(x):
    hidden = F.gelu(x @ x.t())
    return hidden.sum(0), hidden[:, 1:].t(), x.shape[0], None


def with_writes(x):
    x.mul_(2)
    y = x.view(-1)
    return y, x, (x + float("inf")).cos()


def with_calls(x):
    values, order = torch.sort(x, -1, descending=True)
    return values[..., :2], order, torch.cat([x, x.flip(0)]).to(torch.bfloat16)


def with_a_constant(x):
    return x @ TABLE + x.mean()


PROGRAMS = [fused, with_products, with_writes, with_calls, with_a_constant]


@pytest.fixture
def cache(tmp_path):
    with config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        yield
    fs.reset()


def forget(monkeypatch=None):
    """As in a new process; with a patch it is an error to lower anything."""
    fs.reset()
    engine._compiled.clear()
    if monkeypatch is not None:
        def refuse(*args):
            raise AssertionError("lowered again")

        monkeypatch.setattr(lowering, "lower", refuse)


def same(program, compiled, *sizes):
    given, expected = torch.randn(*sizes), None
    mine = given.clone()
    with torch.no_grad():
        expected, found = program(given), compiled(mine)
    torch.testing.assert_close(mine, given)
    for one, other in zip(expected, found, strict=True) if isinstance(expected, tuple) else [(expected, found)]:
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(other, one, equal_nan=True)
            assert other.stride() == one.stride()
        else:
            assert other == one


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_second_process_does_not_lower_again(program, dynamic, cache, monkeypatch):
    sizes = (6, 3) if program is with_a_constant else (6, 5)
    same(program, fs.compile(program, backend="native", dynamic=dynamic), *sizes)
    assert disk_cache.info().kinds["plan"][0] == 1
    forget(monkeypatch)
    compiled = fs.compile(program, backend="native", dynamic=dynamic)
    same(program, compiled, *sizes)
    if dynamic:
        same(program, compiled, 9, sizes[1])


def test_other_layouts_and_facts_are_other_plans(cache):
    keys = set()
    for x in (torch.randn(4, 6), torch.randn(6, 4).t(), torch.randn(4, 6).double(), torch.randn(4, 7)):
        keys.add(plan_cache.plan_key(trace(torch.fx.symbolic_trace(fused), [x]), CPU))
    for scaled in (lambda x: x * 2.5, lambda x: x * 2.500001):
        keys.add(plan_cache.plan_key(trace(torch.fx.symbolic_trace(scaled), [torch.randn(4, 6)]), CPU))
    assert len(keys) == 6 and None not in keys

    def at_least_two(x):
        torch._check(x.shape[0] >= 2)
        return x + 1

    def at_least_three(x):
        torch._check(x.shape[0] >= 3)
        return x + 1

    for checked in (at_least_two, at_least_three):
        fs.compile(checked, backend="native", dynamic=True)(torch.randn(5, 5))
    assert disk_cache.info().kinds["plan"][0] == 2


@pytest.mark.parametrize("damage", ["not json", "{}", '{"symbols":[],"buffers":[["a"]]}', "code"])
def test_what_cannot_be_used_is_made_again(damage, cache, monkeypatch):
    x = torch.randn(6, 5)
    module = torch.fx.symbolic_trace(fused)
    key = plan_cache.plan_key(trace(module, [x]), CPU)
    first = compile_graph(module, [x], Options())
    assert first.lowered is not None and compile_graph(module, [x], Options()).lowered is None
    if damage == "code":
        monkeypatch.setattr(engine, "_load", lambda key: None)
        forget()
    else:
        disk_cache.put(plan_cache.KIND, key, damage.encode())
    made = compile_graph(module, [x], Options())
    assert made.lowered is not None
    torch.testing.assert_close(made.run(x)[0], fused(x))


def test_nothing_is_kept_when_somebody_wants_to_look(cache, tmp_path):
    module, x = torch.fx.symbolic_trace(fused), torch.randn(6, 5)
    compile_graph(module, [x], Options())
    with config.patch(debug_dir=str(tmp_path / "debug")):
        assert compile_graph(module, [x], Options()).lowered is not None
    assert compile_graph(module, [x], Options()).lowered is None
    assert stages.compile_graph(module, [x], Options(native_host=False)).lowered is None


@pytest.mark.parametrize("program", PROGRAMS[:4])
def test_plans_survive_their_text(program):
    x = torch.randn(6, 5)
    functional = trace(torch.fx.symbolic_trace(program), [x])
    plan = with_results(schedule(lower(functional.module)), functional)
    kernels = kernels_of(plan)
    text = plan_text(plan, kernels, [str(n) for n in range(len(kernels))], functional.constants)
    again, others, keys, programs = read_plan(text, functional.constants)
    assert keys == [str(n) for n in range(len(kernels))] and programs == []
    assert plan_text(again, others, keys, functional.constants) == text
    assert (again.inputs, again.symbols, repr(again.outputs), again.buffers) == \
        (plan.inputs, plan.symbols, repr(plan.outputs), plan.buffers)
    assert [type(step) for step in again.steps] == [type(step) for step in plan.steps]


def test_functions_of_the_program_have_no_text():
    functional = trace(torch.fx.symbolic_trace(with_calls), [torch.randn(6, 5)])
    plan = with_results(schedule(lower(functional.module)), functional)
    steps = [replace(step, target=fused) if isinstance(step, ExternCall) else step for step in plan.steps]
    with pytest.raises(NotStorable):
        plan_text(replace(plan, steps=steps), kernels_of(plan), [""] * len(kernels_of(plan)), {})
    for name in ('["function","builtins","exec"]', '["function","os","system"]', '["operator","aten.sort"]'):
        text = '{"symbols":[],"buffers":[],"kernels":[],"inputs":[],"origins":[],"outputs":[],"known":[],' \
            '"constants":[],"programs":[],"steps":[["call",%s,["tuple"],[],[],false]]}' % name
        with pytest.raises(ValueError):
            read_plan(text.encode(), {})
