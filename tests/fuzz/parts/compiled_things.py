"""What is compiled beside a function: methods, static and class methods, properties, instances that share the code of
their class, closures made in loops, partials, callables, generators, coroutines, modules and copies of them, compiled
functions inside of others, and what people ask of such an object. The harness gives programs `compiled`, which
compiles.
"""

from __future__ import annotations

import textwrap

from ..program import Program
from ..values import Dice

SAMPLE = 4

HEAD = '''import asyncio
import contextlib
import copy
import dataclasses
import enum
import functools
import inspect
import operator
import types
import weakref
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

import firesteel as fs


def make():
    log = []

    class Thing:
        factor = 2
        made = 0

        def __init__(self, k):
            self.k = k
            self.calls = 0
            type(self).made += 1

        @compiled
        def scaled(self, x, more=1):
            """Scales."""
            self.calls += 1
            return x * self.k * self.factor + more

        @staticmethod
        @compiled
        def static(x, k=2):
            return x.cos() * k

        @classmethod
        @compiled
        def on_class(cls, x):
            cls.factor += 1
            return x * cls.factor

        @property
        @compiled
        def doubled(self):
            return self.k * 2

        @compiled
        def __call__(self, x):
            return x - self.k

        @compiled
        def __add__(self, other):
            return Thing(self.k + (other.k if isinstance(other, Thing) else other))

        @compiled
        def steps(self, x, n):
            for i in range(n):
                self.calls += 1
                yield x * i + self.k

        @compiled
        def breaking(self, x):
            y = self.scaled(x)
            fs.graph_break()
            return y + self.k

    class Child(Thing):
        factor = 3

        @compiled
        def scaled(self, x, more=1):
            return super().scaled(x, more=more + 1) - 1

    @dataclasses.dataclass
    class Record:
        k: int = 2
        rows: list = dataclasses.field(default_factory=list)

        @compiled
        def taken(self, x):
            self.rows.append(self.k)
            return x[: self.k] * len(self.rows)

    class Pair(NamedTuple):
        a: int
        b: int

        @compiled
        def of(self, x):
            return x * self.a + self.b

    class Mode(enum.Enum):
        UP = 1
        DOWN = -1

        @compiled
        def moved(self, x):
            return x + self.value if self is Mode.UP else x - 1

    class Slots:
        __slots__ = ("k", "__weakref__")

        def __init__(self, k):
            self.k = k

        @compiled
        def of(self, x):
            self.k += 1
            return x * self.k

    class Net(nn.Module):
        def __init__(self, k=1):
            super().__init__()
            self.k = k
            self.layer = nn.Linear(4, 4)
            self.register_buffer("seen", torch.zeros(()))
            with torch.no_grad():
                self.layer.weight.fill_(0.25 * k)
                self.layer.bias.fill_(0.5)

        def forward(self, x):
            if self.training:
                self.seen += 1
            return self.layer(x) * self.k + self.extra(x)

        @compiled
        def extra(self, x):
            return x.sin() * self.k

    @compiled
    def base(x, k=1, *rest, flag=False, **more):
        return x * k + sum(rest) + len(more) + flag

    @compiled
    def recursive(x, n):
        return x if n <= 0 else recursive(x + n, n - 1)

    @compiled
    def caught(x, n):
        try:
            if n % 2:
                raise ValueError(n)
            return x + n
        except ValueError as error:
            return x - error.args[0]
        finally:
            log.append(n)

    @compiled
    def raising(x, n):
        y = x * 2
        log.append(n)
        raise KeyError(n)

    @compiled
    def changing(x, n):
        x.add_(n)
        log.append(x.sum())
        return x

    @compiled
    def generated(x, n):
        got = 0
        try:
            while n > 0:
                got = (yield x * n + (got or 0)) or 0
                n -= 1
        finally:
            log.append("closed")
        return n

    @compiled
    async def coroutine(x, n):
        await asyncio.sleep(0)
        return x * n

    @compiled
    @torch.no_grad()
    def inside_no_grad(x):
        return x * 3, torch.is_grad_enabled()

    @torch.no_grad()
    @compiled
    def under_no_grad(x):
        return x * 3, torch.is_grad_enabled()

    @functools.lru_cache(maxsize=2)
    @compiled
    def remembered(n):
        log.append(n)
        return n * 2

    @contextlib.contextmanager
    def scope(n):
        log.append(n)
        yield n
        log.append(-n)

    def closure(k):
        count = 0

        @compiled
        def counting(x):
            nonlocal count
            count += k
            return x * count

        return counting

    def applied(function, *args, **kwargs):
        return function(*args, **kwargs)

    def times(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            log.append(function.__name__)
            return function(*args, **kwargs)

        return compiled(wrapper)

    @times
    def decorated(x, n=2):
        return x * n

    things = [Thing(k) for k in range({things})]
    child, record, pair, slots = Child(2), Record(), Pair(2, 3), Slots(1)
    net, nets = compiled(Net()), [compiled(Net(k)) for k in range(1, 4)]
    closures = [closure(k) for k in range(1, 4)]
    lambdas = [compiled(lambda x, k=k: x - k) for k in range(3)]
    partial = functools.partial(base, k=3)
    bound = things[0].scaled
    called = compiled(Thing(5))
    method = compiled(things[-1].steps)

    def fn(x, n):
        out = []
'''

