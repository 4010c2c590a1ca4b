"""The one package that touches torch's private API."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import torch

from firesteel import torch_compat
from firesteel.torch_compat import compiler_settings, dynamo_imports, profilers

TITLES = ("LOOKUP", "STEPS", "SHAPES", "PROMOTION")


def test_doctests():
    results = [
        doctest.testmod(importlib.import_module(f"firesteel.torch_compat.{module.name}"))
        for module in pkgutil.iter_modules(torch_compat.__path__)
    ]
    assert sum(result.attempted for result in results) >= 8
    assert sum(result.failed for result in results) == 0


def run_fresh(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def test_neutralising_is_fast_and_complete():
    out = run_fresh("""
import sys, time, torch
from firesteel import torch_compat as c
start = time.process_time()
count = c.neutralise_dynamo_imports()
took = time.process_time() - start
assert count > 10, count
assert c.neutralise_dynamo_imports() == 0
from torch.utils._python_dispatch import TorchDispatchMode
class Later(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
with Later():
    torch.ones(2) + 1
p = torch.nn.Parameter(torch.ones(2)); p.grad = torch.ones(2)
class Own(torch.optim.SGD):
    @sys.modules["torch.optim.optimizer"]._use_grad_for_differentiable
    def step(self):
        return torch.is_grad_enabled()
assert Own([p], lr=0.1).step() is False and torch.is_grad_enabled()
torch.optim.SGD([p], lr=0.1).step()
assert torch.allclose(p.detach(), torch.full((2,), 0.9))
assert "torch._dynamo" not in sys.modules and "sympy" not in sys.modules
print(took)
""")
    assert float(out) < 0.2  # seconds of the CPU, so that a busy machine does not matter; 15 ms


def test_torchs_own_compiler_still_works():
    out = run_fresh("""
import torch
import firesteel as fs
ours = fs.compile(lambda x: (x * 3).relu(), backend="eager", dynamic=True)
ours(torch.ones(3))
p = torch.nn.Parameter(torch.ones(2)); p.grad = torch.ones(2)
optimizer = torch.optim.SGD([p], lr=0.1)

def beside():
    f = torch.compile(lambda x: (x * 2).relu(), backend="eager", dynamic=True)
    torch.compile(lambda: optimizer.step(), backend="eager")()
    optimizer.step()
    assert ours(torch.ones(3)).tolist() == ours(torch.ones(4)).tolist()[:3] == [3, 3, 3]
    return f(torch.ones(3)).tolist() == f(torch.ones(4)).tolist()[:3] == [2, 2, 2]

first = beside()
from torch.fx.experimental.symbolic_shapes import ShapeEnv, guard_or_false
assert type(torch.fx.experimental.symbolic_shapes) is type(torch)
undone = fs.restore_torch()
torch._dynamo.reset()
second = beside()
again = fs.compile(lambda x: (x * 3).cos(), backend="eager")(torch.zeros(2)).tolist()
print(first, second, beside(), again, bool(undone), guard_or_false(True), [round(v, 2) for v in p.tolist()])
""")
    assert out == "True True True [1.0, 1.0] True True [0.4, 0.4]"


def test_what_is_changed_is_documented():
    titles = [*(value for name, value in vars(dynamo_imports).items() if name in TITLES), compiler_settings.STANCE,
              profilers.PROFILERS]
    text = " ".join((Path(__file__).parents[2] / "docs" / "support.md").read_text().split())
    assert len(titles) == 6 and all(title in text for title in titles)


def test_everything_that_was_changed_is_restored():
    """Not only what is registered: all functions, classes and modules of torch are as they were."""
    out = run_fresh("""
import gc, sys, types, torch
import torch._meta_registrations, torch.fx.experimental

def state():
    modules = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ("torch", "sympy")}
    functions = [f for f in gc.get_objects() if type(f) is types.FunctionType and str(f.__module__)[:5] == "torch"]
    return ({id(f): (f, f.__code__, f.__defaults__, dict(vars(f))) for f in functions},
            {name: dict(vars(module)) for name, module in modules.items()},
            {cls: dict(vars(cls)) for cls in (torch.Tensor, torch.nn.Module, torch.optim.Optimizer,
                                              torch.autograd.Function, torch.nn.Parameter, torch.fx.GraphModule)})

