"""Calls of builtins, of methods of builtin types and of special methods, right and wrong: number of arguments,
keywords, types, star-arguments, on values known at capture, on arguments and on tensors."""

from __future__ import annotations

import builtins
import collections
import math
import operator
import re
import sys

from ..program import Program
from ..values import Dice

HEADER = """\
import collections
import functools
import itertools
import math
import operator
import re

import torch


def told(error):
    return type(error).__name__, str(error)


def without_addresses(value):
    if type(value) is str:
        # who owns a method that is called wrongly depends on whether the call is made through a bound method
        # Python 3.12 has other words for a method without its object once it has been called a few times
        value = re.sub(r"^(\\w+)(?:\\(\\))? .*(?:got -1|\\(-1 given\\))$", r"\\1() needs an argument", value)
        value = value.removeprefix("unbound method ")
        return re.sub("0x[0-9a-f]+", "0x", re.sub(r"[\\w.]+\\.(\\w+\\(\\))", r"\\1", value))
    if hasattr(type(value), "__next__"):
        value = first(value)
    if type(value) is slice:
        value = ["slice", value.start, value.stop, value.step]
    if type(value) is int and abs(value) > 2**40:
        return "hash of an address"
    if type(value) in (list, tuple):
        return type(value)([without_addresses(item) for item in value])
    return value


def use(fn, args, kwargs):
    try:
        return without_addresses(fn(*args, **kwargs))
    except Exception as error:
        return without_addresses(told(error)), type(error.__context__).__name__


def first(values):
    return list(itertools.islice(values, 5))


class Plain:
    size = 3

    def __init__(self):
        self.value = 1


class Holder:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

"""

