"""Writing LLVM IR as text: modules, functions and blocks, for kernels, matrix products and programs of packages.

Text rather than llvmlite's builder, which is slower and knows little of what LLVM has learned since. Blocks can keep
their terminator apart from their lines, so that code can be added to a block after control has left it: that is how
what does not change in a loop is put in front of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from ..records import dataclass

_SPELLED = [chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in range(256)]


@dataclass(slots=True)
class Block:
    """A basic block. It ends with its terminator, or with its last line."""

    name: str
    lines: list[str] = field(default_factory=list)
    terminator: str = ""


@dataclass
class Loop:
    """A loop with values that go from one iteration to the next; after it, `values` are what the last one left."""

    index: str
    values: list[str]
    following: list[str] = field(default_factory=list)


class Function:
    """A function being written. Lines go to the block that was started last."""

    def __init__(self, signature: str, attributes: str = "") -> None:
        self.signature = signature
        self.attributes = attributes
        self.blocks: list[Block] = []
        self.allocas: list[str] = []
        self.unknown = ""
        self._count = 0
        self.entry = self.current = self.block("entry")

    def temporary(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def block(self, hint: str) -> Block:
        """A new block behind all others."""
        block = Block(self.labels(hint)[0])
        self.blocks.append(block)
        return block

    def alloca(self, type_: str, count: str = "", align: int = 0) -> str:
        """Memory for the time of the call. One that only holds a value becomes a register again."""
        name = self.temporary()
        self.allocas.append(f"{name} = alloca {type_}{count}{f', align {align}' if align else ''}")
        return name

    def unknown_true(self) -> str:
        """A bit that is set, though LLVM cannot know that."""
        if not self.unknown:
            number, self.unknown = self.temporary(), self.temporary()
            self.allocas.append(f'{number} = call i32 asm "", "=r,0"(i32 1)')
            self.allocas.append(f"{self.unknown} = trunc i32 {number} to i1")
        return self.unknown

    # Straight on

    def line(self, text: str) -> None:
        self.current.lines.append(text)

    def value(self, text: str) -> str:
        """The name of what an instruction gives."""
        name = self.temporary()
        self.current.lines.append(f"{name} = {text}")
        return name

    def labels(self, *hints: str) -> list[str]:
        """Names for blocks that are started later."""
        self._count += 1
        return [f"{hint}{self._count}" for hint in hints]

    def start(self, label: str) -> None:
        """Go on in a new block of that name."""
        self.current = Block(label)
        self.blocks.append(self.current)

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    def leave_unless(self, condition: str, way_out: str) -> None:
        """Go on only if an i1 is true, otherwise to the block ``way_out``."""
        [good] = self.labels("good")
        self.branch(condition, good, way_out)
        self.start(good)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is written meanwhile runs if an i1 is true."""
        body, after = self.labels("then", "done")
        self.branch(condition, body, after)
        self.start(body)
        yield
        self.jump(after)
        self.start(after)

    @contextmanager
    def loop(self, begin: str | int, end: str | int, step: str | int = 1,
             carried: Sequence[tuple[str, str]] = ()) -> Iterator[Loop]:
        """``for (index = begin; index < end; index += step)``; ``carried``: types and first values."""
        before = self.current.name
        head, body, after = self.labels("head", "body", "after")
        number = self._count
        loop = Loop(f"%i{number}", [f"%c{number}.{k}" for k in range(len(carried))])
        self.jump(head)
        self.start(head)
        top = self.current
        self.branch(self.value(f"icmp slt i64 {loop.index}, {end}"), body, after)
        self.start(body)
        yield loop
        following = self.value(f"add nsw i64 {loop.index}, {step}")
        phis = [f"{loop.index} = phi i64 [{begin}, %{before}], [{following}, %{self.current.name}]"]
        for (kind, first), name, then in zip(carried, loop.values, loop.following, strict=True):
            phis.append(f"{name} = phi {kind} [{first}, %{before}], [{then}, %{self.current.name}]")
        self.jump(head)
        top.lines[:0] = phis
        self.start(after)

    def __str__(self) -> str:
        parts = [f"define {self.signature} {self.attributes} {{"]
        for block in self.blocks:
            parts.append(f"{block.name}:")
            if block is self.entry:
                parts.extend(self.allocas)
            parts.extend(block.lines)
            if block.terminator:
                parts.append(block.terminator)
        parts.append("}")
        return "\n".join(parts)


class Module:
    """The functions, declarations and constants that make up a module."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        """What the names of constants begin with."""
        self.functions: list[Function | str] = []
        self.helpers: dict[str, str] = {}
        self._declarations: dict[str, str] = {}
        self._constants: dict[str, str] = {}

    def declare(self, name: str, result: str, parameters: str, attributes: str = "", weak: bool = False) -> str:
        """The name of a function from outside, declared; a weak one may be missing."""
        self._declarations[name] = (f"declare {'extern_weak ' if weak else ''}{result} @{name}({parameters})"
                                    f"{' ' + attributes if attributes else ''}")
        return name

    def helper(self, name: str, text: str) -> str:
        """The name of a function of our own that several kernels may bring along."""
        self.helpers[name] = text
        return name

    def constant(self, type_: str, value: str, align: int = 8) -> str:
        """The name of a constant in memory."""
        key = f"{type_} {value}, align {align}"
        if key not in self._constants:
            self._constants[key] = f"@{self.prefix}c{len(self._constants)}"
        return self._constants[key]

    def string(self, text: str | bytes) -> str:
        """The name of a text with a zero behind it."""
        return self.binary((text.encode() if isinstance(text, str) else text) + b"\0", 1)

    def binary(self, data: bytes, align: int = 16) -> str:
        """The name of bytes."""
        return self.constant(f"[{len(data)} x i8]", f'c"{"".join(map(_SPELLED.__getitem__, data))}"', align)

    def integers(self, numbers: Sequence[int]) -> str:
        """The name of an array of integers of 64 bits."""
        if not numbers:
            return "null"
        return self.constant(f"[{len(numbers)} x i64]", f"[{', '.join(f'i64 {number}' for number in numbers)}]")

    def pointers(self, names: Sequence[str]) -> str:
        """The name of an array of addresses of constants."""
        if not names:
            return "null"
        return self.constant(f"[{len(names)} x ptr]", f"[{', '.join(f'ptr {name}' for name in names)}]")

    def strings(self, texts: Sequence[str]) -> str:
        """The name of an array of addresses of texts."""
        return self.pointers([self.string(text) for text in texts])

    def text(self, name: str = "") -> str:
        """The whole module. With a ``name``, `PREFIX` in the names of functions and constants becomes that."""
        constants = [f"{name} = private unnamed_addr constant {key}" for key, name in self._constants.items()]
        parts = [*constants, *self._declarations.values(), *self.helpers.values(), *map(str, self.functions)]
        text = "\n".join(parts) + "\n"
        return text.replace("PREFIX", name) if name else text
