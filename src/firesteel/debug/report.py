"""The report: a record as one page for browsers, with nothing to load beside it.

What people look for first (breaks, recompilations, what became of each line) is in the page as it is. Graphs, kernels,
guards and times are packed data in it, shown when they are asked for, so that a page about hundreds of graphs opens at
once. All text is bounded: a page stays below five megabytes, and says what it left out.
"""

from __future__ import annotations

import base64
import functools
import html
import importlib.resources
import json
import os
import site
import sysconfig
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .record import FailedGuardRecord, KernelRecord, Place, Record

GRAPH_BUDGET, KERNEL_BUDGET, DRAWING_BUDGET, GUARD_BUDGET = 8_000_000, 3_000_000, 1_000_000, 1_000_000
"""Characters of each that a page has at most, packed."""
SOURCE_BUDGET = 400_000
MOST_DATA = 3_000_000
"""Characters of all that is packed, as packed. Texts that do not pack that well are cut shorter."""
LEAST = 400
"""Characters of each text that are shown however many there are, as long as there is room at all."""
SCRIPTS = ("tools.js", "graphs.js", "times.js", "report.js")
MOST_STAGES = 4000
MOST_ROWS = 300
"""Breaks, recompilations and functions of each kind that are listed."""
LONGEST_TITLE = 300
AROUND = 3
"""Lines that are shown before and after those that something is said about."""


def page(record: Record) -> str:
    """The page of a record."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_part("report.html"))
    names = kernel_names(record)
    return template.render(
        record=record, style=_part("report.css"), program="\n".join(map(_part, SCRIPTS)),
        tiles=tiles(record), files=source_files(record, names), breaks=record.breaks[:MOST_ROWS],
        more_breaks=max(0, len(record.breaks) - MOST_ROWS), short=short_path, own=own_line,
        recompilations=_recompilations(record),
        more_recompilations=max(0, len(record.recompilations) - MOST_ROWS), plain=record.plain[:MOST_ROWS],
        shares=record.shares[:MOST_ROWS], data=_packed(record, names), percent=percent,
        time=time_text, title=title)


def _part(name: str) -> str:
    return (importlib.resources.files(__package__) / "page" / name).read_text(encoding="utf-8")


def _packed(record: Record, names: dict[int, str]) -> str:
    """The data of a page as packed JSON, in letters that can stand inside of a script element."""
    share = 1.0
    while True:
        text = json.dumps(_data(record, names, share), separators=(",", ":"))
        packed = base64.b64encode(zlib.compress(text.encode(), 6)).decode()
        if len(packed) <= MOST_DATA or share < 0.01:
            return packed
        share *= 0.9 * MOST_DATA / len(packed)


# ---------------------------------------------------------------------------------------------------------------------
# numbers and words


def percent(share: float) -> str:
    """A share for people.

    >>> percent(0.5), percent(0.9999), percent(0.0004), percent(1)
    ('50%', '99.9%', '<0.1%', '100%')
    """
    if share >= 1 or share <= 0:
        return f"{100 * share:.0f}%"
    if share < 0.001:
        return "<0.1%"
    return "99.9%" if share > 0.999 else f"{100 * share:.3g}%"


def time_text(seconds: float) -> str:
    """A time for people.

    >>> time_text(63.0), time_text(0.0045), time_text(7e-7)
    ('63.0 s', '4.50 ms', '0.70 µs')
    """
    factor, unit = (1.0, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    number = seconds * factor
    return f"{number:.{0 if number >= 100 else 1 if number >= 10 else 2}f} {unit}"


@functools.cache
def _roots() -> list[str]:
    folders = [*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_paths()["stdlib"], os.getcwd()]
    return sorted((os.path.abspath(folder) + os.sep for folder in folders), key=len, reverse=True)


def short_path(file: str) -> str:
    """A file without the folder that it is installed in, or that the program was started in."""
    return next((file[len(root):] for root in _roots() if file.startswith(root)), file)


def is_library(file: str) -> bool:
    """Whether a file is installed, and nobody's own program."""
    return any(file.startswith(root) for root in _roots() if root != os.getcwd() + os.sep)


