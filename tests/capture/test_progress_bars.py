"""Loops with a progress bar (`tqdm`) in one graph; the bar shows the same in the end."""

from __future__ import annotations

import io
import re

import pytest
import torch
from tqdm import tqdm, trange
from tqdm.auto import tqdm as automatic

import firesteel as fs


def over_a_range(x, file):
    for step in tqdm(range(3), file=file, desc="steps"):
        x = x + step
    return x


def over_tensors(x, file):
    return [row * 2 for row in tqdm([x, x + 1], file=file)], list(automatic((1, 2), file=file))


def ranges(x, file):
    bar = trange(4, file=file, leave=False)
    for step in bar:
        x = x * step
        bar.set_description(f"step {step}")
    return x


def by_hand(x, file):
    with tqdm(total=6, file=file) as bar:
        for step in range(3):
            x = x + step
            bar.update(2)
            bar.set_postfix(step=step)
    return x


def switched_off(x, file):
    for step, row in enumerate(tqdm(x, disable=True)):
        x = x + step * row
    return x


def left_early(x, file):
    for step in tqdm(range(9), file=file):
        if step == 2:
            break
        x = x + step
    return x


def with_a_break(x, file):
    for step in tqdm(range(3), file=file):
        x = x + step
        fs.graph_break()
    return x


def shown(text):
    """The last thing that each bar shows, without times."""
    lines = [line.strip() for line in re.split(r"[\r\n]", text) if line.strip()]
    return re.sub(r"\[.*?(, \w+=\d+)?\]", r"[\1]", lines[-1]) if lines else ""


@pytest.mark.parametrize("function", [over_a_range, over_tensors, ranges, by_hand, switched_off, left_early,
                                      with_a_break], ids=lambda f: f.__name__)
def test_is_eagers(function):
    compiled = fs.compile(function, fullgraph=function is not with_a_break)
    for _ in range(3):
        plain, ours = io.StringIO(), io.StringIO()
        expected = function(torch.ones(2, 3), plain)
        torch.testing.assert_close(compiled(torch.ones(2, 3), ours), expected)
        if function not in (left_early, ranges):  # where the text depends on when it was shown last
            assert shown(ours.getvalue()) == shown(plain.getvalue())
        assert bool(ours.getvalue()) == bool(plain.getvalue())


def test_a_bar_from_outside():
    def step(x, bar):
        bar.update(1)
        return x + 1

    compiled = fs.compile(step, fullgraph=True)
    with tqdm(total=3, file=io.StringIO()) as bar:
        for _ in range(3):
            compiled(torch.ones(2), bar)
        assert bar.n == 3
