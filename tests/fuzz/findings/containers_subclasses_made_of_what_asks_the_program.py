"""A number or text of a subclass was made of another by what that is, where Python asks its methods."""

import torch

LOG = []


class Number(int):
    def __int__(self):
        LOG.append("int")
        return 7

    def __float__(self):
        LOG.append("float")
        return 2.5

    def __str__(self):
        LOG.append("str")
        return "N"


class Fraction(float):
    def __add__(self, other):
        return 3.0


class Text(str):
    def __getitem__(self, place):
        return "z"


class Octets(bytes):
    def __bytes__(self):
        LOG.append("bytes")
        return b"q"


def make():
    def fn(x, number, octets):
        made = type(number)(number), Fraction(number), Text(number), Octets(octets)
        return x * made[0], [type(one) for one in made], made[0] + 1, made[1] + 1, made[2].lower(), list(made[3])

    calls = [((torch.ones(2), Number(3), Octets(b"ab")), {}) for _ in range(2)]
    return fn, calls, lambda index: None, lambda: {"log": list(LOG)}
