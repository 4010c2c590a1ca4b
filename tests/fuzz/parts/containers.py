# ruff: noqa: E501 - lines of programs
"""Programs about containers: every builtin one and subclasses of it with special methods of their own, holding functions,
classes, tensors, numbers and None, under all their operators and methods."""

from __future__ import annotations

from ..program import Program
from ..values import Dice

# What may be an element or a key. Functions, classes and objects hash by their address, so a set that holds one must
# not be iterated by a program that is to do the same in two runs.
ADDRESSED = ("f0", "f1", "Plain", "P0", "g", "(f0, 1)", "(Plain, 'k')", "len", "P0.method", "E.A", "NAN")
VALUES = ("0", "1", "2", "3", "True", "False", "1.0", "-0.0", "None", "'a'", "'b'", "'long word'", "(1, 2)", "()",
          "('a', None)", "frozenset({1, 2})", "2 ** 70", "b'x'")
UNHASHABLE = ("[1]", "{'a': 1}", "{1, 2}", "x", "y", "x[0]")
FAMILIES = ("list", "dict", "OrderedDict", "defaultdict", "Counter", "deque", "set", "frozenset", "tuple", "NamedTuple",
            "str", "int")

HEADER = '''\
import collections
import copy
import enum
import functools
import itertools
import operator
import types
from collections import Counter, OrderedDict, defaultdict, deque
from typing import NamedTuple

import torch

NAN = float("nan")
LOG = []


class Plain:
    def __init__(self, n=0):
        self.n = n

    def method(self):
        return self.n


class E(enum.Enum):
    A = 1
    B = 2


class Pair(NamedTuple):
    a: object
    b: object = 2


P0 = Plain(3)


def f0(x):
    return x + 1


def f1(x):
    return x * 2


def looking(c, *items):
    """Says between its items how long a container is by now."""
    for item in items:
        yield item
        LOG.append(len(c))


def raising(c, *items):
    yield from looking(c, *items)
    raise KeyError(len(c))


def changing(c, change, *items):
    for number, item in enumerate(items):
        if number == 1:
            change(c)
        yield item

'''

# Special methods that a subclass may define, by what the builtin has; arguments after self.
COMMON = ("__len__", "__iter__", "__bool__", "__contains__ item", "__eq__ other", "__ne__ other", "__repr__", "__hash__")
ORDER = ("__lt__ other", "__le__ other", "__gt__ other", "__ge__ other")
CHANGES = ("__setitem__ key,item", "__delitem__ key")
METHODS: dict[str, tuple[str, ...]] = {
    "list": (*COMMON, *ORDER, *CHANGES, "__getitem__ key", "__add__ other", "__radd__ other", "__iadd__ other",
             "__mul__ other", "__rmul__ other", "__imul__ other", "__reversed__", "append item", "extend other", "copy",
             "pop *key", "index item", "count item", "sort **key", "insert key,item"),
    "dict": (*COMMON, *CHANGES, "__getitem__ key", "__missing__ key", "__or__ other", "__ror__ other", "__ior__ other",
             "__reversed__", "get key,*item", "keys", "values", "items", "update *other", "setdefault key,item=None",
             "pop key,*item", "copy"),
    "set": (*COMMON, *ORDER, "__and__ other", "__or__ other", "__sub__ other", "__xor__ other", "__rand__ other",
            "__ror__ other", "__rsub__ other", "__iand__ other", "__ior__ other", "__isub__ other", "__ixor__ other",
            "add item", "discard item", "update *other", "union *other", "copy", "issubset other"),
    "tuple": (*COMMON, *ORDER, "__getitem__ key", "__add__ other", "__radd__ other", "__mul__ other", "__rmul__ other",
              "index item", "count item", "__neg__"),
    "str": (*COMMON, "__getitem__ key", "__add__ other", "__radd__ other", "__mul__ other", "__mod__ other", "upper",
            "join other", "__format__ spec", "__str__"),
    "int": ("__add__ other", "__radd__ other", "__sub__ other", "__mul__ other", "__rmul__ other", "__eq__ other",
            "__lt__ other", "__bool__", "__hash__", "__neg__", "__index__", "__int__", "__float__", "__repr__",
            "__floordiv__ other", "__iadd__ other", "__or__ other"),
}
KIND = {"OrderedDict": "dict", "defaultdict": "dict", "Counter": "dict", "deque": "list", "frozenset": "set",
        "NamedTuple": "tuple"}
