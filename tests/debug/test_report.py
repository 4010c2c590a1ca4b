"""The report: one page, bounded, with nothing in it that a program's text could break; shown in a browser."""

from __future__ import annotations

import base64
import json
import re
import zlib

import pytest
import torch

import firesteel as fs
from debug.browser import MISSING, browser
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
    StageTotal,
)
from firesteel.debug.report import fates, kernel_names, own_line, page
from firesteel.debug.summary import summary

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"


def large_record(graphs: int = 500) -> Record:
    """A record of many graphs with long texts, and with names that are HTML."""
    record = Record({"firesteel": "1"}, 100.0, sources={"/p/model.py": [f"line {n} {EVIL}" for n in range(3000)]})
    for number in range(graphs):
        place = Place("/p/model.py", 1 + 5 * number, EVIL)
        text = f"softmax_{number}: f32[2] = relu(x_{number}) {EVIL}\n" * 400
        kernels = [KernelRecord(f"k{n}", ["aten.add.Tensor", EVIL], [place], 1024, 1024, loops=text, source=text,
                                seconds=1e-6, copy_seconds=5e-7) for n in range(4)]
        program = Program("f", {"functional": text, "loops": text, "plan": text}, kernels, "<svg/>" + "x" * 40_000,
                          [("pass", 0.1, 5)], 4096, [("k0", 1024), ("k1", 2048 + number)])
        record.graphs.append(GraphRecord(number, EVIL, place, 10, {"captured": text}, [place], [program]))
        record.compilations.append(Compilation(number, EVIL, place, 0.1 * number, 0.05, number,
                                               [GuardRecord(text[:900], place) for _ in range(50)]))
        record.breaks.append(BreakRecord(EVIL, EVIL, (place, place), number))
        record.recompilations.append(Recompilation(EVIL, 0.1 * number, place, (
            FailedGuardRecord(EVIL, "1", "2", place),) * 3, number))
        record.stages += [Stage(f"stage {n}", "stage", 0.1 * number, 0.01, min(n, 1), 1, number, number)
                          for n in range(20)]
    names = [f"stage {n}" for n in range(19)] + ["narrow_convolutions"]
    record.totals = {name: StageTotal(name, "stage", graphs, 5.0) for name in names}
    return record


def packed_data(text):
    """What a page's scripts unpack."""
    packed = re.search(r'<script type="application/octet-stream" id="data">([^<]*)</script>', text)[1]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_a_page_about_many_graphs_is_bounded_and_harmless():
    text = page(large_record())
    assert len(text.encode()) < 5_000_000
    assert "<script>document.title" not in text and "<img src=x" not in text
    assert text.count("</script>") == 2
    data = packed_data(text)
    assert "more characters" in data["graphs"][0]["texts"][0][1] and EVIL in data["graphs"][0]["texts"][0][1]
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", text)


def test_what_cannot_be_written_is_said_at_once(tmp_path):
    (tmp_path / "known.html").write_text("before")
    for path in (tmp_path / "nowhere" / "out.html", tmp_path, tmp_path / "known.html" / "out.html"):
        with pytest.raises(fs.errors.UserCodeError, match="cannot be written"):
            fs.report(path)
    started = fs.report(tmp_path / "known.html")
    assert (tmp_path / "known.html").read_text() == "before"
    started.stop()
    assert (tmp_path / "known.html").read_text() != "before"
    later = fs.report(tmp_path / "new.html")
    assert not (tmp_path / "new.html").exists()
    later.stop()
    assert (tmp_path / "new.html").exists()


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


def test_texts_that_do_not_pack_are_cut():
    record, letters = Record(), torch.randint(33, 127, (6_000_000,)).tolist()
    record.graphs.append(GraphRecord(0, "f", None, 1, {"captured": "".join(map(chr, letters))}))
    text = page(record)
    assert len(text) < 4_000_000
    assert "more characters" in packed_data(text)["graphs"][0]["texts"][0][1]


def test_a_break_in_a_library_is_shown_at_the_line_that_led_there():
    mine, library = Place("/p/model.py", 3, "f"), Place(torch.__file__, 5, "g")
    assert own_line([mine, library]) == mine and own_line([library]) == library and own_line([]) is None
    record = Record(breaks=[BreakRecord("no", "", (mine, library), 0)])
    assert {(file, line) for file, lines in fates(record, kernel_names(record)).items() for line in lines} == {
        ("/p/model.py", 3), (torch.__file__, 5)}