torch.ops.aten.add.Tensor, torch.nn.functional.relu(torch.ones(1))
before = state()
import firesteel as fs
f = fs.compile(lambda x: torch.relu(x) * 2, backend="eager", dynamic=True)
assert f(torch.ones(3)).tolist() == [2, 2, 2]
p = torch.nn.Parameter(torch.ones(2)); p.grad = torch.ones(2)
optimizer = torch.optim.SGD([p], lr=0.1)
class Own(torch.optim.SGD):
    @sys.modules["torch.optim.optimizer"]._use_grad_for_differentiable
    def step(self):
        return torch.is_grad_enabled()
optimizer.step()
assert "sympy" not in sys.modules and "torch._dynamo" not in sys.modules
print(len(fs.restore_torch()), fs.restore_torch())
functions, modules, classes = state()
for key, (f_, code, defaults, attributes) in before[0].items():
    if key in functions:
        assert f_.__code__ is code and f_.__defaults__ == defaults, f_
        assert vars(f_).keys() == attributes.keys() and all(vars(f_)[n] is v for n, v in attributes.items()), f_
for cls, members in before[2].items():
    changed = [n for n, v in members.items() if vars(cls).get(n) is not v]
    assert not changed, (cls, changed)
for name, members in before[1].items():
    changed = [n for n, v in members.items() if modules[name].get(n) is not v
               and isinstance(v, (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type))]
    assert not changed, (name, changed)
assert "torch.fx.experimental.symbolic_shapes" not in sys.modules
assert Own.step.__code__ is optimizer.step.__func__.__code__ or Own([p], lr=0.1).step() is False
assert f(torch.ones(4)).tolist() == [2] * 4
assert fs.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist() == [2, 2] and fs.restore_torch()
""")
    assert out == "6 []", out


def test_a_wrapped_copy_of_a_function_is_called_itself():
    """functools.wraps copies attributes; a function must not be taken for the one it was copied from."""
    out = run_fresh("""
import functools, torch
from firesteel import torch_compat as c
c.neutralise_dynamo_imports()
@torch._disable_dynamo
def first(): return 1
inner = first.__wrapped__
@functools.wraps(inner)
def second(): return 2
print(torch._disable_dynamo(second)(), first())
""")
    assert out == "2 1"


def test_storage_serial():
    x = torch.ones(3)
    serial = torch_compat.storage_serial(x)
    assert torch_compat.storage_serial(x.view(3, 1)) == serial
    del x
    assert torch_compat.storage_serial(torch.ones(3)) != serial


def test_dispatch_keys():
    x = torch.ones(3)
    with torch.inference_mode():
        y = torch.ones(3)
    assert torch_compat.dispatch_key_bits(x) != torch_compat.dispatch_key_bits(y)
    assert torch_compat.dispatch_keys(x).has(torch._C.DispatchKey.CPU)


def test_stacks():
    assert torch_compat.torch_function_stack_length() == 0
    with torch.device("meta"):
        assert torch_compat.torch_function_stack_length() == 1
    assert torch_compat.torch_dispatch_stack_length() == 0
    seen = []
    torch.func.vmap(lambda x: seen.append(torch_compat.functorch_active()) or x)(torch.ones(2))
    assert seen == [True] and not torch_compat.functorch_active()


def test_autocast_state():
    before = torch_compat.autocast_state("cpu")
    with torch.autocast("cpu", torch.float16, cache_enabled=False):
        inside = torch_compat.autocast_state("cpu")
        assert inside == torch_compat.AutocastState("cpu", True, torch.float16, False)
        torch_compat.set_autocast_state(before)
        assert torch_compat.autocast_state("cpu") == before
        torch_compat.set_autocast_state(inside)
    assert torch_compat.autocast_state("cpu") == before


def test_replacing_metadata_keeps_autograd():
    p = torch.ones(2, requires_grad=True)
    torch_compat.replace_metadata(p, torch.zeros(3, 3))
    assert p.shape == (3, 3) and p.requires_grad and p.is_leaf
