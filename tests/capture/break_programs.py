"""Programs in which breaks are forced at every instruction (see `forced_breaks`)."""

# ruff: noqa: B007, B012, B018, B904, C416, E731, F821, F841, SIM105, SIM117, UP031, PERF401, C419, C417, I001, B023, C400

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import sys
import traceback
from typing import Any

import torch

PROGRAMS: list[Any] = []


def program(function: Any) -> Any:
    PROGRAMS.append(function)
    return function


class CM:
    """A context manager that reports, and may swallow exceptions."""

    def __init__(self, log: list[Any], name: str, swallow: bool = False) -> None:
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self) -> CM:
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind: Any, error: Any, tb: Any) -> bool:
        self.log.append(f"exit {self.name} {kind and kind.__name__} {error}")
        return self.swallow


@contextlib.contextmanager
def managed(log, name):
    log.append(f"begin {name}")
    try:
        yield name
    except ValueError as error:
        log.append(f"caught {error}")
        raise
    finally:
        log.append(f"end {name}")


class Custom(Exception):
    def __init__(self, text, code=3):
        super().__init__(text)
        self.code = code


class Counter:
    """An iterator of its own."""

    def __init__(self, n):
        self.i, self.n = 0, n

    def __iter__(self):
        return self

    def __next__(self):
        if self.i >= self.n:
            raise StopIteration
        self.i += 1
        return self.i


class Box:
    scale = 2

    def __init__(self, value):
        self.value = value

    @property
    def doubled(self):
        return self.value * 2

    def __getitem__(self, key):
        return self.value + key

    def __add__(self, other):
        return Box(self.value + other)

    def __call__(self, k):
        return self.value * k * self.scale

    def method(self, x, *args, flag=False, **kwargs):
        return (self.value + x + sum(args), flag, sorted(kwargs))


class Derived(Box):
    def __init__(self, value):
        super().__init__(value)
        self.extra = 1

    def method(self, x, *args, **kwargs):
        first, *rest = super().method(x, *args, **kwargs)
        return [first + self.extra, rest]


def fails(x, log):
    log.append("before failing")
    y = x + 1
    raise ValueError("bad", int(y.shape[0]))


def fails_deep(x, log, depth):
    if depth == 0:
        return fails(x, log)
    log.append(depth)
    return fails_deep(x * 2, log, depth - 1) + 1


def numbers(x, log):
    log.append("start")
    got = yield x + 1
    log.append(("got", got))
    try:
        got = yield x * 2
        log.append(("got", got))
    except KeyError as error:
        log.append(("thrown", error.args))
        yield x - 1
    finally:
        log.append("finally")
    return "done"


def pairs(x, n):
    for i in range(n):
        yield i, x + i


@program
def straight(x, log):
    a = x + 1
    b = a.sin() * 2
    log.append(len(b))
    c = {"a": a, "b": [b, b]}
    c["a"] += 1
    return c["b"][0] + a, c


@program
def branches(x, log):
    y = x.sum()
    if y > 0:
        log.append("positive")
        z = x * 2
    else:
        log.append("negative")
        z = x - 1
    w = 1 if z[0] > 0 else 2
    ok = x[0] > 0 and x[1] > 0 or x[2] > 0
    if not (x.max() < 100):
        log.append("never")
    assert 0 < x.max() < 10, "range"
    return z, w, ok


@program
def for_loops(x, log):
    total = x
    for i in range(3):
        if i == 1:
            log.append("skip")
            continue
        for j in [1, 2, 3]:
            if j == 2:
                break
            total = total + i * j
        else:
            log.append("no")
        log.append((i, j))
    else:
        log.append("else")
    return total


@program
def while_loop(x, log):
    n = 0
    y = x
    while True:
        n += 1
        y = y * 1.5
        if n % 2:
            continue
        if n > 3:
            break
        log.append(n)
    while n < 7:
        n = n + 1
    else:
        log.append("while else")
    return y, n