def tiles(record: Record) -> list[tuple[str, str, str]]:
    """The numbers at the head of the page: a value, what it is, and a kind for its colour."""
    kernels = [kernel for _, _, kernel in record.kernels()]
    total = record.inside + record.outside
    shown = [
        (str(len(record.graphs)), "graph" if len(record.graphs) == 1 else "graphs", ""),
        (str(len(record.breaks)), "break" if len(record.breaks) == 1 else "breaks", "bad" if record.breaks else "good"),
        (str(len(record.recompilations)), "recompilation" if len(record.recompilations) == 1 else "recompilations",
         "warn" if record.recompilations else "good"),
        (percent(record.inside / total) if total else "–", "of operators inside graphs",
         "" if not total else "good" if record.outside == 0 else "warn"),
        (str(sum(not kernel.is_call for kernel in kernels)), "kernels", ""),
        (str(sum(kernel.is_call for kernel in kernels)), "calls of ATen", ""),
        (time_text(record.compiling), f"compiling, of {time_text(record.seconds)}", ""),
    ]
    return shown


def advice_for(failure: FailedGuardRecord) -> str:
    """What to do about a guard that keeps failing."""
    text = failure.text
    if ".shape" in text or ".size(" in text or ".stride(" in text:
        return "sizes that change become symbols; fs.mark_dynamic(tensor, dim) before the first call, or " \
               "fs.compile(..., dynamic=True), saves this compilation"
    if "requires_grad" in text or "is_leaf" in text or "is_grad_enabled" in text:
        return "calls with and without gradients are two programs: keep each in its own phase, under no_grad or not"
    if ".dtype" in text or ".device" in text:
        return "each dtype and device is a program of its own; convert inputs before the call if one is enough"
    if "len(" in text or "[*" in text:
        return "the contents of containers are constants: pass what varies as a tensor, or pad to one length"
    if failure.now in ("True", "False") or failure.now[:1] in "'\"":
        return "flags and texts are constants of a version; if there are many values, decide outside of the function"
    return "make what changes a tensor argument, or keep it from changing between calls"


def _recompilations(record: Record) -> list[dict[str, Any]]:
    longest = max([again.began for again in record.recompilations], default=1.0) or 1.0
    times = {compilation.number: compilation.seconds for compilation in record.compilations}
    rows = []
    for again in record.recompilations[:MOST_ROWS]:
        last = again.failures[-1] if again.failures else None
        rows.append({"again": again, "last": last, "others": again.failures[:-1][-3:],
                     "at": 100 * again.began / longest, "took": times.get(again.compilation or -1),
                     "advice": advice_for(last) if last is not None else ""})
    return rows


# ---------------------------------------------------------------------------------------------------------------------
# source


@dataclass
class Fate:
    """What became of one line."""

    graphs: dict[int, None] = field(default_factory=dict)
    breaks: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    guards: list[str] = field(default_factory=list)
    kernels: dict[int, tuple[str, float | None]] = field(default_factory=dict)
    """By its number the name of a kernel and its share of the time of all that were measured."""

    @property
    def kind(self) -> str:
        return "break" if self.breaks else "plain" if self.plain else "graph" if self.graphs else \
            "guard" if self.guards else ""

    @property
    def room(self) -> int:
        """About how many characters of the page it takes."""
        said = (self.breaks, self.plain, self.again, self.guards)
        return 90 * len(self.kernels_shown) + sum(60 + len(html.escape(title(some))) for some in said if some)

    @property
    def graphs_text(self) -> str:
        numbers = list(self.graphs)
        shown = ", ".join(map(str, numbers[:3])) + (f" and {len(numbers) - 3} more" if len(numbers) > 3 else "")
        return f"graph{'s' * (len(numbers) > 1)} {shown}"

    @property
    def kernels_shown(self) -> list[tuple[int, str]]:
        """The kernels that take most time, as they are shown."""
        order = sorted(self.distinct_kernels.items(), key=lambda item: -(item[1][1] or 0.0))
        return [(number, name if share is None else f"{name} {100 * share:.1f}%")
                for name, (number, share) in order[:4]]

    @property
    def distinct_kernels(self) -> dict[str, tuple[int, float | None]]:
        """By its name the number of a kernel, the first of each name, and its share of the time."""
        found: dict[str, tuple[int, float | None]] = {}
        for number, (name, share) in self.kernels.items():
            found.setdefault(name, (number, share))
        return found

    @property
    def more_kernels(self) -> int:
        return max(0, len(self.distinct_kernels) - 4)


