"""Classes, inheritance, properties and super, as the tutorial's chapter 9 and the HOWTOs show them."""

import torch


class _Complex:
    def __init__(self, realpart, imagpart):
        self.r = realpart
        self.i = imagpart


def instance_attributes(x):
    z = _Complex(3.0, -4.5)
    z.counter = 1
    while z.counter < 10:
        z.counter = z.counter * 2
    n = z.counter
    del z.counter
    return x * z.r + z.i, n, hasattr(z, "counter"), vars(z)


class _Dog:
    kind = "canine"
    tricks = []

    def __init__(self, name):
        self.name = name

    def add_trick(self, trick):
        self.tricks = self.tricks + [trick]


def class_and_instance_variables(x):
    d, e = _Dog("Fido"), _Dog("Buddy")
    d.add_trick("roll over")
    return x, d.kind, e.tricks, d.tricks, _Dog.tricks is e.tricks, d.__class__.__name__


def bound_methods(x):
    d = _Dog("Fido")
    method = d.add_trick
    method("sit")
    return x, d.tricks, method.__self__ is d, method.__func__ is _Dog.add_trick, method.__name__


class _Mapping:
    def __init__(self, iterable):
        self.items_list = []
        self.__update(iterable)

    def update(self, iterable):
        for item in iterable:
            self.items_list.append(item)

    __update = update


class _MappingSubclass(_Mapping):
    def update(self, keys, values):
        for item in zip(keys, values):
            self.items_list.append(item)


def private_names(x):
    m = _MappingSubclass([1])
    m.update("ab", [x, 2])
    return m.items_list, sorted(vars(_Mapping))[:1]


class _Base:
    def __init__(self, n):
        self.n = n

    def describe(self):
        return f"{type(self).__name__}({self.n})"


class _Left(_Base):
    def __init__(self, n):
        super().__init__(n + 1)

    def describe(self):
        return "Left " + super().describe()


class _Right(_Base):
    def __init__(self, n):
        super().__init__(n * 10)

    def describe(self):
        return "Right " + super().describe()


class _Both(_Left, _Right):
    pass


def diamond(x):
    b = _Both(1)
    return x + b.n, b.describe(), [c.__name__ for c in _Both.__mro__], isinstance(b, _Right), super(_Left, b).describe()


class _Celsius:
    def __init__(self, degrees=0.0):
        self._degrees = degrees

    @property
    def fahrenheit(self):
        """Degrees."""
        return self._degrees * 9 / 5 + 32

    @fahrenheit.setter
    def fahrenheit(self, value):
        self._degrees = (value - 32) * 5 / 9

    @fahrenheit.deleter
    def fahrenheit(self):
        self._degrees = None


def properties(x):
    c = _Celsius(100.0)
    f = c.fahrenheit
    c.fahrenheit = x
    y = c._degrees
    del c.fahrenheit
    return f, y, c._degrees, _Celsius.fahrenheit.__doc__


class _ReadOnly:
    @property
    def value(self):
        return 1


def property_without_setter(x):
    try:
        _ReadOnly().value = 2
    except AttributeError as error:
        return x, str(error)


class _Date:
    count = 0

    def __init__(self, year, month):
        self.year, self.month = year, month
        type(self).count += 1

    @classmethod
    def parse(cls, text):
        return cls(*map(int, text.split("-")))

    @staticmethod
    def is_leap(year):
        return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def class_and_static_methods(x):
    _Date.count = 0
    d = _Date.parse("2024-05")
    return x * d.month, d.year, _Date.is_leap(2024), d.is_leap(1900), _Date.count


class _Slots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


def slots(x):
    s = _Slots(x)
    messages = []
    try:
        s.c = 1
    except AttributeError as error:
        messages.append(str(error))
    try:
        s.b
    except AttributeError as error:
        messages.append(str(error))
    return s.a, messages, hasattr(s, "__dict__")


def local_class(x):
    class Accumulator:
        def __init__(self):
            self.total = torch.zeros_like(x)

        def __call__(self, value):
            self.total = self.total + value
            return self

    return Accumulator()(x)(x * 2).total


class _Lazy:
    def __getattr__(self, name):
        if name.startswith("lazy_"):
            value = name.removeprefix("lazy_")
            setattr(self, name, value)
            return value
        raise AttributeError(name)


def getattr_fallback(x):
    o = _Lazy()
    first = o.lazy_thing
    try:
        o.other
    except AttributeError as error:
        return x, first, vars(o), str(error)


class _Traced:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append(("set", name))
        super().__setattr__(name, value)

    def __getattribute__(self, name):
        if name == "magic":
            return 7
        return super().__getattribute__(name)

    def __delattr__(self, name):
        self.log.append(("del", name))
        super().__delattr__(name)


def attribute_hooks(x):
    t = _Traced()
    t.a = x
    t.b = t.magic
    del t.b
    return t.a * t.magic, t.log


class _Singleton:
    _instance = None

    def __new__(cls, *args):
        self = super().__new__(cls)
        self.args = args
        return self


def new_method(x):
    s = _Singleton(1, x)
    return s.args, type(s) is _Singleton, isinstance(_Singleton.__new__(_Singleton), _Singleton)


class _Registry:
    plugins = []

    def __init_subclass__(cls, /, tag=None, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.tag = tag


def init_subclass(x):
    class Plugin(_Registry, tag="p"):
        def run(self, y):
            return y * 2

    return Plugin().run(x), Plugin.tag, issubclass(Plugin, _Registry)


def mixins(x):
    class Scale:
        factor = 2

        def apply(self, y):
            return y * self.factor

    class Shift:
        def apply(self, y):
            return super().apply(y) + 1

    class Model(Shift, Scale):
        factor = 3

    return Model().apply(x)


def type_called_with_three_arguments(x):
    C = type("C", (_Base,), {"twice": lambda self: self.n * 2})
    return x * C(4).twice(), C.__name__, C.__bases__[0] is _Base


def odds_and_ends(x):
    class Employee:
        pass

    john = Employee()
    john.name, john.pay = "John", 1000
    return x, [getattr(john, a) for a in ("name", "pay")], john.__dict__, Employee.__qualname__


def methods_assigned_from_functions(x):
    def f1(self, a, b):
        return min(a, a + b)

    class C:
        f = f1

        def g(self):
            return "hello world"

        h = g

    return x * C().f(1, 2), C().h(), C.h is C.g


def instance_as_function(x):
    class Adder:
        def __init__(self, n):
            self.n = n

        def __call__(self, v, *, times=1):
            return v + self.n * times

    fns = [Adder(n) for n in range(3)]
    return [f(x, times=2) for f in fns]


def wrong_method_calls(x):
    class C:
        def m(self, a):
            return a

    messages = []
    for call in (lambda: C().m(), lambda: C.m(), lambda: C(1), lambda: C().m(1, 2), lambda: C().m(b=1)):
        try:
            call()
        except TypeError as error:
            messages.append(str(error))
    return x, messages
