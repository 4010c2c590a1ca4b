# ruff: noqa: E501 - lines of programs
"""Programs about objects: descriptors, slots, attribute hooks, metaclasses, enums, dataclasses, caches, weak references,
generators and closures, each with what it is and which object it is among the results."""

from __future__ import annotations

from collections.abc import Callable

from ..program import Program
from ..values import Dice

HEADER = '''\
import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import types
import weakref

import torch

LOG = []


class Plain:
    def __init__(self, n=0):
        self.n = n

    def method(self):
        return self.n


'''


class _Writer:
    """Collects definitions (module level), what `make` sets up, and statements of the compiled function."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)
        self.definitions: list[str] = []
        self.setup: list[str] = []
        self.statements: list[str] = []
        self.watched: list[str] = []
        self.last: list[str] = []
        self.count = 0

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def define(self, text: str) -> None:
        self.definitions.append(text.strip("\n") + "\n")

    def do(self, *choices: str, least: int = 1, most: int = 4) -> None:
        """Some of the statements, in an order of the dice's."""
        for text in self.dice.sample(choices, self.dice.between(least, most)):
            self.statements.append(text)

    def outside(self, name: str, expression: str, chance: float = 0.5) -> None:
        """Make an object before the calls or in the call."""
        if self.dice.chance(chance):
            self.setup.append(f"{name} = {expression}")
            self.watched.append(name)
        else:
            self.statements.insert(0, f"{name} = {expression}")

    def item(self) -> str:
        return self.dice.choice(["1", "'s'", "None", "y", "x[0]", "Plain", "P", "(1, y)", "[2]", "len", "2.5", "True"])


def _descriptors(w: _Writer) -> None:
    dice, name = w.dice, w.fresh("D")
    methods = dice.sample(["get", "set", "delete", "set_name"], dice.between(1, 4))
    store = dice.choice(["obj.__dict__['{n}']", "self.kept", "obj._hidden"])
    text = f"class {name}:\n    kept = 'on the descriptor'\n"
    if "get" in methods:
        body = dice.choice([f"return {store.format(n='a')}", "return ('got', obj is None, owner.__name__)",
                            f"LOG.append('get')\n        return {store.format(n='a')}",
                            f"try:\n            return {store.format(n='a')}\n        except KeyError:\n            raise "
                            "AttributeError('nothing')"])
        none = "        if obj is None:\n            return self\n" if dice.chance(0.5) else ""
        text += f"    def __get__(self, obj, owner=None):\n{none}        {body}\n"
    if "set" in methods:
        text += f"    def __set__(self, obj, value):\n        LOG.append('set')\n        {store.format(n='a')} = value\n"
    if "delete" in methods:
        text += "    def __delete__(self, obj):\n        LOG.append('delete')\n        obj.__dict__.pop('a', None)\n"
    if "set_name" in methods:
        text += "    def __set_name__(self, owner, name):\n        self.name = name\n"
    w.define(text)
    holder = w.fresh("H")
    hooks = "".join(dice.sample(_HOOKS, dice.weighted([(6, 0), (2, 1), (1, 2)])))
    w.define(f'''
class {holder}:
    a = {name}()

    def __init__(self, b=1):
        self.b = b
        self._hidden = 'hidden'

    @property
    def backed(self):
        return self.__dict__["backed"]

    @backed.setter
    def backed(self, value):
        self.__dict__["backed"] = value

    @functools.cached_property
    def once(self):
        LOG.append("once")
        return [self.b]
{hooks}''')
    h = w.fresh("h")
    w.outside(h, f"{holder}({dice.choice(['1', '2', 'None'])})")
    w.do(f"out.append({h}.a)", f"{h}.a = {w.item()}", f"del {h}.a", f"out.append({holder}.a)", f"{h}.backed = {w.item()}",
         f"out.append({h}.backed)", f"out.append(hasattr({h}, 'a'))", f"out.append(getattr({h}, 'a', 7))",
         f"{h}.__dict__['a'] = {w.item()}", f"out.append(list({h}.__dict__))", f"out.append(vars({h}).get('a'))",
         f"out.append({h}.once is {h}.once)", f"del {h}.once", f"{h}.once = 3", f"out.append({h}.b)", f"{h}.b += 1",
         f"out.append({h}.unknown)", f"out.append(hasattr({h}, 'backed'))", f"{h}.__dict__.update(a=1, z={w.item()})",
         f"out.append({h}.z)", f"setattr({h}, 'a', y)", f"out.append(type({h}).__dict__['a'] is {holder}.__dict__['a'])",
         f"{h}.c = {h}", f"out.append({h}.c is {h})", f"out.append(sorted(vars({h})))", most=6)


_HOOKS = (
    '''
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return ("fallback", name)
''',
    '''
    def __setattr__(self, name, value):
        LOG.append(name)
        super().__setattr__(name, value)
''',
    '''
    def __delattr__(self, name):
        LOG.append(name)
        object.__delattr__(self, name)
''',
    '''
    def __getattribute__(self, name):
        if name == "unknown":
            return "known after all"
        return super().__getattribute__(name)
''',
    '''
    def __dir__(self):
        return ["a"]
''',
)


