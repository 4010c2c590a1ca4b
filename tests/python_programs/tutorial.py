"""Control flow and functions, as the tutorial's chapters 3 to 5 show them."""

import torch

from . import given


def fibonacci(x):
    a, b = 0, 1
    numbers = []
    while a < 10:
        numbers.append(a)
        a, b = b, a + b
    return x * sum(numbers), numbers


def if_elif_else(x):
    n = x.shape[0]
    if n < 0:
        n = 0
        text = "Negative changed to zero"
    elif n == 0:
        text = "Zero"
    elif n == 1:
        text = "Single"
    else:
        text = "More"
    return x + n, text


def words_and_lengths(x):
    words = ["cat", "window", "defenestrate"]
    return [(w, x * len(w)) for w in words]


def change_while_iterating_a_copy(x):
    users = {"Hans": "active", "Éléonore": "inactive", "景太郎": "active"}
    for user, status in users.copy().items():
        if status == "inactive":
            del users[user]
    return x + len(users), users


def sum_of_range(x):
    return x * sum(range(4)), list(range(-10, -100, -30)), list(range(0, 10, 3))


def primes_with_for_else(x):
    out = []
    for n in range(2, 10):
        for k in range(2, n):
            if n % k == 0:
                out.append(f"{n} equals {k} * {n // k}")
                break
        else:
            out.append(f"{n} is a prime number")
            x = x + n
    return x, out


def continue_even(x):
    odd = []
    for num in range(2, 10):
        if num % 2 == 0:
            x = x + num
            continue
        odd.append(num)
    return x, odd


def default_argument_shared(x):
    def f(a, collected=[]):
        collected.append(a)
        return collected

    first = f(x)
    second = f(x + 1)
    return first is second, second


def keyword_arguments(x):
    def parrot(voltage, state="a stiff", action="voom", kind="Norwegian Blue"):
        return f"{action} {voltage} {state} {kind}", x * voltage

    return parrot(1000), parrot(voltage=2), parrot(state="pushing", voltage=3), parrot(4, "bereft", "jump")


def wrong_keyword_arguments(x):
    def parrot(voltage, state="a stiff", *, action="voom"):
        return voltage

    messages = []
    for call in (
        lambda: parrot(),
        lambda: parrot(voltage=5.0, wrong="dead"),
        lambda: parrot(110, voltage=220),
        lambda: parrot(1, 2, 3),
    ):
        try:
            call()
        except TypeError as error:
            messages.append(str(error))
    return x, messages


def star_arguments(x):
    def cheese(kind, *arguments, **keywords):
        return [kind, *arguments, *[f"{k}: {keywords[k]}" for k in keywords]], len(arguments)

    text, n = cheese("Limburger", "very runny", "really", client="John", shop="Cleese")
    return x + n, text


def special_parameters(x):
    def combined(pos_only, /, standard, *, kwd_only):
        return pos_only + standard * kwd_only

    return combined(x, 2, kwd_only=3), combined(x, standard=1, kwd_only=2)


def unpack_arguments(x):
    args = [3, 6]
    d = {"dim": 0, "keepdim": True}
    return list(range(*args)), torch.sum(x, **d)


def lambda_in_closure(x):
    def make_incrementor(n):
        return lambda y: y + n

    f = make_incrementor(42)
    pairs = [(1, "one"), (2, "two"), (3, "three"), (4, "four")]
    pairs.sort(key=lambda pair: pair[1])
    return f(x), pairs


def documentation_and_annotations(x):
    def f(ham: str, eggs: str = "eggs") -> str:
        """Do nothing, but document it."""
        return ham + " and " + eggs

    return x + 1, f.__doc__, f.__name__, f.__annotations__, f("spam")


def list_as_stack_and_queue(x):
    stack = [x, x + 1]
    stack.append(x + 2)
    top = stack.pop()
    queue = [1, 2, 3]
    return top, stack, queue.pop(0), queue


def nested_comprehension(x):
    matrix = [[1, 2, 3], [5, 6, 7]]
    transposed = [[row[i] for row in matrix] for i in range(3)]
    flat = [num for elem in matrix for num in elem if num != 3]
    return x @ torch.tensor(transposed, dtype=x.dtype), flat


def looping_techniques(x):
    knights = {"gallahad": "the pure", "robin": "the brave"}
    lines = [f"{k} {v}" for k, v in knights.items()]
    for i, v in enumerate(["tic", "tac", "toe"]):
        lines.append(f"{i}{v}")
    for q, a in zip(["name", "quest"], ["lancelot", "the holy grail"], strict=True):
        lines.append("What is your {0}?  It is {1}.".format(q, a))
    for i in reversed(range(1, 10, 4)):
        x = x + i
    for f in sorted(set(["apple", "orange", "apple", "pear"])):
        lines.append(f)
    return x, lines


def comparing_sequences(x):
    results = [(1, 2, 3) < (1, 2, 4), [1, 2, 3] < [1, 2, 4], "ABC" < "C" < "Pascal" < "Python", (1, 2) < (1, 2, -1)]
    results.append((1, 2, ("aa", "ab")) < (1, 2, ("abc", "a"), 4))
    return x * sum(results), results


@given(lambda: ([1, 2, 3],))
def chained_comparison_and_walrus(x, numbers):
    if (n := len(numbers)) > 2 and 1 < n <= 3:
        x = x * n
    total = [y := 1, y**2, y + 3]
    return x, total, not numbers or n
