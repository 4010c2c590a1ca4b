"""Reports of large programs in a real browser: GPT-2 in training, Bark from text to sound, a recording of 500 graphs.

    python -m benchmarks.report_pages
    python -m benchmarks.report_pages --only gpt2 --pictures folder

For each: the size of the page (at most 5 MB); every break and every recompilation with its line, to be looked at, and
whether that is a line of the function that is named; and, loaded in headless chromium at 400 and 1,400 pixels, in light
and in dark, the seconds until it can be used (at most 2), errors of scripts, whether anything is wider than the window,
whether the search finds things. Bark needs its packages (`benchmarks.programs.speech`) and is left out without them.
The exit status is 1 when something is missed. (`tests/debug/test_recorded_places.py` checks lines of known programs.)
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import linecache
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tests.debug.browser import MISSING, Browser, browser
from tests.models import zoo

import firesteel as fs
from benchmarks import report
from firesteel.debug.record import Place, Record

MOST_BYTES, MOST_SECONDS = 5_000_000, 2.0
WIDTHS, SCHEMES = (400, 1400), ("light", "dark")
STEPS = 4
SHOWN = 40
"""Breaks and recompilations of a program that are printed; all are looked at."""


def gpt2() -> fs.debug.recording.Recording:
    """Training steps of GPT-2 with small random weights, twelve layers; the last ones with another length."""
    zoo.prepare_torchvision()
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=1000, n_positions=128, n_embd=96, n_layer=12, n_head=6)
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    compiled = fs.compile(model)
    with fs.recording(measure=True) as r:
        for step in range(STEPS):
            ids = torch.randint(0, 1000, (2, 32 if step < STEPS // 2 else 48))
            loss = compiled(ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return r


def bark() -> fs.debug.recording.Recording:
    """Bark with its four functions compiled whole."""
    from benchmarks.programs.speech import bark_whole

    with fs.recording(measure=True) as r:
        call = bark_whole(fs.compile)
        for number in range(2):
            call(number)
    return r


def many() -> fs.debug.recording.Recording:
    """A function of which 500 versions are compiled."""
    def one(x: torch.Tensor, n: int) -> torch.Tensor:
        y = (x * n).relu() + x.sin() * (n + 1)
        return torch.softmax(y, -1) @ y.t()

    with fs.config.patch(recompile_limit=1000, accumulated_recompile_limit=10000), fs.recording() as r:
        for n in range(250):
            compiled = fs.compile(one, dynamic=False)
            compiled(torch.randn(4, 4 + n), n)
            compiled(torch.randn(3, 4 + n), n)
    return r


PROGRAMS: dict[str, Callable[[], Any]] = {"gpt2": gpt2, "bark": bark, "many": many}


# ---------------------------------------------------------------------------------------------------------------------
# lines


def wrong_line(place: Place | None) -> str:
    """Why a place cannot be that of something, if so: it must be a line of code inside of the function it names."""
    if place is None:
        return "it has no place"
    text = "".join(linecache.getlines(place.file))
    if not text:
        return f"{place.file} cannot be read"
    name = place.function.rpartition(".")[2]
    if name in ("<module>", "<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"):
        return ""
    named = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == name]
    if not any(min([node.lineno, *(one.lineno for one in node.decorator_list)]) <= place.line <= (node.end_lineno or 0)
               for node in named):
        return f"line {place.line} is in no function {name}"
    return "" if linecache.getline(place.file, place.line).strip() else "the line is empty"


def check_lines(record: Record) -> list[str]:
    """Print where breaks and recompilations are; what is wrong with them."""
    wrong = []
    for kind, items in (("break", record.breaks), ("again", record.recompilations)):
        for number, one in enumerate(items):
            why = wrong_line(one.place)
            wrong += [f"{kind}: {why}"] if why else []
            what = one.reason if kind == "break" else "; ".join(
                f"{failure.text} (was {failure.before}, is {failure.now})" for failure in one.failures[-1:])
            place = one.place
            if number == SHOWN:
                print(f"  and {len(items) - SHOWN} more")
            if place is not None and number < SHOWN:
                print(f"  {kind} {place.file.rpartition('/')[2]}:{place.line} {place.function}: {what[:150]}")
                print(f"        {linecache.getline(place.file, place.line).strip()[:110]}")
    return wrong + [f"problem: {problem}" for problem in record.problems]


# ---------------------------------------------------------------------------------------------------------------------
# the browser


def look(driver: Browser, page: Path, width: int, scheme: str, pictures: Path | None) -> tuple[list[object], list[str]]:
    """Load a page once: the row of the table, and what is wrong."""
    driver.window(width, 900, scheme)
    driver.open(page.as_uri())
    driver.wait("document.documentElement.dataset.ready")
    ready = driver.run("""
        return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
          const paint = performance.getEntriesByName("first-contentful-paint")[0];
          done(Math.max(Number(document.documentElement.dataset.ready), paint ? paint.startTime : 0));
        })))""") / 1e3
    wrong = []
    overflow = driver.run("return document.documentElement.scrollWidth - innerWidth")
    found = driver.run("""
        const box = document.getElementById("find"), shown = () => document.getElementById("found").textContent;
        box.value = arguments[0];
        const began = performance.now();
        box.dispatchEvent(new Event("input"));
        return new Promise((done) => {
          const wait = () => shown() ? done([shown(), performance.now() - began]) : setTimeout(wait, 5);
          wait();
        })""", "softmax")
    if pictures is not None:
        driver.picture(pictures / f"{page.stem}_{width}_{scheme}_top.png")
        for anchor in ("breaks", "again", "graphs", "kernels", "stages", "memory", "guards"):
            driver.run("const e = document.getElementById(arguments[0]); if (e) { e.scrollIntoView(); "
                       "const d = e.querySelector('details:not([hidden])'); if (d) d.open = true; }", anchor)
            driver.run("return new Promise((done) => setTimeout(done, 100))")
            driver.picture(pictures / f"{page.stem}_{width}_{scheme}_{anchor}.png")
        overflow = max(overflow, driver.run("return document.documentElement.scrollWidth - innerWidth"))
    errors = driver.errors()
    wrong += [f"{overflow} pixels too wide"] if overflow > 0 else []
    wrong += [f"error: {error}" for error in errors]
    wrong += ["the search finds nothing"] if found[0].startswith("0 graphs, 0 kernels") else []
    wrong += [f"usable after {ready:.2f} s"] if ready > MOST_SECONDS else []
    return [page.stem, width, scheme, ready, found[0], found[1], len(errors), max(0, overflow)], wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. The exit status is 1 when something is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=list(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument("--folder", type=Path, help="where the pages are kept")
    parser.add_argument("--pictures", type=Path, help="where pictures of the pages are kept")
    options = parser.parse_args(arguments)
    folder = options.folder or Path(tempfile.mkdtemp())
    for one in (folder, options.pictures):
        if one is not None:
            one.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    pages: list[Path] = []
    for name in options.only:
        if name == "bark" and importlib.util.find_spec("bark") is None:
            print("bark: left out, its packages are not installed")
            continue
        fs.reset()
        torch.manual_seed(0)
        with fs.config.patch(raise_on_internal_error=True):
            recording = PROGRAMS[name]()
        page = folder / f"{name}.html"
        recording.save(page)
        pages.append(page)
        size = page.stat().st_size
        print(f"{name}: {size / 1e6:.2f} MB, {recording.summary().splitlines()[0]}")
        wrong += [f"{name}: {why}" for why in check_lines(recording.record)]
        wrong += [f"{name}: {size} bytes"] if size > MOST_BYTES else []
    if MISSING:
        print(MISSING)
        return 1
    rows = []
    with browser() as driver:
        for page in pages:
            for width in WIDTHS:
                for scheme in SCHEMES:
                    row, why = look(driver, page, width, scheme, options.pictures)
                    rows.append(row)
                    wrong += [f"{page.stem} at {width}, {scheme}: {one}" for one in why]
    columns = ["program", "width", "scheme", "usable s", "search", "ms", "errors", "too wide"]
    report.print_table("pages in chromium", columns, rows)
    print("met" if not wrong else "missed:\n" + "\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
