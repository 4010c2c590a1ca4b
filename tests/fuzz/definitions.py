"""Functions and classes that programs may contain at module level, added when a template asks for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Definition:
    """Source of one definition; `construct` is the template of a new object when it is a class."""

    source: str
    construct: str = ""
    needs: tuple[str, ...] = ()


DEFINITIONS: dict[str, Definition] = {
    # Functions
    "fib": Definition("""
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
"""),
    "clip": Definition("""
def clip(n, low=-5, high=20):
    if n < low:
        return low
    return min(n, high)
"""),
    "total": Definition("""
def total(*numbers, start=0):
    result = start
    for number in numbers:
        result += number
    return result % 50
"""),
    "pick": Definition("""
def pick(default, /, **options):
    for name, value in options.items():
        if value > 3:
            return value + len(name)
    return options.get('gamma', default)
"""),
    "traced": Definition("""
CALLS = []

def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        CALLS.append(function.__name__)
        return function(*args, **kwargs)
    return wrapper
"""),
    "repeat": Definition("""
def repeat(times):
    def decorate(function):
        def wrapper(value):
            for _ in range(times):
                value = function(value)
            return value
        return wrapper
    return decorate
"""),
    "traced_twice": Definition(
        """
@traced
@repeat(2)
def traced_twice(n):
    return n * 2 - 1
""",
        needs=("traced", "repeat"),
    ),
    "cached_square": Definition("""
@functools.lru_cache(maxsize=None)
def cached_square(n):
    return n * n
"""),
    "countdown": Definition("""
def countdown(n):
    while n > 0:
        yield n
        n -= 1
"""),
    "rows": Definition("""
def rows(t, scale=1.0):
    for index, row in enumerate(t):
        if index > 3:
            return
        yield row * scale
"""),
    "delegating": Definition(
        """
def delegating(t):
    yield t.sum()
    done = yield from rows(t, 2.0)
    yield t.mean() if done is None else done
""",
        needs=("rows",),
    ),
    "scale_shift": Definition("""
def scale_shift(t, scale=0.5, *, shift=0.0):
    return t * scale + shift
"""),
    "apply_all": Definition("""
def apply_all(t, *functions, **options):
    for function in functions:
        t = function(t)
    return -t if options.get('negate') else t
"""),
    "gated": Definition("""
def gated(t, mode='relu'):
    match mode:
        case 'relu' | 'plus':
            return torch.relu(t)
        case 'tanh':
            return t.tanh()
        case _:
            return t
"""),
    "add_into": Definition("""
def add_into(target, value):
    target.add_(value.detach())
    return target
"""),
    "without_grad": Definition("""
@torch.no_grad()
def without_grad(t):
    return t * 3 - 1
"""),
    # Calls that capture cannot follow
    "digits": Definition("""
def digits(n):
    return len(re.findall('[0-9]', str(n)))
"""),
    "interrupted": Definition(
        """
STEPS = []

def interrupted(t, fail=False):
    STEPS.append(t.dim())
    t = t * 2
    fs.graph_break()
    STEPS.append(len(STEPS))
    if fail:
        raise FuzzError('interrupted', len(STEPS))
    return t * 0.5
""",
        needs=("FuzzError",),
    ),
    # Exceptions and context managers
    "FuzzError": Definition("""
class FuzzError(Exception):
    def __init__(self, message, code=0):
        super().__init__(message)
        self.code = code
"""),
    "FuzzLimit": Definition(
        """
class FuzzLimit(FuzzError, ValueError):
    pass
""",
        needs=("FuzzError",),
    ),
    "checked": Definition(
        """
def checked(n, limit=6):
    if n > limit:
        raise FuzzLimit(f'{n} is above {limit}', code=n)
    return n + 1
""",
        needs=("FuzzLimit",),
    ),
    "Tracker": Definition(
        """
class Tracker:
    def __init__(self, log, swallow=()):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append('enter')
        return self

    def __exit__(self, kind, error, trace):
        self.log.append('exit' if kind is None else kind.__name__)
        return kind is not None and issubclass(kind, self.swallow)
""",
        construct="Tracker([])",
    ),
    "recording": Definition("""
@contextlib.contextmanager
def recording(log, name):
    log.append('<' + name)
    try:
        yield len(log)
    except KeyError as error:
        log.append(error.args)
    finally:
        log.append(name + '>')
"""),
    # Classes
    "Box": Definition(
        """
class Box:
    scale = 2

    def __init__(self, value):
        self.value = value
        self.notes = []

    @property
    def doubled(self):
        return self.value * self.scale

    @doubled.setter
    def doubled(self, number):
        self.notes.append(number)
        self.value = number // 2

    def __add__(self, other):
        return Box(self.value + (other.value if isinstance(other, Box) else other))

    __radd__ = __add__

    def __iadd__(self, other):
        self.value += other
        return self

    def __eq__(self, other):
        return isinstance(other, Box) and self.value == other.value

    def __lt__(self, other):
        return self.value < other.value

    def __hash__(self):
        return hash(self.value)

    def __len__(self):
        return abs(self.value) % 5 + 1

    def __getitem__(self, index):
        return self.value + index

    def __contains__(self, item):
        return item == self.value

    def __repr__(self):
        return f'Box({self.value})'