def _slots(w: _Writer) -> None:
    dice, name = w.dice, w.fresh("S")
    slots = dice.choice(["('a', 'b')", "('a', 'b', '__dict__')", "['a', 'b', '__weakref__']", "'a', 'b'"])
    w.define(f'''
class {name}:
    __slots__ = {slots}

    def __init__(self, a=1):
        self.a = a


class {name}Sub({name}):
    {dice.choice(["pass", "__slots__ = ()", "__slots__ = ('c',)", "def __getattr__(self, name):" + chr(10)
                  + "        return name"])}
''')
    s = w.fresh("s")
    w.outside(s, f"{name}{dice.choice(['', 'Sub'])}({w.item() if dice.chance(0.3) else 2})", 0.0)
    w.do(f"out.append(hasattr({s}, '__dict__'))", f"out.append(hasattr({s}, 'b'))", f"{s}.b = {w.item()}",
         f"out.append({s}.b)", f"{s}.c = 3", f"out.append(hasattr({s}, 'c'))", f"del {s}.a", f"out.append({s}.a)",
         f"out.append({s}.__slots__)", f"out.append(getattr({s}, '__dict__', None))", f"{s}.a = y",
         f"out.append(hasattr({s}, '__weakref__'))", f"out.append(copy.copy({s}).a)", f"out.append({name}.a)",
         f"out.append(vars({s}))", f"out.append(type({s}.__class__.__dict__['__slots__']))", most=5)
    w.statements.append(f"out.append({s})")


def _tables(w: _Writer) -> None:
    """An object and its dictionary, each changed behind the other's back."""
    dice, name = w.dice, w.fresh("T")
    hook = dice.choice(["k = 9", "__slots__ = ('s', '__dict__')", "def __getattribute__(self, name):\n        if name[0] != '_':\n"
                        "            LOG.append(name)\n        return super().__getattribute__(name)", "def __getattr__(self, name):\n        return name",
                        "@property\n    def b(self):\n        return 'b'"])
    w.define(f"class {name}:\n    {hook}\n\n    def __init__(self):\n        self.a = 1\n        self.s = 2\n")
    o, d = w.fresh("o"), w.fresh("d")
    made = f"{name}()"
    if dice.chance(0.5):
        w.setup.append(f"{o} = {made}")
        w.watched.append(o)
        if dice.chance(0.3):
            w.setup.append(f"{d} = vars({o})")
        else:
            w.statements.append(f"{d} = vars({o})")
    else:
        w.statements += [f"{o} = {made}", f"{d} = vars({o})"]
    w.do(*(template.format(o=o, d=d, i=w.item()) for template in (
        "{d}['c'] = {i}", "{o}.c = {i}", "del {o}.a", "del {d}['a']", "out.append({d}.pop('a'))", "out.append({d}.pop('q', 0))",
        "out.append({d}.setdefault('q', {i}))", "out.append({d}.setdefault('a', 5))", "{d}.update(v=1, a={i})", "{d}.update({{'b': 7}})",
        "{d}.clear()", "out.append({d}.popitem())", "out.append(len({d}))", "out.append(list({d}))", "out.append(dict({d}))",
        "out.append('a' in {d})", "out.append({d}.get('s'))", "out.append({d} == {{'a': 1, 's': 2}})", "out.append({d} is vars({o}))",
        "out.append({o}.__dict__ is {d})", "out.append(getattr({o}, 'a', None))", "out.append(hasattr({o}, 'c'))", "out.append({o}.b)",
        "other = copy.copy({o})\nout.append((other, vars(other) is {d}))", "out.append(sorted({d}))", "out.append(bool({d}))",
        "{d}['k'] = 4\nout.append({o}.k)", "{o}.k = 5\ndel {o}.k\nout.append({o}.k)", "for name in list({d}):\n    del {d}[name]",
        "out.append(repr({d}))", "out.append({d}.copy())", "y = y * len({d})", "setattr({o}, 'w', y)", "del {o}.s", "out.append({o}.s)",
        "out.append({d}.keys() & {{'a', 'w'}})", "for key, value in {d}.items():\n    out.append(value)", "out.append({{**{d}}})",
        "out.append(types.SimpleNamespace(**{d}))", "{o}.a += 1", "keep.append({d})", "out.append([*{d}.values()])",
        "for key in {d}:\n    {o}.more = 1",
    )), least=2, most=7)
    w.statements.append(f"out.append(({o}, {d}, {d} is vars({o})))")


