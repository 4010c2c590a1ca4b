"""Code that looks at every address before it uses it: what `config.check_bounds` adds to kernels.

    %v9 = load <8 x float>, ptr %v8, align 4
 ->
    %v10 = call ptr @PREFIX.check(ptr %v8, i64 0, i64 32, i1 true, ptr %v1, ptr %v2, i64 0, ptr %v3)
    %v9 = load <8 x float>, ptr %v10, align 4

Such a kernel is told where the storage of each of its buffers begins and ends, behind their addresses:
``[buffers..., starts..., ends..., record, launch]``.
An access outside of its buffer is noted in the record, which the host looks at afterwards, and goes to memory that
nobody uses. Of vectors under a mask the first and the last lane that is there are looked at, of gathers and scatters
every lane. Scratch memory and tiles are checked like buffers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...functional.graph import Unsupported
from ...native.templates import filled
from ...records import dataclass
from ..llvm_writer import Function, Module

OTHER = 1 << 32
"""The number of memory that is no buffer and no scratch memory: tiles that wait to be transposed."""

SAFE_BYTES = 8192
"""More than any vector that a kernel loads or stores at once."""

_WIDTHS = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "float": 4, "double": 8, "ptr": 8}
_NAME = r"[%@][\w.]+"
_LOAD = re.compile(rf"(?P<before>%\S+ = load (?:volatile )?)(?P<type>.+?), ptr (?P<pointer>{_NAME})(?P<after>.*)")
_STORE = re.compile(rf"(?P<before>store (?P<type><[^>]+>|\S+) .+), ptr (?P<pointer>{_NAME})(?P<after>, align .*|)")
_MASKED = re.compile(
    rf"(?P<before>.*call .*@llvm\.masked\.(?P<kind>load|store)\S*\(.*?)ptr (?P<pointer>{_NAME})"
    r"(?P<after>, i32 (?P<width>\d+), (?P<mask><(?P<lanes>\d+) x i1> (?:splat \(i1 \w+\)|[^,)]+)).*)")
_LANES = re.compile(
    rf"(?P<before>.*call .*@llvm\.masked\.(?P<kind>gather|scatter)\S*\(.*?)<(?P<lanes>\d+) x ptr> (?P<pointer>{_NAME})"
    r"(?P<after>, i32 (?P<width>\d+), (?P<mask><\d+ x i1> (?:splat \(i1 \w+\)|[^,)]+)).*)")
_STEP = re.compile(rf"(%\S+) = getelementptr .+?, ptr ({_NAME}), ")
_CHOICE = re.compile(rf"(%\S+) = select i1 (\S+), ptr ({_NAME}), ptr ({_NAME})")
_ARRAY = re.compile(r"(%\S+) = alloca \[(\d+) x (\w+)\]")
_TOUCHES = re.compile(r"\b(load|store|memcpy|memset|memmove|cmpxchg|atomicrmw|expandload|compressstore)\b|masked\.")


@dataclass(frozen=True)
class Extent:
    """Where the memory behind a pointer begins and ends, and its number in what is reported."""

    start: str
    end: str
    number: int


@dataclass
class Checked:
    """A function whose accesses are to be checked: the memory that it may touch, by the pointers it begins at."""

    report: str
    """A pointer to the address of the record and the number of the launch."""
    parameters: frozenset[str]
    """Pointers to what the host passes, which is accessed at constant places."""
    extents: dict[str, Extent]


def add_checks(module: Module, checked: dict[Function, Checked]) -> None:
    """Put a check in front of every access of these functions."""
    module.helper("check", filled("kernels/cpu/check.ll", {"SAFE_BYTES": SAFE_BYTES}))
    for function, known in checked.items():
        _Checker(module, function, known).run()


class _Checker:
    """Rewrites the lines of one function."""

    def __init__(self, module: Module, function: Function, known: Checked) -> None:
        self.module = module
        self.function = function
        self.report = known.report
        self.parameters = known.parameters
        self.extents = dict(known.extents)
        self.origins: dict[str, str] = {}
        self.choices: dict[str, tuple[str, str, str]] = {}
        self.single: set[str] = set()
        """Variables that hold one value: they are accessed as a whole."""

    def run(self) -> None:
        ends = []
        for line in self.function.allocas:
            array = _ARRAY.match(line)
            if array is None:
                self.single.add(line.partition(" ")[0])
                continue
            name, count, element = array.groups()
            end = self.function.temporary()
            ends.append(f"{end} = getelementptr i8, ptr {name}, i64 {int(count) * _WIDTHS[element]}")
            self.extents.setdefault(name, Extent(name, end, OTHER))
        for block in self.function.blocks:
            for line in block.lines:
                if step := _STEP.match(line):
                    self.origins[step[1]] = step[2]
                elif choice := _CHOICE.match(line):
                    self.choices[choice[1]] = (choice[2], choice[3], choice[4])
        for block in self.function.blocks:
            block.lines = [new for line in block.lines for new in self.lines(line)]
        self.function.entry.lines[:0] = ends

    def extent(self, pointer: str) -> Extent | None:
        """The memory behind a pointer; None for parameters and variables."""
        while pointer in self.origins and pointer not in self.extents:
            pointer = self.origins[pointer]
        extent = self.extents.get(pointer)
        if extent is not None:
            return extent
        if pointer in self.single or pointer in self.parameters:
            return None
        raise Unsupported(f"a check of an access to {pointer}")

    def lines(self, line: str) -> Iterator[str]:
        """A line, with the checks that belong in front of it."""
        if not _TOUCHES.search(line):
            yield line
            return
        if access := _LANES.fullmatch(line):
            yield from self.every_lane(access)
        elif access := _MASKED.fullmatch(line):
            yield from self.masked(access)
        elif access := _LOAD.fullmatch(line) or _STORE.fullmatch(line):
            yield from self.plain(access, line)
        else:
            raise Unsupported(f"a check of {line}")

    def call(self, pointer: str, skip: str, size: str, active: str, extent: Extent, store: bool) -> str:
        number = 2 * extent.number + store
        return (f"call ptr @PREFIX.check(ptr {pointer}, i64 {skip}, i64 {size}, i1 {active}, ptr {extent.start}, "
                f"ptr {extent.end}, i64 {number}, ptr {self.report})")

    def plain(self, access: re.Match[str], line: str) -> Iterator[str]:
        pointer, active = access["pointer"], "true"
        chosen = self.choices.get(pointer)
        if chosen is not None:
            active, pointer = chosen[0], chosen[1]
        place = self.extent(pointer)
        if place is None:
            yield line
            return
        safe = self.function.temporary()
        store = line.startswith("store")
        yield f"{safe} = {self.call(access['pointer'], '0', str(_width(access['type'])), active, place, store)}"
        middle = "" if store else access["type"]
        yield f"{access['before']}{middle}, ptr {safe}{access['after']}"

    def masked(self, access: re.Match[str]) -> Iterator[str]:
        """A vector of which some lanes are there: from the first to the last of them."""
        pointer, lanes, width = access["pointer"], int(access["lanes"]), int(access["width"])
        place = self.extent(pointer)
        if place is None:
            raise Unsupported(f"a check of a masked access to {pointer}")
        new = self.function.temporary
        bits, any_lane, first, last, skip, behind, size, safe = (new() for _ in range(8))
        kind = f"i{lanes}"
        wide = f"i{max(lanes, 64)}"
        for count in ("cttz", "ctlz"):
            self.module.declare(f"llvm.{count}.{wide}", wide, f"{wide}, i1")
        yield f"{bits} = bitcast {access['mask']} to {kind}"
        if lanes < 64:
            small, bits = bits, new()
            yield f"{bits} = zext {kind} {small} to {wide}"
        yield f"{any_lane} = icmp ne {wide} {bits}, 0"
        yield f"{first} = call {wide} @llvm.cttz.{wide}({wide} {bits}, i1 false)"
        yield f"{last} = call {wide} @llvm.ctlz.{wide}({wide} {bits}, i1 false)"
        if lanes > 64:
            for wider, narrow in ((first, new()), (last, new())):
                yield f"{narrow} = trunc {wide} {wider} to i64"
                first, last = (narrow, last) if wider == first else (first, narrow)
        yield f"{skip} = mul i64 {first}, {width}"
        yield f"{behind} = sub i64 {max(lanes, 64)}, {last}"
        count = new()
        yield f"{count} = sub i64 {behind}, {first}"
        yield f"{size} = mul i64 {count}, {width}"
        yield f"{safe} = {self.call(pointer, skip, size, any_lane, place, access['kind'] == 'store')}"
        yield f"{access['before']}ptr {safe}{access['after']}"

    def every_lane(self, access: re.Match[str]) -> Iterator[str]:
        """A gather or scatter."""
        lanes, width, pointers = int(access["lanes"]), access["width"], access["pointer"]
        place = self.extent(pointers)
        if place is None:
            raise Unsupported(f"a check of scattered accesses to {pointers}")
        vector = f"<{lanes} x ptr>"
        for lane in range(lanes):
            one, active, safe, whole = (self.function.temporary() for _ in range(4))
            yield f"{one} = extractelement {vector} {pointers}, i64 {lane}"
            yield f"{active} = extractelement {access['mask']}, i64 {lane}"
            yield f"{safe} = {self.call(one, '0', width, active, place, access['kind'] == 'scatter')}"
            yield f"{whole} = insertelement {vector} {pointers}, ptr {safe}, i64 {lane}"
            pointers = whole
        yield f"{access['before']}{vector} {pointers}{access['after']}"


def _width(kind: str) -> int:
    """The bytes of a type."""
    if kind.startswith("<"):
        lanes, _, element = kind[1:-1].partition(" x ")
        return int(lanes) * _WIDTHS[element]
    return _WIDTHS[kind]