FUNCTIONS = (
    "abs", "all", "any", "ascii", "bin", "bool", "bytes", "callable", "chr", "complex", "dict", "divmod", "enumerate",
    "filter", "float", "format", "frozenset", "getattr", "hasattr", "hash", "hex", "int", "isinstance", "issubclass",
    "iter", "len", "list", "map", "max", "min", "next", "oct", "ord", "pow", "print", "range", "repr", "reversed",
    "round", "set", "setattr", "delattr", "slice", "sorted", "str", "sum", "tuple", "type", "zip",
)
LIBRARY = (
    *(f"itertools.{name}" for name in (
        "accumulate", "chain", "chain.from_iterable", "combinations", "combinations_with_replacement", "compress",
        "count", "cycle", "dropwhile", "filterfalse", "groupby", "islice", "pairwise", "permutations", "product",
        "repeat", "starmap", "takewhile", "zip_longest", "tee")),
    "functools.reduce", "functools.partial",
    *(f"operator.{name}" for name in sorted(operator.__all__) if not name.startswith("_")),
    *(f"math.{name}" for name in sorted(vars(math)) if callable(getattr(math, name)) and name[0] != "_"),
    "collections.deque", "collections.OrderedDict", "collections.defaultdict", "collections.Counter",
    "collections.namedtuple", "collections.ChainMap",
)
# what a method is called on, by its type
RECEIVERS = {
    "list": ("[3, 1, 2]", "[]", "[x, 1]"),
    "tuple": ("(3, 1, 1)", "()", "(x, 2)"),
    "dict": ("{'a': 1, 'b': 2}", "{}", "{'x': x}"),
    "set": ("{1, 2, 3}", "set()"),
    "frozenset": ("frozenset((1, 2))",),
    "str": ("'a b,c'", "''", "s"),
    "bytes": ("b'ab'",),
    "int": ("5", "n", "True"),
    "float": ("2.5", "f"),
    "complex": ("(1 + 2j)",),
    "range": ("range(5)", "range(n)"),
    "slice": ("slice(1, 5, 2)",),
    "collections.deque": ("collections.deque([1, 2, 3])", "collections.deque([1, 2], 2)"),
    "collections.OrderedDict": ("collections.OrderedDict(a=1, b=2)",),
    "collections.defaultdict": ("collections.defaultdict(list, a=1)",),
    "collections.Counter": ("collections.Counter('aab')",),
    "type({}.keys())": ("{'a': 1, 'b': 2}.keys()",),
    "type({}.items())": ("{'a': 1, 'b': 2}.items()",),
    "type({}.values())": ("{'a': 1, 'b': 2}.values()",),
    "torch.Tensor": ("x",),
}
TENSOR_METHODS = ("add", "dim", "size", "sum", "tolist", "view", "reshape", "numel", "clone", "t", "mul", "max")
# their results are addresses, sizes in memory, or belong to pickling
LEFT_OUT = {
    "__init_subclass__", "__subclasshook__", "__class_getitem__", "__reduce__", "__reduce_ex__", "__sizeof__",
    "__dir__", "__getattribute__", "__new__", "__class__", "__getnewargs__", "__getstate__", "__doc__",
    "__dict__", "__weakref__", "__module__",
}
VALUES = (
    (3, ("0", "1", "2", "-1", "n", "n + 1", "True")),
    (2, ("2.5", "f", "float('nan')", "1j")),
    (2, ("'a'", "''", "'b'", "s", "'value'", "'12'", "b'a'")),
    (2, ("[3, 1, 2]", "[]", "['a', 'b']", "(1, 2)", "()", "[(1, 2), (3, 4)]", "'abc'", "[1, 'a']")),
    (1, ("{'a': 1}", "{}", "{1, 2}", "frozenset((1,))", "{'value': 2}")),
    (1, ("range(3)", "iter([1, 2])", "(v for v in (1, 2))", "slice(1)", "slice(None, None, 2)")),
    (1, ("None", "...", "NotImplemented")),
    (1, ("len", "int", "str", "list", "lambda v: v", "lambda: 1", "lambda v, w: v", "operator.add", "Plain", "dict")),
    (1, ("Plain()", "Holder([1, 2])", "Holder")),
    (1, ("x", "x[0, 0]", "x.shape", "x.shape[0]", "x.dtype")),
)
CLASSES = (("'A'", "()", "{}"), ("'A'", "(int,)", "{'value': 2}"), ("'A'", "{}"))
KEYWORDS = (
    "key", "default", "strict", "reverse", "start", "sep", "end", "maxsplit", "base", "encoding", "initial", "repeat",
    "iterable", "fillvalue", "maxlen", "func", "step", "sequence", "object", "real", "imag", "mod", "exp", "ndigits",
    "number", "function", "obj", "x", "a", "self", "other", "last", "value", "index", "keepends", "abs_tol",
    "other_name", "r", "n", "selectors", "string", "tabsize", "dim",
)
# a special method, what it may return, and what calls it
SPECIAL = {
    "__bool__": ("1.0; 1; None; 'a'; True; []", "bool(o)| not o|(1 if o else 2)|o and 1|[v for v in (1, 2) if o]|"
                 "any([o])|all((o, 1))|list(filter(None, [o]))"),
    "__len__": ("-1; 2.0; 'a'; None; 3; True; 10 ** 30", "len(o)|bool(o)|not o|(1 if o else 2)|list(o)|reversed(o)"),
    "__iter__": ("5; [1, 2]; None; iter([1, 2]); 'ab'; self", "list(o)|first(iter(o))|[v for v in o]|"
                 "(lambda *a: a)(*o)|1 in o|tuple(o)|sum(o)|first(zip(o, o))|dict(o)|set(o)|max(o)|sorted(o)|"
                 "first(enumerate(o))|','.join(o)"),
    "__hash__": ("1.5; 'a'; 3; -1; 10 ** 30; None; True", "hash(o)|{o: 1}[o]|len({o, o})|o in {1, 2}|{1: 2}.get(o)|"
                 "frozenset([o]) == {o}"),
    "__index__": ("1; 1.0; 'a'; True; None; 10 ** 30; -1", "[1, 2, 3][o]|list(range(o))|operator.index(o)|hex(o)|"
                  "int(o)|float(o)|[1, 2] * o|'ab' * o|(1, 2)[:o]|math.gcd(o, 4)|round(2.5, o)|x[0, o]|'abc'[o]|chr(o)|"
                  "first(itertools.islice('abc', o))|complex(o)|x.sum(o)"),
    "__int__": ("1; 1.5; 'a'; True; None", "int(o)|operator.index(o)|float(o)|round(o)|math.trunc(o)"),
    "__float__": ("1.5; 1; 'a'; None; True", "float(o)|math.sin(o)|int(o)|complex(o)|math.floor(o)|x + float(o)"),
    "__complex__": ("1j; 1; 'a'; None", "complex(o)|float(o)"),
    "__contains__": ("1; 0; 'a'; None; []; NotImplemented", "1 in o|1 not in o|operator.contains(o, 2)"),
    "__reversed__": ("5; [1, 2]; None; iter([1]); 'ab'", "reversed(o)|list(reversed(o))|[v for v in reversed(o)]"),
    "__eq__": ("1; 'a'; None; []; NotImplemented; 2.5", "o == 1|o == o|1 == o|o != 1|[o] == [1]|o in [1, 2]|"
               "(1, o) == (1, 2)|[1, 2].index(o)|{'a': o} == {'a': 1}|[o, 1].count(1)|operator.eq(o, 2)|[1].remove(o)"),
    "__lt__": ("1; 'a'; None; []; NotImplemented", "o < 1|1 < o|o > 1|sorted([o, o])|min(o, o)|max([o, o])|[o] < [o]|"
               "o <= 1|sorted([2, o], reverse=True)"),
    "__add__": ("1; 'a'; None; NotImplemented", "o + 1|1 + o|sum([o, 1])|sum([o], o)|operator.add(o, o)|o + 'a'"),
    "__radd__": ("1; 'a'; None; NotImplemented", "o + 1|1 + o|'a' + o|[1] + o|sum([o, 1])|x + o"),
    "__str__": ("1; 'a'; None; b'a'", "str(o)|f'{o}'|'%s' % o|format(o)|repr(o)|'{}'.format(o)"),
    "__repr__": ("1; 'a'; None; b'a'", "repr(o)|str(o)|f'{o!r}'|str([o])|ascii(o)|'%r' % (o,)"),
    "__format__": ("1; 'a'; None", "format(o)|f'{o}'|f'{o:>3}'|'{:3}'.format(o)|format(o, 'd')"),
    "__next__": ("1; None; self", "next(o)|next(o, 3)|first(iter(o))|first(zip(o))"),
    "__getitem__": ("1; None; 'a'", "o[0]|o[:]|first(iter(o))|operator.getitem(o, 1)|3 in [o[0]]"),
    "__setitem__": ("1; None", "operator.setitem(o, 1, 2)"),
    "__delitem__": ("1; None", "operator.delitem(o, 1)"),
    "__call__": ("1; None; self", "o()|o(1)|o(a=1)|first(map(o, [1]))|callable(o)|sorted([2, 1], key=o)"),
    "__enter__": ("1; None; self", "entered(o)"),
    "__exit__": ("1; None; True; []", "entered(o)"),
    "__neg__": ("1; None; 'a'; NotImplemented", "-o|operator.neg(o)|abs(o)"),
    "__abs__": ("1; None; 'a'", "abs(o)|-o"),
    "__round__": ("1; None; 'a'", "round(o)|round(o, 1)|round(o, ndigits=None)|round(number=o)"),
    "__getattr__": ("1; None", "o.thing|getattr(o, 'b')|hasattr(o, 'c')|getattr(o, 'd', 5)|o.__len__|len(o)"),
    "__dir__": ("1; None; ['b', 'a']; 'ab'", "dir(o)"),
    "__length_hint__": ("-1; 'a'; 2; None; NotImplemented; 1.5", "operator.length_hint(o)|list(o)"),
    "__missing__": ("1; None", "o['a']"),
    "__divmod__": ("1; None; NotImplemented", "divmod(o, 1)|divmod(1, o)"),
    "__pow__": ("1; None; NotImplemented", "o ** 2|pow(o, 2)|pow(o, 2, 3)|2 ** o|pow(2, o)"),
    "__matmul__": ("1; None; NotImplemented", "o @ 1|x @ o|operator.matmul(o, o)"),
    "__instancecheck__": ("1; None", "isinstance(o, type(o))|isinstance(1, type(o))"),
    "__iadd__": ("1; None; NotImplemented; self", "operator.iadd(o, 1)|added(o)"),
}
ENTERED = """
def entered(o):
    with o as inner:
        return type(inner).__name__


def added(o):
    o += 1
    return type(o).__name__

"""


