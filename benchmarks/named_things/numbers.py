"""NumPy and Python's random numbers."""

import random

import numpy as np
import torch

from .registry import rand, thing


@thing(lambda: (np.arange(6.0),))
def array_expressions(a):
    return np.sin(a) * 2 + a.mean()


@thing(lambda: (np.arange(6.0),))
def array_scalars(a):
    return a.sum(), a[0], np.float32(2) * a[1], int(a.argmax())


@thing()
def there_and_back(x):
    return torch.from_numpy(np.clip(x.numpy(), 0, 1))


@thing(lambda: (np.arange(6.0).reshape(2, 3), np.float64(2.0)), again=lambda: (np.ones((2, 3)), np.float64(3.5)))
def numpy_scalars_as_arguments(a, s):
    return a * s


@thing()
def uniform_layerdrop(x):
    for _ in range(3):
        if random.uniform(0, 1) < -0.5:
            continue
        x = x.sin()
    return x


@thing()
def python_random_in_arithmetic(x):
    return x * random.random() + random.randint(0, 5)


@thing()
def numpy_random_in_arithmetic(x):
    return x * np.random.rand() + np.random.uniform(0, 1)


@thing()
def numpy_random_arrays(x):
    return x + torch.from_numpy(np.random.randn(4, 6))


@thing()
def half_minus_random_is_a_hint(x):
    n = int((0.5 - random.random()) * 4) + 3
    return x[:, :n].sum() * 0 + x


@thing()
def random_as_a_branch(x):
    return x.sin() if random.random() < 2.0 else x.cos()


@thing(lambda: (np.arange(6.0),))
def dtype_device(a):
    with torch.device("cpu"):
        return np.linalg.norm(a.reshape(2, 3), axis=1)


@thing(lambda: (np.array([3, 1, 2]),))
def sorting(a):
    return np.sort(a), np.argsort(a), np.unique(a)


@thing(lambda: (rand(3, 3),))
def einsum_and_products(x):
    a = x.numpy()
    return np.einsum("ij,jk->ik", a, a), a @ a, np.dot(a, a)
