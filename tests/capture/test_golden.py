"""Golden tests: the graphs, guards and generated entries of small programs, as text.

``FIRESTEEL_UPDATE_GOLDEN=1 pytest tests/capture/test_golden.py`` writes the files anew; read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from firesteel import graph_break

GOLDEN = Path(__file__).parent / "golden"


def straight_line(x, y):
    return torch.sin(x) + torch.cos(y)


def branch_on_data(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def side_effects(x, log, config):
    config["calls"] += 1
    log.append(x * config["scale"])
    return {"last": log[-1], "count": len(log)}


def loop_with_break(x, steps):
    for i in range(steps):
        x = x * (i + 1)
        graph_break()
    return x


def handled_exception(x, table):
    try:
        return x + table["missing"]
    except KeyError:
        return x - 1


class Affine(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.scale = 2.0

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.scale


PROGRAMS: dict[str, tuple[Any, Callable[[], tuple[Any, ...]]]] = {
    "straight_line": (straight_line, lambda: (torch.ones(3), torch.ones(3))),
    "branch_on_data": (branch_on_data, lambda: (torch.ones(3), torch.ones(3))),
    "side_effects": (side_effects, lambda: (torch.ones(3), [torch.zeros(3)], {"calls": 0, "scale": 2})),
    "loop_with_break": (loop_with_break, lambda: (torch.ones(3), 3)),
    "handled_exception": (handled_exception, lambda: (torch.ones(3), {"a": 1})),
    "module": (Affine().forward, lambda: (torch.ones(1, 3),)),
}


def render(function: Any, args: tuple[Any, ...]) -> str:
    """Every entry that one call compiles: its readable guards, its graph and its generated source."""
    from firesteel.compiled_functions import compile_with
    from firesteel.events import Events
    from firesteel.runtime.compiler import Compiler

    events = Events()
    compile_with(Compiler("eager", events=events), function)(*args)
    parts = []
    for unit, entry in events.entries:
        parts.append(f"== {unit.name}")
        if entry.break_reason is not None:
            parts.append(f"breaks: {entry.break_reason.reason}")
        parts.append("-- guards")
        parts.extend(guard.describe().partition(" and ")[0] for guard in entry.guards)
        parts.extend(str(guard.expr) for guard in entry.shape_guards)
        if entry.graph is not None:
            parts.append("-- graph")
            parts.append(entry.graph.module.code.strip())
        parts.append("-- entry")
        parts.append(entry.text.strip())
    return "\n".join(parts) + "\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden(name: str) -> None:
    function, make_args = PROGRAMS[name]
    text = render(function, make_args())
    path = GOLDEN / f"{name}.golden"
    if os.environ.get("FIRESTEEL_UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text(), f"{path} differs; see this file's docstring"
