"""Writes a function body from templates, keeping track of which variables exist and what they hold.

Templates are Python with macros:

    $int $float $bool $str     an expression of that type
    $e(P)                      an expression of a type that fits pattern P (see `values.matches`)
    $v(a: P)  $a               an existing variable that fits P, then the same variable again (`$v(P)` when named once)
    $set(a: P)                 an existing variable that may be assigned
    $inplace(a: P)             an existing tensor that may be written in place ($owned: and assigned)
    $new(a: P)                 a new variable of a type that fits P; in scope once the line is done
    $newlike(b: a)             a new variable of a's type ($newitem: of a's item type)
    $bind(a: P)                a new variable visible in the template's body only ($binditem(b: a) likewise)
    $tmp(a)                    a fresh name that nothing else uses
    $like(a)  $item(a)         an expression of a's type, of a's item type
    $small $lit $key $word     literals: 1..3, an int, a dict key, a str
    $use(D)                    the name of definition D, which the program then contains
    $body $body(loop) $fbody   nested statements: a block, a loop's body, a function's body
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from .breaks import BREAKS, LATE_ERRORS
from .definitions import DEFINITIONS
from .expressions import CONTAINERS, LITERALS, SCALAR_EXPRESSIONS
from .statements import STATEMENTS as PLAIN_STATEMENTS
from .tensors import tensor_source
from .values import Dice, Type, Unavailable, Variable, concrete, matches

STATEMENTS = [*PLAIN_STATEMENTS, *((weight * 0.5, template) for weight, template in (*BREAKS, *LATE_ERRORS))]
MACRO = re.compile(r"\$(\w+)")
ARGUMENT = re.compile(r"\(([^()]*)\)")
WITH_ARGUMENT = frozenset("e v set inplace owned new newlike newitem bind binditem tmp like item use body".split())
BODY_LINE = re.compile(r"^(\s*)\$(f?body)(?:\((\w+)\))?$")
MAX_NESTING = 3
LOOP_CONTROL = [template for _, template in STATEMENTS if template.endswith((":\n    break", ":\n    continue"))]


@functools.cache
def _candidates(nested: bool, in_loop: bool, may_return: bool) -> list[tuple[float, str]]:
    """The statements that fit a place."""
    return [
        (weight, template)
        for weight, template in STATEMENTS
        if nested or not ("$body" in template or "$fbody" in template)
        if in_loop or template not in LOOP_CONTROL
        if may_return or "return $result" not in template
    ]


class Writer:
    """One function body under construction."""

    def __init__(self, dice: Dice, budget: int) -> None:
        self.dice = dice
        self.budget = budget
        self.lines: list[str] = []
        self.indent = 0
        self.variables: list[Variable] = []
        self.used: list[str] = []
        self._names = 0
        self._nesting = 0
        self._loops = 0
        self._functions = 0

    # Names and scopes

    def fresh(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def declare(self, variable: Variable) -> None:
        self.variables.append(variable)

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    @contextmanager
    def scope(self, function: bool = False, loop: bool = False) -> Iterator[None]:
        """Variables declared inside end with the scope; a nested function may not assign those outside."""
        saved, loops = list(self.variables), self._loops
        if function:
            self.variables = [replace(variable, assignable=False) for variable in saved]
            self._loops = 0
        self._functions += function
        self._loops += loop
        self._nesting += 1
        yield
        self._nesting -= 1
        self._functions -= function
        self._loops = loops
        self.variables = saved

    def find(self, pattern: str, assignable: bool = False, writable: bool = False) -> Variable:
        fitting = [
            variable
            for variable in self.variables
            if matches(variable.type, pattern)
            and (variable.assignable or not assignable)
            and (variable.writable or not writable)
        ]
        if not fitting:
            raise Unavailable(pattern)
        # Recent variables are preferred, which makes programs depend on what they just computed.
        return self.dice.weighted([(position + 2.0, variable) for position, variable in enumerate(fitting)])

    def known_types(self) -> list[Type]:
        return [variable.type for variable in self.variables]

    def use(self, name: str) -> str:
        """The definition's name; it and what it needs become part of the program."""
        for needed in DEFINITIONS[name].needs:
            self.use(needed)
        if name not in self.used:
            self.used.append(name)
        return name

    # Expressions

    def expr(self, type: Type, depth: int = 2) -> str:
        """Source of an expression of exactly this type."""
        if type.kind == "tensor":
            return tensor_source(self, type, depth)
        if type.kind in SCALAR_EXPRESSIONS:
            return self._scalar(type, depth)
        if type.kind == "obj":
            name = self.use(type.name)
            return self.first_of([(1, DEFINITIONS[name].construct)], depth, {"self": type})
        if type.kind == "fn":
            raise Unavailable("fn")
        fitting = [variable for variable in self.variables if variable.type == type]
        if fitting and self.dice.chance(0.6):
            return self.dice.choice(fitting).name
        return self.construct(type, depth)

    def construct(self, type: Type, depth: int = 1) -> str:
        """Source of a fresh object of this type."""
        if type.kind in CONTAINERS:
            return self.first_of(CONTAINERS[type.kind], depth, {"self": type})
        return self.expr(type, depth)

    def _scalar(self, type: Type, depth: int) -> str:
        if depth <= 0 or self.dice.chance(0.25):
            fitting = [variable for variable in self.variables if variable.type == type]
            if fitting and self.dice.chance(0.75):
                return self.dice.choice(fitting).name
            return self.literal(type.kind)
        return self.first_of(SCALAR_EXPRESSIONS[type.kind], depth, {"self": type})

    def literal(self, kind: str) -> str:
        return self.dice.choice(LITERALS[kind])

    def first_of(self, table: list[tuple[float, str]], depth: int, names: dict[str, Type]) -> str:
        """Expand a template from the table, another one when that needs what is not there."""
        candidates = list(table)
        while candidates:
            template = self.dice.weighted(candidates)
            try:
                return self._expand_expression(template, depth, names)
            except Unavailable:
                candidates = [pair for pair in candidates if pair[1] is not template]
        raise Unavailable(str(table))

    def _expand_expression(self, template: str, depth: int, names: dict[str, Type]) -> str:
        used = list(self.used)
        expansion = Expansion(self, depth - 1, create=False)
        expansion.types.update(names)
        try:
            return expansion.text(template)
        except Unavailable:
            self.used = used
            raise

    # Statements

    def statement(self, candidates: list[tuple[float, str]] | None = None) -> None:
        """Write one statement (with its nested ones)."""
        candidates = candidates or _candidates(self._nesting < MAX_NESTING, self._loops > 0, self._functions == 0)
        self.budget -= 1
        for _ in range(20):
            template = self.dice.weighted(candidates)
            mark, variables, used = len(self.lines), list(self.variables), list(self.used)
            try:
                self._expand_statement(template)
                return
            except Unavailable:
                del self.lines[mark:]
                self.variables, self.used = variables, used
        self.emit("pass")

    def block(self, most: int) -> None:
        """Nested statements, at least one."""
        for _ in range(self.dice.between(1, most)):
            self.statement()
            if self.budget <= 0:
                break

    def _expand_statement(self, template: str) -> None:
        expansion = Expansion(self, self.dice.choice([1, 1, 2]), create=True)
        for line in template.split("\n"):
            nested = BODY_LINE.match(line)
            if nested:
                indent, kind, flag = nested.groups()
                steps = len(indent) // 4
                with self.scope(function=kind == "fbody", loop=flag == "loop"):
                    self.variables += expansion.bound
                    self.indent += steps
                    self.block(3 if self.budget > 4 else 1)
                    self.indent -= steps
                continue
            self.emit(expansion.text(line))
            if not line.startswith(" ") and not line.endswith(":"):
                expansion.declare()
        expansion.declare()

    def result(self) -> str:
        """Source of what the program returns: several values, whatever they are."""
        # The state outside is observed anyway, so what was computed here comes first.
        local = [variable for variable in self.variables if not variable.external]
        computed = [variable for variable in local if variable.type.kind == "tensor"]
        pool = [*self.dice.sample(computed, 3), *self.dice.sample(local, 3), *self.dice.sample(self.variables, 1)]
        names = list(dict.fromkeys(variable.name for variable in pool))
        form = self.dice.weighted(
            [(5, "tuple"), (2, "list"), (3, "dict"), (1, "nested"), (1, "one"), (0.5, "generator")]
        )
        if form == "one":
            return names[0]
        if form == "tuple":
            return "(" + ", ".join(names) + ",)"
        if form == "list":
            return "[" + ", ".join(names) + "]"
        if form == "nested":
            return f"[{names[0]}, ({names[-1]}, {{'n': {names[0]}}})]"
        if form == "generator":
            item = self.fresh("g")
            return f"({item} for {item} in [{', '.join(names)}])"
        return "{" + ", ".join(f"'{name}': {name}" for name in names) + "}"