def _metaclasses(w: _Writer) -> None:
    dice, meta, name = w.dice, w.fresh("M"), w.fresh("C")
    methods = dice.sample([
        "def __call__(cls, *args, **kwargs):\n        LOG.append('call')\n        return super().__call__(*args, **kwargs)",
        "def __call__(cls, n=0):\n        known = cls.__dict__.get('only')\n        if known is None:\n"
        "            known = super().__call__(n)\n            cls.only = known\n        return known",
        "def __iter__(cls):\n        return iter(['i', 1])", "def __iter__(cls):\n        yield from cls.members",
        "def __contains__(cls, item):\n        return item in cls.members", "def __len__(cls):\n        return len(cls.members)",
        "def __bool__(cls):\n        return False", "def __getitem__(cls, key):\n        return cls.members[key]",
        "def __getattr__(cls, name):\n        if name.startswith('__'):\n            raise AttributeError(name)\n"
        "        return 'meta ' + name", "def __eq__(cls, other):\n        return True\n\n    __hash__ = type.__hash__",
        "def __repr__(cls):\n        return 'shown'", "def __add__(cls, other):\n        return ('add', cls, other)",
        "def __instancecheck__(cls, obj):\n        return True", "def __subclasscheck__(cls, sub):\n        return True",
        "@property\n    def title(cls):\n        return cls.__name__.lower()", "def helper(cls):\n        return cls",
        "def __or__(cls, other):\n        return 'union'", "def __lt__(cls, other):\n        return 'less'",
    ], dice.between(1, 4))
    w.define(f"class {meta}(type):\n    " + "\n\n    ".join(methods))
    w.define(f'''
class {name}(metaclass={meta}):
    members = [1, "two", None]

    def __init__(self, n=0):
        self.n = n

    def __class_getitem__(cls, key):
        return ("class_getitem", key)

    @classmethod
    def build(cls, n):
        return cls(n)

    @staticmethod
    def plain(n):
        return n
''')
    w.do(f"out.append({name}(3).n)", f"out.append({name}() is {name}())", f"out.append(list({name}))",
         f"out.append(1 in {name})", f"out.append('no' in {name})", f"out.append(len({name}))", f"out.append(bool({name}))",
         f"out.append({name}[0])", f"out.append({name}.unknown)", f"out.append({name} == Plain)", f"out.append({name}.title)",
         f"out.append(repr({name}))", f"out.append({name} + 1)", f"out.append(isinstance(1, {name}))",
         f"out.append(issubclass(int, {name}))", f"out.append({name}.helper() is {name})", f"out.append({name}.build(2))",
         f"out.append({name}.plain(y) is y)", f"out.append({name} | None)", f"out.append({name} < 1)",
         f"out.append(type({name}))", f"out.append({{{name}: 1}}[{name}])", f"out.append([z for z in {name}])",
         f"{name}.extra = 5\nout.append({name}.extra)", f"out.append({name} in [Plain, {name}])",
         f"out.append(hasattr({name}, 'unknown'))", f"y = y + 1 if {name} else y - 1",
         f"out.append(isinstance({name}(), {name}))", f"a, *b = {name}\nout.append(b)", f"out.append({name} != {name})",
         f"out.append({name}.__name__)", f"out.append(not {name})", most=6)


def _enums(w: _Writer) -> None:
    dice, name = w.dice, w.fresh("E")
    base = dice.choice(["enum.Enum", "enum.IntEnum", "enum.Flag", "enum.IntFlag", "str, enum.Enum"])
    values = {"str, enum.Enum": ("'a'", "'b'", "'a'")}.get(base, ("1", "2", "1" if "Flag" not in base else "4"))
    extra = dice.choice(["", "\n    def double(self):\n        return self.value * 2\n",
                         "\n    @property\n    def shown(self):\n        return self.name.lower()\n",
                         "\n    def __bool__(self):\n        return False\n", "\n    def __eq__(self, other):\n"
                         "        return True\n\n    __hash__ = object.__hash__\n",
                         "\n    @classmethod\n    def first(cls):\n        return list(cls)[0]\n"])
    w.define(f"class {name}({base}):\n    A = {values[0]}\n    B = {values[1]}\n    C = {values[2]}\n{extra}")
    w.do(f"out.append({name}.A is {name}({values[0]}))", f"out.append({name}.A.value)", f"out.append({name}['B'])",
         f"out.append(list({name}))", f"out.append(len({name}))", f"out.append({name}.A in {name})",
         f"out.append({name}.A == {values[0]})", f"out.append({name}.A | {name}.B)", f"out.append({name}.A & {name}.B)",
         f"out.append(~{name}.A)", f"out.append(bool({name}.A & {name}.B))", f"out.append({name}.A.double())",
         f"out.append({name}.B.shown)", f"out.append({{{name}.A: y}}[{name}.A] is y)", f"out.append({name}.C is {name}.A)",
         f"out.append({name}(99))", f"out.append({name}.A < {name}.B)", f"out.append(sorted([{name}.B, {name}.A]))",
         f"out.append({name}.A + 1)", f"out.append(f'{{{name}.A}}')", f"out.append({name}.first())",
         f"out.append(isinstance({name}.A, int))", f"out.append({name}.__members__['A'])", f"out.append(repr({name}.B))",
         f"out.append({name}.A in ({name}.A | {name}.B))", f"out.append({name}.A if {name}.A else 0)",
         f"out.append([m.name for m in {name}])", f"out.append({name}.A.name)", f"out.append({name}.nothing)",
         f"out.append({name}.A in {{{name}.A, {name}.B}})", f"out.append({name}.A != {name}.B)", f"{name}.A = 3",
         f"out.append([z for z in {name}.__members__])", f"match {name}.A:\n    case {name}.A:\n        out.append('is A')",
         most=6)


