"""No compiler is needed: programs are compiled where there is none and where no process can be started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys

STARTS = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork", "os.forkpty"}
trapped = []


def trap(event, args):
    if armed and event in STARTS:
        trapped.append((event, args))
        raise RuntimeError(f"{event} {args}")


armed = False
sys.addaudithook(trap)
import shutil

assert not any(map(shutil.which, ("cc", "gcc", "g++", "c++", "clang", "clang++", "ld")))
import torch
import torch.nn.functional as F
import firesteel as fs

armed = True
with_conv = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
                                torch.nn.Flatten(), torch.nn.Linear(64, 5)).eval()


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v


PROGRAMS = [
    (lambda x, y: torch.sin(x) + torch.cos(y) * x, (torch.randn(100), torch.randn(100))),
    (lambda x: F.layer_norm(F.gelu(x), (32,)), (torch.randn(8, 32).bfloat16(),)),
    (lambda x: (x.sum(0), x.argmax(1), x.cumsum(1), x.t() + 1), (torch.randn(9, 9),)),
    (attention, tuple(torch.randn(2, 3, 4, 5) for _ in range(3))),
    (with_conv, (torch.randn(2, 3, 6, 6),)),
    (lambda x, i: F.embedding(i, x).relu().mean(1), (torch.randn(10, 4), torch.randint(0, 10, (3, 5)))),
]
with torch.no_grad(), fs.config.patch(raise_on_internal_error=True, disk_cache=False):
    for number, (f, args) in enumerate(PROGRAMS):
        mode, dynamic = "max-autotune" if number < 2 else None, number % 2 == 1
        found = fs.compile(f, backend="native", mode=mode, dynamic=dynamic)(*args)
        torch.testing.assert_close(found, f(*args), rtol=2e-2, atol=1e-4)
assert not trapped, trapped
print("compiled", len(PROGRAMS))
import subprocess

try:
    subprocess.run([sys.executable, "--version"])
except RuntimeError:
    print("trapped", len(trapped))
"""


def test_programs_compile_where_there_is_no_compiler(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX", "CPATH")}
    environment.update(PATH=str(tmp_path), OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join([str(ROOT / "src")]))
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["compiled", "6", "trapped", "1"]
