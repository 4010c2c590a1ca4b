"""Programs whose integers vary: arguments, items of tensors and sizes that pass through negative numbers, zero, one and
huge ones on their way into sizes, slices, strides, pads, shifts, offsets and indices."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..program import Program
from ..values import Dice

# Up to this an integer may become the size of a new tensor.
SMALL = 16
HUGE = (2**31 - 1, 2**31, -(2**31) - 1, 2**40, -(2**40), 2**53 + 1, 2**61, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1,
        2**63, 2**64)  # fmt: skip


@dataclass(frozen=True)
class Integer:
    """An integer expression of the program and a bound on its absolute value."""

    text: str
    bound: float


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)
        self.lines: list[str] = []
        self.integers: list[Integer] = []
        self.count = 0
        self.huge = self.dice.chance(0.25)
        self.parameters: list[str] = ["x"]

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # Integers

    def sources(self) -> None:
        """The integers that everything else is computed from."""
        dice = self.dice
        for name in ("n", "m")[: dice.between(0, 2)]:
            self.parameters.append(name)
            self.integers.append(Integer(name, 2.0**64 if self.huge else 9))
        if not self.integers or dice.chance(0.35):
            self.parameters.append("t")
            bound = 2.0**63 if self.huge else 9
            read = dice.choice(("t[{}].item()", "int(t[{}])", "t.tolist()[{}]", "list"))
            if read == "list":
                self.lines.append("p, q = t.tolist()")
                self.integers += [Integer("p", bound), Integer("q", bound)]
            else:
                for index in range(dice.between(1, 2)):
                    name = "pq"[index]
                    self.lines.append(f"{name} = {read.format(index)}")
                    self.integers.append(Integer(name, bound))
        for _ in range(dice.between(0, 2)):
            text = dice.choice(("x.size(0)", "x.shape[1]", "x.numel()", "x.shape[-1]", "len(x)", "x.stride(0)",
                                "x.stride(1)", "x.storage_offset()"))  # fmt: skip
            self.integers.append(Integer(text, 60))

    def integer(self, depth: int = 2) -> Integer:
        """Any integer expression."""
        dice = self.dice
        if depth == 0 or dice.chance(0.35):
            return dice.choice(self.integers)
        left = self.integer(depth - 1)
        right = Integer(str(dice.between(-5, 7)), 7) if dice.chance(0.5) else self.integer(depth - 1)
        divisor = right if right.text != "0" and dice.chance(0.97) else Integer("3", 3)
        if not divisor.text.lstrip("-").isdigit() and dice.chance(0.85):
            divisor = Integer(f"(abs({divisor.text}) + 1)", divisor.bound + 1)
        a, b, d = left.text, right.text, divisor.text
        larger = max(left.bound, right.bound)
        return dice.choice((
            Integer(f"({a} + {b})", left.bound + right.bound),
            Integer(f"({a} - {b})", left.bound + right.bound),
            Integer(f"({b} - {a})", left.bound + right.bound),
            Integer(f"{a} * {b}", left.bound * right.bound),
            Integer(f"({a} // {d})", left.bound + 1),
            Integer(f"({a} // {d})", left.bound + 1),
            Integer(f"({a} % {d})", divisor.bound),
            Integer(f"({a} % {d})", divisor.bound),
            Integer(f"-{a}", left.bound),
            Integer(f"abs({a})", left.bound),
            Integer(f"min({a}, {b})", larger),
            Integer(f"max({a}, {b})", larger),
            Integer(f"({a} if {a} {dice.choice(('<', '>', '==', '!=', '<=', '>='))} {b} else {d})",
                    max(larger, divisor.bound)),
            Integer(f"int({a} {dice.choice(('<', '>', '==', '!=', '<=', '>='))} {b})", 1),
            Integer(f"({a} & {dice.choice((1, 3, 7))})", 7),
            Integer(f"({a} >> {dice.choice((0, 1, 2))})", left.bound),
            Integer(f"({a} << {dice.choice((0, 1, 2))})", left.bound * 4),
        ))  # fmt: skip

    def any(self) -> str:
        """An integer for a place where any value is taken or refused without work: an index, a bound, a shift."""
        if self.dice.chance(0.15):
            return str(self.dice.between(-6, 8))
        return self.keep(self.integer()).text

    def stride(self) -> str:
        """An integer for a stride. Eager counts those in bytes, of 64 bits too, and takes what overflows for negative
        where it sorts dimensions."""
        if self.dice.chance(0.15):
            return str(self.dice.between(-6, 8))
        value = self.keep(self.integer())
        return value.text if value.bound < 2**60 else f"min({value.text}, 2**60)"

    def small(self) -> str:
        """An integer for a place that sizes of new tensors come from."""
        if self.dice.chance(0.2):
            return str(self.dice.between(-1, 5))
        value = self.integer()
        if value.bound > SMALL:
            value = Integer(self.dice.choice((f"({value.text} % 7)", f"min(max({value.text}, -2), 6)")), 7)
        return self.keep(value).text

    def keep(self, value: Integer) -> Integer:
        """The integer, perhaps under a name of its own, to be used again."""
        if value.text.isidentifier() or self.dice.chance(0.5):
            return value
        name = self.name("i")
        self.lines.append(f"{name} = {value.text}")
        kept = Integer(name, value.bound)
        self.integers.append(kept)
        return kept

    def dim(self, rank: int) -> str:
        """A dimension, almost always a good one."""
        if self.dice.chance(0.04):
            return self.any()
        return str(self.dice.between(-rank, rank - 1))

    # Tensors

    def step(self, z: str, rank: int) -> tuple[str, int]:
        """An operation on a tensor of that rank, which is at least 1, as an expression, with its rank."""
        dice = self.dice
        d = self.dim(rank)
        lead = ":, " * dice.between(0, rank - 1)
        kind = dice.weighted((
            (6, "slice"), (3, "pad"), (3, "roll"), (3, "narrow"), (2, "select"), (2, "split"), (2, "repeat"),
            (2, "expand"), (2, "view"), (3, "strided"), (2, "unfold"), (2, "triangle"), (2, "diagonal"), (1, "chunk"),
            (2, "arange"), (2, "full"), (3, "scalar"), (2, "index"), (1, "write"), (1, "flip"),
            (1, "resample"), (1, "order"), (1, "join"), (1, "dims"), (1, "product"), (1, "scatter"), (1, "reduce"),
        ))  # fmt: skip
        match kind:
            case "slice":
                wide = f"min({self.any()}, 1 << 40)"  # eager counts wider steps beyond 64 bits, to sizes below zero
                text = dice.choice((
                    f"{self.any()}:", f":{self.any()}", f"{self.any()}:{self.any()}", f"-{self.any()}:",
                    f"{self.any()}::{dice.choice((1, 2, 3, wide))}",
                    f"{self.any()}:{self.any()}:{dice.choice((1, 2, wide))}",
                ))  # fmt: skip
                return f"{z}[{lead}{text}]", rank
            case "pad":
                pads = [self.small() for _ in range(2 * dice.between(1, min(rank, 2)))]
                if dice.chance(0.2):
                    pads[1] = f"-({pads[0]})"
                mode = dice.choice(("", "", "", f", value={dice.choice(('2.5', self.small()))}", ", mode='reflect'",
                                    ", mode='replicate'", ", mode='circular'"))  # fmt: skip
                if "mode" in mode:
                    if rank < 3:
                        z, rank = f"{z}{'[None]' * (3 - rank)}", 3
                    pads = pads[:2]
                    if "circular" in mode:  # with negative ones, eager leaves some of the result as it finds it
                        pads = [f"max({pad}, 0)" for pad in pads]
                    if rank > 4:
                        return f"F.pad({z}, ({', '.join(pads)}))", rank
                    if rank == 4:
                        pads = pads + [f"max({self.small()}, 0)" for _ in range(2)]
                return f"F.pad({z}, ({', '.join(pads)}){mode})", rank
            case "roll":
                # eager subtracts the shift from a size, which must not overflow, and backward wants it below 2**62
                n, m = (f"({self.any()} >> 4)" if self.huge else self.any() for _ in range(2))
                if dice.chance(0.25):
                    return f"torch.roll({z}, {n})", rank
                if rank > 1 and dice.chance(0.3):
                    return f"torch.roll({z}, ({n}, {m}), (0, 1))", rank
                return f"torch.roll({z}, {n}, {d})", rank
            case "narrow":
                return f"{z}.narrow({d}, {self.any()}, {self.any()})", rank
            case "select":
                if dice.chance(0.5):
                    return f"{z}[{lead}{self.any()}]", rank - 1
                return f"{z}.select({d}, {self.any()})", rank - 1
            case "split":
                form = dice.choice((f"{z}.split({self.any()}, {d})[{dice.choice((0, -1))}]",
                                    f"{z}.split([{self.any()}, {self.any()}], {d})[{dice.choice((0, 1))}]",
                                    f"torch.tensor_split({z}, [{self.any()}], {d})[{dice.choice((0, 1))}]",
                                    f"torch.tensor_split({z}, [{self.any()}, {self.any()}], {d})[1]"))  # fmt: skip
                return form, rank
            case "chunk":
                return f"{z}.chunk({self.small()}, {d})[{dice.choice((0, -1))}]", rank
            case "repeat":
                if dice.chance(0.3):
                    return f"{z}.repeat_interleave({self.small()}, {d})", rank
                more = dice.between(0, 1)
                counts = [dice.choice(("1", "2", self.small())) for _ in range(rank + more)]
                return f"{z}.repeat({', '.join(counts)})", rank + more
            case "expand":  # eager makes tensors of negative sizes where there are no elements
                return f"{z}.unsqueeze(0).expand(max({self.small()}, -1){', -1' * rank})", rank + 1
            case "view":
                method = dice.choice(("view", "reshape", "reshape"))
                sizes = dice.choice(([self.small(), "-1"], ["-1", self.small()], ["-1"], [self.small()],
                                     [self.small(), self.small()], ["-1", self.small(), self.small()]))  # fmt: skip
                return f"{z}.{method}({', '.join(sizes)})", len(sizes)
            case "strided":
                count = dice.between(1, 2)
                # eager makes tensors of negative sizes of those
                sizes = [f"max({self.small()}, 0)" for _ in range(count)]
                strides = [dice.choice((self.stride(), "0", "1", "2")) for _ in range(count)]
                offset = dice.choice(("", "", f", {self.any()}", ", 0", ", 1", f", {z}.storage_offset()"))
                return f"{z}.as_strided(({', '.join(sizes)},), ({', '.join(strides)},){offset})", count
            case "unfold":
                return f"{z}.unfold({d}, {self.any()}, {dice.choice((1, 2, self.any()))})", rank + 1
            case "triangle":
                if rank < 2:
                    return f"{z}[:, None].{dice.choice(('tril', 'triu'))}({self.any()})", 2
                return f"{z}.{dice.choice(('tril', 'triu'))}({self.any()})", rank
            case "diagonal":
                if rank < 2:
                    return f"torch.{dice.choice(('diag', 'diag_embed', 'diagflat'))}({z}, {self.small()})", 2
                return f"{z}.diagonal({self.any()})", rank - 1
            case "arange":
                text = dice.choice((f"torch.arange({self.small()})", f"torch.arange({self.small()}, {self.small()})",
                                    f"torch.arange({self.small()}, {self.small()}, {self.small()})",
                                    f"torch.linspace(0, 1, {self.small()})"))  # fmt: skip
                if dice.chance(0.5):
                    return text + " * 2", 1
                return f"{z}.sum() + {text}", 1
            case "full":
                sizes = [self.small() for _ in range(dice.between(1, 2))]
                shape = f"({', '.join(sizes)},)"
                text = dice.choice((f"torch.zeros({shape})", f"torch.full({shape}, {self.any()})",
                                    f"{z}.new_ones({shape})", f"torch.ones({shape}) * {self.any()}"))  # fmt: skip
                return (f"{text} + {z}.sum()" if dice.chance(0.5) else text), len(sizes)
            case "scalar":
                n = self.any()
                return dice.choice((f"{z} + {n}", f"{z} * {n}", f"{n} - {z}", f"{z} % (abs({n}) + 1)", f"{z} / {n}",
                                    f"{z}.clamp(min={n})", f"torch.where({z} > {n}, {z}, {self.any()})",
                                    f"torch.full_like({z}, {n})", f"{z} + float({n})", f"{z}.masked_fill({z} > 1, {n})",
                                    f"torch.add({z}, {z}, alpha={n})")), rank  # fmt: skip
            case "index":
                return dice.choice((f"{z}[{lead}[{self.any()}, 0]]",
                                    f"{z}.index_select({d}, torch.tensor([{self.any()}]))",
                                    f"{z}[{lead}torch.arange({self.small()})]",
                                    f"{z}[{lead}torch.arange({self.small()}) - {self.small()}]")), rank  # fmt: skip
            case "write":
                name = self.name("w")
                self.lines.append(f"{name} = {z}.clone()")
                self.lines.append(dice.choice((f"{name}[{lead}{self.any()}] = 7", f"{name}[{lead}{self.any()}:] += 1",
                                               f"{name}[{lead}:{self.any()}] = {self.any()}",
                                               f"{name}[{lead}{self.any()}:{self.any()}].mul_(2)",
                                               f"{name}.fill_({self.any()})",
                                               f"{name}.narrow({d}, {self.any()}, {self.any()}).zero_()")))  # fmt: skip
                return name, rank
            case "flip":
                return dice.choice((f"{z}.flip({d})", f"{z}.transpose({d}, 0)", f"{z}.movedim({d}, -1)")), rank
            case "resample":
                if rank != 2:
                    return f"F.interpolate({z}.reshape(1, 1, -1), size={self.small()})", 3
                return dice.choice((f"F.interpolate({z}[None], size={self.small()})",
                                    f"F.adaptive_avg_pool1d({z}[None], {self.small()})",
                                    f"F.avg_pool1d({z}[None], {self.small()}, {self.small()})",
                                    f"F.max_pool1d({z}[None].float(), {self.small()}, {self.small()})")), 3  # fmt: skip
            case "order":
                return f"{z}.topk({self.any()}, {d})[0]", rank
            case "join":
                n = self.any()
                return dice.choice((f"torch.cat([{z}[{n}:], {z}[:{n}]])", f"torch.cat([{z}, {z}[{n}:]])",
                                    f"torch.cat([{z}, {z}.new_zeros({self.small()}{', 1' * (rank - 1)})])",
                                    f"torch.stack([{z}] * {self.small()}).sum(0)")), rank  # fmt: skip
            case "dims":
                a = self.any()
                text, new = dice.choice(((f"{z}.sum({a})", rank - 1), (f"{z}.unsqueeze({a})", rank + 1),
                                         (f"{z}.softmax({a})", rank), (f"{z}.cumsum({a})", rank),
                                         (f"{z}.transpose({a}, 0)", rank), (f"{z}.flip({a})", rank)))  # fmt: skip
                return text, new
            case "product":
                n = self.any()
                if rank != 2:
                    return f"({z}[{n}:] * {z}[{n}:])", rank
                return f"({z}[:, {n}:] @ {z}[:, {n}:].T)", 2
            case "scatter":
                n = self.any()
                return dice.choice((f"torch.select_scatter({z}, {z}.select({d}, {n}) * 2, {d}, {n})",
                                    f"torch.slice_scatter({z}, {z}[{n}:] + 1, 0, {n})",
                                    f"{z}.index_fill({d}, torch.tensor([{n}]), 3.0)",
                                    f"{z}.index_add(0, torch.tensor([{n}]), {z}[:1])")), rank  # fmt: skip
            case "reduce":
                return dice.choice((f"{z}[{lead}{self.any()}:].sum({d})", f"{z}[{lead}{self.any()}:].mean({d})",
                                    f"{z}[{lead}:{self.any()}].amax({d})", f"{z}[{lead}{self.any()}:].prod({d})",
                                    f"{z}[{lead}:{self.any()}].argmax({d})")), rank - 1  # fmt: skip
        raise AssertionError(kind)

    def body(self) -> None:
        """The function's statements."""
        dice = self.dice
        z, rank = "x", 2
        if dice.chance(0.25):
            self.lines.append(f"x = {dice.choice(('x * 2', 'x.t()', 'x.sin()', 'x[1:]', 'x.contiguous()'))}")
        for _ in range(dice.weighted(((4, 1), (4, 2), (2, 3)))):
            if rank == 0:
                z, rank = f"{z}.reshape(1)", 1
            text, rank = self.step(z, rank)
            after = dice.choice(("", "", " * 2", " + 1"))
            name = self.name("z")
            condition = f" if {self.integer(1).text} {dice.choice(('<', '>', '=='))} {self.any()} else x" if (
                rank == 2 and dice.chance(0.1)) else ""
            self.lines.append(f"{name} = {f'({text}){after}' if after else text}{condition}")
            z = name
            if rank > 5:
                break
        results = [z]
        if dice.chance(0.3):
            results.append(self.integer().text)
        self.lines.append(f"return {', '.join(results)}")
        self.prune()

    def prune(self) -> None:
        """Drop the integers that nothing uses: alternatives that were not chosen named them."""
        for index in range(len(self.lines) - 1, -1, -1):
            name = self.lines[index].partition(" = ")[0]
            after = "\n".join(self.lines[index + 1 :])
            if re.fullmatch(r"i\d+", name) and not re.search(rf"\b{name}\b", after):
                del self.lines[index]

    # Arguments

    def value(self) -> int:
        dice = self.dice
        if self.huge and dice.chance(0.4):
            return dice.choice(HUGE)
        return dice.weighted(((2, 0), (2, 1), (2, -1), (5, dice.between(2, 7)), (4, dice.between(-7, -2))))

    def item(self) -> int:
        value = self.value()
        return value if -(2**63) <= value < 2**63 else 2**63 - 1

    def tensor(self, layout: str, rows: int, columns: int) -> str:
        """An input of this shape; it is a part of `base`, which has a fixed number of elements."""
        start = self.dice.between(0, 4)
        match layout:
            case "dense":
                return f"dense({rows}, {columns})"
            case "part":
                return f"base[{start}:{start + rows}, 1:{columns + 1}]"
            case "turned":
                return f"dense({columns}, {rows}).t()"
            case "steps":
                return f"base[:{2 * rows}:2, :{2 * columns}:2]"
            case "overlap":
                return f"base.flatten()[{start}:].as_strided(({rows}, {columns}), (1, 2), {start})"
        return f"base[{start}:{start + 1}, :{columns}].expand({rows}, {columns})"

    def program(self, seed: int) -> Program:
        dice = self.dice
        self.sources()
        self.body()
        dtype = dice.weighted(((7, "torch.float32"), (2, "torch.int64"), (1, "torch.float64")))
        grad = dtype != "torch.int64" and dice.chance(0.4)
        layout = dice.weighted(((5, "dense"), (3, "part"), (1, "turned"), (1, "steps"), (1, "expanded"),
                                (1, "overlap")))  # fmt: skip
        if layout == "overlap" and any("_scatter(" in line for line in self.lines):
            layout = "part"  # eager copies such memory as it lies and then changes elements that share it
        shape = (dice.between(2, 5), dice.between(2, 6))
        calls = []
        fixed = dice.chance(0.6)
        for index in range(dice.between(3, 6)):
            if index and not fixed:
                shape = (dice.weighted(((1, 0), (1, 1), (4, dice.between(2, 5)))),
                         dice.weighted(((1, 0), (1, 1), (4, dice.between(2, 6)))))  # fmt: skip
            now = dice.choice(("dense", "part", "turned", "steps", "expanded")) if dice.chance(0.1) else layout
            arguments = [self.tensor(now, *shape)]
            for name in self.parameters[1:]:
                arguments.append(f"torch.tensor([{self.item()}, {self.item()}])" if name == "t" else str(self.value()))
            calls.append(f"        (({', '.join(arguments)},), {{}}),")
        body = "\n".join(f"    {line}" for line in self.lines)
        rows = "\n".join(calls)
        leaf = ".requires_grad_()" if grad else ""
        return Program(seed, f"""import torch
import torch.nn.functional as F


def fn({", ".join(self.parameters)}):
{body}


def dense(rows, columns):
    return (torch.arange(rows * columns, dtype={dtype}).reshape(rows, columns) + 1){leaf}


def make():
    base = torch.arange(144, dtype={dtype}).reshape(12, 12){leaf}
    calls = [
{rows}
    ]

    def use(fn, args, kwargs):
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            return type(error).__name__

    return fn, calls, lambda index: None, lambda: {{"base": base}}, use
""")


def generate(seed: int) -> Program:
    """The program of this seed."""
    return Writer(seed).program(seed)