def _dataclasses(w: _Writer) -> None:
    dice, name = w.dice, w.fresh("R")
    options = ", ".join(dice.sample(["frozen=True", dice.choice(["order=True", "eq=False"]), "slots=True", "kw_only=False",
                                     "unsafe_hash=True", "repr=False"], dice.between(0, 2)))
    post = dice.choice(["", "\n    def __post_init__(self):\n        LOG.append('post')\n",
                        "\n    def __post_init__(self):\n        object.__setattr__(self, 'a', 5)\n",
                        "\n    def __eq__(self, other):\n        return NotImplemented\n"])
    w.define(f'''
@dataclasses.dataclass({options})
class {name}:
    a: object = 1
    b: list = dataclasses.field(default_factory=list)
    c: dataclasses.InitVar = None
    d: object = dataclasses.field(default=4, compare=False, repr=False)
{post}''')
    if post.startswith("\n    def __post_init__"):
        w.definitions[-1] = w.definitions[-1].replace("    c: dataclasses.InitVar = None\n", "")
    r, q = w.fresh("r"), w.fresh("q")
    w.outside(r, f"{name}({dice.choice(['', '2', 'b=[1]', '1, [1]'])})")
    w.statements.append(f"{q} = {name}({dice.choice(['', '1', 'y', '1, [1]'])})")
    w.do(f"out.append({r} == {q})", f"out.append({r} != {q})", f"out.append({r} < {q})", f"{r}.a = {w.item()}",
         f"out.append({r}.b is {q}.b)", f"{r}.b.append(y)", f"out.append(dataclasses.replace({r}, a=3))",
         f"out.append(dataclasses.asdict({q}))", f"out.append(dataclasses.astuple({r}))", f"out.append(repr({q}) == repr({r}))",
         f"out.append([f.name for f in dataclasses.fields({r})])", f"out.append(hash({r}) == hash({q}))",
         f"out.append({{{r}: 1}}.get({q}))", f"out.append(copy.copy({r}).b is {r}.b)", f"{r}.z = 1",
         f"out.append(dataclasses.is_dataclass({r}))", f"match {r}:\n    case {name}(a, b):\n        out.append((a, b))",
         f"out.append(hasattr({r}, '__dict__'))", f"out.append({r}.c)", f"del {r}.a", f"out.append({r})", most=6)
    w.statements.append(f"out.append({q})")


def _caches(w: _Writer) -> None:
    dice, name = w.dice, w.fresh("cached")
    decorator = dice.choice(["functools.cache", "functools.lru_cache", "functools.lru_cache(maxsize=2)",
                             "functools.lru_cache(maxsize=0)", "functools.lru_cache(maxsize=None, typed=True)"])
    body = dice.choice(["return [n]", "return torch.rand(2)", "return Plain(n)", "return n", "return n + 1",
                        f"return n if n in (None, 's') or not isinstance(n, int) or n < 1 else {name}(n - 1)",
                        "raise ValueError(n)", "return torch.ones(2) * 3", "return (n, object())"])
    log = "    LOG.append('body')\n" if dice.chance(0.5) else ""
    inside = dice.chance(0.2)
    if inside:
        w.statements.append(f"@{decorator}\ndef {name}(n=0, m=1):\n{log}    {body}")
    else:
        w.define(f"@{decorator}\ndef {name}(n=0, m=1):\n{log}    {body}\n")
    argument = ["1", "2", "1.0", "True", "'s'", "None", "(x.shape[0], 2)", "Plain", "P", "E0.A", "[1]", "x.shape[0]", "3"]
    calls = [f"{name}({dice.choice(argument)}{dice.choice(['', '', ', 1', ', m=2'])})" for _ in range(3)]
    w.do(f"out.append({calls[0]})", f"out.append({calls[0]} is {calls[0]})", f"out.append({calls[1]})",
         f"out.append({calls[1]} is {calls[0]})", f"out.append({name}.cache_info())", f"{name}.cache_clear()",
         f"out.append({name}.cache_info().hits)", f"out.append({name}.__wrapped__(1))", f"out.append({name}.__name__)",
         f"out.append({name}.cache_parameters())", f"y = y + len(str({name}(1)))", f"keep.append({calls[2]})",
         f"out.append([{name}(k) for k in range(3)])", f"out.append(x.shape[0] in [1, {name}(2)])",
         f"out.append({name}(n=1))", least=2, most=6)
    if dice.chance(0.3):
        holder = w.fresh("K")
        w.define(f'''
class {holder}:
    @functools.{dice.choice(["lru_cache(maxsize=4)", "cache", "lru_cache"])}
    def method(self, n=0):
        LOG.append("method")
        return [n]

    @staticmethod
    @functools.cache
    def still(n):
        return [n]

    @classmethod
    @functools.cache
    def of_class(cls, n):
        return [cls, n]
''')
        k = w.fresh("k")
        w.outside(k, f"{holder}()")
        w.do(f"out.append({k}.method(1) is {k}.method(1))", f"out.append({k}.method())", f"out.append({k}.still(1))",
             f"out.append({holder}.method.cache_info())", f"out.append({holder}.of_class(2) is {holder}.of_class(2))")
    if not inside and dice.chance(0.7):
        w.statements.append(f"out.append({name}.cache_info())")