""",
        construct="Box($int)",
    ),
    "Clamped": Definition("""
class Clamped:
    def __init__(self, low, high):
        self.low = low
        self.high = high
        self.writes = 0

    def __set_name__(self, owner, name):
        self.name = '_' + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name, self.low)

    def __set__(self, obj, value):
        self.writes += 1
        setattr(obj, self.name, min(max(value, self.low), self.high))

    def __delete__(self, obj):
        delattr(obj, self.name)
"""),
    "Gauge": Definition(
        """
class Shifted:
    def __init__(self, function):
        self.function = function

    def __get__(self, obj, owner=None):
        return self.function if obj is None else functools.partial(self.function, obj, 1)

class Gauge:
    level = Clamped(-3, 12)
    rate = Clamped(0, 5)

    def __init__(self, level):
        self.level = level

    @Shifted
    def shifted(self, by, t):
        return t + by * self.level

    @functools.cached_property
    def heavy(self):
        return self.level * 3

    @property
    def total(self):
        return self.level + self.rate

    @total.deleter
    def total(self):
        self.rate = 0
""",
        construct="Gauge($int)",
        needs=("Clamped",),
    ),
    "Slotted": Definition(
        """
class Slotted:
    __slots__ = ('left', 'right')

    def __init__(self, left):
        self.left = left

    def __enter__(self):
        self.right = 1
        return self.left

    def __exit__(self, *details):
        del self.right
        return False

    def __bool__(self):
        return hasattr(self, 'right')

    def __iter__(self):
        yield self.left
        yield self.left + 1
""",
        construct="Slotted($int)",
    ),
    "Registry": Definition(
        """
class Registry(dict):
    def __missing__(self, key):
        self[key] = value = len(key)
        return value

    def __setitem__(self, key, value):
        super().__setitem__(key, value + 1)
""",
        construct="Registry(a=$int)",
    ),
    "Lazy": Definition(
        """
class Lazy:
    def __init__(self, known):
        self.known = known

    def __getattr__(self, name):
        if name.startswith('some_'):
            return len(name) + self.known
        raise AttributeError(name)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + 1 if name == 'known' else value)
""",
        construct="Lazy($int)",
    ),
    "Parent": Definition("""
class Parent:
    limit = 10

    def __init__(self, limit=None):
        if limit is not None:
            self.limit = limit

    def describe(self, n):
        return n + self.limit, 'parent'

    @classmethod
    def scaled(cls, n):
        return cls.clamp(n) * cls.limit % 30

    @staticmethod
    def clamp(n):
        return max(0, min(n, 9))
"""),
    "Child": Definition(
        """
class Child(Parent):
    limit = 4

    def __init__(self, limit, tag='c'):
        super().__init__(limit)
        self.tag = tag

    def describe(self, n):
        number, name = super().describe(n)
        return number - 1, self.tag + name
""",
        construct="Child($int, tag=$word)",
        needs=("Parent",),
    ),
    "Vec": Definition(
        """
@dataclasses.dataclass
class Vec:
    data: torch.Tensor
    weight: float = 1.0
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.tags.append(len(self.data.shape))

    def scaled(self):
        return self.data * self.weight

    def __mul__(self, number):
        return dataclasses.replace(self, weight=self.weight * number, tags=[])
""",
        construct="Vec($e(T), $float)",
    ),
    "Point": Definition(
        """
class Point(typing.NamedTuple):
    left: int
    right: int = 3

    def span(self):
        return self.right - self.left
""",
        construct="Point($int, $int)",
    ),
    "Color": Definition("""
class Color(enum.Enum):
    RED = 1
    BLUE = 2
"""),
    "Scaler": Definition(
        """
class Scaler:
    def __init__(self, factor):
        self.factor = factor
        self.count = 0

    def __call__(self, t):
        self.count += 1
        return t * self.factor

    def __matmul__(self, t):
        return t @ t.mT * self.factor
""",
        construct="Scaler($float)",
    ),
    "Net": Definition(
        """
class Net(torch.nn.Module):
    def __init__(self, width=4, dropout=0.0):
        super().__init__()
        self.first = torch.nn.Linear(4, width)
        self.norm = torch.nn.LayerNorm(width)
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in range(2)])
        self.head = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(width, 4))
        self.register_buffer('steps', torch.zeros(()))
        self.calls = 0
        self.last = None

    def forward(self, t, gain=1.0):
        self.calls += 1
        self.steps += 1
        t = self.norm(self.first(t))
        for index, block in enumerate(self.blocks):
            t = t + block(t) * gain if index or self.training else block(t)
        self.last = t.detach()
        return self.head(t)
""",
        construct="Net(dropout=0.25)",
    ),
}