REFLECTED = {"__radd__", "__rmul__", "__ror__", "__rand__", "__rsub__", "__iadd__", "__imul__", "__ior__", "__iand__",
             "__isub__", "__ixor__", "__bool__", "__missing__", "__neg__"}

# What is done with a container c; {c} and {d} are containers, {i} an element, {k} a number or a slice, {y} a tensor.
SEQUENCE = (
    "{c}[{k}]", "{c} + {d}", "{c} * {n}", "{n} * {c}", "{c} == {d}", "{c} != {d}", "{c} < {d}", "{c} >= {d}",
    "{c}.index({i})", "{c}.count({i})", "[z for z in {c}]", "[*{c}]", "list(reversed({c}))", "tuple({c})", "list({c})",
    "{c}[{k}:]", "{c}[::-1]", "sorted({c}, key=str)", "sum(1 for z in {c})", "list(zip({c}, {d}))", "any({c})", "all({c})",
    "list(enumerate({c}))", "operator.concat({c}, {d})", "max({c}, key=id, default=0) is None", "next(iter({c}), 5)",
    "operator.countOf({c}, {i})", "{c}.__getitem__(0)", "dict.fromkeys({c})", "first, *rest = {c}\nout += [first, rest]",
)
OPERATIONS: dict[str, tuple[str, ...]] = {
    "list": (
        *SEQUENCE, "{c}.append({i})", "{c}.extend({d})", "{c}.insert({k}, {i})", "{c}.pop()", "{c}.pop({k})",
        "{c}.remove({i})", "{c}.reverse()", "{c}.clear()", "{c}.copy()", "{c}[{k}] = {i}", "del {c}[{k}]",
        "{c} += {d}", "{c} *= {n}", "{c} += ({i} for _ in range(2))", "{c}.extend({c}[-1] for _ in range(3))",
        "{c}.extend(z for z, _ in zip({c}[:2], range(3)))", "{c}[1:2] = [{i}, {i}]", "{c}[:] = {d}", "{c}.sort(key=str)",
        "{c}.extend(len({c}) for _ in range(3))", "{c} += {c}", "{c}.extend({c})",
        "for n, z in enumerate({c}):\n    if n > 4: break\n    {c}.append({i})", "for z in {c}:\n    {c}.pop()", "{c}.__init__({d})",
        "{c}.append({c})\nout.append({c}[-1] is {c})\n{c}.pop()", "{c}.extend(looking({c}, 1, {i}, 3))",
        "{c} += raising({c}, {i}, 2)", "{c}[1:] = looking({c}, {i}, 3)", "{c}.__init__(looking({c}, {i}, 3))",
        "{c}.extend(changing({c}, list.clear, 1, {i}, 3))", "{c}.sort(key=lambda z: len({c}))",
    ),
    "deque": (
        *SEQUENCE, "{c}.append({i})", "{c}.appendleft({i})", "{c}.extend({d})", "{c}.extendleft([{i}, 1])", "{c}.pop()",
        "{c}.popleft()", "{c}.rotate({n})", "{c}.maxlen", "{c}.copy()", "{c}.insert(1, {i})", "{c} += {d}",
        "{c} *= {n}", "{c}.remove({i})", "{c}.clear()", "{c}.reverse()", "{c}[0] = {i}", "del {c}[0]",
        "deque({c}, 2) + {c}", "deque({c}, 2) * 2", "{c}.extend(len({c}) for _ in range(3))", "deque({c}, maxlen={n})",
        "for n, z in enumerate({c}):\n    if n > 4: break\n    {c}.append({i})", "{c}.index({i}, 1)",
        "{c}.extendleft(looking({c}, 1, {i}, 3))", "{c}.extendleft(len({c}) for _ in range(3))", "{c}.extend(raising({c}, {i}, 2))",
        "{c} += looking({c}, 1, {i})", "{c}.extendleft(raising({c}, {i}))", "{c}.extendleft({c})", "{c}.extendleft({d})",
        "{c}.extend(changing({c}, deque.clear, 1, {i}, 3))",
    ),
    "dict": (
        "{c}[{i}]", "{c}.get({i})", "{c}.get({i}, {i})", "{c}[{i}] = {i}", "del {c}[{i}]", "{c}.pop({i}, None)",
        "{c}.pop({i})", "{c}.setdefault({i}, {i})", "{c}.update({d})", "{c}.update(a=1, b={i})", "{c} | {d}",
        "{c} |= {d}", "{c} == {d}", "{c} != {d}", "{c} < {d}", "list({c})", "list({c}.items())", "list({c}.values())",
        "[*{c}.keys()]", "list(reversed({c}))", "{c}.copy()", "{c}.clear()", "{c}.popitem()", "dict({c})", "{{**{c}}}",
        "{c}.keys() & {d}.keys()", "{c}.keys() | {{1}}", "{c}.items() <= {d}.items()", "{c}.keys() == {d}.keys()",
        "{c}.keys() - {d}.keys()", "{i} in {c}.keys()", "{i} in {c}.values()", "({i}, 1) in {c}.items()",
        "dict(zip({c}, range(9)))", "{c}.keys().isdisjoint({d})", "len({c}.items())", "type({c}).fromkeys([1, {i}])",
        "{c}.fromkeys('ab', {i})", "{c} | OrderedDict(a=1)", "OrderedDict(a=1) | {c}", "{{'a': 1}} | {c}",
        "for n, z in enumerate({c}):\n    if n > 4: break\n    {c}[n + 100] = 1", "for z in {c}:\n    {c}[z] = 1", "for z in list({c}):\n    del {c}[z]",
        "for z in {c}.items():\n    {c}.clear()", "for z, w in {c}.items():\n    out.append((z, w))",
        "out.append([{c}.pop(z) for z in {c}])", "out.append({{z: {c}.setdefault(('n', z), 1) for z in {c}.keys()}})",
        "k = {c}.keys()\n{c}['new'] = 1\nout.append(list(k))", "sum(1 for z in {c})", "{c}.update([(1, 2), ('a', {i})])",
        "m = types.MappingProxyType({c})\n{c}['more'] = 1\nout.append(('more' in m, len(m), list(m)))",
        "m = {c}.keys().mapping\n{c}['other'] = 1\nout.append(('other' in m, len(m), type(m)))",
        "{c}[NAN] = 1\nout.append(({c}.get(NAN), NAN in {c}, {c}.get(float('nan'))))",
        "it = iter({c})\nout.append(next(it, 0))\n{c}.update(new=1)\nout.append(list(it))",
        "def later(q={c}):\n    return len(q)\nout.append(later())", "f0(**{{'x': y}}) is y", "dict(**{c})",
        "next(iter({c}.values()), 5)", "max({c}.values(), key=str, default=0)", "operator.or_({c}, {d})",
        "'{{}}'.format(len({c}))", "match_it({c})", "{c}.update((z, {i}) for z in looking({c}, 1, {i}, 3))",
        "{c}.update((len({c}) + 10, 1) for _ in range(3))", "{c} |= zip(raising({c}, {i}, 2), 'abc')",
        # not dict.clear: what an OrderedDict is afterwards, CPython itself does not know
        "{c}.update((z, 0) for z in changing({c}, lambda z: z.clear(), 1, {i}, 3))",
        # where a dictionary puts new keys depends on its past
        "m = dict([*{c}.items()])\nfor n, z in enumerate(m):\n    if n > 4: break\n    del m[z]\n    m[n + 100] = 1",
        "m = dict([*{c}.items()])\nfor z, w in m.items():\n    m[z] = {i}\n    m[('n', z)] = 1\n    m.popitem()",
        "m = dict([*{c}.items()])\nit = iter(m.values())\nout.append(next(it, 0))\nm[7] = m.pop({i}, 1)\nout += [next(it, 0), next(it, 0)]",
    ),
    "set": (
        "{c} | {d}", "{c} & {d}", "{c} - {d}", "{c} ^ {d}", "{c} |= {d}", "{c} &= {d}", "{c} -= {d}", "{c} ^= {d}",
        "{c} == {d}", "{c} != {d}", "{c} <= {d}", "{c} < {d}", "{c} >= {d}", "{c} > {d}", "{c}.isdisjoint({d})",
        "{c}.isdisjoint(z for z in (1, 2, {i}))", "{c}.issubset({d})", "{c}.issuperset([{i}])", "{c}.union([{i}], {d})",
        "{c}.intersection({d})", "{c}.difference([{i}])", "{c}.symmetric_difference([{i}])", "{c}.copy()",
        "{c}.add({i})", "{c}.remove({i})", "{c}.discard({i})", "{c}.update([{i}])", "{c}.intersection_update({d})",
        "{c}.difference_update([{i}])", "{c}.clear()", "set({c})", "frozenset({c})", "sum(1 for z in {c})",
        "{c} | {{{i}}}", "{{{i}}} | {c}", "{{{i}: 1}}.keys() & {c}", "{c} & {{{i}: 1}}.keys()", "frozenset({c}) == {c}",
        "for n, z in enumerate({c}):\n    if n > 4: break\n    {c}.add(n + 100)", "for z in {c}:\n    {c}.clear()",
        "out.append([{c}.discard(z) for z in {c}])", "out.append([{c}.add(z + 100) for z in {c}])",
        "it = iter((1, {i}, 2, 3))\nout.append({c}.isdisjoint(it))\nout.append(list(it))",
        "it = iter((1, {i}, 2, 3))\nout.append({c}.issuperset(it))\nout.append(list(it))",
        "{c}.copy() is {c}", "frozenset({c}) is {c}", "{c}.union() is {c}", "operator.ior({c}, {d})",
        "{c}.update(len({c}) for _ in range(3))", "{c}.update(looking({c}, 1, {i}, 3))", "{c}.update([7], raising({c}, {i}, 2), [8])",
        "{c}.difference_update(len({c}) for _ in range(3))", "{c}.difference_update(looking({c}, {i}, 1, 2))",
        "{c}.difference_update(raising({c}, {i}, 1))", "{c}.intersection_update(looking({c}, {i}, 1, 2))",
        "{c}.symmetric_difference_update(looking({c}, {i}, 1, 7))", "{c}.union(looking({c}, {i}, 7))",
        "{c}.update(changing({c}, set.clear, 1, {i}, 3))", "{c}.__init__(looking({c}, {i}, 7))", "{c}.update([1], ({i}, 7), 5)",
        "{c}.issubset(looking({c}, {i}, 7))", "{c}.difference(looking({c}, {i}, 7), [{i}])", "{c}.update({d}, looking({c}, 1))",
    ),
    "str": (
        "{c} + 'x'", "'x' + {c}", "{c} * {n}", "{c}[{k}]", "{c} == 'a'", "{c} < 'b'", "{c}.upper()", "f'{{{c}}}'",
        "{c}.join(['1', '2'])", "[z for z in {c}]", "{c} % ()", "str({c})", "'a' in {c}", "{c}.replace('a', 'b')",
        "{{{c}: 1}}", "repr({c})", "'%s' % {c}", "hash({c}) == hash('word')", "{c} += 'y'", "','.join([{c}, 'z'])",
    ),
    "int": (
        "{c} + 1", "1 + {c}", "{c} - {d}", "{c} * 2.5", "{c} == 2", "{c} < 3", "-{c}", "{c} // 2", "[0, 1, 2, 3][{c}]",
        "y * {c}", "y + {c}", "range({c})", "{c} += 1", "{c} | 1", "float({c})", "int({c})", "f'{{{c}}}'", "{{{c}: 1}}",
        "hash({c}) == hash(2)", "y.sum({c} - {c})", "[1] * {c}", "{c}.bit_length()", "isinstance({c}, int)",
    ),
}
ORDERED = ("{c}.move_to_end({i})", "{c}.move_to_end({i}, last=False)", "{c}.popitem(last=False)", "list({c})",
           "{c}.move_to_end(next(iter({c})))\nout.append(list({c}))", "{c} == OrderedDict(reversed(list({c}.items())))",
           "for n, z in enumerate({c}):\n    if n > 4: break\n    {c}.move_to_end(z)")
