"""Sizes and numbers that vary: dynamic integers, relations, examples of size 1, hints, numbers from data."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .record import ints, program, rand

KIND = "dynamic numbers"


@program(KIND, rand(3), 4, shapes=lambda D: {"x": None, "n": D.DYNAMIC}, further=[(rand(3), 9), (rand(3), 2)])
def int_times(self: Any, x: Any, n: Any) -> Any:
    return x * n


@program(KIND, rand(3), 4, shapes=lambda D: (None, D.AUTO), further=[(rand(3), 7)])
def int_as_size(self: Any, x: Any, n: Any) -> Any:
    return x.sum() + torch.ones(n, 2)


@program(KIND, rand(12, 2), 4, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(12, 2), 6), (rand(12, 2), 9)])
def int_as_end_of_slice(self: Any, x: Any, n: Any) -> Any:
    return x[:n] * 2


@program(KIND, rand(3), 4, 5, shapes=lambda D: (None, D.DYNAMIC, D.DYNAMIC), further=[(rand(3), 7, 3)])
def int_arithmetic(self: Any, x: Any, n: Any, m: Any) -> Any:
    return x + n * m - n // 2, n * m + 1


@program(KIND, rand(3), {"n": 4, "m": 2}, shapes=lambda D: (None, {"n": D.DYNAMIC, "m": None}),
         further=[(rand(3), {"n": 8, "m": 2})], refuses=[(rand(3), {"n": 8, "m": 3})])
def int_in_dict(self: Any, x: Any, sizes: Any) -> Any:
    return x.repeat(sizes["n"], sizes["m"])


@program(KIND, rand(8, 4), [2, 4], shapes=lambda D: (None, [D.AUTO, D.AUTO]), further=[(rand(8, 4), [2, 4])])
def ints_in_list(self: Any, x: Any, splits: Any) -> Any:
    return x.reshape(splits[0], 4, splits[1])


@program(KIND, rand(6), kwargs={"n": 3}, shapes=lambda D: {"x": {0: D.DYNAMIC}, "n": D.DYNAMIC},
         further=[((rand(9),), {"n": 5})])
def int_keyword(self: Any, x: Any, *, n: Any) -> Any:
    return F.pad(x, (n, 0))


@program(KIND, rand(6), 3, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(6), 8)])
def int_returned(self: Any, x: Any, n: Any) -> Any:
    return x + 1, n, n + 1


@program(KIND, rand(6), 3, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(6), 11)])
def int_unused(self: Any, x: Any, n: Any) -> Any:
    return x.relu()


@program(KIND, rand(6), 5, shapes=lambda D: (None, D.AUTO), further=[(rand(6), 7), (rand(6), 4)])
def int_decides(self: Any, x: Any, n: Any) -> Any:
    return x * 2 if n > 3 else x - 1


@program(KIND, rand(4), 3, 2.5, further=[(rand(4, seed=1), 3, 2.5)], refuses=[(rand(4), 3, 3.5), (rand(4), 4, 2.5)])
def numbers_are_constants(self: Any, x: Any, n: Any, f: Any) -> Any:
    return x * n + f


@program(KIND, rand(4), True, further=[(rand(4, seed=1), True)], refuses=[(rand(4), False)])
def bool_is_a_constant(self: Any, x: Any, flag: Any) -> Any:
    return x.exp() if flag else x.sin()


@program(KIND, rand(4), torch.tensor(2.5), further=[(rand(4), torch.tensor(7.0))])
def float_as_tensor(self: Any, x: Any, f: Any) -> Any:
    return x * f + torch.sqrt(f)


@program(KIND, rand(4), torch.tensor(2.5), further=[(rand(4), torch.tensor(-7.0))])
def float_item(self: Any, x: Any, f: Any) -> Any:
    return x * f.item()


@program(KIND, rand(4), torch.tensor(2.5), further=[(rand(4), torch.tensor(7.0))])
def float_item_returned(self: Any, x: Any, f: Any) -> Any:
    y = f.item()
    return x + y, y


@program(KIND, rand(4), 4, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(4), 16), (rand(4), 9)])
def int_becomes_float(self: Any, x: Any, n: Any) -> Any:
    return x / n + n * 0.5


@program(KIND, rand(4), 4, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(4), 16)])
def int_square_root(self: Any, x: Any, n: Any) -> Any:
    return x * n ** 0.5


@program(KIND, rand(3, 8), 2, shapes=lambda D: ({0: D("b")}, D.DYNAMIC), further=[(rand(5, 8), 4), (rand(2, 8), 8)])
def int_and_batch(self: Any, x: Any, heads: Any) -> Any:
    return torch.full((x.shape[0], heads), 1.5) + x.sum(1, keepdim=True)


@program(KIND, rand(4), 3, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(4), 8)])
def int_to_tensor(self: Any, x: Any, n: Any) -> Any:
    return x + torch.arange(n).sum() + torch.scalar_tensor(n)


# Relations between sizes -----------------------------------------------------------------------------------------

RELATIONS = "relations of sizes"


@program(RELATIONS, rand(4), rand(8, 4), rand(32), shapes=lambda D: ({0: D.AUTO}, {0: D.AUTO, 1: D.AUTO}, {0: D.AUTO}),
         further=[(rand(3), rand(5, 3), rand(15))], refuses=[(rand(3), rand(5, 3), rand(16))])
def product_of_sizes(self: Any, x: Any, y: Any, z: Any) -> Any:
    return (x + y).flatten() + z


@program(RELATIONS, rand(3, 4), rand(12), shapes=lambda D: ({0: D.DYNAMIC, 1: D.DYNAMIC}, {0: D.DYNAMIC}),
         further=[(rand(5, 6), rand(30))], refuses=[(rand(5, 6), rand(31))])
def reshaped_to_product(self: Any, x: Any, y: Any) -> Any:
    return x.reshape(-1) * y


@program(RELATIONS, rand(6, 4), shapes=lambda D: {"x": {0: D.AUTO}}, further=[(rand(8, 4),)], refuses=[(rand(7, 4),)])
def halves(self: Any, x: Any) -> Any:
    return x.view(x.shape[0] // 2, 2, 4).sum(1)


@program(RELATIONS, rand(9), shapes=lambda D: {"x": {0: D.AUTO}}, further=[(rand(16),), (rand(25),)])
def squares(self: Any, x: Any) -> Any:
    return x.sum() * (x.shape[0] * x.shape[0])


@program(RELATIONS, rand(6), rand(7), shapes=lambda D: ({0: D.AUTO}, {0: D.AUTO}),
         further=[(rand(9), rand(10))], refuses=[(rand(9), rand(9))])
def one_longer(self: Any, x: Any, y: Any) -> Any:
    return x + y[1:]


@program(RELATIONS, rand(5), rand(10), shapes=lambda D: (lambda n: ({0: n}, {0: 2 * n}))(D("n")),
         further=[(rand(7), rand(14))], refuses=[(rand(7), rand(15))])
def derived_double(self: Any, x: Any, y: Any) -> Any:
    return torch.cat([x, x]) + y


@program(RELATIONS, rand(5), rand(6), shapes=lambda D: (lambda n: ({0: n}, {0: n + 1}))(D("n")),
         further=[(rand(7), rand(8))])
def derived_plus_one(self: Any, x: Any, y: Any) -> Any:
    return x + y[1:]


@program(RELATIONS, rand(4, 6), rand(8, 3), shapes=lambda D: ({0: D.AUTO, 1: D.AUTO}, {0: D.AUTO, 1: D.AUTO}),
         further=[(rand(2, 9), rand(6, 3))], refuses=[(rand(2, 9), rand(6, 4))])
def same_number_of_elements(self: Any, x: Any, y: Any) -> Any:
    return x.flatten() + y.flatten()


@program(RELATIONS, rand(2, 3, 4), shapes=lambda D: ({0: D.AUTO, 1: D.AUTO, 2: D.AUTO},),
         further=[(rand(5, 2, 6),)], refuses=[(rand(5, 2, 7),)])
def even_last_size(self: Any, x: Any) -> Any:
    a, b = x.chunk(2, dim=-1)
    return (a.reshape(x.shape[0], -1) * b.reshape(x.shape[0], -1)) if x.shape[-1] % 2 == 0 else x


@program(RELATIONS, rand(5), rand(3), shapes=lambda D: ({0: D.AUTO}, {0: D.AUTO}), further=[(rand(6), rand(4))])
def longer_than(self: Any, x: Any, y: Any) -> Any:
    torch._check(x.shape[0] > y.shape[0])
    return x.sum() - y.sum()


@program(RELATIONS, rand(5), rand(3), rand(15), shapes=lambda D: ({0: D.DYNAMIC}, {0: D.DYNAMIC}, {0: D.DYNAMIC}),
         further=[(rand(6), rand(4), rand(24))], refuses=[(rand(6), rand(4), rand(25))])
def stated_product(self: Any, x: Any, y: Any, z: Any) -> Any:
    torch._check(z.shape[0] == x.shape[0] * y.shape[0])
    return torch.outer(x, y).view(-1) + z


@program(RELATIONS, rand(2, 8), shapes=lambda D: ({0: D("b", min=1, max=64), 1: D("t", min=4, max=128)},),
         further=[(rand(3, 16),), (rand(64, 128),)], refuses=[(rand(3, 129),)])
def bounded_dims(self: Any, x: Any) -> Any:
    return x.cumsum(1)


@program(RELATIONS, rand(4, 8), shapes=lambda D: ({0: D.AUTO(min=2, max=16), 1: D.DYNAMIC(max=64)},),
         further=[(rand(3, 16),)], refuses=[(rand(17, 8),)])
def bounded_hints(self: Any, x: Any) -> Any:
    return x.softmax(-1).amax(0)


@program(RELATIONS, rand(4, 8), shapes=lambda D: ({0: D.AUTO, 1: D.STATIC},), further=[(rand(9, 8),)],
         refuses=[(rand(4, 9),)])
def static_hint(self: Any, x: Any) -> Any:
    return x @ x.T


@program(RELATIONS, rand(4, 8), shapes=lambda D: ({0: D.AUTO, 1: D.STATIC(min=2)},), further=[(rand(9, 8),)],
         refuses=[(rand(4, 9),)])
def static_hint_with_bounds(self: Any, x: Any) -> Any:
    return x @ x.T


@program(RELATIONS, rand(4, 8), rand(8, 5), shapes=lambda D: {"x": {0: D("m"), 1: D("k")}, "y": {0: D("k"), 1: D("n")}},
         further=[(rand(2, 3), rand(3, 7))], refuses=[(rand(2, 3), rand(4, 7))])
def matrix_product(self: Any, x: Any, y: Any) -> Any:
    return x @ y


@program(RELATIONS, [rand(3, 2), rand(5, 2)], shapes=lambda D: {"parts": [{0: D("a")}, {0: D("b")}]},
         further=[([rand(4, 2), rand(2, 2)],)])
def joined_lists(self: Any, parts: Any) -> Any:
    return torch.cat(parts), torch.cat(parts[::-1]).shape[0]


@program(RELATIONS, rand(6, 4), shapes=lambda D: ({0: D("n"), 1: 4},), further=[(rand(3, 4),)])
def integer_declared(self: Any, x: Any) -> Any:
    return x.mean(0)


@program(RELATIONS, rand(3, 5), shapes=lambda D: ({1: D.AUTO},), further=[(rand(3, 9),)])
def sizes_as_results(self: Any, x: Any) -> Any:
    return x.shape, x.numel(), x.size(1) * 2, x.sum()


@program(RELATIONS, rand(5, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(8, 3),)])
def size_in_arithmetic(self: Any, x: Any) -> Any:
    return x.sum(0) / x.shape[0], x / x.shape[0] ** 0.5


@program(RELATIONS, rand(5, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(8, 3),)])
def new_tensors_of_dynamic_sizes(self: Any, x: Any) -> Any:
    return x.new_zeros(x.shape[0], 2), torch.arange(x.shape[0]), torch.eye(x.shape[0]), torch.full_like(x, 2.0)


@program(RELATIONS, rand(5, 5), shapes=lambda D: (lambda n: ({0: n, 1: n},))(D("n")), further=[(rand(8, 8),)])
def triangles(self: Any, x: Any) -> Any:
    return x.tril() + x.triu(1).T, x.diagonal()


@program(RELATIONS, rand(2, 7, 3), shapes=lambda D: ({0: D("b"), 1: D("t")},), further=[(rand(4, 5, 3),)])
def permuted_and_flattened(self: Any, x: Any) -> Any:
    return x.permute(1, 0, 2).flatten(1), x.transpose(1, 2).reshape(x.shape[0], -1)


@program(RELATIONS, rand(6, 3), shapes=lambda D: ({0: D("n", min=4)},), further=[(rand(9, 3),)])
def slices_of_dynamic(self: Any, x: Any) -> Any:
    return x[2:], x[:-2], x[::2], x[-3:]


@program(RELATIONS, rand(6, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(9, 3),)])
def expanded(self: Any, x: Any) -> Any:
    return torch.arange(3).expand(x.shape[0], -1) + x, x.unsqueeze(0).expand(4, -1, -1)


# Examples of size 1 ---------------------------------------------------------------------------------------------

ONE = "example of size 1"


@program(ONE, rand(1, 4), shapes=lambda D: ({0: D.DYNAMIC},), further=[(rand(1, 4, seed=2),)])
def one_dynamic(self: Any, x: Any) -> Any:
    return x.relu() * 2


@program(ONE, rand(1, 4), shapes=lambda D: ({0: D.AUTO},), further=[(rand(1, 4, seed=2),)])
def one_auto(self: Any, x: Any) -> Any:
    return x.relu() * 2


@program(ONE, rand(1, 4), shapes=lambda D: ({0: D("n")},), further=[(rand(1, 4, seed=2),)])
def one_named(self: Any, x: Any) -> Any:
    return x.relu() * 2


@program(ONE, rand(1, 4), shapes=lambda D: ({0: D("n", min=1, max=8)},), further=[(rand(1, 4, seed=2),)])
def one_named_bounded(self: Any, x: Any) -> Any:
    return x @ x.T


@program(ONE, rand(1, 4), rand(3, 4), shapes=lambda D: ({0: D.AUTO}, {0: D.AUTO}), further=[(rand(1, 4), rand(5, 4))])
def one_broadcasts(self: Any, x: Any, y: Any) -> Any:
    return x + y


@program(ONE, rand(0, 4), shapes=lambda D: ({0: D.AUTO},), further=[(rand(0, 4),)])
def zero_auto(self: Any, x: Any) -> Any:
    return x.sum(0)


@program(ONE, rand(4, 4), shapes=lambda D: ({0: D("n", min=1)},), further=[(rand(1, 4),), (rand(2, 4),)])
def one_at_run_time(self: Any, x: Any) -> Any:
    return x.sum(0), x * 2


@program(ONE, rand(4, 4), shapes=lambda D: ({0: D("n", min=0)},), further=[(rand(1, 4),), (rand(0, 4),)])
def zero_at_run_time(self: Any, x: Any) -> Any:
    return x.sum(0), x * 2


@program(ONE, rand(3), 1, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(3), 1), (rand(3), 5)])
def int_one(self: Any, x: Any, n: Any) -> Any:
    return x * n


@program(ONE, rand(3), 0, shapes=lambda D: (None, D.AUTO), further=[(rand(3), 0)])
def int_zero(self: Any, x: Any, n: Any) -> Any:
    return x + n


@program(ONE, rand(3), -2, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(3), -5), (rand(3), 4)])
def int_negative(self: Any, x: Any, n: Any) -> Any:
    return x + n


# Numbers and sizes from data ------------------------------------------------------------------------------------

DATA = "numbers from data"


@program(DATA, ints(6, high=2), further=[(torch.ones(6, dtype=torch.long),), (torch.zeros(6, dtype=torch.long),)])
def nonzero_positions(self: Any, x: Any) -> Any:
    return x.nonzero()


@program(DATA, rand(6), further=[(rand(6, seed=1),), (-rand(6).abs(),)])
def masked_values(self: Any, x: Any) -> Any:
    return x[x > 0].sum(), torch.masked_select(x, x < 0)


@program(DATA, rand(8), torch.tensor(3), further=[(rand(8), torch.tensor(5))])
def item_as_end(self: Any, x: Any, n: Any) -> Any:
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    return x.narrow(0, 0, k) * 2


@program(DATA, torch.tensor(3), further=[(torch.tensor(7),)])
def item_as_size(self: Any, n: Any) -> Any:
    k = n.item()
    torch._check(k >= 2)
    return torch.ones(k, 2).cumsum(0)


@program(DATA, rand(8), torch.tensor(3), further=[(rand(8), torch.tensor(5))], refuses=[(rand(8), torch.tensor(9))])
def item_as_index(self: Any, x: Any, n: Any) -> Any:
    k = n.item()
    torch._check(k >= 0)
    torch._check(k < 8)
    return x[k]


@program(DATA, torch.tensor([2, 3]), further=[(torch.tensor([4, 1]),)])
def list_of_numbers(self: Any, x: Any) -> Any:
    a, b = x.tolist()
    torch._check(a >= 0)
    torch._check(b >= 0)
    return torch.ones(a + b).sum(), a * b


@program(DATA, ints(10, high=4), further=[(ints(10, high=3),)])
def unique_values(self: Any, x: Any) -> Any:
    values, counts = torch.unique(x, return_counts=True)
    return values * 2, counts


@program(DATA, rand(6, 3), torch.tensor([1, 2, 3]), further=[(rand(6, 3), torch.tensor([2, 2, 2]))])
def split_by_data(self: Any, x: Any, sizes: Any) -> Any:
    a, b, c = sizes.tolist()
    for size in (a, b, c):
        torch._check(size >= 0)
        torch._check(size <= 6)
    return [part.sum(0) for part in torch.split(x, [a, b, c])]


@program(DATA, torch.tensor([2, 1, 3]), rand(3, 2), further=[(torch.tensor([1, 1, 1]), rand(3, 2))])
def repeated_by_data(self: Any, counts: Any, x: Any) -> Any:
    return torch.repeat_interleave(x, counts, dim=0)


@program(DATA, ints(6, high=3), further=[(ints(6, high=2),)])
def counted(self: Any, x: Any) -> Any:
    return torch.bincount(x, minlength=3)


@program(DATA, rand(5, 4), shapes=lambda D: ({0: D("n")},), further=[(rand(7, 4),)])
def rows_that_fit(self: Any, x: Any) -> Any:
    keep = x[:, 0] > 0
    rows = x[keep]
    return rows * 2, rows.shape[0]


@program(DATA, rand(5), torch.tensor(4), further=[(rand(5), torch.tensor(3))], refuses=[(rand(5), torch.tensor(1))])
def stated_about_data(self: Any, x: Any, n: Any) -> Any:
    k = n.item()
    torch._check(k > 2)
    return x + 1 if k > 2 else x - 1


@program(DATA, rand(5), further=[(rand(5, seed=4),)])
def where_positions(self: Any, x: Any) -> Any:
    (at,) = torch.where(x > 0)
    return at, x[at]


@program(DATA, rand(5), torch.tensor(2), further=[(rand(5), torch.tensor(3))])
def item_in_arithmetic(self: Any, x: Any, n: Any) -> Any:
    k = n.item()
    return x * k + k ** 2, k
