"""Methods of strings, from the library reference's text sequence type."""

import string

import torch


def case_methods(x):
    s = "they're bill's Friends"
    return x * len(s), s.title(), s.capitalize(), s.upper(), s.swapcase(), "ß".casefold(), s.istitle()


def split_and_join(x):
    parts = "1,2,,3,".split(",")
    return x + len(parts), parts, "1 2 3".split(maxsplit=1), "-".join(["a", "b"]), "a b\tc".rsplit(None, 1)


def split_lines(x):
    return x, "ab c\n\nde fg\rkl\r\n".splitlines(), "One\nTwo".splitlines(keepends=True), "".split("\n")


def strip_methods(x):
    return (
        x,
        "   spacious   ".strip(),
        "www.example.com".strip("cmowz."),
        "abc".removeprefix("a"),
        "x.py".removesuffix(".py"),
    )


def find_and_index(x):
    s = "spam, spam, egg"
    n = s.find("egg")
    try:
        s.index("ham")
    except ValueError as error:
        return x * n, s.rfind("spam"), s.count("spam"), "eg" in s, str(error)


def partition_methods(x):
    head, sep, tail = "key=value=more".partition("=")
    return x + len(tail), head, sep, tail, "a.b.c".rpartition("."), "abc".partition("z")


def translate_table(x):
    table = str.maketrans({"a": "1", "b": None})
    return x, "aabbc".translate(table), "hello".translate(str.maketrans("el", "ip")), table


def predicates(x):
    words = ["abc", "123", "a1", " ", "", "Ab", "_x", "1.5"]
    return x, [(w.isalpha(), w.isdigit(), w.isalnum(), w.isspace(), w.isidentifier(), w.islower()) for w in words]


def justify(x):
    return x, "x".center(5, "*"), "x".ljust(3) + "|", "x".rjust(3), "-42".zfill(5), "a\tb".expandtabs(4)


def replace_and_starts(x):
    name = "block.0.conv.weight"
    if name.startswith(("block", "layer")) and name.endswith(".weight"):
        x = x * int(name.split(".")[1]) + 1
    return x, name.replace(".", "_", 2)


def indexing(x):
    word = "Python"
    return x, word[0], word[-1], word[2:], word[:2] + word[2:], word[::-1], word[4:42]


def string_is_immutable(x):
    word = "Python"
    messages = []
    try:
        word[0] = "J"
    except TypeError as error:
        messages.append(str(error))
    try:
        word[42]
    except IndexError as error:
        messages.append(str(error))
    try:
        word + 1
    except TypeError as error:
        messages.append(str(error))
    return x, messages


def encode_decode(x):
    data = "Münze €".encode("utf-8")
    return x + len(data), data, data.decode(), "abc".encode("ascii", "ignore"), str(b"x", "utf-8")


def ordinals(x):
    codes = [ord(c) - ord("a") for c in "hello"]
    return x.sum() + torch.tensor(codes), "".join(chr(c + 98) for c in codes), ascii("é"), repr("it's\n")


def string_constants(x):
    vowels = [c for c in string.ascii_lowercase if c in "aeiou"]
    return x, vowels, string.digits, string.capwords("the quick fox"), string.punctuation[:3]


def multiply_and_compare(x):
    return x, 3 * "un" + "ium", "a" < "b" <= "b", max("hello"), min("hello"), sorted("hello"), "a" * -1


def build_text_of_shapes(x):
    text = "x".join(str(s) for s in x.shape)
    return x + 1, f"[{text}]", str(x.dtype), str(x.device), str(x.shape), repr(tuple(x.size()))


def words_counted(x):
    counts = {}
    for word in "the cat sat on the mat the end".split():
        counts[word] = counts.get(word, 0) + 1
    best = max(counts, key=counts.get)
    return x * counts[best], best, sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))


class _Name(str):
    def shout(self):
        return self.upper() + "!"


def str_subclass(x):
    name = _Name("bob")
    return x * len(name), name.shout(), name + "by", type(name.upper()).__name__, name == "bob", {name: 1}["bob"]


def caesar(x):
    def rotate(text, n):
        return "".join(chr((ord(c) - 97 + n) % 26 + 97) if c.isalpha() else c for c in text)

    return x, rotate(rotate("hello world", 3), -3), rotate("xyz", 3)