COUNTS = ("{c}.most_common(2)", "{c} + {d}", "{c} - {d}", "{c} & {d}", "{c}.total()", "{c}.subtract([{i}])",
          "list(itertools.islice({c}.elements(), 9))", "{c} += Counter(['a'])", "+{c}", "{c}.update(['a', 'a'])", "{c} <= {d}", "{c}['none']")
EVERYWHERE = ("len({c})", "bool({c})", "{i} in {c}", "{i} not in {c}", "repr({c}) == repr({c})", "type({c})", "not {c}",
              "isinstance({c}, (list, dict, set, tuple))", "copy.copy({c})", "copy.copy({c}) is {c}", "{c} is {d}",
              "y = y * len({c})", "y = y + 1 if {c} else y - 1", "copy.deepcopy(len({c}))", "{c}.note = 1",
              "getattr({c}, 'note', 0)", "hasattr({c}, '__dict__')", "iter({c}) is {c}", "callable({c})", "{c} == {i}",
              "hash({c}) == hash({c})", "{c}.__len__()", "{c}.__class__", "not_there({c})", "torch._dynamo.graph_break()",
              "y = y + sum(z for z in [1, 2] if {c} is not None)", "{c} = type({c})({c})", "keep.append({c})",
              "bool({c}) is bool(len({c}))", "{c} is not None and len({c}) > 1", "y.add_(1)", "[{c}] == [{d}]",
              "({c},) < ({d},)", "{c} in [{d}, {c}]", "[{d}].index({c})", "{{'c': {c}}} == {{'c': {d}}}")


