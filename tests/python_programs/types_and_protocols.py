"""typing, abc, types, collections.abc and inspect."""

import abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    Protocol,
    TypedDict,
    TypeVar,
    Union,
    cast,
)

from . import given

T = TypeVar("T")
UserId = NewType("UserId", int)


class _Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    def describe(self):
        return f"{type(self).__name__} {self.area()}"


class _Square(_Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


class _Movie(TypedDict, total=False):
    name: str
    year: int


class _Employee(NamedTuple):
    name: str
    id: int = 3

    def label(self):
        return f"{self.name}#{self.id}"


class _SupportsClose(Protocol):
    def close(self) -> None: ...


@typing.runtime_checkable
class _HasArea(Protocol):
    def area(self): ...


class _Stack(Generic[T]):
    def __init__(self) -> None:
        self.items: list[T] = []

    def push(self, item: T) -> None:
        self.items.append(item)

    def pop(self) -> T:
        return self.items.pop()


def abstract_class(x):
    s = _Square(3)
    try:
        _Shape()
    except TypeError as error:
        return x * s.area(), s.describe(), str(error), isinstance(s, _Shape)


def virtual_subclass(x):
    class Foreign(abc.ABC):
        pass

    Foreign.register(int)
    return x, isinstance(5, Foreign), issubclass(str, Foreign)


def typed_dict(x):
    m: _Movie = {"name": "Blade Runner", "year": 1982}
    n = _Movie(name="Alien")
    return x + m["year"], n, type(n) is dict, _Movie.__annotations__.keys()


def named_tuple(x):
    e = _Employee("Guido")
    return x * e.id, e, e.label(), e._replace(id=5), _Employee.__annotations__["name"], _Employee._fields


def protocols(x):
    class Resource:
        def close(self):
            pass

    return x, isinstance(_Square(1), _HasArea), isinstance(3, _HasArea)


def generic_class(x):
    stack = _Stack[int]()
    stack.push(x)
    stack.push(2)
    return stack.pop(), stack.pop(), type(stack).__name__


def new_type_and_cast(x):
    user = UserId(524313)
    return x, user, cast(str, 5), typing.get_origin(list[int]), typing.get_args(dict[str, int])


def union_types(x):
    number = int | float
    return (
        x * isinstance(3, number),
        isinstance("a", number),
        int | str == str | int,
        isinstance(None, int | None),
        type(number).__name__,
    )


def annotations_inside(x):
    def f(a: int | None, b: "list[str]" = (), *args: Any, key: Callable[[int], str] | None = None) -> Optional[int]:
        values: list[Union[int, str]] = [a]
        return values

    return x, f(1), list(f.__annotations__)


def literal_and_final(x):
    mode: Final = "sum"
    Mode = Literal["sum", "mean"]
    return getattr(x, mode)(), typing.get_args(Mode), mode in typing.get_args(Mode)


def generic_alias(x):
    alias = list[int]
    return x, alias([1, 2]), alias.__origin__, alias.__args__, dict[str, int](a=1), isinstance([], alias.__origin__)


class _Config(MutableMapping):
    def __init__(self, **values):
        self.values_ = dict(values)

    def __getitem__(self, key):
        return self.values_[key]

    def __setitem__(self, key, value):
        self.values_[key] = value

    def __delitem__(self, key):
        del self.values_[key]

    def __iter__(self):
        return iter(self.values_)

    def __len__(self):
        return len(self.values_)


def mutable_mapping(x):
    c = _Config(a=1, b=2)
    c.update(c=x)
    c.setdefault("d", 4)
    popped = c.pop("a")
    return list(c.items()), popped, c.get("zz"), "b" in c, dict(c), {**c}


class _MyList(MutableSequence):
    def __init__(self, items):
        self.items = list(items)

    def __getitem__(self, i):
        return self.items[i]

    def __setitem__(self, i, v):
        self.items[i] = v

    def __delitem__(self, i):
        del self.items[i]

    def __len__(self):
        return len(self.items)

    def insert(self, i, v):
        self.items.insert(i, v)


def mutable_sequence(x):
    m = _MyList([3, 1])
    m.append(x.ndim)
    m.extend([5])
    m.reverse()
    m += [7]
    return x + len(m), list(m), m.index(3), m.count(1), 5 in m, m.pop()


def simple_namespace(x):
    n = types.SimpleNamespace(a=1, b=x)
    n.c = n.a + 1
    del n.a
    return n.b * n.c, sorted(vars(n)), repr(types.SimpleNamespace(k="v"))


def mapping_proxy(x):
    d = {"a": 1}
    p = types.MappingProxyType(d)
    d["b"] = 2
    try:
        p["c"] = 3
    except TypeError as error:
        return x * p["b"], len(p), dict(p), str(error), list(p.items())


def dynamic_methods(x):
    class C:
        k = 2

    c = C()
    c.scale = types.MethodType(lambda self, y: y * self.k, c)
    return c.scale(x), isinstance(c.scale, types.MethodType), isinstance(dynamic_methods, types.FunctionType)


def signatures(x):
    def f(a, b=2, *args, c, **kw):
        return a

    signature = inspect.signature(f)
    names = list(signature.parameters)
    accepts = "c" in signature.parameters
    return f(x, c=1), names, accepts, signature.parameters["b"].default, str(signature)


def signature_filters_arguments(x):
    def forward(y, scale=1):
        return y * scale

    kwargs = {"scale": 3, "unknown": 5}
    allowed = {k: v for k, v in kwargs.items() if k in inspect.signature(forward).parameters}
    return forward(x, **allowed), inspect.isfunction(forward), inspect.isclass(_Square)


def full_argspec(x):
    def f(a, b=1, *, c=2):
        return a

    spec = inspect.getfullargspec(f)
    return f(x), spec.args, spec.defaults, spec.kwonlyargs, inspect.getdoc(_Shape) is None or True


def type_hints_of_class(x):
    class Model:
        scale: ClassVar[int] = 2
        name: str

    return x * Model.scale, list(Model.__annotations__), typing.get_type_hints(_Employee)["id"]


@given(lambda: ([1, 2], {"a": 1}, "text", (3,)))
def dispatch_on_abcs(x, *values):
    kinds = []
    for v in values:
        if isinstance(v, str):
            kinds.append("str")
        elif isinstance(v, Mapping):
            kinds.append("mapping")
        elif isinstance(v, Sequence):
            kinds.append("sequence")
    return x * len(kinds), kinds, isinstance(x, Iterable)


def overloads(x):
    @typing.overload
    def process(v: int) -> int: ...
    @typing.overload
    def process(v: str) -> str: ...
    def process(v):
        return v * 2

    return process(x), process("a"), typing.TYPE_CHECKING
