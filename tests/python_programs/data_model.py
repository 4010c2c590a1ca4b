"""Special methods, from the language reference's chapter on the data model."""

import functools

from . import given


class _Vector:
    def __init__(self, *parts):
        self.parts = parts

    def __add__(self, other):
        if not isinstance(other, _Vector):
            return NotImplemented
        return _Vector(*(a + b for a, b in zip(self.parts, other.parts)))

    def __mul__(self, k):
        return _Vector(*(a * k for a in self.parts))

    def __rmul__(self, k):
        return self * k

    def __neg__(self):
        return _Vector(*(-a for a in self.parts))

    def __eq__(self, other):
        return isinstance(other, _Vector) and self.parts == other.parts

    def __hash__(self):
        return hash(self.parts)

    def __abs__(self):
        return sum(a * a for a in self.parts) ** 0.5

    def __bool__(self):
        return any(self.parts)

    def __repr__(self):
        return "Vector" + repr(self.parts)

    def __getitem__(self, i):
        return self.parts[i]

    def __len__(self):
        return len(self.parts)

    def __matmul__(self, other):
        return sum(a * b for a, b in zip(self.parts, other.parts))


def arithmetic(x):
    v = _Vector(3, 4)
    return x * abs(v), repr(2 * v + -v), v == _Vector(3, 4), bool(_Vector(0, 0)), v @ v, len(v), v[-1]


def not_implemented(x):
    try:
        _Vector(1) + 3
    except TypeError as error:
        return x, str(error)


def hashed_objects(x):
    d = {_Vector(1, 2): x}
    return d[_Vector(1, 2)], _Vector(1, 2) in {_Vector(1, 2)}, len({_Vector(1), _Vector(1), _Vector(2)})


def vector_of_tensors(x):
    total = _Vector(x, x + 1) + _Vector(x, x)
    return total.parts, sum(total.parts)


class _Account:
    def __init__(self, balance):
        self.balance = balance

    def __iadd__(self, amount):
        self.balance += amount
        return self

    def __int__(self):
        return int(self.balance)

    def __float__(self):
        return float(self.balance)

    def __index__(self):
        return 1

    def __round__(self, n=0):
        return f"rounded {n}"


@given(lambda: (_Account(10.5),))
def in_place_and_conversions(x, account):
    before = account
    account += 5
    return before is account, int(account), float(account), [1, 2, 3][account], round(account, 2), x[account]


@functools.total_ordering
class _Version:
    def __init__(self, text):
        self.numbers = tuple(map(int, text.split(".")))

    def __eq__(self, other):
        return self.numbers == other.numbers

    def __lt__(self, other):
        return self.numbers < other.numbers


def ordering(x):
    a, b = _Version("1.10"), _Version("1.9")
    return x, a > b, a >= b, a <= b, a != b, max([a, b]) is a, sorted([a, b])[0] is b


class _Grid:
    def __init__(self):
        self.cells = {}

    def __setitem__(self, key, value):
        self.cells[key] = value

    def __getitem__(self, key):
        if isinstance(key, slice):
            return ("slice", key.start, key.stop, key.step)
        return self.cells[key]

    def __delitem__(self, key):
        del self.cells[key]

    def __contains__(self, key):
        return key in self.cells

    def __iter__(self):
        return iter(self.cells)


def items(x):
    g = _Grid()
    g[1, 2] = x
    g["a"] = 1
    del g["a"]
    return g[1, 2], g[1:5:2], (1, 2) in g, list(g)


class _Everything:
    def __init__(self):
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(None if kind is None else kind.__name__)
        return kind is KeyError

    def __call__(self, *args, **kwargs):
        return len(args), sorted(kwargs)


def context_and_call(x):
    e = _Everything()
    with e as inner:
        x = x + 1
    with e:
        raise KeyError("k")
    return x, e.log, e(1, 2, a=3), inner is e


def comparison_chain_calls_once(x):
    calls = []

    def value(n):
        calls.append(n)
        return n

    result = value(1) < value(5) < value(3) < value(0)
    return x, result, calls


class _Reflected:
    def __radd__(self, other):
        return ("radd", other)

    def __rsub__(self, other):
        return ("rsub", other)

    def __rpow__(self, other):
        return ("rpow", other)

    def __rdivmod__(self, other):
        return ("rdivmod", other)

    def __rshift__(self, other):
        return ("rshift", other)


def reflected_operators(x):
    r = _Reflected()
    return x, 1 + r, 2 - r, 3**r, divmod(4, r), r >> 5


class _TensorLike:
    def __init__(self, t):
        self.t = t

    def __radd__(self, other):
        return ("radd", other)

    def __array__(self):
        raise TypeError


def bool_and_len(x):
    class Sized:
        def __len__(self):
            return 0

    class Truthy:
        pass

    return x, bool(Sized()), bool(Truthy()), not Sized(), "yes" if Sized() else "no", [] or Truthy.__name__


def bool_must_return_bool(x):
    class Bad:
        def __bool__(self):
            return 2

    try:
        bool(Bad())
    except TypeError as error:
        return x, str(error)


def len_must_be_integer(x):
    class Bad:
        def __len__(self):
            return -1

    try:
        len(Bad())
    except ValueError as error:
        return x, str(error)


def missing_operators(x):
    class Plain:
        pass

    p = Plain()
    messages = []
    for call in (
        lambda: p + 1,
        lambda: p[0],
        lambda: p < p,
        lambda: -p,
        lambda: len(p),
        lambda: iter(p),
        lambda: p(),
        lambda: 1 in p,
    ):
        try:
            call()
        except TypeError as error:
            messages.append(str(error))
    return x, messages


def contains_falls_back_to_iter(x):
    class Squares:
        def __iter__(self):
            return iter([1, 4, 9])

    return x, 4 in Squares(), 5 in Squares()


def class_getitem(x):
    class Box:
        def __class_getitem__(cls, item):
            return f"{cls.__name__}[{item.__name__}]"

    return x, Box[int], Box[str]


def reversed_protocol(x):
    class Countdown:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return i * 10

        def __reversed__(self):
            return iter("zyx")

    class Sequence:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return i

    return x, list(reversed(Countdown())), list(reversed(Sequence()))


def in_place_operators_fall_back(x):
    class Money:
        def __init__(self, n):
            self.n = n

        def __add__(self, other):
            return Money(self.n + other)

    m = Money(1)
    old = m
    m += 5
    return x * m.n, m is old, old.n


def format_and_str(x):
    class T:
        def __str__(self):
            return "str"

        def __repr__(self):
            return "repr"

    return x, f"{T()} {T()!r} {T()!s:>5}", str([T()]), "%s %r" % (T(), T())


def dir_and_missing_hash(x):
    class NoHash:
        def __eq__(self, other):
            return True

    try:
        {NoHash()}
    except TypeError as error:
        return x, str(error), NoHash() == 5, NoHash() != 5
