"""Golden tests: the kernels of small programs as text.

``FIRESTEEL_UPDATE_GOLDEN=1 pytest tests/kernels/scheduling/test_golden.py`` writes the files anew; read the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from kernels.scheduling.programs import Planned

GOLDEN = Path(__file__).parent / "golden"


def softmax(x):
    return torch.softmax(x, -1)


def layer_norm(x, w, b):
    return F.layer_norm(x, (64,), w, b)


def residual_layer_norm(x, y, w, b):
    z = x + y
    return z, F.layer_norm(z, (64,), w, b)


def gelu_chain(x, y):
    return F.gelu(x * y + 1) * y


def column_sum(x):
    return x.sum(0)


def pairwise_distances(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1).sqrt()


def full_sum(x):
    return x.sum()


def transposed_add(x, y):
    return x + y.t()


def cat(x, y):
    return torch.cat([x, y * 2], 1)


def cross_entropy(x, t):
    return F.cross_entropy(x, t)


def softmax_of_channels(x):
    return torch.softmax(x, 1)


def linear_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b)) + x


PROGRAMS = {
    softmax: (torch.randn(128, 64),),
    layer_norm: (torch.randn(32, 64), torch.randn(64), torch.randn(64)),
    residual_layer_norm: (torch.randn(8, 32, 64), torch.randn(8, 32, 64), torch.randn(64), torch.randn(64)),
    gelu_chain: (torch.randn(32, 64), torch.randn(64)),
    column_sum: (torch.randn(5000, 700),),
    pairwise_distances: (torch.randn(300, 32), torch.randn(400, 32)),
    full_sum: (torch.randn(1000, 1000),),
    transposed_add: (torch.randn(64, 32), torch.randn(32, 64)),
    cat: (torch.randn(64, 32), torch.randn(64, 16)),
    cross_entropy: (torch.randn(512, 100), torch.arange(512) % 100),
    softmax_of_channels: (torch.randn(4, 10, 32, 64),),
    linear_gelu: (torch.randn(64, 64), torch.randn(64, 64), torch.randn(64)),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_golden(program, dynamic):
    fs.reset()
    backend = Planned(runs=False)
    with torch.no_grad():
        fs.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)(*PROGRAMS[program])
    text = re.sub(" at 0x[0-9a-f]+", "", str(backend.plans[0])).rstrip() + "\n"
    path = GOLDEN / f"{program.__name__}{'_dynamic' if dynamic else ''}.golden"
    if os.environ.get("FIRESTEEL_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path.name} is missing; FIRESTEEL_UPDATE_GOLDEN=1 writes it"
    assert text == path.read_text()
