"""Descriptors and metaclasses, as the Descriptor HOWTO and the data model show them."""

import torch


class _Ten:
    def __get__(self, obj, objtype=None):
        return 10


class _A:
    a = 5
    y = _Ten()


def simple_descriptor(x):
    a = _A()
    return x * a.y, a.a, _A.y


class _LoggedAccess:
    def __set_name__(self, owner, name):
        self.public_name = name
        self.private_name = "_" + name

    def __get__(self, obj, objtype=None):
        value = getattr(obj, self.private_name)
        obj.log.append(("get", self.public_name))
        return value

    def __set__(self, obj, value):
        obj.log.append(("set", self.public_name))
        setattr(obj, self.private_name, value)


class _Person:
    name = _LoggedAccess()
    age = _LoggedAccess()

    def __init__(self, name, age):
        self.log = []
        self.name = name
        self.age = age

    def birthday(self):
        self.age += 1


def logged_access(x):
    p = _Person("Mary M", 30)
    p.birthday()
    return x + p.age, p.log, vars(p)["_age"]


class _OneOf:
    def __init__(self, *options):
        self.options = set(options)

    def __set_name__(self, owner, name):
        self.private_name = "_" + name

    def __get__(self, obj, objtype=None):
        return getattr(obj, self.private_name)

    def __set__(self, obj, value):
        if value not in self.options:
            raise ValueError(f"Expected {value!r} to be one of {sorted(self.options)!r}")
        setattr(obj, self.private_name, value)


class _Component:
    kind = _OneOf("wood", "metal", "plastic")

    def __init__(self, kind):
        self.kind = kind


def validator(x):
    ok = _Component("metal").kind
    try:
        _Component("glass")
    except ValueError as error:
        return x, ok, str(error)


class _LazyProperty:
    def __init__(self, function):
        self.function = function
        self.name = function.__name__

    def __get__(self, obj, owner=None):
        if obj is None:
            return self
        value = self.function(obj)
        obj.__dict__[self.name] = value
        return value


class _Data:
    def __init__(self, t):
        self.t = t
        self.calls = 0

    @_LazyProperty
    def total(self):
        self.calls += 1
        return self.t.sum()


def lazy_property(x):
    d = _Data(x)
    return d.total, d.total, d.calls, "total" in vars(d)


def data_descriptor_beats_dict(x):
    class D:
        def __get__(self, obj, objtype=None):
            return "descriptor"

        def __set__(self, obj, value):
            raise AttributeError("read-only")

    class C:
        d = D()

    c = C()
    c.__dict__["d"] = "dict"
    try:
        c.d = 1
    except AttributeError as error:
        return x, c.d, str(error), vars(c)


def non_data_descriptor_loses(x):
    class D:
        def __get__(self, obj, objtype=None):
            return "descriptor"

    class C:
        d = D()

    c = C()
    c.d = "instance"
    return x, c.d, C.d


def functions_are_descriptors(x):
    def f(self, n):
        return x * n + self.k

    class C:
        k = 1

    c = C()
    bound = f.__get__(c, C)
    return bound(2), bound.__self__ is c, f.__get__(None, C) is f


def descriptor_in_base_class(x):
    class D:
        def __get__(self, obj, objtype):
            return objtype.__name__

    class Base:
        name = D()

    class Child(Base):
        pass

    return x, Child().name, Base.name, Child.name


def delete_descriptor(x):
    log = []

    class D:
        def __get__(self, obj, t=None):
            return 1

        def __delete__(self, obj):
            log.append("deleted")

    class C:
        d = D()

    c = C()
    del c.d
    try:
        c.d = 2
    except AttributeError as error:
        log.append(str(error))
    return x, log


class _Meta(type):
    registry = []

    def __call__(cls, *args, **kwargs):
        instance = super().__call__(*args, **kwargs)
        instance.made_by = cls.__name__
        return instance

    def __len__(cls):
        return 3

    def __getitem__(cls, i):
        return f"{cls.__name__}[{i}]"

    def __contains__(cls, item):
        return item == "in"

    def __iter__(cls):
        return iter(["a", "b"])

    @property
    def loud(cls):
        return cls.__name__.upper()


class _WithMeta(metaclass=_Meta):
    def __init__(self, n):
        self.n = n


def metaclass_call(x):
    o = _WithMeta(3)
    return x * o.n, o.made_by, type(_WithMeta) is _Meta, isinstance(_WithMeta, type)


def metaclass_protocols(x):
    return x + len(_WithMeta), _WithMeta[4], "in" in _WithMeta, "out" in _WithMeta, list(_WithMeta), _WithMeta.loud


def metaclass_attribute_not_on_instance(x):
    o = _WithMeta(1)
    try:
        o.registry
    except AttributeError as error:
        return x, _WithMeta.registry, str(error)


def metaclass_made_inside(x):
    class Meta(type):
        def __new__(mcls, name, bases, namespace, **kwargs):
            namespace["added"] = len(name)
            return super().__new__(mcls, name, bases, namespace)

    class Widget(metaclass=Meta):
        size = 2

    return x * Widget.added, Widget.size


class _InstanceCheck(type):
    def __instancecheck__(cls, instance):
        return instance == "magic"

    def __subclasscheck__(cls, subclass):
        return subclass is int


class _Checked(metaclass=_InstanceCheck):
    pass


def instance_checks(x):
    return (
        x,
        isinstance("magic", _Checked),
        isinstance(5, _Checked),
        issubclass(int, _Checked),
        issubclass(str, _Checked),
    )


class _SingletonMeta(type):
    _instances = {}

    def __call__(cls, *args):
        if cls not in cls._instances:
            cls._instances[cls] = super().__call__(*args)
        return cls._instances[cls]


class _Config(metaclass=_SingletonMeta):
    def __init__(self, scale=2):
        self.scale = scale


_Config()


def singleton(x):
    return x * _Config().scale, _Config() is _Config(5)


def property_built_by_hand(x):
    class C:
        def getx(self):
            return self._x

        def setx(self, value):
            self._x = value * 2

        x = property(getx, setx, doc="I'm the 'x' property.")

    c = C()
    c.x = x
    return c.x, C.x.__doc__, C.x.fget is C.getx


def classmethod_property_chain(x):
    class C:
        scale = 3

        @classmethod
        def make(cls):
            return cls()

        @staticmethod
        def add(a, b):
            return a + b

        @property
        def scaled(self):
            return self.add(x, self.scale)

    return C.make().scaled, C.add(1, 2)


def cached_parameter_descriptor(x):
    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, obj, owner=None):
            return obj.base * self.factor

    class Layer:
        double = Scaled(2)
        triple = Scaled(3)

        def __init__(self):
            self.base = torch.ones(3)

    layer = Layer()
    return x * layer.double + layer.triple, Layer.__dict__["double"].name


def method_wrappers(x):
    return (
        x,
        [1, 2].__len__(),
        (3).__add__(4),
        "a".__eq__("a"),
        [].__class__,
        type.__call__(list, "ab"),
        int.__mul__(2, 3),
        object.__repr__ is not None,
    )
