"""A drawing of a kernel plan: what was fused into which kernel, and how many bytes go between them, as an SVG.

Boxes are kernels with the operators fused into them, calls of ATen, inputs and results, from top to bottom in the order
in which they run. Arrows are buffers with their sizes. Nothing but text is needed to make it, and any browser shows it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import field
from types import FunctionType
from typing import Any

import torch.fx

from ..records import dataclass
from ..shapes import Const, Expr, as_expr
from .ir import Buffer, BufferRef, ExternCall
from .plan import KernelPlan, Launch, WriteBack
from .printing import dtype_name

LETTER, LINE = 6.7, 15
"""The size of a letter and of a line, in points."""
PADDING, GAP_ACROSS, GAP_DOWN = 10, 40, 60
MOST_OPERATORS = 12
"""Operators of a kernel that are named; of more, the number is."""
_COLOURS = {"input": "#eef2f7", "kernel": "#dff0d8", "call": "#fcefdc", "result": "#eef2f7"}


@dataclass
class Box:
    """An input, a kernel, a call or the results."""

    kind: str
    lines: list[str]
    rank: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return 2 * PADDING + LETTER * max(map(len, self.lines))

    @property
    def height(self) -> float:
        return 2 * PADDING + LINE * len(self.lines)


@dataclass(frozen=True)
class Arrow:
    """A buffer that one box makes and another one reads."""

    source: int
    target: int
    label: str


@dataclass
class Drawing:
    """Boxes and arrows, placed on a page by `to_svg`."""

    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    def to_svg(self) -> str:
        """The drawing as the text of an SVG file."""
        width, height = self._place()
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'font-family="monospace" font-size="11">',
            '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
            '<path d="M0,0 L7,3 L0,6 z" fill="#666"/></marker></defs>',
        ]
        lines += [line for arrow in self.arrows for line in self._arrow(arrow)]
        lines += [line for box in self.boxes for line in _box(box)]
        return "\n".join([*lines, "</svg>"])

    def _place(self) -> tuple[float, float]:
        """Ranks from the arrows, then rows of boxes in the middle of the page; the size of the page."""
        for number, box in enumerate(self.boxes):  # arrows go forward only
            box.rank = max([self.boxes[a.source].rank + 1 for a in self.arrows if a.target == number], default=0)
        readers = [[self.boxes[a.target].rank for a in self.arrows if a.source == k] for k in range(len(self.boxes))]
        for box, ranks in zip(self.boxes, readers, strict=True):
            if box.kind == "input" and ranks:
                box.rank = min(ranks) - 1  # close to whoever reads it first
        rows: dict[int, list[Box]] = {}
        for box in self.boxes:
            rows.setdefault(box.rank, []).append(box)
        widths = {rank: sum(box.width + GAP_ACROSS for box in row) for rank, row in rows.items()}
        page, down = max(widths.values(), default=0.0) + GAP_ACROSS, float(GAP_DOWN) / 2
        for rank in sorted(rows):
            across = (page - widths[rank] + GAP_ACROSS) / 2
            for box in rows[rank]:
                box.x, box.y = across, down
                across += box.width + GAP_ACROSS
            down += max(box.height for box in rows[rank]) + GAP_DOWN
        return page + 160, down  # labels stand to the right of arrows

    def _arrow(self, arrow: Arrow) -> list[str]:
        source, target = self.boxes[arrow.source], self.boxes[arrow.target]
        out = [a for a in self.arrows if a.source == arrow.source]
        into = [a for a in self.arrows if a.target == arrow.target]
        x0 = source.x + source.width * (out.index(arrow) + 1) / (len(out) + 1)
        x1 = target.x + target.width * (into.index(arrow) + 1) / (len(into) + 1)
        y0, y1 = source.y + source.height, target.y
        bend = (y1 - y0) / 2
        path = f"M{x0:.0f},{y0:.0f} C{x0:.0f},{y0 + bend:.0f} {x1:.0f},{y1 - bend:.0f} {x1:.0f},{y1:.0f}"
        # Labels of arrows into one box are one below the other, so that none hides another.
        at = y1 - GAP_DOWN / 2 + 11 * (into.index(arrow) % 3) - 6
        return [
            f'<path d="{path}" fill="none" stroke="#666" marker-end="url(#head)"/>',
            f'<text x="{x1 + 4:.0f}" y="{at:.0f}" fill="#666" font-size="9">{html.escape(arrow.label)}</text>',
        ]


def _box(box: Box) -> list[str]:
    lines = [f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="4" '
             f'fill="{_COLOURS[box.kind]}" stroke="#888"/>']
    for number, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if number == 0 else ""
        y = box.y + PADDING + LINE * number + 11
        lines.append(f'<text x="{box.x + PADDING:.0f}" y="{y:.0f}"{weight}>{html.escape(line)}</text>')
    return lines


# ---------------------------------------------------------------------------------------------------------------------
# from plans


def draw_plan(plan: KernelPlan) -> Drawing:
    """The drawing of a plan."""
    drawing = Drawing()
    makers: dict[str, int] = {}

    def read(names: Sequence[str], target: int) -> None:
        for name in dict.fromkeys(names):
            if name not in makers and name in plan.buffers:
                kind = "constant" if name in plan.constants else "input"
                drawing.boxes.insert(target, Box("input", [f"{kind} {name}", describe(plan.buffers[name])]))
                for number, arrow in enumerate(drawing.arrows):
                    shifted = [at + (at >= target) for at in (arrow.source, arrow.target)]
                    drawing.arrows[number] = Arrow(shifted[0], shifted[1], arrow.label)
                for one, at in makers.items():
                    makers[one] = at + (at >= target)
                makers[name] = target
                target += 1
        for name in dict.fromkeys(names):
            if name in makers:
                label = f"{name} {amount(size_of(plan.buffers[name]))}" if name in plan.buffers else name
                drawing.arrows.append(Arrow(makers[name], target, label))

    def add(box: Box, reads: Sequence[str], writes: Sequence[str]) -> None:
        drawing.boxes.append(box)
        read(reads, len(drawing.boxes) - 1)
        for name in writes:
            makers[name] = len(drawing.boxes) - 1

    for step in plan.steps:
        if isinstance(step, Launch):
            names = dict(zip([buffer.name for buffer in step.kernel.buffers], step.buffers, strict=True))
            writes = [actual for name, actual in names.items() if name in step.kernel.writes]
            reads = [actual for name, actual in names.items() if name not in step.kernel.writes]
            moved = [f"reads {amount(total(plan, reads))}", f"writes {amount(total(plan, writes))}"]
            lines = [f"kernel {step.kernel.name}", *operators(step.kernel.origins), ", ".join(moved)]
            partly = [name for name in writes if name in makers]  # others have written parts of it
            add(Box("kernel", lines), [*reads, *partly], writes)
        elif isinstance(step, ExternCall):
            reads = _buffers_in((step.args, tuple(step.kwargs.values())))
            writes = [name for name in step.outputs if name is not None]
            moved = [f"reads {amount(total(plan, reads))}", f"writes {amount(total(plan, writes))}"]
            add(Box("call", [call_name(step.target), ", ".join(moved)]), reads, writes)
        elif isinstance(step, WriteBack):
            add(Box("result", [f"into {step.target}"]), [step.source.buffer], [])
    results = [part.buffer for part in plan.outputs if isinstance(part, BufferRef)]
    if results:
        add(Box("result", ["results", *[f"{name} {describe(plan.buffers[name])}" for name in dict.fromkeys(results)
                                        if name in plan.buffers]]), results, [])
    return drawing


def operators(origins: Sequence[Any]) -> list[str]:
    """The names of the operators behind a kernel, a few on a line.

    >>> operators(["add", "mul"])
    ['add, mul']
    """
    names = []
    in_order = sorted(origins) if all(isinstance(node, torch.fx.Node) for node in origins) else origins
    for node in in_order:
        target = str(getattr(node, "target", node))
        parts = target.split(".")
        names.append(parts[1] if len(parts) > 2 else target)
    if len(names) > MOST_OPERATORS:
        names = [*names[:MOST_OPERATORS], f"and {len(names) - MOST_OPERATORS} more"]
    return [", ".join(names[at : at + 4]) for at in range(0, len(names), 4)]


def call_name(target: Any) -> str:
    """The name of an operator or a function that is called between kernels.

    >>> call_name(torch.ops.aten.mm.default), call_name(call_name)
    ('aten.mm.default', 'call_name')
    """
    return str(getattr(target, "__name__", target)) if isinstance(target, FunctionType) else str(target)


def describe(buffer: Buffer) -> str:
    """The dtype and the sizes of a buffer."""
    return f"{dtype_name(buffer.dtype)}[{', '.join(map(str, buffer.shape))}]"


def size_of(buffer: Buffer) -> Expr:
    """The bytes that the elements of a buffer take."""
    size = as_expr(buffer.dtype.itemsize)
    for one in buffer.shape:
        size = size * one
    return size


def total(plan: KernelPlan, names: Sequence[str]) -> Expr:
    """The bytes of several buffers together."""
    size = as_expr(0)
    for name in names:
        if name in plan.buffers:
            size = size + size_of(plan.buffers[name])
    return size


def amount(size: Expr) -> str:
    """A number of bytes for people.

    >>> amount(as_expr(512)), amount(as_expr(4096)), amount(as_expr(3 << 20))
    ('512 B', '4.0 KiB', '3.0 MiB')
    """
    if not isinstance(size, Const):
        return f"{size} B"
    number = float(size.value)
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def _buffers_in(value: Any) -> list[str]:
    if isinstance(value, BufferRef):
        return [value.buffer]
    return [name for part in value for name in _buffers_in(part)] if isinstance(value, tuple | list) else []
