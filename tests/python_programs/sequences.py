"""Lists, tuples and ranges, from the library reference's sequence types."""

import torch

from . import given


def list_methods(x):
    fruits = ["orange", "apple", "pear", "banana", "kiwi", "apple", "banana"]
    facts = [fruits.count("apple"), fruits.index("banana"), fruits.index("banana", 4)]
    fruits.reverse()
    fruits.append("grape")
    fruits.sort()
    return x * len(fruits), facts, fruits, fruits.pop()


def slices(x):
    letters = list("abcdefgh")
    letters[2:5] = ["C", "D", "E"]
    letters[::2] = ["1", "2", "3", "4"]
    del letters[-2:]
    letters[1:1] = [x]
    return letters


def extended_slice_error(x):
    s = [1, 2, 3, 4]
    try:
        s[::2] = [1]
    except ValueError as error:
        return x + 1, str(error), s


def multiplication_aliases(x):
    lists = [[]] * 3
    lists[0].append(x)
    separate = [[] for _ in range(3)]
    separate[0].append(3)
    return lists, separate, lists[0] is lists[2]


def tuple_packing(x):
    t = 12345, 54321, "hello!"
    u = t, (1, 2)
    a, b, c = t
    empty = ()
    singleton = ("hello",)
    return x + a - b, c, u, len(empty), singleton


def tuple_assignment_error(x):
    t = (x, [1, 2])
    try:
        t[0] = 88888
    except TypeError as error:
        message = str(error)
    t[1].append(3)
    return t, message


def augmented_tuple_item(x):
    t = ([1], x)
    try:
        t[0] += [2]
    except TypeError as error:
        return t, str(error)


def starred_assignment(x):
    first, *rest = range(5)
    *init, last = "word"
    a, (b, *c), d = 1, (2, 3, 4), 5
    return x * last.__len__() + first, rest, init, (a, b, c, d)


def unpack_errors(x):
    messages = []
    for items in ([1], [1, 2, 3], 5):
        try:
            a, b = items
        except (ValueError, TypeError) as error:
            messages.append((type(error).__name__, str(error)))
    return x, messages


def range_methods(x):
    r = range(0, 20, 2)
    return x[:, r[1] : r[2]], 11 in r, 10 in r, r.index(10), r[5], r[:5], r[-1], r == range(0, 19, 2), r.count(4)


def sorted_with_keys(x):
    student = [("john", "A", 15), ("jane", "B", 12), ("dave", "B", 10)]
    by_age = sorted(student, key=lambda s: s[2])
    by_both = sorted(student, key=lambda s: (s[1], -s[2]), reverse=True)
    return [x * s[2] for s in by_age], by_both


def sort_unorderable(x):
    values = [3, "a", 1]
    try:
        values.sort()
    except TypeError as error:
        return x, str(error), sorted(values, key=str)


def list_comparisons(x):
    a, b = [1, 2, 3], [1, 2, 3]
    return x + (a == b), a is b, a < [1, 3], a != (1, 2, 3), [1, [2]] == [1, [2]]


def list_of_tensors_membership(x):
    y = x + 1
    tensors = [x, y]
    return tensors[0] is x, any(t is y for t in tensors), torch.stack(tensors)


def del_and_insert(x):
    a = [-1, 1, 66.25, 333, 333, 1234.5]
    del a[0]
    a.insert(2, x)
    a.insert(100, "end")
    a.insert(-100, "start")
    del a[2:4]
    a.remove(333)
    return a


def remove_missing(x):
    try:
        [1, 2].remove(3)
    except ValueError as error:
        first = str(error)
    try:
        (1, 2).index(3)
    except ValueError as error:
        second = str(error)
    return x, first, second


def concatenation(x):
    a = [1] + [2]
    a += (3, 4)
    a *= 2
    a.extend(i for i in range(2))
    return a, (1,) + (2,), x.shape + (1,), 2 * (x,)


@given(lambda: ([], [1, 2]))
def mutate_arguments(x, out, numbers):
    for n in numbers:
        out.append(x * n)
    numbers.clear()
    numbers.append(out)
    return out[-1]


def bytes_and_bytearray(x):
    b = bytes([65, 66, 67])
    ba = bytearray(b"hello")
    ba[0] = 72
    ba.extend(b"!!")
    return x + b[0], b.decode(), b.hex(), bytes(ba), b"a,b".split(b","), b.startswith(b"A")


def nested_unpack_in_loop(x):
    records = [("foo", 1, 2), ("bar", "hello"), ("foo", 3, 4)]
    for tag, *args in records:
        if tag == "foo":
            x = x + sum(args)
    return x
