"""``(-1) ** n`` of numbers and sizes that vary, of numbers from data, of arrays and behind breaks was ``-(1 ** n)``."""

import numpy as np
import torch

import firesteel as fs


def make():
    def fn(x, n, exponents):
        powers = (-1) ** exponents
        fs.graph_break()
        count = int(x.sum())
        sizes = x.repeat((-1) ** n + 2)
        numbers = (-1) ** n, (-3) ** x.shape[0], (-2) ** count, pow(-2, n), (-2.0) ** n
        return numbers, [x * number for number in numbers], powers, sizes, (-2) ** x

    calls = [((torch.ones(n), n, np.arange(n)), {}) for n in (2, 3, 4, 5, 6)]
    return fn, calls, lambda index: None, dict
