"""Text made of values: f-strings, str.format, %, Template, textwrap, repr."""

import pprint
import string
import textwrap

import torch


def fstring_expressions(x):
    name, n = "Fred", 3
    return x * n, f"He said his name is {name!r}.", f"{n + 1:>5}|{n:05d}|{n!s:^7}|", f"{{literal}} {n=}"


def nested_format_spec(x):
    width, precision = 10, 4
    value = 12.34567
    return x, f"result: {value:{width}.{precision}}", f"{value:{'>'}{width}.2f}", f"{1234567:,}", f"{0.19:.1%}"


def format_positions(x):
    return x, "{0}, {1}, {2}".format("a", "b", "c"), "{2}{1}{0}".format(*"abc"), "{}-{}".format(1, 2)


def format_names_and_attributes(x):
    coord = {"latitude": "37.24N", "longitude": "-115.81W"}
    c = 3 - 5j
    return x, "{latitude} {longitude}".format(**coord), "{0.real} {0.imag}".format(c), "X: {0[0]}".format((3, 5))


def format_alignment(x):
    return x, "{:<10}|".format("left"), "{:*^12}".format("centered"), "{:+f}; {: f}".format(3.14, -3.14)


def format_integers(x):
    return (
        x,
        "{0:d} {0:x} {0:o} {0:b} {0:#x}".format(42),
        "{:e}".format(12345.678),
        "{:g}".format(1e-7),
        "{:c}".format(65),
    )


def percent_formatting(x):
    return (
        x,
        "%s has %d items, %.2f" % ("box", 3, 1.5),
        "%(lang)s has %(n)03d" % {"lang": "Python", "n": 2},
        "%5.1f%%" % 99.5,
    )


def template_strings(x):
    s = string.Template("$who likes ${what}")
    return x, s.substitute(who="tim", what="kung pao"), s.safe_substitute(who="tim")


def repr_of_containers(x):
    values = [1, "two", 3.0, None, (4,), {"five": [6]}, {7}, True, b"x", 1j]
    return x, repr(values), str(values), f"{values}", repr({"a": (1, 2)}), str((1,)), str(())


def text_of_nested_shapes(x):
    shapes = {"x": tuple(x.shape), "y": [x.ndim, x.numel()]}
    return x + 1, f"shapes: {shapes}", "{}".format(x.shape), "%s" % (x.shape,)


def error_message_unused(x):
    total = x.sum()
    message = f"total is {total}"
    if x.shape[0] > 100:
        raise ValueError(message)
    return x - total


class _Point:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def __repr__(self):
        return f"Point({self.a}, {self.b})"

    def __format__(self, spec):
        return f"<{self.a}:{spec}>"


def objects_with_repr(x):
    p = _Point(1, 2)
    return x * p.a, f"{p}", f"{p:xy}", f"{p!r}", str(p), repr([p, p]), "{!r:>14}".format(p), format(p, "q")


def text_wrap(x):
    text = "The quick brown fox jumped over the lazy dog."
    return (
        x,
        textwrap.shorten(text, width=20),
        textwrap.dedent("  a\n  b"),
        textwrap.indent("a\nb", "> "),
        textwrap.wrap(text, 20),
    )


def format_errors(x):
    messages = []
    for call in (
        lambda: "{}{}".format(1),
        lambda: "{a}".format(),
        lambda: f"{'s':d}",
        lambda: "%d" % "a",
        lambda: "%s" % (1, 2),
    ):
        try:
            call()
        except (IndexError, KeyError, ValueError, TypeError) as error:
            messages.append(f"{type(error).__name__}: {error}")
    return x, messages


def join_of_formatted(x):
    table = {"Sjoerd": 4127, "Jack": 4098, "Dcab": 7678}
    lines = [f"{name:10} ==> {phone:10d}" for name, phone in table.items()]
    return x, "\n".join(lines), "Jack: {0[Jack]:d}".format(table)


def squares_table(x):
    rows = []
    for n in range(1, 4):
        rows.append(repr(n).rjust(2) + " " + repr(n * n).rjust(3) + f"{n**3:4d}")
        x = x + n
    return x, rows


def format_floats(x):
    values = [0.1 + 0.2, 1e16, 1.0, -0.0, float("nan"), float("inf"), 1 / 3]
    return (
        x,
        [str(v) for v in values],
        [f"{v:.3g}" for v in values],
        [round(v, 2) for v in values[:4]],
        format(2.5, ".0f"),
    )


def pretty_printed(x):
    return x, pprint.pformat({"b": 1, "a": [1, 2]}), pprint.pformat(list(range(3)))


def print_with_options(x):
    print("a", 1, 2.5, sep="-", end="!\n")
    print(*[1, 2], sep=", ")
    print()
    print(f"{x.shape[0]} rows", [1, "b"], {"k": None})
    return x + 1


def dtype_in_name(x):
    name = f"{type(x).__name__}_{x.dtype}_{len(x)}".replace("torch.", "")
    return {name: torch.zeros_like(x)}, f"{torch.float32} {torch.device('cpu')}"
