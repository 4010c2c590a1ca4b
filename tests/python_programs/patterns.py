"""match statements: the tutorial and PEP 636."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import torch


@dataclass
class _Point:
    x: int
    y: int


class _Color(Enum):
    RED = "red"
    BLUE = "blue"


class _Rect(NamedTuple):
    w: int
    h: int


def literals(x):
    def http_error(status):
        match status:
            case 400:
                return "Bad request"
            case 401 | 403 | 404:
                return "Not allowed"
            case 418:
                return "I'm a teapot"
            case _:
                return "Something's wrong"

    return x, [http_error(s) for s in (400, 403, 418, 500)]


def tuples(x):
    out = []
    for point in [(0, 0), (0, 2), (3, 0), (4, 5), "no"]:
        match point:
            case (0, 0):
                out.append("Origin")
            case (0, y):
                out.append(x * y)
            case (a, 0):
                out.append(x + a)
            case (a, b):
                out.append((a, b))
            case _:
                out.append("Not a point")
    return out


def classes(x):
    def location(p):
        match p:
            case _Point(x=0, y=0):
                return "Origin"
            case _Point(0, y):
                return f"Y={y}"
            case _Point(x, y) if x == y:
                return "diagonal"
            case _Point():
                return "elsewhere"

    return x, [location(_Point(a, b)) for a, b in ((0, 0), (0, 2), (3, 3), (1, 2))]


def sequences_with_star(x):
    def head(items):
        match items:
            case []:
                return "empty"
            case [one]:
                return one
            case [first, *rest]:
                return first, rest

    return head([]), head([x]), head([1, 2, 3]), head((4, 5))


def mappings(x):
    def handle(action):
        match action:
            case {"text": message, "color": c}:
                return message, c
            case {"sleep": duration, **rest}:
                return duration, rest
            case {}:
                return "empty or other"

    return x, handle({"text": "hi", "color": "red", "z": 1}), handle({"sleep": x, "a": 2}), handle({})


def command_parser(x):
    def run(command):
        match command.split():
            case ["quit"]:
                return "bye"
            case ["go", ("north" | "south") as direction]:
                return f"going {direction}"
            case ["drop", *objects]:
                return objects
            case [action, obj]:
                return action, obj
            case _:
                return "unknown"

    return x, [run(c) for c in ("quit", "go north", "go up", "drop a b c", "x y z w")]


def enum_values(x):
    match _Color("red"):
        case _Color.RED:
            x = x * 2
        case _Color.BLUE:
            x = x * 3
    return x


def builtin_types(x):
    def kind(v):
        match v:
            case bool():
                return "bool"
            case int() | float():
                return "number"
            case str(s):
                return s
            case None:
                return "none"
            case torch.Tensor():
                return v + 1
            case list() | tuple():
                return [kind(i) for i in v]

    return kind([True, 1, 2.5, "s", None, (x,)])


def guards(x):
    def sign(n):
        match n:
            case 0:
                return 0
            case n if n > 0:
                return 1
            case _:
                return -1

    return x * sign(5) + sign(-3), sign(0)


def nested(x):
    match [_Point(0, 0), _Point(0, 7)]:
        case [_Point(0, 0)]:
            return "one"
        case [_Point(0, y1), _Point(0, y2)]:
            return x + y2 - y1


def named_tuples(x):
    match _Rect(2, 3):
        case (w, h):
            area = w * h
    match _Rect(2, 3):
        case _Rect(w=w, h=3):
            return x * area, w


def match_args(x):
    class Pair:
        __match_args__ = ("left", "right")

        def __init__(self, a, b):
            self.left, self.right = a, b

    match Pair(x, [1, 2]):
        case Pair(left, [first, *_]):
            return left * first


def too_many_positional(x):
    class One:
        __match_args__ = ("a",)

    try:
        match One():
            case One(1, 2):
                return x
    except TypeError as error:
        return x, str(error)


def strings_are_no_sequences(x):
    match "ab":
        case [a, b]:
            return "sequence"
        case str():
            return x, "string"


def shapes_of_tensors(x):
    match x.shape:
        case (batch,):
            return x
        case (batch, 3):
            return x * batch
        case _:
            return x + 1


def tree_evaluation(x):
    def evaluate(e):
        match e:
            case int() | torch.Tensor():
                return e
            case ("+", a, b):
                return evaluate(a) + evaluate(b)
            case ("*", a, b):
                return evaluate(a) * evaluate(b)
            case ("-", a):
                return -evaluate(a)

    return evaluate(("+", ("*", 2, x), ("-", 3)))