# Python 3.13 itself may crash in the second call of a method of a class without any argument.
LEAST_UNBOUND = int(sys.version_info[:2] == (3, 13))
# what prints as an address
ADDRESS = "lambda|Plain|Holder|iter|for"
SCOPE = {"collections": collections, **vars(builtins)}


class _Writer:
    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed * 7 + 3)
        self.lines: list[str] = []
        self.classes: list[str] = []

    def value(self) -> str:
        return self.dice.choice(self.dice.weighted(VALUES))

    def arguments(self, low: int = 0) -> str:
        """A list of arguments, seldom with keywords and stars."""
        dice = self.dice
        count = max(low, dice.weighted([(2, 0), (5, 1), (5, 2), (3, 3), (1, 4)]))
        parts = [self.value() for _ in range(count)]
        if dice.chance(0.1) and parts:
            parts = [*parts[:-1], f"*[{parts[-1]}]"]
        if dice.chance(0.04):
            parts.append(dice.choice(("*5", "*[1, 2]", "*'ab'", "*(v for v in (1,))", "*x")))
        for _ in range(dice.weighted([(8, 0), (2, 1), (0.5, 2)])):
            name, value = dice.choice(KEYWORDS), self.value()
            if not any(part.startswith(f"{name}=") for part in parts):
                parts.append(f"{name}={value}")
        if dice.chance(0.05):
            parts.append(dice.choice(("**{'key': None}", "**{'a': 1}", "**{1: 2}", "**[1]", "**{}", "**{'strict': 1}")))
        return ", ".join(parts)

    def call(self) -> str:
        dice = self.dice
        kind = dice.weighted([(5, "function"), (3, "library"), (6, "method"), (2, "unbound"), (3, "special"),
                              (0.3, "class"), (0.5, "object")])
        if kind == "class":
            return f"type({', '.join(dice.choice((part, self.value())) for part in dice.choice(CLASSES))})"
        if kind == "object":
            return f"object.__{dice.choice(('eq', 'ne', 'lt', 'ge'))}__({self.value()}, {self.value()})"
        if kind == "function":
            name = dice.choice(FUNCTIONS)
            arguments = self.arguments()
            if name == "print" and re.search(ADDRESS, arguments):
                name = "repr"
            if name == "hash" and re.search(ADDRESS, arguments):
                return f"(hash({arguments}) != 0)"
            return f"{name}({arguments})"
        if kind == "library":
            name = dice.choice(LIBRARY)
            text = f"{name}({self.arguments()})"
            if name.startswith("itertools."):
                return f"first({text})"
            if name in ("operator.itemgetter", "operator.attrgetter", "operator.methodcaller"):
                return f"{text}({self.value()})"
            return text
        if kind == "special":
            return self.special()
        owner = dice.choice(list(RECEIVERS))
        receiver = dice.choice(RECEIVERS[owner])
        name = self.method(owner)
        if kind == "method":
            text = f"{self.bracketed(receiver)}.{name}({self.arguments()})"
        elif dice.chance(0.5):
            text = f"{owner}.{name}({self.arguments(LEAST_UNBOUND)})"
        else:
            more = self.arguments()
            text = f"{owner}.{name}({receiver}{', ' if more else ''}{more})"
        return f"({text} != 0)" if name == "__hash__" and self.hashes_addresses(owner, text) else text

    @staticmethod
    def hashes_addresses(owner: str, text: str) -> bool:
        return eval(owner, SCOPE).__hash__ is object.__hash__ or re.search(ADDRESS, text) is not None

    @staticmethod
    def bracketed(text: str) -> str:
        return f"({text})" if text.isdigit() else text

    def method(self, owner: str) -> str:
        if owner == "torch.Tensor":
            return self.dice.choice(TENSOR_METHODS)
        found = [name for name in sorted(dir(eval(owner, SCOPE))) if name not in LEFT_OUT]
        ordinary = [name for name in found if not name.startswith("_")]
        if ordinary and self.dice.chance(0.75):
            return self.dice.choice(ordinary)
        return self.dice.choice([name for name in found if name.startswith("_")])

    def special(self) -> str:
        dice = self.dice
        name = f"Odd{len(self.classes)}"
        methods = dice.sample(list(SPECIAL), dice.weighted([(4, 1), (2, 2), (1, 3)]))
        lines = [f"class {name}{dice.weighted([(6, ''), (1, '(list)'), (1, '(dict)'), (1, '(int)'), (1, '(str)')])}:"]
        for method in methods:
            if dice.chance(0.08):
                lines.append(f"    {method} = None")
                continue
            if dice.chance(0.05):
                odd = dice.choice(("5", "len", "staticmethod(lambda *a: 1)", "property(len)"))
                lines.append(f"    {method} = {odd}")
                continue
            parameters = dice.weighted([(12, "self, *args"), (1, "self"), (1, ""), (1, "self, other")])
            results = SPECIAL[method][0].split("; ")
            result = dice.choice([text for text in results if text != "self" or "self" in parameters])
            if dice.chance(0.08):
                result = dice.choice(("x", "1 / 0", "undefined", "torch.ones(2)"))
            lines += [f"    def {method}({parameters}):", f"        return {result}"]
        self.classes.append("\n".join(lines) + "\n\n")
        use = dice.choice(SPECIAL[dice.choice(methods)][1].split("|")).strip()
        if use == "list(o)" and "__getitem__" in methods and "__iter__" not in methods:
            use = "operator.length_hint(o)"  # items without end
        wrapped = f"(lambda o: {use})({name}())"
        return wrapped if dice.chance(0.5) else f"(lambda o: {use})(made({name}))"

    def statement(self) -> list[str]:
        dice = self.dice
        call = self.call()
        if dice.chance(0.2):
            lines = [f"y = x * {dice.between(1, 3)} + 1", f"out.append({call})", "out.append(y)"]
        else:
            lines = [f"out.append({call})"]
        error = dice.weighted([(6, "Exception"), (2, "TypeError"), (1, "(TypeError, ValueError)")])
        # what torch says about the wrong call of a method depends on how it got there
        said = "type(error).__name__" if "x." in call or "torch." in call else "told(error)"
        return ["try:", *(f"    {line}" for line in lines), f"except {error} as error:", f"    out.append({said})"]

    def program(self, seed: int) -> Program:
        dice = self.dice
        body: list[str] = []
        for _ in range(dice.between(2, 5)):
            body += self.statement()
            if dice.chance(0.3):
                body.append("x = x + 1")
        if dice.chance(0.2):
            body.append(f"out.append({self.call()})")
        body.append("return out, x * 2")
        source = [HEADER, ENTERED, *self.classes, "def made(cls):\n    return cls()\n\n\n",
                  "def fn(x, n, f, s):\n    out = []\n"]
        source += [f"    {line}\n" for line in body]
        source.append("""

def make():
    calls = [((torch.arange(6.0).reshape(2, 3), 2, 1.5, 'ab'), {}), ((torch.ones(3, 3), 3, 0.5, 'b'), {})]
    return fn, calls, lambda index: None, lambda: {}, use
""")
        return Program(seed, "".join(source))


def generate(seed: int) -> Program:
    """A program of calls, each caught on its own."""
    return _Writer(seed).program(seed)
