"""NaN stands behind all numbers where NumPy searches, in what is searched and in what is searched for."""

import numpy as np


def fn(table, values):
    table = np.sort(table)
    return [np.searchsorted(table, values, side) for side in ("left", "right")], np.searchsorted(table, values[0])


def make():
    nan, inf = np.nan, np.inf
    calls = [
        (np.array([nan, 1, nan, 1]), np.array([3, 1, 0, -2])),
        (np.array([2, nan, -1, inf, nan, -inf]), np.array([nan, inf, 2, -inf, 0])),
        (np.array([nan, nan], "f"), np.array([nan, inf, 1], "f")),
        (np.array([1.0, 2, 3]), np.array([nan, 2, 5])),
        (np.array([3, 1, 2]), np.array([2, 5, 0])),
        (np.array([1, 2, 3]), np.array([nan, 2, 2.5])),
    ]
    return fn, [(args, {}) for args in calls], lambda index: None, dict
