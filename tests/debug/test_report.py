"""The report: one page, bounded, with nothing in it that a program's text could break; shown in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import torch

import firesteel as fs
from firesteel.debug.record import (
    BreakRecord,
    Compilation,
    FailedGuardRecord,
    GraphRecord,
    GuardRecord,
    KernelRecord,
    Place,
    Program,
    Recompilation,
    Record,
    Stage,
)
from firesteel.debug.report import page
from firesteel.debug.summary import summary

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"


def large_record(graphs: int = 500) -> Record:
    """A record of many graphs with long texts, and with names that are HTML."""
    record = Record({"firesteel": "1"}, 100.0, sources={"/p/model.py": [f"line {n} {EVIL}" for n in range(3000)]})
    for number in range(graphs):
        place = Place("/p/model.py", 1 + 5 * number, EVIL)
        text = f"softmax_{number} {EVIL}\n" * 400
        kernels = [KernelRecord(f"k{n}", ["aten.add.Tensor", EVIL], [place], 1024, 1024, loops=text, source=text,
                                seconds=1e-6, copy_seconds=5e-7) for n in range(4)]
        program = Program("f", {"functional": text, "loops": text, "plan": text}, kernels, "<svg/>" + "x" * 40_000,
                          [("pass", 0.1, 5)])
        record.graphs.append(GraphRecord(number, EVIL, place, 10, {"captured": text}, [place], [program]))
        record.compilations.append(Compilation(number, EVIL, place, 0.1 * number, 0.05, number,
                                               [GuardRecord(text[:900], place) for _ in range(50)]))
        record.breaks.append(BreakRecord(EVIL, EVIL, (place, place), number))
        record.recompilations.append(Recompilation(EVIL, 0.1 * number, place, (
            FailedGuardRecord(EVIL, "1", "2", place),) * 3, number))
        record.stages += [Stage(f"stage {n}", "stage", 0.1 * number, 0.01, min(n, 1), 1, number, number)
                          for n in range(20)]
    return record


def test_a_page_about_many_graphs_is_bounded_and_harmless():
    text = page(large_record())
    assert len(text.encode()) < 5_000_000
    assert "<script>document.title" not in text and "<img src=x" not in text
    assert text.count("</script>") == 2
    assert "more characters" in text
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", text)


def test_a_page_of_a_program(tmp_path):
    def program(x):
        y = x.sin()
        fs.graph_break()
        return y + 1

    path = tmp_path / "out.html"
    with fs.recording() as r:
        fs.compile(program, backend="eager")(torch.ones(3))
        fs.report(path)
    assert path.read_text().count('<li class="card break">') == 1
    r.save(path)
    text = path.read_text()
    assert "graph_break() was called" in text and "remove the call" in text
    assert re.search(r'<tr class="break">.*fs\.graph_break\(\)', text)
    assert re.search(r'<tr class="graph">.*y = x\.sin\(\)', text)
    lines = summary(r.record).splitlines()
    assert lines[0].startswith("2 graphs, 1 break, 0 recompilations, 0 kernels, 0 calls of ATen")
    assert any("graph_break() was called" in line and "test_report.py:" in line for line in lines)


def test_an_empty_page():
    assert "No graph ended early" in page(Record())
    assert summary(Record()).startswith("0 graphs, 0 breaks")


PROBE = """
<script>
addEventListener("load", () => setTimeout(() => {
  const root = document.documentElement, found = {};
  found.overflow = root.scrollWidth > innerWidth ? "yes" : "no";
  document.getElementById("g3").open = true;
  document.getElementById("k2").open = true;
  setTimeout(() => {
    found.graph = document.querySelectorAll("#g3 pre").length;
    found.kernel = document.querySelectorAll("#k2 pre").length;
    found.flame = document.querySelectorAll("#flame div").length > 100 ? "yes" : "no";
    const box = document.getElementById("find");
    box.value = "softmax_498 "; box.dispatchEvent(new Event("input"));
    setTimeout(() => {
      found.shown = [...document.querySelectorAll("#graph-list > details")].filter((d) => !d.hidden).length;
      found.dark = getComputedStyle(document.body).backgroundColor;
      found.title = document.title;
      for (const name in found) root.setAttribute("data-" + name, found[name]);
    }, 400);
  }, 100);
}, 50));
</script></body>"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no browser: Debian's chromium is needed")
def test_a_large_page_in_a_browser(tmp_path):
    path = tmp_path / "out.html"
    path.write_text(page(large_record()).replace("</body>", PROBE))
    found = subprocess.run(
        ["chromium", "--no-sandbox", "--headless", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--window-size=400,900", "--virtual-time-budget=5000", "--blink-settings=preferredColorScheme=0",
         "--dump-dom", f"file://{path}"],
        capture_output=True, text=True, timeout=120, check=True).stdout
    attributes = dict(re.findall(r' data-(\w+)="([^"]*)"', found[:found.index("<head>")]))
    assert int(attributes.pop("ready")) > 0
    assert attributes == {"overflow": "no", "graph": "1", "kernel": "1", "flame": "yes", "shown": "1",
                          "dark": "rgb(21, 24, 27)", "title": "firesteel report"}