def title(texts: Iterable[str]) -> str:
    """What is said when somebody points at a word, a line each."""
    text = "\n".join(dict.fromkeys(texts))
    return text if len(text) <= LONGEST_TITLE else text[:LONGEST_TITLE] + " ..."


def kernel_names(record: Record) -> dict[int, str]:
    """A name for each kernel and call, by its identity, that says which graph it is of."""
    def named(kernel: KernelRecord) -> str:
        parts = kernel.name.split(".")
        return parts[1] if kernel.is_call and len(parts) == 3 else kernel.name  # aten.mm.default

    return {id(kernel): f"{graph.number}.{'backward.' * ('_backward' in program.name)}{named(kernel)}"
            for graph, program, kernel in record.kernels()}


def fates(record: Record, names: dict[int, str]) -> dict[str, dict[int, Fate]]:
    """What became of every line, by file and number."""
    found: dict[str, dict[int, Fate]] = defaultdict(lambda: defaultdict(Fate))

    def at(place: Place | None) -> Fate:
        return found[place.file][place.line] if place is not None else Fate()

    for graph in record.graphs:
        for place in graph.places:
            at(place).graphs[graph.number] = None
    for broken in record.breaks:
        for line in {broken.place, own_line(broken.places)}:
            at(line).breaks.append(broken.reason)
    for again in record.recompilations:
        text = again.failures[-1].text if again.failures else "no version fitted"
        at(again.place).again.append(text)
    for plain in record.plain:
        at(plain.place).plain.append(f"{plain.name}: {plain.reason}")
    for compilation in record.compilations:
        for guard in compilation.guards:
            at(guard.place).guards.append(guard.text)
    total = sum(kernel.seconds or 0.0 for _, _, kernel in record.kernels())
    for number, (_, _, kernel) in enumerate(record.kernels()):
        for place in kernel.places:
            share = kernel.seconds / total if kernel.seconds is not None and total else None
            at(place).kernels[number] = (names[id(kernel)], share)
    return found


def own_line(places: Sequence[Place]) -> Place | None:
    """The innermost line that is of no library: what to change when a library's line cannot be."""
    own = [place for place in places if not is_library(place.file)]
    return own[-1] if own else places[-1] if places else None


def source_files(record: Record, names: dict[int, str]) -> list[dict[str, Any]]:
    """The files to show, the program's own first, each with its lines in pieces."""
    left = SOURCE_BUDGET
    files = []
    known = fates(record, names)
    for file in sorted(known, key=lambda one: (is_library(one), -len(known[one]), one)):
        lines = record.sources.get(file)
        if not lines:
            continue
        marked = {line for line in known[file] if 1 <= line <= len(lines)}
        if not marked:
            continue
        pieces = []
        for first, last in _pieces(marked, len(lines)):
            if left <= 0:
                break
            rows = [(line, lines[line - 1][:400], known[file].get(line) or Fate()) for line in range(first, last + 1)]
            left -= sum(60 + len(html.escape(text)) + fate.room for _, text, fate in rows)
            pieces.append(rows)
        counts = [sum(bool(fate.breaks) for fate in known[file].values()),
                  sum(bool(fate.again) for fate in known[file].values())]
        files.append({"path": file, "short": short_path(file), "pieces": pieces, "breaks": counts[0],
                      "again": counts[1], "library": is_library(file), "marked": len(marked), "whole": left > 0})
    return files


def _pieces(marked: Iterable[int], count: int) -> list[tuple[int, int]]:
    """The stretches of lines around marked ones."""
    pieces: list[tuple[int, int]] = []
    for line in sorted(marked):
        first, last = max(1, line - AROUND), min(count, line + AROUND)
        if pieces and first <= pieces[-1][1] + 2:
            pieces[-1] = (pieces[-1][0], last)
        else:
            pieces.append((first, last))
    return pieces


# ---------------------------------------------------------------------------------------------------------------------
# what is shown when it is asked for