TAIL = '''        return out

    def before(index):
        {before}

    def observe():
        return {{"log": log, "calls": [thing.calls for thing in things], "rows": record.rows, "slots": slots.k,
                "factors": (Thing.factor, Child.factor, Thing.made), "net": net.state_dict(),
                "gradients": [p.grad for p in net.parameters()]}}

    calls = [((torch.linspace(-1, 1, 4 * rows).view(rows, 4){grad}, n), {{}}) for rows, n in {calls}]
'''

STATEMENTS = (
    "out.append([thing.scaled(x) for thing in things])", "out.append(child.scaled(x, more={n}))",
    "out.append(Thing.static(x))", "out.append(things[0].static(x, {n}))", "out.append(Thing.on_class(x))",
    "out.append(child.on_class(x))", "out.append([thing.doubled for thing in things])",
    "out.append([thing(x) for thing in things])", "out.append((things[0] + {n}).k)",
    "out.append((child + things[1]).k)", "out.append(list(things[1].steps(x, {n})))",
    "out.append(sum(child.steps(x, {n})))", "out.append(things[1].breaking(x))", "out.append(child.breaking(x))",
    "out.append(record.taken(x))", "out.append(Record({n}).taken(x))", "out.append(pair.of(x))",
    "out.append([mode.moved(x) for mode in Mode])", "out.append(slots.of(x))", "out.append(Slots({n}).of(x))",
    "out.append(net(x))", "out.append([one(x) for one in nets])", "out.append(net.extra(x))",
    "net.eval(); out.append(net(x)); net.train()", "out.append(sorted(net.state_dict()))",
    "out.append([name for name, _ in net.named_parameters()])", "out.append(isinstance(net, Net))",
    "out.append(copy.deepcopy(net)(x))", "net.k = {n}; out.append(net(x))", "out.append(net.layer(x))",
    "out.append([name for name, _ in net.named_modules()])",
    "net(x).sum().backward(); out.append(net.layer.weight.grad)", "net.zero_grad()",
    "net.layer.bias = nn.Parameter(torch.ones(4)); out.append(net(x))",
    "net.requires_grad_({flag}); out.append(net(x).requires_grad)", "out.append(next(net.children()) is net.layer)",
    "out.append(torch.func.functional_call(net, {{'layer.bias': x[0]}}, (x,)))", "out.append(base(x))",
    "out.append(base(x, {n}, n, flag=True))", "out.append(base(x, *range({n}), a=1, b=2))",
    "out.append(base(k=n, x=x))", "out.append(partial(x))", "out.append(functools.partial(partial, flag=True)(x))",
    "out.append(recursive(x, {n}))", "out.append(recursive(x, n))", "out.append(caught(x, n))",
    "out.append(caught(x, {n}))",
    "try:\n    raising(x, n)\nexcept KeyError as error:\n    out.append((error.args, error.__traceback__ is not None))",
    "out.append(changing(x.clone(), n))", "out.append([y for y in generated(x, {n})])",
    "g = generated(x, {n})\nout.append(next(g))\nout.append(g.send(2))\ng.close()",
    "g = generated(x, 3)\nnext(g)\ntry:\n    g.throw(OSError)\nexcept OSError:\n    out.append('thrown')",
    "out.append(asyncio.run(coroutine(x, n)))", "out.append(inside_no_grad(x))", "out.append(under_no_grad(x))",
    "out.append((remembered(n), remembered({n}), remembered.cache_info().hits))",
    "with scope(n) as k:\n    out.append(base(x, k))", "out.append([counting(x) for counting in closures])",
    "out.append(closure({n})(x))", "out.append([one(x) for one in lambdas])",
    "out.append([one(x, {n}) for one in lambdas])", "out.append(applied(base, x, k=n))",
    "out.append(applied(things[0].scaled, x))", "out.append(applied(net, x))",
    "out.append(list(map(base, [x, x * 2], [n, {n}])))", "out.append(functools.reduce(base, [x, n, {n}]))",
    "out.append(sorted([3, 1, {n}], key=compiled(lambda k: -k)))", "out.append(bound(x))", "out.append(called(x))",
    "out.append([y.sum() for y in method(x, {n})])", "out.append(decorated(x))", "out.append(decorated(x, n=n))",
    "inner = compiled(lambda y: y + n)\nout.append(inner(x))", "out.append(compiled(compiled(base))(x, n))",
    "out.append(compiled(Thing({n}).scaled)(x))", "out.append(compiled(functools.partial(base, k={n}))(x))",
    "out.append(compiled(torch.sin)(x))", "out.append(compiled(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))(x).shape)",
    "out.append(compiled(F.softmax)(x, -1))", "out.append(torch.func.vmap(base)(x))",
    "out.append(torch.func.grad(lambda y: base(y).sum())(x))",
    "out.append(torch.func.jacrev(compiled(lambda y: (y * y).sum(0)))(x))",
    "out.append((base.__name__, base.__doc__, base.__defaults__, base.__kwdefaults__))",
    "out.append((Thing.scaled.__name__, Thing.scaled.__doc__, Thing.scaled.__qualname__))",
    "out.append(str(inspect.signature(base)))", "out.append(str(inspect.signature(things[0].scaled)))",
    "out.append(inspect.isgeneratorfunction(generated))", "out.append(inspect.iscoroutinefunction(coroutine))",
    "out.append(callable(net))", "out.append(base == base and hash(base) == hash(base))",
    "out.append(weakref.ref(base)() is base)", "out.append(things[0].scaled == things[0].scaled)",
    "out.append(things[0].scaled.__self__ is things[0])", "out.append({{base: 1, decorated: 2}}[base])",
    "out.append(isinstance(base, types.FunctionType))", "out.append(copy.copy(things[0]).scaled(x))",
    "out.append(copy.deepcopy(things[1]).scaled(x))", "Thing.factor = {n}\nout.append(things[0].scaled(x))",
    "things[0].factor = {n}\nout.append(things[0].scaled(x))", "del things[-1]\nthings.append(Thing({n}))",
    "things[0].k = x.sum()\nout.append(things[0].scaled(x))", "things[0].k = 1",
    "child.__class__ = Thing\nout.append(child.scaled(x))\nchild.__class__ = Child", "fs.graph_break()",
    "x = x.double()", "x = x[1:]", "x = x + 1", "print(n, len(out))",
    "with torch.no_grad():\n    out.append(base(x, n))",
    "with torch.autocast('cpu', torch.bfloat16):\n    out.append(net(x))", "base.note = {n}\nout.append(base.note)",
    "out.append(operator.methodcaller('scaled', x)(things[0]))",
    "try:\n    base()\nexcept TypeError as error:\n    out.append(str(error))",
    "try:\n    things[0].scaled(x, 1, 2)\nexcept TypeError as error:\n    out.append(str(error))",
    "try:\n    net()\nexcept TypeError as error:\n    out.append(str(error))",
    "fs.set_stance('force_eager')\nout.append(base(x, n))\nfs.set_stance('default')",
    "out.append(fs.disable(base)(x, n))",
)


