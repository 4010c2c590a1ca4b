"""Programs that are captured in a process where torch's own compiler has been at work."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import torch
import firesteel as fs

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
got = [compiled(*data).item() for _ in range(3)], [parameter.detach().clone() for parameter in model.parameters()]

with torch.no_grad():
    for parameter, old in zip(model.parameters(), state):
        parameter.copy_(old)
optimizer = torch.optim.Adam(model.parameters())
explained_once = train(*data)
want = [train(*data).item() for _ in range(3)], list(model.parameters())
torch.testing.assert_close(got, want)

@torch.compiler.disable
def own(x):
    return x * 2

assert len(fs.explain(lambda x: own(x) + 1)(torch.ones(3)).break_reasons) == 1
print("fine")
"""


def test_optimizers_and_new_modules_are_captured_and_markers_of_users_respected():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("fine"), done.stderr[-2000:]