class Budget:
    """Hands out room for texts, the same for each, and more where others need less."""

    def __init__(self, characters: int, texts: int) -> None:
        self.left = characters
        self.waiting = max(1, texts)

    def take(self, text: str) -> str | None:
        """As much of a text as there is room for, with a note of what is missing; None where there is none left."""
        share = max(LEAST, self.left // self.waiting)
        self.waiting = max(1, self.waiting - 1)
        if self.left <= 0:
            return None
        if len(text) > share:
            text = f"{text[:share]}\n... {len(text) - share:,} more characters, which the recording's json() has"
        self.left -= len(text)
        return text


    def whole(self, text: str) -> str:
        """All of a text, or nothing."""
        if len(text) > self.left:
            return ""
        self.left -= len(text)
        return text


def _data(record: Record, names: dict[int, str], share: float) -> dict[str, Any]:
    texts = sum(len(graph.texts) + sum(len(program.texts) for program in graph.programs) for graph in record.graphs)
    budget = Budget(int(share * GRAPH_BUDGET), texts)
    all_kernels = [kernel for _, _, kernel in record.kernels()]
    sources = Budget(int(share * KERNEL_BUDGET), 2 * sum(not kernel.is_call for kernel in all_kernels))
    drawings = Budget(int(share * DRAWING_BUDGET), 0)
    numbers = {id(kernel): number for number, kernel in enumerate(all_kernels)}
    graphs = []
    for graph in record.graphs:
        programs = [{
            "half": "compiled" if program.name == graph.name else program.name.removeprefix(f"{graph.name}_"),
            "texts": [[stage, budget.take(text)] for stage, text in program.texts.items()],
            "kernels": [numbers[id(kernel)] for kernel in program.kernels],
            "passes": [[name, round(1e3 * seconds, 3), nodes] for name, seconds, nodes in program.passes],
            "drawing": drawings.whole(program.drawing), "arguments": program.arguments, "memory": program.memory,
        } for program in graph.programs]
        graphs.append({"name": graph.name, "where": _where(graph.place), "operators": graph.operators,
                       "texts": [[stage, budget.take(text)] for stage, text in graph.texts.items()],
                       "programs": programs, "why": graph.not_compiled, "parts": graph.parts_not_compiled})
    stages = sorted(record.stages, key=lambda stage: -stage.seconds)[:MOST_STAGES]
    threads = {thread: number for number, thread in enumerate(dict.fromkeys(stage.thread for stage in record.stages))}
    guard_budget = Budget(int(share * GUARD_BUDGET), len(record.compilations))
    return {
        "graphs": graphs,
        "memory": [[round(at, 4), resident, on_gpu] for at, resident, on_gpu in record.memory],
        "kernels": [_kernel(kernel, names[id(kernel)], graph.number, sources) for graph, _, kernel in record.kernels()],
        "stages": [[stage.name, stage.kind, round(stage.began, 6), round(stage.seconds, 6), stage.depth,
                    threads[stage.thread], stage.graph] for stage in sorted(stages, key=lambda stage: stage.began)],
        "totals": [[total.name, total.kind, round(total.seconds, 6), total.runs] for total in sorted(
            record.totals.values(), key=lambda total: -total.seconds) if total.kind in ("stage", "pass")],
        "compilations": [{
            "name": one.function, "where": _where(one.place), "seconds": one.seconds, "graph": one.graph,
            "again": one.is_again, "result": one.result, "count": len(one.guards),
            "guards": guard_budget.take("\n".join(
                guard.text + (f"    # {_where(guard.place)}" if guard.place is not None else "")
                for guard in one.guards)),
        } for one in record.compilations],
    }


def _where(place: Place | None) -> str:
    return "" if place is None else f"{short_path(place.file)}:{place.line}"


def _kernel(kernel: KernelRecord, name: str, graph: int, budget: Budget) -> dict[str, Any]:
    moved = (kernel.read or 0) + (kernel.written or 0)
    counts: dict[str, int] = {}
    for one in kernel.operators:
        counts[one] = counts.get(one, 0) + 1
    return {
        "name": name, "graph": graph, "call": kernel.is_call,
        "operators": [one if count == 1 else f"{one} × {count}" for one, count in counts.items()][:60],
        "lines": [_where(place) for place in kernel.places[:40]],
        "read": kernel.read, "written": kernel.written, "us": None if kernel.seconds is None else 1e6 * kernel.seconds,
        "rate": moved / kernel.seconds / 1e9 if kernel.seconds and moved else None,
        "limit": kernel.copy_seconds / kernel.seconds if kernel.seconds and kernel.copy_seconds else None,
        "unmeasured": kernel.not_measured,
        "loops": "" if kernel.is_call else budget.take(kernel.loops),
        "source": "" if kernel.is_call else budget.take(kernel.source),
    }