class Expansion:
    """One use of a template: the names it has chosen so far."""

    def __init__(self, writer: Writer, depth: int, create: bool) -> None:
        self.writer = writer
        self.depth = depth
        # A statement may first create a variable it needs, an expression has no place to put it.
        self.create = create
        self.names: dict[str, str] = {}
        self.types: dict[str, Type] = {}
        self.bound: list[Variable] = []
        self._pending: list[Variable] = []
        self._start = len(writer.lines)
        self._indent = writer.indent
        self._outer = list(writer.variables)

    def declare(self) -> None:
        """Bring the template's new variables into scope."""
        for variable in self._pending:
            self.writer.declare(variable)
        self._pending.clear()

    def text(self, template: str) -> str:
        parts: list[str] = []
        position = 0
        for match in iter(lambda: MACRO.search(template, position), None):
            parts.append(template[position : match.start()])
            position = match.end()
            word = match.group(1)
            argument = None
            if word in WITH_ARGUMENT:
                found = ARGUMENT.match(template, position)
                assert found, template
                argument = found.group(1)
                position = found.end()
            parts.append(self._macro(word, argument))
        parts.append(template[position:])
        return "".join(parts)

    def _macro(self, word: str, argument: str | None) -> str:
        writer, dice = self.writer, self.writer.dice
        if argument is None:
            if word in self.names:
                return self.names[word]
            if word in SCALAR_EXPRESSIONS:
                return f"({writer.expr(concrete(word, dice), self.depth)})"
            if word == "small":
                return str(dice.between(1, 3))
            if word == "lit":
                return str(dice.between(0, 9))
            if word == "key":
                return repr(dice.choice("abcd"))
            if word == "word":
                return writer.literal("str")
            if word == "result":
                return writer.result()
            raise KeyError(f"unknown macro ${word}")
        name, _, rest = (part.strip() for part in argument.partition(":"))
        if word == "use":
            return writer.use(name)
        if word == "tmp":
            self.names[name] = writer.fresh(name)
            return self.names[name]
        if word in ("like", "item"):
            return f"({writer.expr(self._type_of(name, word), self.depth)})"
        if word == "e":
            return f"({writer.expr(concrete(name, dice, writer.known_types()), self.depth)})"
        if word in ("v", "set", "inplace", "owned"):
            return self._existing(word, name if rest else "", rest or name)
        return self._new(word, name, rest)

    def _type_of(self, name: str, word: str) -> Type:
        type = self.types[name]
        if word != "item":
            return type
        assert type.item is not None, type
        return type.item

    def _existing(self, word: str, name: str, pattern: str) -> str:
        writer = self.writer
        assignable, writable = word in ("set", "owned"), word in ("inplace", "owned")
        try:
            variable = writer.find(pattern, assignable, writable)
        except Unavailable:
            if not self.create:
                raise
            variable = self._create(pattern, writable)
        if name:
            self.names[name] = variable.name
            self.types[name] = variable.type
        return variable.name

    def _create(self, pattern: str, writable: bool) -> Variable:
        """Make a variable ahead of the whole template, out of what was in scope there."""
        writer = self.writer
        now, writer.variables = writer.variables, list(self._outer)
        type = concrete(pattern, writer.dice, writer.known_types())
        variable = Variable(writer.fresh(prefix(type)), type, writable=writable)
        value = writer.construct(type)
        writer.variables = [*now, variable]
        line = f"{variable.name} = ({value}).clone()" if writable else f"{variable.name} = {value}"
        writer.lines.insert(self._start, "    " * self._indent + line)
        self._start += 1
        self._outer.append(variable)
        return variable

    def _new(self, word: str, name: str, rest: str) -> str:
        writer = self.writer
        if word in ("newlike", "newitem", "binditem"):
            type = self._type_of(rest, "item" if word.endswith("item") else "like")
        else:
            type = concrete(rest, writer.dice, writer.known_types())
        self.types[name] = type
        self.names[name] = writer.fresh(prefix(type))
        variable = Variable(self.names[name], type)
        (self.bound if word.startswith("bind") else self._pending).append(variable)
        return variable.name


PREFIXES = {"int": "n", "float": "f", "bool": "flag", "str": "s", "tensor": "t", "list": "items", "tuple": "pair",
            "dict": "d", "set": "seen", "deque": "queue", "counter": "count", "fn": "fn", "obj": "obj"}  # fmt: skip


def prefix(type: Type) -> str:
    """What variables of this type are called, before a number."""
    return type.name.lower() if type.kind == "obj" else PREFIXES[type.kind]