@program
def iterates(x, log):
    d = {"a": 1, "b": 2}
    out = []
    for k, v in d.items():
        out.append(x * v)
        log.append(k)
    for i, (a, b) in enumerate(zip([1, 2], (3, 4), strict=True), 5):
        out.append((i, a + b))
    for m in map(lambda t: t * 2, [x, x + 1]):
        out.append(m)
    for f in filter(None, [0, 1, 2]):
        log.append(f)
    for c in Counter(3):
        out.append(c)
    for g in (t + 1 for t in (x, 2)):
        out.append(g)
    for k in d:
        log.append(d[k])
    for v in reversed([1, 2, 3]):
        log.append(v)
    for a in itertools.chain([1], (2, 3)):
        log.append(a)
    return out


@program
def comprehensions(x, log):
    a = [x + i for i in range(3) if i != 1]
    b = {i: x * i for i in range(2)}
    c = {i % 2 for i in range(5)}
    d = [[i * j for j in range(2)] for i in range(2)]
    e = sum(i for i in range(4))
    log.append(sorted(c))
    return a, b, d, e


@program
def closures(x, log):
    count = 0
    unused = None

    def bump(by=1):
        nonlocal count
        count += by
        return x * count

    a = bump()
    b = bump(by=3)
    fns = [lambda k=k: k + count for k in range(2)]
    count = 10
    log.append([f() for f in fns])
    del unused
    return a, b, count


@program
def nested_closures(x, log):
    def outer(y):
        z = y + 1

        def inner():
            nonlocal z
            z = z * 2
            log.append("inner")
            return z + x

        return inner

    f = outer(x)
    return f(), f()


@program
def with_blocks(x, log):
    with CM(log, "a") as a, CM(log, "b"):
        y = x + 1
        log.append(a.name)
        with managed(log, "m") as name:
            y = y * 2
            log.append(name)
    with contextlib.nullcontext(5) as five:
        y = y + five
    return y


@program
def with_swallow(x, log):
    y = x
    with CM(log, "s", swallow=True):
        y = y + 1
        fails(y, log)
        log.append("not reached")
    with contextlib.suppress(KeyError, ValueError):
        y = y * 2
        raise KeyError("k")
    log.append("after")
    return y


@program
def with_uncaught(x, log):
    y = x + 1
    with CM(log, "outer"):
        with managed(log, "inner"):
            log.append(float(y.shape[0]))
            raise ValueError("out")
    return y


@program
def with_return(x, log):
    for i in range(3):
        with CM(log, i):
            y = x + i
            if i == 1:
                return y
    return None


@program
def exit_stack(x, log):
    with contextlib.ExitStack() as stack:
        for i in range(2):
            stack.enter_context(CM(log, i))
        stack.callback(log.append, "callback")
        y = x + 1
    return y


@program
def grad_modes(x, log):
    w = torch.ones(3, requires_grad=True)
    a = w * x
    with torch.no_grad():
        b = w * x
        log.append(torch.is_grad_enabled())
        with torch.enable_grad():
            c = w + b
            log.append(torch.is_grad_enabled())
        d = w - c
        log.append(torch.is_grad_enabled())
    log.append(torch.is_grad_enabled())
    return a, b, c, d, w * 2


@program
def grad_mode_exception(x, log):
    w = torch.ones(3, requires_grad=True)
    try:
        with torch.no_grad():
            y = w * 2
            raise ValueError("inside")
    except ValueError as error:
        log.append((error.args, torch.is_grad_enabled()))
        z = w * 3
    return y, z


@program
def grad_mode_escapes(x, log):
    w = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        log.append(torch.is_grad_enabled())
        y = w * 2
        raise ValueError("leaves", y.requires_grad)


