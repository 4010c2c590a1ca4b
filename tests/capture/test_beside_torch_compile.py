"""Programs that are captured in a process where torch's own compiler has been at work."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import functools

import torch
import firesteel as fs

torch.manual_seed(0)
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.Adam(model.parameters())
state = [parameter.detach().clone() for parameter in model.parameters()]

def train(x, y):
    optimizer.zero_grad()
    loss = torch.nn.CrossEntropyLoss()(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

data = torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0])
explained = fs.explain(train)(*data)
assert not explained.break_reasons, explained.break_reasons
compiled = fs.compile(train, fullgraph=True)
got = [compiled(*data).detach() for _ in range(3)], [parameter.detach().clone() for parameter in model.parameters()]

with torch.no_grad():
    for parameter, old in zip(model.parameters(), state):
        parameter.copy_(old)
optimizer = torch.optim.Adam(model.parameters())
explained_once = train(*data)
want = [train(*data).detach() for _ in range(3)], list(model.parameters())
torch.testing.assert_close(got, want)

@torch.compiler.disable
def own(x):
    return x * 2

assert len(fs.explain(lambda x: own(x) + 1)(torch.ones(3)).break_reasons) == 1

# torch.compile around what firesteel compiled traces what that was made from

graphs = []

def counting(gm, example_inputs):
    graphs.append(gm)
    return gm.forward

def check(function, want, graph_count=1):
    torch._dynamo.reset()
    graphs.clear()
    torch.testing.assert_close(torch.compile(function, backend=counting, fullgraph=True)(x), want)
    assert len(graphs) == graph_count, (function, len(graphs))

def sines(x):
    return x.sin() + 1

class Scale:
    def __init__(self):
        self.by = 3

    def method(self, x):
        return x * self.by

    @fs.compile
    def decorated(self, x, y=2):
        return x * self.by + y

    def __call__(self, x):
        return x - self.by

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = fs.compile(torch.nn.Linear(4, 4))

    def forward(self, x):
        return self.inner(x) + 1

def doubled(x):
    return compiled_sines(x) * 2

x = torch.randn(5, 4)
compiled_sines, mlp, scale, net = fs.compile(sines), torch.nn.Linear(4, 4), Scale(), Net()
hooked = torch.nn.Linear(4, 4)
hooked.register_forward_hook(lambda module, args, output: output * 2)
twin, method, calling, hooked_twin = fs.compile(mlp), fs.compile(scale.method), fs.compile(scale), fs.compile(hooked)
around = functools.wraps(compiled_sines)(doubled)
for function in (compiled_sines, twin, method, scale.decorated, calling, net):
    function(x)  # the second time there are compiled versions
check(compiled_sines, sines(x))
check(twin, mlp(x))
check(twin.forward, mlp(x))
check(method, x * 3)
check(scale.decorated, x * 3 + 2)
check(calling, x - 3)
check(net, net(x))
check(hooked_twin, hooked(x))
check(around, sines(x) * 2)
check(lambda x: compiled_sines(x) + twin(x) + method(x) + scale.decorated(x, y=5) + calling(x) + around(x),
      sines(x) + mlp(x) + x * 3 + x * 3 + 5 + x - 3 + sines(x) * 2)

# attributes that functools.wraps copies from a compiled function say nothing about the function around it

compiled_sines = torch.compile(sines, backend="eager")
around_torchs = functools.wraps(compiled_sines)(doubled)
torch.testing.assert_close(fs.compile(lambda x: around_torchs(x))(x), sines(x) * 2)
compiled_sines = torch.compiler.disable(sines, recursive=False)
around_disabled = functools.wraps(compiled_sines)(lambda x: doubled(x))
torch.testing.assert_close(fs.compile(lambda x: around_disabled(x))(x), sines(x) * 2)
print("fine")
"""


def test_programs_beside_torch_compile_and_torch_compile_around_them():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("fine"), done.stderr[-2000:]