def test_memory_of_programs_and_of_the_process():
    def program(x, y):
        return torch.softmax(x @ y, -1).sum(0) @ y

    with fs.recording() as r:
        fs.compile(program)(torch.ones(32, 64), torch.ones(64, 64))
    (only,) = r.record.graphs[0].programs
    assert only.arguments == 4 * (32 * 64 + 64 * 64)
    assert [name for name, _ in only.memory if name.startswith("aten.")] == ["aten.mm.default"] * 2
    assert only.memory[0] == ("aten.mm.default", 4 * 32 * 64)
    assert only.peak == max(held for _, held in only.memory) >= 4 * 32 * 64
    times = [at for at, _, _ in r.record.memory]
    assert len(times) >= 4 and times == sorted(times)
    assert all(resident > 10_000_000 for _, resident, _ in r.record.memory)


@pytest.fixture(scope="module")
def driver():
    if MISSING:
        pytest.skip(MISSING)
    with browser() as one:
        yield one


def opened(driver, path, width=1400, scheme="light"):
    driver.window(width, 900, scheme)
    driver.open(path.as_uri())
    driver.wait("document.documentElement.dataset.ready")


def test_a_large_page_in_a_browser(driver, tmp_path):
    path = tmp_path / "out.html"
    path.write_text(page(large_record()))
    for width, scheme, background in ((400, "dark", "rgb(21, 24, 27)"), (1400, "light", "rgb(251, 251, 250)")):
        opened(driver, path, width, scheme)
        driver.run("for (const section of document.querySelectorAll('section')) "
                   "{ const first = section.querySelector('details'); if (first) first.open = true; }")
        driver.wait("document.querySelectorAll('#g0 pre, #k0 pre').length == 2")
        assert driver.run("return document.documentElement.scrollWidth <= innerWidth")
        assert driver.run("return getComputedStyle(document.body).backgroundColor") == background
        assert driver.run("return document.querySelectorAll('#flame div').length") > 100
        assert driver.run("return [...document.querySelectorAll('#stage-table td:nth-child(3)')].map((e) => "
                          "e.textContent)") == ["500"] * 20
        assert driver.run("return [...document.querySelectorAll('#stage-table code')].every((e) => "
                          "e.getClientRects().length == 1)")
        assert driver.run("return document.querySelectorAll('#memory-table svg').length") == 20
        driver.run("const box = byId('find'); box.value = 'Softmax_498:'; box.dispatchEvent(new Event('input'))")
        driver.wait("byId('found').textContent")
        assert driver.run("return byId('found').textContent") == "1 graph, 4 kernels"
        assert driver.run("return [...document.querySelectorAll('#graph-list > details')].filter((d) => !d.hidden)"
                          ".map((d) => d.id)") == ["g498"]
        assert driver.run("return document.title") == "firesteel report" and driver.errors() == []


def test_a_page_of_a_program_in_a_browser(driver, tmp_path):
    def program(x):
        y = torch.softmax(x, -1)
        fs.graph_break()
        return (y @ y.t()).relu() + 1

    with fs.recording(measure=True) as r:
        compiled = fs.compile(program)
        compiled(torch.ones(3, 3)), compiled(torch.ones(4, 4))
    r.save(tmp_path / "out.html")
    opened(driver, tmp_path / "out.html")
    driver.run("byId('g1').open = true")
    driver.wait("document.querySelector('#g1 .switch input')")
    driver.run("document.querySelector('#g1 .switch input').click()")
    names = driver.run("return [...document.querySelectorAll('#g1 .operations b')].map((b) => b.textContent)")
    assert names[0] == "y" and names[-1].strip() == "return"
    assert driver.run("return document.querySelectorAll('#g1 .arcs path').length") >= len(names) - 1
    for tab in driver.run("return [...document.querySelectorAll('#g1 .tabs.views button')].map((b) => b.textContent)"):
        driver.run("[...document.querySelectorAll('#g1 .tabs.views button')].find((b) => b.textContent == arguments[0])"
                   ".click()", tab)
        driver.run("for (const button of document.querySelectorAll('#g1 .tabs:not(.views) button')) button.click()")
    driver.run("const box = byId('find'); box.value = 'softmax'; box.dispatchEvent(new Event('input'))")
    driver.wait("byId('found').textContent")
    driver.run("byId('g0').open = true")
    driver.wait("document.querySelector('#g0 mark')")
    assert driver.run("return byId('kernel-order').value") == "time"
    assert driver.run("return document.querySelector('#kernel-list summary').textContent.includes('%')")
    assert driver.errors() == []


def test_errors_of_a_page_are_seen(driver, tmp_path):
    (tmp_path / "out.html").write_text("<script>document.documentElement.dataset.ready = 1; nothing();</script>")
    opened(driver, tmp_path / "out.html")
    assert ["nothing is not defined" in error for error in driver.errors()] == [True]