class _Writer:
    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)
        self.classes: list[tuple[str, str]] = []  # name, family
        self.lines: list[str] = []

    def element(self, family: str = "") -> str:
        dice = self.dice
        if dice.chance(0.3 if family != "iterated" else 0.0):
            return dice.choice(ADDRESSED)
        return dice.choice(VALUES)

    def user_class(self, name: str, family: str) -> str:
        dice, kind = self.dice, KIND.get(family, family)
        base = {"NamedTuple": "Pair"}.get(family, family)
        if dice.chance(0.15):
            known = [known for known, its in self.classes if its == family]
            base = known[0] if known else base
        lines = [f"class {name}({base}):"]
        if dice.chance(0.15):
            lines.append("    __slots__ = ()")
        if dice.chance(0.3):
            lines.append("    note = 'on the class'")
        for method in dice.sample(METHODS[kind], dice.weighted([(2, 0), (4, 1), (3, 2), (1, 4)])):
            body = self.method(method, kind)
            if family != "Counter" or not method.startswith("get "):  # without its own no counter can be made
                lines += body
        if len(lines) == 1:
            lines.append("    pass")
        self.classes.append((name, family))
        return "\n".join(lines) + "\n\n\n"

    def method(self, spec: str, kind: str) -> list[str]:
        dice = self.dice
        name, _, parameters = spec.partition(" ")
        given = [part for part in parameters.split(",") if part]
        passed = ", ".join(part.split("=")[0] for part in given)
        above = f"super().{name}({passed})"
        if name == "__bool__":
            above = "self.__len__() > 1" if kind != "int" else "int(self) > 2"
        elif name == "__missing__":
            above = "'missing'"
        elif name in REFLECTED and not hasattr({"list": list, "dict": dict, "set": set, "tuple": tuple, "str": str,
                                                "int": int}[kind], name):
            above = "NotImplemented"
        body = dice.weighted([
            (5, [f"return {above}"]),
            (3, [f"LOG.append({name!r})", f"return {above}"]),
            (1, [f"result = {above}", "return result"]),
            (1, ["torch._dynamo.graph_break()", f"return {above}"]),
            (3, [f"return {self.made_up(name, kind)}"]),
            (1, [f"return list(super().{name}({passed}))"] if name in ("__iter__", "keys", "values", "items")
                else [f"return {self.made_up(name, kind)}"]),
        ])
        if name == "__iter__" and dice.chance(0.3):
            body = dice.choice([["yield from super().__iter__()", "yield 'end'"], ["return iter([1, 2])"],
                                ["for z in super().__iter__():", "    yield z"]])
        return [f"    def {name}({', '.join(['self', *given])}):", *("        " + line for line in body)]

    def made_up(self, name: str, kind: str) -> str:
        dice = self.dice
        if name == "__len__":
            return dice.choice(["7", "0", "1", "True"])
        if name in ("__bool__", "__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "issubset"):
            return dice.choice(["True", "False", "NotImplemented" if name not in ("__bool__", "__contains__") else "True"])
        if name in ("__hash__", "__index__", "__int__", "index", "count"):
            return "2"
        if name == "__float__":
            return "2.5"
        if name in ("__repr__", "__format__", "__str__", "upper", "join"):
            return "'<shown>'"
        if name in ("__iter__", "__reversed__"):
            return "iter([1, 'two'])"
        if name in ("keys", "values", "items"):
            return "['a']"
        if name in ("__setitem__", "__delitem__", "append", "add", "discard", "update", "extend", "sort", "insert"):
            return "None"
        if name.startswith("__") and name[2] in "ri" or name in ("__add__", "__or__", "__and__", "__sub__", "__mul__"):
            return dice.choice(["NotImplemented", "('made', type(other).__name__)", "self", "type(self)(self)"])
        return dice.choice(["'made up'", "None", "self"])

    def contents(self, family: str) -> str:
        dice = self.dice
        count = dice.weighted([(1, 0), (2, 1), (3, 2), (4, 3)])
        items = [self.element() for _ in range(count)]
        if family == "str":
            return "'word'"
        if family == "int":
            return dice.choice(["2", "0", "3", "-1"])
        if family in ("set", "frozenset"):
            if dice.chance(0.6):
                items = [dice.choice(VALUES[:-1]) for _ in range(count)]
            return f"[{', '.join(items)}]"
        if KIND.get(family, family) == "dict":
            pairs = [f"({item}, {self.value()})" for item in items]
            if family == "Counter":
                return f"{{{', '.join(f'{item}: {dice.between(-1, 3)}' for item in items)}}}"
            return f"[{', '.join(pairs)}]"
        return f"[{', '.join(self.value() for _ in range(count))}]"

    def value(self) -> str:
        return self.dice.choice(UNHASHABLE) if self.dice.chance(0.2) else self.element()

    def construct(self, family: str) -> str:
        dice = self.dice
        known = [name for name, its in self.classes if its == family]
        name = dice.choice(known) if known and dice.chance(0.75) else {"NamedTuple": "Pair"}.get(family, family)
        inside = self.contents(family)
        if family == "NamedTuple":
            return f"{name}({self.value()}, {self.value()})" if dice.chance(0.7) else f"{name}({self.value()})"
        if family == "defaultdict":
            return f"{name}({dice.choice(['list', 'int', 'None', 'lambda: 5', 'Plain'])}, {inside})"
        if family == "deque":
            return f"{name}({inside}, {dice.choice(['None', '2', '3', '0'])})"
        literals = {"list": inside, "dict": f"dict({inside})"}
        if name == family and family in literals:
            return literals[family]
        if name == "tuple" or name == "set":
            return f"{name}({inside})"
        return f"{name}({inside})" if dice.chance(0.95) else f"{name}()"

    def operation(self, names: dict[str, str]) -> str:
        dice = self.dice
        name = dice.choice(sorted(names))
        family = names[name]
        kind = KIND.get(family, family)
        table = OPERATIONS["deque" if family == "deque" else kind] if kind != "tuple" else SEQUENCE
        if family == "OrderedDict" and dice.chance(0.3):
            table = ORDERED
        if family == "Counter" and dice.chance(0.4):
            table = COUNTS
        template = dice.choice(EVERYWHERE if dice.chance(0.25) else table)
        similar = [other for other, its in names.items() if KIND.get(its, its) == kind]
        other = dice.choice(sorted(similar)) if dice.chance(0.8) else dice.choice(sorted(names))
        index = dice.choice(["0", "1", "-1", "5", "slice(0, 2)", "True", "x.shape[0] - 2"])
        text = template.format(c=name, d=other, i=self.element(), k=index, n=dice.choice(["2", "0", "-1", "1", "'s'"]))
        first = text.splitlines()[0]
        statement = "\n" in text or first.startswith(("del ", "for ", "y = ")) or _assigns(first)
        return text if statement else f"out.append({text})"

    def program(self) -> str:
        dice = self.dice
        families = [dice.choice(FAMILIES)]
        if dice.chance(0.4):
            families.append(dice.choice(FAMILIES))
        text = HEADER
        for number in range(dice.weighted([(1, 0), (6, 1), (3, 2)])):
            text += self.user_class(f"C{number}", dice.choice(families))
        names: dict[str, str] = {}
        local: list[str] = []
        given: list[str] = []
        globals_: list[str] = []
        for number in range(dice.between(1, 3)):
            family = dice.choice(families)
            where = dice.weighted([(5, local), (4, given), (1, globals_)])
            where.append(f"c{number} = {self.construct(family)}")
            names[f"c{number}"] = family
        arguments = [line.split(" = ")[0] for line in given]
        text += "def match_it(c):\n    match c:\n        case {'a': z}:\n            return z\n" \
                "        case [a, b]:\n            return b\n    return None\n\n\n"
        text += "def make():\n    x = torch.arange(12.0).reshape(3, 4)\n    y = x + 2\n    g = Plain(1)\n    keep = []\n"
        text += "".join(f"    {line}\n" for line in globals_)
        text += f"\n    def fn({', '.join(['x', *arguments])}):\n"
        body = ["out = []", "y = x + 1", "g = f1"]
        if globals_:
            body.insert(0, "nonlocal " + ", ".join(line.split(" = ")[0] for line in globals_))
        body += local
        for _ in range(dice.between(1, 5)):
            body += _guarded(self.operation(names)) if dice.chance(0.7) else self.operation(names).splitlines()
        body.append("y = y * 2")
        shown = [name for name in names if dice.chance(0.8)]
        body.append(f"return y, out, {', '.join(shown)}" if shown else "return y, out")
        text += "".join(f"        {line}\n" for line in body)
        text += "\n    calls = []\n"
        fresh = dice.chance(0.5)
        if not fresh:
            text += "".join(f"    {line}\n" for line in given)
        text += f"    for _ in range({dice.between(1, 3)}):\n"
        if fresh:
            text += "".join(f"        {line}\n" for line in given)
        text += f"        calls.append(((x.clone(), {''.join(name + ', ' for name in arguments)}), {{}}))\n"
        watched = ", ".join(f"{line.split(' = ')[0]!r}: {line.split(' = ')[0]}" for line in globals_)
        text += f"    return fn, calls, lambda index: None, lambda: {{'keep': keep, {watched}}}\n"
        return text


def _assigns(line: str) -> bool:
    import ast

    return not isinstance(ast.parse(line).body[0], ast.Expr)


def _guarded(text: str) -> list[str]:
    lines = ["try:", *("    " + line for line in text.splitlines())]
    return [*lines, "except Exception as error:", "    out.append(type(error))"]


def generate(seed: int) -> Program:
    """The program of a seed."""
    return Program(seed, _Writer(seed).program())
