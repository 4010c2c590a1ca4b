"""Generators and iterators: the tutorial, the language reference and PEP 380's examples."""

from . import given


def countdown(x):
    def count(n):
        while n > 0:
            yield n
            n -= 1

    return [x * n for n in count(3)], sum(count(4))


class _Reverse:
    def __init__(self, data):
        self.data = data
        self.index = len(data)

    def __iter__(self):
        return self

    def __next__(self):
        if self.index == 0:
            raise StopIteration
        self.index = self.index - 1
        return self.data[self.index]


def iterator_class(x):
    return [x + ord(c) for c in _Reverse("spam")], "".join(_Reverse("golf"))


def generator_expression(x):
    xvec, yvec = [10, 20, 30], [7, 5, 3]
    return x * sum(a * b for a, b in zip(xvec, yvec)), set(c for c in "hello"), max((len(w), w) for w in ("a", "bcd"))


def send_values(x):
    def averager():
        total, count, average = 0.0, 0, None
        while True:
            term = yield average
            total += term
            count += 1
            average = total / count

    avg = averager()
    next(avg)
    return [avg.send(v) for v in (10, 30, 5)], x * avg.send(1)


def throw_into(x):
    def echo(value=None):
        try:
            while True:
                try:
                    value = yield value
                except Exception as e:
                    value = type(e).__name__
        finally:
            log.append("Don't forget to clean up when 'close()' is called.")

    log = []
    generator = echo(1)
    out = [next(generator), next(generator), generator.throw(TypeError("spam"))]
    generator.close()
    return x, out, log


def yield_from_returns(x):
    def inner():
        received = yield 1
        yield received
        return "result"

    def outer():
        value = yield from inner()
        yield value
        yield from [x]

    g = outer()
    return [next(g), g.send("sent"), *g]


def return_value(x):
    def g():
        yield x
        return 42

    it = g()
    first = next(it)
    try:
        next(it)
    except StopIteration as stop:
        return first, stop.value


def tree_inorder(x):
    def inorder(t):
        if t:
            left, label, right = t
            yield from inorder(left)
            yield x * label
            yield from inorder(right)

    return list(inorder(((None, 1, None), 2, (None, 3, None))))


def exhausted_stays_exhausted(x):
    g = (n for n in range(2))
    return x, list(g), list(g), next(g, "none")


def infinite_with_break(x):
    def naturals():
        n = 0
        while True:
            yield n
            n += 1

    for n in naturals():
        x = x + n
        if n > 3:
            break
    return x


def primes(x):
    def sieve():
        found = []
        n = 2
        while True:
            if all(n % p for p in found):
                found.append(n)
                yield n
            n += 1

    g = sieve()
    return x, [next(g) for _ in range(6)]


def close_runs_finally(x):
    log = []

    def g():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    it = g()
    next(it)
    it.close()
    it.close()
    return x, log, list(it)


def generator_raises(x):
    def g():
        yield 1
        raise ValueError("inside")

    it = g()
    next(it)
    try:
        next(it)
    except ValueError as error:
        return x, str(error), next(it, "done")


def stop_iteration_becomes_runtime_error(x):
    def g():
        yield next(iter([]))

    try:
        list(g())
    except RuntimeError as error:
        return x, str(error)


def unpack_generator(x):
    def pair():
        yield x
        yield x + 1

    a, b = pair()
    first, *rest = (n for n in range(3))
    return a, b, first, rest, [*pair()], dict(zip("ab", pair()))


def iter_protocol_by_getitem(x):
    class Squares:
        def __getitem__(self, i):
            if i >= 4:
                raise IndexError
            return i * i

    s = Squares()
    return x + sum(s), list(s), 9 in s, list(reversed([*s]))


class _Range:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for i in range(self.n):
            yield i

    def __len__(self):
        return self.n

    def __contains__(self, i):
        return 0 <= i < self.n


def iterable_class(x):
    r = _Range(3)
    return [x * i for i in r], len(r), 2 in r, 3 in r, list(r) == list(r), sorted(r, reverse=True)


@given(lambda: (iter([1, 2, 3]),))
def iterator_from_outside(x, it):
    return x * next(it), list(it)


@given(lambda: ((n * n for n in range(4)),))
def generator_from_outside(x, g):
    total = 0
    for n in g:
        total += n
    return x + total


def generator_state_in_closure(x):
    def running(values):
        total = 0
        for v in values:
            total = total + v
            yield total

    *_, last = running([x, x * 2, x * 3])
    return last


def pipeline(x):
    def read():
        yield from ["1", "x", "3", ""]

    def clean(lines):
        for line in lines:
            if line.isdigit():
                yield line

    def convert(lines):
        return (int(line) for line in lines)

    return [x + n for n in convert(clean(read()))]


def two_at_once(x):
    def counter():
        n = 0
        while True:
            n += 1
            yield n

    a, b = counter(), counter()
    next(a)
    return x * next(a) + next(b), a is iter(a)


def returned_generator(x):
    def g():
        for i in range(2):
            yield x + i

    return g()
