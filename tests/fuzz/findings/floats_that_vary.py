"""Floor quotients of floats that vary or come from data were rounded quotients; the smallest of NaN and such a number
was the number."""

import torch


def make():
    def fn(x, v, t):
        p, nan = t.item(), float("nan")
        quotients = v // 0.1, divmod(v, 0.1), -x.shape[0] // 0.7, p // 0.1, divmod(p, -0.3), int(p // 0.1), 7.0 // v
        smallest = min(nan, v), min(v, nan), max(nan, p), max(p, nan), min(v, p), max(p, v), min(v, 0.0), max(v, p, nan)
        return quotients, smallest, x * (v // 0.1), x * min(v, p)

    calls = [((torch.ones(n), v, torch.tensor(p, dtype=torch.float64)), {})
             for n, v, p in ((3, 1.0, 1.0), (5, 0.5, 2.5), (7, 2.0, -0.3), (3, -1.7, 0.6), (4, 1e300, 1e-300))]
    return fn, calls, lambda index: None, dict
