"""enum, from the library reference and the Enum HOWTO."""

from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto, unique

from . import given


class _Color(Enum):
    RED = 1
    GREEN = 2
    BLUE = 3


class _Shape(Enum):
    SQUARE = 2
    DIAMOND = 1
    ALIAS_FOR_SQUARE = 2


class _Weekday(Enum):
    MONDAY = 1
    SUNDAY = 7

    @classmethod
    def from_number(cls, n):
        return cls(n)

    def next_is(self):
        return _Weekday.SUNDAY if self is _Weekday.MONDAY else _Weekday.MONDAY


class _Planet(Enum):
    MERCURY = (3.303e23, 2.4397e6)
    EARTH = (5.976e24, 6.37814e6)

    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius

    @property
    def surface_gravity(self):
        return 6.67300e-11 * self.mass / (self.radius * self.radius)


class _Perm(Flag):
    R = 4
    W = 2
    X = 1


class _IntPerm(IntFlag):
    R = 4
    W = 2


class _Number(IntEnum):
    ONE = 1
    TWO = 2


class _Mode(StrEnum):
    TRAIN = auto()
    EVAL = auto()


class _Missing(Enum):
    A = "a"

    @classmethod
    def _missing_(cls, value):
        if value == "first":
            return cls.A
        return None


def access_members(x):
    return x * _Color.RED.value, _Color(2), _Color["BLUE"], _Color.RED.name, isinstance(_Color.RED, _Color)


def iterate_members(x):
    return [x * c.value for c in _Color], [c.name for c in _Color], len(_Color), list(reversed(_Color))


def text_of_members(x):
    return (
        x,
        str(_Color.RED),
        repr(_Color.RED),
        f"{_Color.RED}",
        f"{_Number.ONE}",
        f"{_Mode.TRAIN}",
        str(_Mode.EVAL),
        repr(_Number.TWO),
    )


def aliases(x):
    return x, _Shape.SQUARE is _Shape.ALIAS_FOR_SQUARE, [s.name for s in _Shape], list(_Shape.__members__)


def comparisons(x):
    messages = []
    try:
        _Color.RED < _Color.BLUE
    except TypeError as error:
        messages.append(str(error))
    return x, _Color.RED is _Color.RED, _Color.BLUE == 3, _Number.ONE == 1, _Number.ONE < _Number.TWO, messages


def lookup_errors(x):
    messages = []
    try:
        _Color(9)
    except ValueError as error:
        messages.append(str(error))
    try:
        _Color["PINK"]
    except KeyError as error:
        messages.append(str(error))
    try:
        _Color.PINK
    except AttributeError as error:
        messages.append(str(error))
    return x, messages


def methods(x):
    day = _Weekday.from_number(7)
    return x * day.value, day.next_is(), _Weekday.MONDAY.next_is().name


def planets(x):
    return x * _Planet.EARTH.surface_gravity, _Planet.MERCURY.mass, [p.name for p in _Planet if p.radius > 3e6]


def flags(x):
    rw = _Perm.R | _Perm.W
    return x, rw, _Perm.R in rw, _Perm.X in rw, rw & _Perm.R, bool(rw & _Perm.X), ~_Perm.R, rw ^ _Perm.W, rw.value


def int_flags(x):
    p = _IntPerm.R | 1
    return x + int(_IntPerm.R), _IntPerm.R | _IntPerm.W, _IntPerm.R + 1, p == 5, repr(_IntPerm.R | _IntPerm.W)


def int_enum_as_index(x):
    return x[:, _Number.ONE], [10, 20, 30][_Number.TWO], _Number.ONE + 1, range(5)[_Number.TWO], _Number(2)


def str_enum_in_branch(x):
    mode = _Mode("train")
    if mode == "train" and mode is _Mode.TRAIN:
        x = x * 2
    return x, mode.upper(), {"train": 1}[mode], mode + "ing"


def members_as_keys(x):
    table = {_Color.RED: x, _Color.BLUE: x + 1}
    return table[_Color(1)], table.get(_Color.GREEN), _Color.BLUE in table, list(table)


def missing_hook(x):
    return x, _Missing("first"), _Missing("a").value


def immutability(x):
    try:
        _Color.RED = 5
    except AttributeError as error:
        first = str(error)
    try:
        _Color.RED.value = 2
    except AttributeError as error:
        return x, first, str(error)


def contains(x):
    return x, _Color.RED in _Color, _Shape.SQUARE in _Shape, _Mode.TRAIN in (_Mode.TRAIN, _Mode.EVAL)


def made_inside(x):
    class Animal(Enum):
        CAT = auto()
        DOG = auto()

    return x * Animal.DOG.value, [a.name for a in Animal]


def functional_api(x):
    Animal = Enum("Animal", "ANT BEE CAT")
    return x * Animal.BEE.value, len(Animal)


def unique_violation(x):
    try:

        @unique
        class Mistake(Enum):
            ONE = 1
            UNO = 1

    except ValueError as error:
        return x, str(error)


@given(lambda: (_Color.GREEN, _Perm.R | _Perm.X))
def members_from_outside(x, color, permission):
    if color is _Color.GREEN and permission & _Perm.X:
        return x * color.value
    return x


def matched(x):
    match _Color(2):
        case _Color.RED:
            return x
        case _Color.GREEN:
            return x * 2, "green"