@program
def autocast_block(x, log):
    m = torch.ones(3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = m @ m
        log.append(torch.is_autocast_enabled("cpu"))
        with torch.autocast("cpu", enabled=False):
            b = m @ m
        c = a @ m
    return a, b, c, m @ m


@program
def try_basic(x, log):
    try:
        y = x + 1
        log.append("try")
        {}["missing"]
    except ValueError:
        log.append("wrong")
    except (KeyError, IndexError) as error:
        log.append(("except", error.args))
        y = x * 2
    else:
        log.append("else")
    finally:
        log.append("finally")
    try:
        y = y + 1
    except Exception:
        log.append("no")
    else:
        log.append("else 2")
        y = y * 3
    finally:
        y = y - 1
        log.append("finally 2")
    return y


@program
def try_nested(x, log):
    y = x
    try:
        try:
            fails(y, log)
        except ValueError as error:
            log.append(error.args)
            y = y + 1
            raise Custom("wrapped", code=4) from error
        finally:
            log.append("inner finally")
    except Custom as error:
        log.append((error.code, error.__cause__, error.__suppress_context__))
        y = y * 2
    return y


@program
def raise_context(x, log):
    try:
        y = x + 1
        raise KeyError("first")
    except KeyError:
        log.append("handling")
        z = y * 2
        raise ValueError("second", z.shape[0])


@program
def raise_from(x, log):
    try:
        fails(x, log)
    except ValueError as error:
        raise RuntimeError("from") from error


@program
def raise_from_none(x, log):
    try:
        fails(x, log)
    except ValueError:
        log.append("x")
        raise Custom("none") from None


@program
def bare_raise(x, log):
    try:
        log.append("in")
        fails_deep(x, log, 2)
    except ValueError as error:
        log.append(error.args)
        raise
    finally:
        log.append("out")


@program
def caught_deep(x, log):
    try:
        y = fails_deep(x, log, 3)
    except ValueError as error:
        y = x * len(error.args)
        log.append([name for name, *_ in user_frames(error)])
    return y


def user_frames(error):
    return [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__]


@program
def exc_info(x, log):
    log.append(sys.exc_info()[0])
    try:
        y = x + 1
        raise Custom("info")
    except Custom:
        kind, value, tb = sys.exc_info()
        log.append((kind, value.args, value.code))
        try:
            raise KeyError("inner")
        except KeyError:
            log.append(sys.exc_info()[0])
        log.append(sys.exc_info()[0])
        y = y * 2
    log.append(sys.exc_info()[0])
    return y


@program
def loop_with_exceptions(x, log):
    y = x
    for i in range(4):
        try:
            if i == 1:
                raise ValueError(i)
            if i == 2:
                continue
            if i == 3:
                break
            y = y + i
        except ValueError as error:
            log.append(error.args)
            y = y * 2
        finally:
            log.append(("finally", i))
    return y


@program
def return_in_finally(x, log):
    try:
        y = x + 1
        return fails(y, log)
    except ValueError as error:
        log.append("caught")
        return x * len(error.args)
    finally:
        log.append("finally")


@program
def finally_overrides(x, log):
    for i in range(2):
        try:
            raise ValueError(i)
        finally:
            log.append(i)
            continue
    return x + 1


@program
def generators(x, log):
    out = []
    for item in numbers(x, log):
        out.append(item)
    g = numbers(x, log)
    out.append(next(g))
    out.append(g.send("hello"))
    try:
        g.send("again")
    except StopIteration as stop:
        out.append(stop.value)
    return out


@program
def generator_throw(x, log):
    g = numbers(x, log)
    a = next(g)
    b = g.send(1)
    c = g.throw(KeyError("key"))
    log.append("thrown")
    rest = list(g)
    return a, b, c, rest


@program
def generator_close(x, log):
    g = numbers(x, log)
    a = next(g)
    b = next(g)
    g.close()
    log.append("closed")
    return a, b, next(g, "default")


@program
def generator_partial(x, log):
    g = pairs(x, 4)
    i, a = next(g)
    log.append(i)
    rest = [b + a for _, b in g]
    return a, rest


@program
def generator_returned(x, log):
    g = pairs(x, 3)
    first = next(g)
    log.append(first[0])
    return list(g), first


@program
def yield_from(x, log):
    def both():
        result = yield from numbers(x, log)
        log.append(result)
        yield from [1, 2]

    return list(both())


@program
def generator_error(x, log):
    def broken():
        yield x + 1
        raise StopIteration("oops")

    out = []
    for item in broken():
        out.append(item)
        log.append("item")
    return out


@program
def objects(x, log):
    b = Box(x)
    c = b + 1
    log.append(b.method(1, 2, 3, flag=True, z=1, a=2)[1:])
    d = Derived(x * 2)
    d.value = d.doubled - c[1]
    return d.method(2, 3), b(3), c.doubled, d


@program
def star_args(x, log):
    def f(a, b=2, *args, c, d=4, **kwargs):
        log.append((b, args, c, d, sorted(kwargs)))
        return a + b

    args, kwargs = (1, 7), {"c": 5, "e": 6}
    a = f(x, *args, **kwargs)
    b = f(x, c=1)
    first, *middle, last = [x, 1, 2, a]
    [p, q], r = (1, 2), 3
    log.append((middle, p, q, r))
    return a, b, first + last, [*args, *middle], {**kwargs, "z": 1}


@program
def unbound(x, log):
    for i in range(0):
        never = x
    try:
        y = x + 1
        never
    except UnboundLocalError as error:
        log.append(str(error))
    z = y
    del y
    try:
        return y
    except NameError as error:
        log.append(str(error))
    return z


@program
def recursive(x, log):
    def fact(n):
        log.append(n)
        return 1 if n <= 1 else n * fact(n - 1)

    return x * fact(4)


@program
def sorting(x, log):
    items = [(3, x), (1, x + 1), (2, x + 2)]
    ordered = sorted(items, key=lambda t: t[0], reverse=True)
    items.sort(key=lambda t: log.append(t[0]) or t[0])
    total = functools.reduce(lambda a, b: a + b[1], items, x)
    return ordered, items, total, max(items, key=lambda t: -t[0])


@program
def matching(x, log):
    out = []
    for subject in [1, "two", (3, 4), [5, 6, 7], {"k": 8, "l": 9}, Box(1), None]:
        match subject:
            case 1 | 2:
                out.append("small")
            case str() as s if s == "two":
                out.append(s)
            case (a, b):
                out.append(a + b)
            case [first, *rest]:
                out.append((first, rest))
            case {"k": k, **others}:
                out.append((k, others))
            case Box(value=v):
                out.append(x + v)
            case _:
                out.append("other")
    log.append(len(out))
    return out


@program
def makes_class(x, log):
    class Local:
        factor = 3

        def apply(self, t):
            log.append("apply")
            return t * self.factor

    return Local().apply(x)


@program
def many_locals(x, log):
    a, b, c, d, e = 1, 2.5, "s", [1], {"k": 2}
    f, g, h = x + a, x * b, (a, c)
    e["m"] = d
    d.append(f)
    log.append(c)
    i = j = [g]
    j.append(1)
    return a + f, b, c, d, e, f, g, h, i is j, i


@program
def aliasing(x, log):
    a = [x]
    b = {"a": a}
    a.append(x + 1)
    c = b["a"]
    c[0] = c[0] * 2
    log.append(a is c)
    log.append(c)
    return a, b


@program
def mutates_input(x, log):
    y = x.view(3)
    y.add_(1)
    log.append(x.shape[0])
    x[0] = 5
    x *= 2
    return y + x


@program
def strings(x, log):
    n = len(x)
    log.append(f"{n:>4} {n!r} {x.dtype}")
    log.append("%s-%d" % ("a", n))
    log.append(", ".join(str(i) for i in range(n)))
    return x + n, "abc"[1:], slice(1, n)


@program
def walrus_and_chains(x, log):
    if (n := x.shape[0]) > 2 and (m := n * 2):
        log.append(m)
    values = [y for i in range(4) if (y := i * 2) > 2]
    t = 0 < n < 4 <= 10
    return x + n, values, t, y, not t


@program
def global_state(x, log):
    global GLOBAL
    GLOBAL = 1
    y = x + GLOBAL
    GLOBAL += 1
    log.append(GLOBAL)
    return y * GLOBAL


GLOBAL = 0


@program
def deletes(x, log):
    d = {"a": x, "b": 2}
    items = [1, 2, 3]
    box = Box(x)
    box.temp = 1
    del d["b"], items[0], box.temp
    items[1:] = [7, 8]
    log.append((items, sorted(d), hasattr(box, "temp")))
    return d["a"] + items[-1]


@program
def assertion(x, log):
    log.append("before")
    y = x + 1
    assert y.shape[0] == 4, f"wrong size {y.shape[0]}"
    return y


@program
def type_error(x, log):
    y = x + 1
    log.append("go")
    return y + len(5)


@program
def attribute_error(x, log):
    y = x + 1
    try:
        y.nothing_there
    except AttributeError as error:
        log.append(error.args)
    return Box(y).missing


@program
def graph_error_caught(x, log):
    try:
        log.append("start")
        y = x + 1
        z = torch.nn.functional.embedding(torch.tensor([7]), torch.ones(2, 2))
        log.append("never")
    except IndexError as error:
        log.append(type(error))
        z = y * 2
    return z


@program
def graph_error_escapes(x, log):
    log.append("start")
    table = torch.ones(2, 2)
    y = torch.nn.functional.embedding(torch.tensor([7]), table)
    log.append("never")
    return y


@program
def shape_error(x, log):
    log.append("start")
    try:
        y = x + torch.ones(4)
    except RuntimeError as error:
        log.append(str(error)[:20])
        y = x
    return y @ torch.ones(5, 5)


@program
def finally_chain(x, log):
    def level(n):
        try:
            if n == 0:
                return fails(x, log)
            return level(n - 1)
        finally:
            log.append(("leave", n))

    try:
        level(2)
    except ValueError as error:
        log.append(error.args)
    return x + 1


@program
def with_in_loop(x, log):
    y = x
    for i in range(3):
        with CM(log, i, swallow=i == 1):
            y = y + 1
            if i == 1:
                raise ValueError("swallowed")
            if i == 2:
                continue
            log.append("end")
    return y


@program
def context_in_except(x, log):
    try:
        raise KeyError("a")
    except KeyError:
        with CM(log, "handler"):
            y = x + 1
            log.append(sys.exc_info()[0])
        try:
            raise ValueError("b")
        except ValueError as error:
            log.append(type(error.__context__))
    return y


@program
def decorated_no_grad(x, log):
    @torch.no_grad()
    def inner(w):
        log.append(torch.is_grad_enabled())
        return w * 2

    w = torch.ones(3, requires_grad=True)
    a = inner(w)
    return a, w * 3


@program
def math_and_constants(x, log):
    n = math.floor(math.sqrt(x.shape[0] * 3))
    log.append(divmod(n, 2))
    return x * n + int("12") + abs(-3) + max(1, n) + round(2.6)


# Programs that break by themselves


@program
def item_loop(x, log):
    total = 0.0
    for value in x:
        total += value.item()
        if value > 2:
            log.append("big")
    while total < 20:
        total = total * 2 + float(x.sum())
    return total, x * total


@program
def print_and_item(x, log):
    y = (x * 2).sum()
    log.append(f"{y.item():.1f}")
    if y.item() > 3 and (x[0] > 0 or x[1] > 0):
        y = y + 1
    return y if y else x


@program
def opaque_calls(x, log):
    import re
    import time

    y = x + 1
    log.append(re.sub(r"\d+", lambda m: str(int(m.group()) + 1), "a1b22"))
    started = time.monotonic()
    y = y * 2
    log.append(time.monotonic() >= started)
    return y


@program
def generator_with_item(x, log):
    def items():
        for value in x:
            log.append("make")
            yield value.item() * 2

    out = []
    for item in items():
        out.append(x + item)
        if item < 0:
            break
    return out


@program
def map_with_item(x, log):
    def one(t):
        log.append("one")
        return t.item() + 1

    a = list(map(one, x))
    b = sorted(x, key=lambda t: -t.item())
    return a, b, [one(t) for t in x], max(a, key=lambda v: -v)


@program
def nonlocal_around_break(x, log):
    count = 0

    def step(t):
        nonlocal count
        count += 1
        s = t.sum().item()
        count += int(s)
        return t * count

    a = step(x)
    b = step(a)
    return a, b, count


@program
def deep_break(x, log):
    def one(t):
        log.append("one")
        return two(t + 1) * 2

    def two(t):
        log.append("two")
        return three(t) - 1

    def three(t):
        if t.sum() > 0:
            log.append("three")
            return t * 3
        return t

    return one(x)


@program
def break_in_dunders(x, log):
    class Noisy:
        def __enter__(self):
            log.append(x.sum().item())
            return self

        def __exit__(self, *args):
            log.append(x.max().item())
            return True

        def __getitem__(self, key):
            return x[key].item()

        def __add__(self, other):
            return x.sum().item() + other

        def __bool__(self):
            return x.sum().item() > 0

        def __len__(self):
            return int(x.sum().item())

        def __contains__(self, value):
            return value in x.tolist()

        def __iter__(self):
            return iter(x.tolist())

        def __eq__(self, other):
            return x.sum().item() == other

        @property
        def prop(self):
            return x.sum().item()

    n = Noisy()
    with n as m:
        y = x + n[0]
        log.append(n + 1)
        if n:
            log.append((len(n), 1.0 in n, n == 2, n.prop, [*n]))
        raise ValueError("swallowed")
    return y, m is n


@program
def user_iterator_break(x, log):
    class Steps:
        def __init__(self):
            self.left = 3

        def __iter__(self):
            return self

        def __next__(self):
            if self.left == 0:
                log.append("stop")
                raise StopIteration
            self.left -= 1
            return x.sum().item() + self.left

    out = [v for v in Steps()]
    for i, v in enumerate(Steps()):
        if i == 1:
            continue
        out.append(x * v)
    return out


@program
def error_in_step(x, log):
    y = x + 1
    try:
        with CM(log, "step"):
            int("not a number")
    except ValueError as error:
        log.append(error.args)
        y = y * 2
    try:
        log.append(x.sum().item())
        x.view(7)
    except RuntimeError as error:
        log.append(type(error))
    return y


@program
def reraised_in_callee(x, log):
    def reraise():
        log.append(type(sys.exc_info()[1]))
        raise

    try:
        try:
            {}[x.shape[0]]
        except KeyError:
            reraise()
    except KeyError as error:
        log.append(error.args)
        saved = error
    try:
        raise saved
    except KeyError as error:
        log.append(error is saved)
    return x + 1


@program
def chained_three(x, log):
    try:
        try:
            try:
                raise KeyError(1)
            except KeyError as first:
                raise ValueError(2) from first
        except ValueError:
            raise TypeError(3)
    except TypeError as error:
        log.append(error)
        raise Custom(4, code=5) from error


@program
def exception_state(x, log):
    error = Custom("made", code=7)
    error.extra = [1]
    error.add_note("note")
    try:
        raise error
    except Custom as caught:
        log.append((caught is error, caught.code, caught.extra, caught.__notes__))
        caught.extra.append(2)
    log.append(str(error))
    raise error


@program
def exception_in_comprehension(x, log):
    try:
        return [x / i if i else fails(x, log) for i in (1, 2, 0)]
    except ValueError as error:
        log.append(user_frames(error)[-1][0])
        return x


@program
def generator_finally(x, log):
    def resource(released):
        log.append("open")
        try:
            yield x
            yield x + 1
        finally:
            released.append("release")

    abandoned = []  # not reported: the moment when an object dies may be later in compiled code
    for item in resource(abandoned):
        log.append("use")
        break
    g = resource(log)
    next(g)
    try:
        g.throw(ValueError("into"))
    except ValueError as error:
        log.append(error.args)
    h = resource(abandoned)
    a = next(h)
    del h
    return a, item, list(g)


@program
def generator_in_handler(x, log):
    def values():
        try:
            raise KeyError("inside")
        except KeyError as error:
            yield x
            log.append((type(sys.exc_info()[1]), error.args))
            yield x + 1

    g = values()
    a = next(g)
    log.append(sys.exc_info()[0])
    b = next(g)
    return a, b, next(g, None)


@program
def nested_generators(x, log):
    def inner(n):
        for i in range(n):
            received = yield x + i
            log.append(received)
        return n

    def outer():
        first = yield from inner(2)
        second = yield from inner(first - 1)
        return first + second

    g = outer()
    out = [next(g), g.send("a"), g.send("b")]
    try:
        g.send("c")
    except StopIteration as stop:
        out.append(stop.value)
    return out


@program
def exit_stack_errors(x, log):
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(CM(log, 1))
            stack.push(lambda *exc: log.append(exc[0]))
            y = stack.enter_context(managed(log, "m"))
            raise ValueError(y)
    except ValueError as error:
        log.append(error.args)
    return x + 1


@program
def no_grad_with_break(x, log):
    w = torch.ones(3, requires_grad=True)
    for i in range(2):
        with torch.no_grad():
            y = w * 2
            log.append((y.sum().item(), torch.is_grad_enabled()))
            y = w * 3
        z = w * y
        log.append((z.requires_grad, y.requires_grad))
    with torch.set_grad_enabled(False):
        log.append((w * 2).requires_grad)
    return y, z


@program
def autocast_with_break(x, log):
    m = torch.eye(3)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = m @ m
            log.append(a.sum().item())
            b = m @ m
            raise ValueError("leave")
    except ValueError:
        c = m @ m
    return a, b, c


@program
def conditional_import(x, log):
    from math import floor as down
    import os.path as path

    log.append(path.join("a", "b"))
    return x + down(2.7)


@program
def loop_variables_after(x, log):
    for i, t in enumerate([x, x + 1]):
        for _ in range(2):
            last = t * i
    try:
        del i
        log.append(i)
    except UnboundLocalError as error:
        log.append(error.args)
    return last, t


@program
def finally_return(x, log):
    def inner():
        for i in range(3):
            try:
                if i == 1:
                    return "early"
                log.append(i)
            finally:
                log.append(("f", i))
        return "late"

    y = x
    try:
        y = y + 1
        return inner(), y
    finally:
        y = y * 2
        log.append(y.shape[0])


@program
def global_in_callee(x, log):
    def bump():
        global GLOBAL
        GLOBAL = 5
        value = x.sum().item()
        GLOBAL += int(value)
        return GLOBAL

    a = bump()
    return x + a, GLOBAL


@program
def random_numbers(x, log):
    a = torch.rand(3)
    log.append(a.shape[0])
    b = torch.randn(3) + a
    log.append((b.sum() > -100).item())
    return a, b, torch.rand(2)


@program
def class_body(x, log):
    class Made:
        table = {k: k * 2 for k in range(2)}
        log.append(sorted(table))

        class Inner:
            value = 3

        def get(self):
            return __class__.__name__

    m = Made()
    return m.get(), m.Inner.value, x + Made.table[1]


@program
def mutable_default(x, log):
    def gather(item, into=[]):  # noqa: B006
        into.append(item)
        return into

    a = gather(1)
    b = gather(x)
    log.append(a is b)
    return a


@program
def deep_recursion(x, log):
    def down(t, n):
        if n == 0:
            log.append(t.sum().item())
            return t
        r = down(t + 1, n - 1)
        log.append(n)
        return r * 2

    return down(x, 4)


@program
def dict_changes_in_loop(x, log):
    d = {"a": 1}
    try:
        for k in d:
            d[k + "x"] = 2
    except RuntimeError as error:
        log.append(error.args)
    items = [1, 2, 3]
    for i in items:
        if i < 3 and len(items) < 6:
            items.append(i + 10)
    return x, items
