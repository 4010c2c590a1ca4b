"""The drawing of a kernel plan: golden text, and that it says what the plan does."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

import torch

import firesteel as fs
from firesteel import config
from firesteel.kernels.drawing import draw_plan
from firesteel.kernels.options import Options
from firesteel.pipeline.compile import compile_graph

GOLDEN = Path(__file__).parent / "golden" / "groups.svg.golden"


def plan_of(program, *args, dynamic=None):
    plans = []

    def backend(gm, examples):
        plans.append(compile_graph(gm, examples, Options()).plan)
        return gm.forward

    fs.reset()
    with torch.no_grad():
        fs.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    return plans[0]


def program(x, w, b):
    return torch.softmax(x @ w + b, -1), x.exp()


ARGS = torch.randn(64, 32), torch.randn(32, 32), torch.randn(32)


def test_golden():
    text = draw_plan(plan_of(program, *ARGS)).to_svg() + "\n"
    if os.environ.get("FIRESTEEL_UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_boxes_and_arrows():
    drawing = draw_plan(plan_of(program, *ARGS))
    text = {" ".join(box.lines): box for box in drawing.boxes}
    (call,) = [line for line, box in text.items() if box.kind == "call"]
    assert "mm" in call and "reads 12.0 KiB, writes 8.0 KiB" in call
    kernels = [line for line, box in text.items() if box.kind == "kernel"]
    assert any("exp" in line and "reads 8.0 KiB, writes 8.0 KiB" in line for line in kernels)
    assert [box.kind for box in drawing.boxes].count("input") == 3
    assert drawing.boxes[-1].lines[0] == "results" and len(drawing.boxes[-1].lines) == 3
    assert all(arrow.source < arrow.target for arrow in drawing.arrows)
    labels = {arrow.label for arrow in drawing.arrows}
    assert {"x 8.0 KiB", "w 4.0 KiB", "b 128 B"} <= labels


def test_boxes_do_not_overlap():
    drawing = draw_plan(plan_of(program, *ARGS))
    page = ElementTree.fromstring(drawing.to_svg())
    width, height = float(page.get("width")), float(page.get("height"))
    for box in drawing.boxes:
        assert box.x >= 0 and box.y >= 0 and box.x + box.width <= width and box.y + box.height <= height
        for other in drawing.boxes:
            if other is not box:
                apart = box.x + box.width <= other.x or other.x + other.width <= box.x
                assert apart or box.y + box.height <= other.y or other.y + other.height <= box.y
    for arrow in drawing.arrows:
        source, target = drawing.boxes[arrow.source], drawing.boxes[arrow.target]
        assert source.y + source.height < target.y


def test_sizes_may_be_symbols_and_inputs_may_change():
    def f(x, y):
        x.add_(1)
        return y[:, 1:] < x.sum()

    drawing = draw_plan(plan_of(f, torch.randn(5, 6), torch.randn(5, 6), dynamic=True))
    assert any("s0" in arrow.label for arrow in drawing.arrows)
    ElementTree.fromstring(drawing.to_svg())


def test_it_is_in_the_debug_folder(tmp_path):
    with config.patch(debug_dir=str(tmp_path)), torch.no_grad():
        fs.compile(lambda x: x.exp() + 1, backend="native")(torch.randn(5))
    (path,) = tmp_path.glob("*/groups.svg")
    assert ">exp, add<" in path.read_text()