def generate(seed: int) -> Program:
    """The program of a seed."""
    dice = Dice(seed)
    body = ""
    for _ in range(dice.between(2, 7)):
        text = dice.choice(STATEMENTS).format(n=dice.between(0, 4), flag=dice.choice(("True", "False")))
        repeated = dice.chance(0.15)
        if repeated:
            text = "for n in (1, 2, n):\n" + textwrap.indent(text, "    ")
        body += textwrap.indent(text + "\n", " " * 8)
    grad = dice.choice((".requires_grad_()", "", ""))
    tail = TAIL.format(
        before=dice.choice(("pass", "pass", "Thing.factor = index", "things[0].k = index * 0.5", "net.k += 1",
                            "net.train(index % 2 == 0)")),
        calls=dice.choice(("((2, 1), (3, 2), (3, 2))", "((2, 0), (2, 1), (2, 2), (2, 3))",
                           "((3, 2), (4, 2), (1, 2), (0, 1))")),
        grad=grad)
    if dice.chance(0.5):
        end = "    return fn, calls, before, observe\n"
    else:  # nothing compiled around it
        end = "\n    def use(unused, args, kwargs):\n        return fn(*args)\n\n" \
              "    return base, calls, before, observe, use\n"
    return Program(seed, HEAD.replace("{things}", str(dice.between(2, 6))) + body + tail + end)