def _weak(w: _Writer) -> None:
    dice = w.dice
    kind = dice.choice(["WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "ref", "proxy", "finalize", "WeakMethod"])
    a, b, m = w.fresh("a"), w.fresh("b"), w.fresh("m")
    # when an object that only the function holds comes to its end is another subject
    tensors = kind == "WeakKeyDictionary" and dice.chance(0.4)  # which are compared to be found
    w.setup += [f"{a} = {dice.choice(('torch.ones(2)', 'torch.tensor(3.0)', 'torch.ones(1)')) if tensors else 'Plain(1)'}",
                f"{b} = Plain(2)"]
    w.watched += [a, b]
    if kind == "WeakKeyDictionary":
        if dice.chance(0.6):
            w.setup.append(f"{m} = weakref.WeakKeyDictionary({{{a}: 'one', P: [2]}})")
        else:
            w.statements.append(f"{m} = weakref.WeakKeyDictionary()\n{m}[{a}] = y")
        w.do(f"out.append({m}[{a}])", f"out.append({a} in {m})", f"out.append({b} in {m})", f"{m}[{b}] = {w.item()}",
             f"out.append({m}.get({b}, 5))", f"out.append(len({m}))", f"out.append(list({m}))", f"del {m}[{a}]",
             f"out.append(list({m}.items()))", f"out.append({m}.setdefault({b}, 7))", f"out.append({m}.pop({a}, 3))",
             f"out.append([k.n for k in {m}])", f"out.append(bool({m}))", f"out.append(list({m}.values()))",
             f"out.append(1 in {m})", f"out.append(isinstance({m}, dict))", most=5)
    elif kind == "WeakValueDictionary":
        w.setup.append(f"{m} = weakref.WeakValueDictionary(one={a})")
        w.do(f"out.append({m}['one'])", f"out.append('one' in {m})", f"{m}['two'] = {b}", f"out.append({m}.get('two'))",
             f"out.append(len({m}))", f"out.append(list({m}))", f"out.append({m}['one'] is {a})",
             f"out.append(list({m}.values()))", f"del {m}['one']", f"out.append({m}.get('none', 3))", most=5)
    elif kind == "WeakSet":
        w.setup.append(f"{m} = weakref.WeakSet([{a}])")
        w.do(f"out.append({a} in {m})", f"out.append({b} in {m})", f"{m}.add({b})", f"out.append(len({m}))",
             f"{m}.discard({a})", f"out.append(sorted(k.n for k in {m}))", f"out.append({m} == weakref.WeakSet([{a}]))", most=5)
    elif kind == "ref":
        w.outside(m, f"weakref.ref({a})", 0.6)
        w.do(f"out.append({m}() is {a})", f"out.append({m}().n)", f"out.append({m} == weakref.ref({a}))",
             f"out.append({m} is weakref.ref({a}))", f"out.append(hash({m}) == hash({a}))", f"{m}().n = {w.item()}",
             f"out.append({{{m}: 1}}.get(weakref.ref({a})))", f"out.append(weakref.getweakrefcount({a}) > 0)",
             f"r = weakref.ref({b})\nout.append(r() is {b})", "out.append(weakref.ref(Plain(1))() is None)",
             f"out.append(isinstance({m}, weakref.ref))", f"out.append({m} != weakref.ref({b}))", most=5)
    elif kind == "proxy":
        w.setup.append(f"{m} = weakref.proxy({a})")
        w.do(f"out.append({m}.n)", f"{m}.n = 4", f"out.append({m}.method())", f"out.append({a}.n)", most=3)
    elif kind == "WeakMethod":
        w.setup.append(f"{m} = weakref.WeakMethod({a}.method)")
        w.do(f"out.append({m}()())", f"out.append({m}() == {a}.method)", most=2)
    else:
        w.do(f"t = weakref.finalize({b}, LOG.append, 'gone')\nout.append(t.alive)\nt.detach()",
             f"t = weakref.ref({b}, LOG.append)\nout.append(t() is {b})",
             f"t = weakref.finalize({b}, LOG.append, 'gone')\nt()\nout.append(t.alive)", most=2)


def _generators(w: _Writer) -> None:
    dice, it, gen = w.dice, w.fresh("It"), w.fresh("gen")
    w.define(f'''
class {it}:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        {dice.choice(["return self", "LOG.append('iter'); return self"])}

    def __next__(self):
        if self.n <= 0:
            raise StopIteration{dice.choice(["", "('value')", "(self.n, 2)", "(None)", "([self.n])"])}
        self.n -= 1
        return {dice.choice(["self.n", "self", "(self.n,)"])}
''' + ("" if dice.chance(0.5) else '''
    def send(self, value):
        LOG.append(("send", value))
        return self.__next__()

    def throw(self, *error):
        LOG.append("throw")
        return "thrown"
'''))
    inner = dice.choice([f"{it}(2)", "iter([1, 2])", "range(2)", "(z for z in (1, 2))", f"{gen}Inner(n)", "'ab'",
                         "{'k': 1}.items()", "map(str, (1, 2))"])
    w.define(f'''
def {gen}Inner(n):
    try:
        got = yield n
        LOG.append(got)
        {dice.choice(["yield got", "yield from ()", "raise KeyError(n)", "return 'early'", "got = yield (got, n)"])}
    except ValueError as error:
        {dice.choice(["yield 'handled'", "return 'caught'", "raise", "LOG.append('caught')"])}
    finally:
        {dice.choice(["LOG.append('closed')", "pass"])}
    return ['returned', n]


def {gen}(n):
    result = yield from {inner}
    LOG.append(result)
    {dice.choice(["yield result", "return result", "return (yield result)", f"yield from {it}(1)", "pass"])}
''')
    g = w.fresh("g")
    w.statements.append(f"{g} = {gen}{dice.choice(['', 'Inner'])}({dice.choice(['1', 'y', 'None'])})")
    w.do(f"out.append(next({g}))", f"out.append({g}.send(5))", f"out.append(list({g}))", f"out.append({g}.throw(ValueError('v')))",
         f"{g}.close()", f"out.append(next({g}, 'none'))", f"out.append({g}.send(None))", f"out.append(y in [1, {g}] or True)",
         f"for z in {g}:\n    out.append(z)\n    if len(out) > 8: break", f"out.append(iter({g}) is {g})",
         f"try:\n    next({g})\nexcept StopIteration as stop:\n    out.append(stop.value)",
         f"out.append(tuple(itertools.islice({g}, 2)))", f"out.append(list({it}(2)))", f"a, *b = {it}(3)\nout.append(b)",
         f"out.append(type({g}))", f"out.append(max({it}(3), key=str))", f"out.append(2 in {it}(4))",
         f"out.append(list(zip({g}, range(3))))", f"out.append({g}.throw(KeyError))", f"out.append(dict(enumerate({it}(2))))",
         f"u = {it}(2)\nout.append(list(u))\nout.append(list(u))", f"out.append(sum(1 for _ in {g}))",
         f"out.append(any(z is None for z in {g}))", least=2, most=6)
    if dice.chance(0.4):
        w.statements.append(f"keep.append({g})\nout.append({g})")
    w.last.append(f"{g}.close()")  # when the end of an abandoned generator runs among other effects is no promise


def _closures(w: _Writer) -> None:
    dice, name = w.dice, w.fresh("outer")
    w.define(f'''
def {name}(start):
    count = start
    def inner(step=1):
        nonlocal count
        count += step
        return inner
    def peek():
        return count
    def me():
        return me
    def even(n):
        return True if n == 0 else odd(n - 1)
    def odd(n):
        return False if n == 0 else even(n - 1)
    inner.peek = peek
    return inner, peek, me, even


def {name}Decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper


@{name}Decorated
def {name}Wrapped(n):
    "doc"
    return [n]


{name}Wrapped.tag = "tagged"
''')
    inner, peek, me, even = (w.fresh(n) for n in ("inner", "peek", "me", "even"))
    target = f"{inner}, {peek}, {me}, {even}"
    if dice.chance(0.5):
        w.setup.append(f"{target} = {name}({dice.choice(['0', '1.5', 'x'])})")
        w.watched += [inner, peek]
    else:
        w.statements.append(f"{target} = {name}({dice.choice(['0', 'y', 'x.shape[0]'])})")
    w.do(f"out.append({me}() is {me})", f"out.append({inner}() is {inner})", f"out.append({peek}())", f"{inner}(2)()",
         f"out.append({even}(4))", f"out.append({{{inner}}} == {{{inner}()}})", f"out.append({me} in {{{me}}})",
         f"out.append({{{me}, {peek}}} & {{{me}}} == {{{me}}})", f"out.append({{({me}, 1): y}}[({me}(), 1)] is y)",
         f"out.append({inner}.peek is {peek})", f"out.append({name}Wrapped.__name__)", f"out.append({name}Wrapped(1))",
         f"out.append({name}Wrapped.__wrapped__ is {name}Wrapped)", f"out.append({name}Wrapped.__doc__)",
         "def again():\n    return again\nout.append(again() is again)", f"out.append([{me}, {peek}].index({me}))",
         "def fact(n):\n    return 1 if n < 1 else n * fact(n - 1)\nout.append(fact(4))\nkeep.append(fact)",
         "table = {}\ndef lookup():\n    return table['me']\ntable['me'] = lookup\nout.append(lookup() is lookup)",
         "fs = [lambda k=k: (k, y) for k in range(2)]\nout.append([f()[0] for f in fs])\nkeep.append(fs[0])",
         "fs = [lambda: k for k in range(2)]\nout.append([f() for f in fs])",
         "@functools.wraps(Plain.method)\ndef like(*a):\n    return 1\nout.append((like.__name__, like.__wrapped__ is Plain.method))",
         f"@functools.wraps({name}Wrapped)\ndef like(*a):\n    return 1\nout.append((like.tag, like.__dict__))",
         "p = functools.partial(operator.add, y)\nout.append(p.func is operator.add)\nout.append({p: 1}[p])",
         f"out.append({me} == {me}())", "out.append(not_a_name)", f"out.append({{Plain, {me}}} <= {{{me}, Plain, 1}})",
         f"del {me}\nout.append({me})", f"out.append({{{me}}}.isdisjoint([{peek}, {me}]))",
         f"c = contextlib.suppress(KeyError)\nwith c:\n    {{}}[{me}]", most=6)


def _special(w: _Writer) -> None:
    """Classes with some of the special methods."""
    dice, name = w.dice, w.fresh("X")
    methods = dice.sample([
        "def __len__(self):\n        return {n}", "def __bool__(self):\n        return {b}", "def __call__(self, *a, **k):\n        return (a, k)",
        "def __getitem__(self, key):\n        if isinstance(key, int) and key > 2:\n            raise IndexError(key)\n        return key",
        "def __contains__(self, item):\n        return item", "def __iter__(self):\n        return iter([self.v, 1])",
        "def __eq__(self, other):\n        return {b}", "def __hash__(self):\n        return 3", "def __lt__(self, other):\n        return {r}",
        "def __add__(self, other):\n        return {r}", "def __radd__(self, other):\n        return ('radd', other)",
        "def __iadd__(self, other):\n        self.v = other\n        return {r}", "def __index__(self):\n        return 1",
        "def __enter__(self):\n        LOG.append('enter')\n        return self\n\n    def __exit__(self, *e):\n        LOG.append(e[0])\n        return {b}",
        "def __neg__(self):\n        return {r}", "def __mul__(self, other):\n        return {r}", "def __rmul__(self, other):\n        return {r}",
        "def __float__(self):\n        return 1.5", "def __reversed__(self):\n        return [3, 2]", "def __repr__(self):\n        return 'X!'",
        "def __setitem__(self, key, item):\n        LOG.append((key, item))", "def __delitem__(self, key):\n        del self.v",
        "def __getattr__(self, name):\n        raise AttributeError('no ' + name)", "def __copy__(self):\n        return 'copied'",
        "def __matmul__(self, other):\n        return {r}", "def __rsub__(self, other):\n        return {r}",
        "def __format__(self, spec):\n        return 'F' + spec", "def __init_subclass__(cls, **k):\n        cls.mark = k",
        "def __new__(cls, *a):\n        made = super().__new__(cls)\n        made.born = True\n        return made",
        "__hash__ = None", "__iter__ = None", "__contains__ = None", "__reversed__ = None",
    ], dice.between(1, 6))
    text = f"class {name}:\n    def __init__(self, v=1):\n        self.v = v\n"
    for method in methods:
        filled = method.format(n=dice.choice(["0", "3", "True"]), b=dice.choice(["True", "False", "NotImplemented"])
                               if "__eq__" in method else dice.choice(["True", "False"]),
                               r=dice.choice(["self", "NotImplemented", "('made', self.v)", "other" if "other" in method else "3"]))
        text += f"\n    {filled}\n"
    w.define(text + f"\n\nclass {name}Sub({name}):\n    {dice.choice(['pass', 'def __add__(self, other):' + chr(10) + '        return super().__add__(other)', 'def __radd__(self, other):' + chr(10) + '        return 3'])}\n")
    a, b = w.fresh("a"), w.fresh("b")
    w.outside(a, f"{name}{dice.choice(['', 'Sub'])}({w.item() if dice.chance(0.3) else 1})", 0.0)
    w.outside(b, f"{name}{dice.choice(['', 'Sub'])}()", 0.4)
    w.do(*(template.format(a=a, b=b, i=w.item()) for template in (
        "out.append(len({a}))", "out.append(bool({a}))", "out.append({a}({i}, k=1))", "out.append({a}[0])", "out.append(2 in {a})",
        "out.append(list({a}))", "out.append({a} == {b})", "out.append({a} != {i})", "out.append(hash({a}) == 3)", "out.append({a} < {b})",
        "out.append({a} + {i})", "out.append({i} + {a})", "{a} += {i}", "out.append([5, 6][{a}])", "with {a} as q:\n    out.append(q)\n    raise KeyError('k')",
        "out.append(-{a})", "out.append({a} * 2)", "out.append(2 * {a})", "out.append(float({a}))", "out.append(list(reversed({a})))",
        "out.append(repr({a}) == repr({b}))", "{a}['k'] = {i}", "del {a}[0]", "out.append({a}.unknown)", "out.append(hasattr({a}, 'unknown'))",
        "out.append(copy.copy({a}))", "out.append({a} @ {b})", "out.append({i} - {a})", "out.append(f'{{{a}:>4}}')", "out.append({a}.v)",
        "out.append({{{a}: 1}}.get({b}))", "out.append({a} in [{b}, {a}])", "out.append([{b}].count({a}))", "out.append({a} in {{{b}}})",
        "out.append(({a}, 1) == ({b}, 1))", "out.append(y + {a})", "out.append({a} * y)", "out.append(x[{a}])", "out.append({a} and 1)",
        "out.append({a} is {b})", "out.append(sorted([{a}, {b}]) is None)", "out.append(max({a}, {b}))", "out.append(callable({a}))",
        "out.append(isinstance({a}, collections.abc.Iterable))", "out.append(isinstance({a}, collections.abc.Hashable))",
        "out.append(type({a}).__mro__)", "a_, b_ = {a}\nout.append(b_)", "out.append(vars({a}))", "out.append({a}.born)",
        "out.append(operator.length_hint({a}, 2))", "out.append(sum([{a}, {b}], 1))", "out.append({a}.__class__ is type({a}))",
        "y = y + 1 if {a} else y - 1", "{a}.w = {b}\nout.append({a}.w is {b})", "out.append(getattr({a}, 'w', None))", "del {a}.v",
    )), least=2, most=6)
    w.statements.append(f"out.append({a})")


def _made_inside(w: _Writer) -> None:
    """Classes that the function makes, and what they know of each other: before a break, which frees those that only
    their base knows of."""
    a, b = w.fresh("A"), w.fresh("B")
    classes = f"class {a}{w.dice.choice(['', '(Plain)', '(list)'])}:\n    k = {w.item()}\n" \
              f"class {b}({a}):\n    def get(self):\n        return self.k\n"
    w.do(*(classes + template.format(a=a, b=b, i=w.item()) for template in (
        "class C({b}):\n    pass\nout.append([q.__name__ for q in {b}.__subclasses__()])",
        "out.append([q.__name__ for q in {a}.__subclasses__()])", "out.append({a}.__subclasses__()[0] is {b})",
        "out.append([q.__name__ for q in type.__subclasses__({a})])", "out.append({b}.__mro__.index({a}))",
        "class C(Plain):\n    pass\nout.append('C' in [q.__name__ for q in Plain.__subclasses__()])",
        "try:\n    (lambda: super().foo)()\nexcept RuntimeError as error:\n    out.append(str(error))",
        "try:\n    (lambda q: super().foo)({i})\nexcept RuntimeError as error:\n    out.append(str(error))",
        "out.append({b}.__bases__ == ({a},))", "{a}.k = {i}\nout.append({b}.k)",
        "out.append({b}.get is {b}.__dict__['get'])",
        # what makes of classes refuses
        "@dataclasses.dataclass\nclass C:\n    n: list = {i}\n    m: int = 2\nout.append(C().m)",
        "@dataclasses.dataclass\nclass C:\n    n: object = dataclasses.field(default={i})\nout.append(C() == C())",
        "@dataclasses.dataclass\nclass C({a}):\n    n: int = 1\n    m: int\nout.append(C(1, 2))",
        "class C(enum.Enum):\n    A = {i}\n    A = 2\nout.append(len(C))", "class C(E0):\n    Z = 1\nout.append(len(C))",
        "class C({a}, {b}):\n    pass\nout.append(C.k)", "class C({a}, k={i}):\n    pass\nout.append(C.k)",
        "class C:\n    __slots__ = ('k',)\n    k = {i}\nout.append(C)", "class C(int, str):\n    pass\nout.append(C)",
        "class C:\n    LOG.append('body')\n    k = {i}\n    k = k.missing\nout.append(C.k)", "class C(bool):\n    pass\nout.append(C)",
        "class C({b}, metaclass=enum.EnumMeta):\n    A = 1\nout.append(C.A)", "class C(None):\n    pass\nout.append(C)",
        "C = collections.namedtuple('C', 'a a')\nout.append(C)", "C = type('C', ({b},), {{'k': {i}, '__slots__': 3}})\nout.append(C.k)",
        "@functools.total_ordering\nclass C({b}):\n    pass\nout.append(C)", "class C(Plain()):\n    pass\nout.append(C)",
    )), least=2, most=5)


SUBJECTS: tuple[tuple[float, Callable[[_Writer], None]], ...] = (
    (2, _descriptors), (1, _slots), (2, _metaclasses), (1, _enums), (1, _dataclasses), (2, _caches), (1.5, _weak),
    (2, _generators), (2, _closures), (2, _special), (1.5, _tables), (1, _made_inside),
)


def _guarded(text: str) -> list[str]:
    lines = ["try:", *("    " + line for line in text.splitlines())]
    return [*lines, "except Exception as error:", "    out.append(type(error))"]


def generate(seed: int) -> Program:
    """The program of a seed."""
    w = _Writer(seed)
    for _ in range(w.dice.weighted([(3, 1), (2, 2)])):
        w.dice.weighted(SUBJECTS)(w)
    text = HEADER + "\n\n".join(w.definitions) + "\n\nclass E0(enum.Enum):\n    A = 1\n\n\nP = Plain(7)\n\n\n"
    text += "def make():\n    x = torch.arange(6.0).reshape(2, 3)\n    keep = []\n"
    text += "".join(f"    {line}\n" for line in w.setup)
    text += "\n    def fn(x):\n        out = []\n        y = x + 1\n"
    # what is made first comes first, the rest in an order of its own
    for statement in w.statements:
        made = statement.partition(" = ")[2] and not statement.startswith(("out", "y", "keep", "for", "try"))
        lines = statement.splitlines() if made and "\n" not in statement or w.dice.chance(0.2) else _guarded(statement)
        text += "".join(f"        {line}\n" for line in lines)
        if w.dice.chance(0.15):
            text += "        " + w.dice.choice(["torch._dynamo.graph_break()", "y = y.sin()", "y = y + len(out)"]) + "\n"
    for statement in w.last:
        text += "".join(f"        {line}\n" for line in _guarded(statement))
    text += "        return y * 2, out\n\n"
    text += f"    calls = [((x.clone(),), {{}}) for _ in range({w.dice.between(1, 3)})]\n"
    watched = ", ".join(f"{name!r}: {name}" for name in w.watched)
    text += f"    return fn, calls, lambda index: None, lambda: {{'keep': keep, {watched}}}\n"
    return Program(seed, text)
