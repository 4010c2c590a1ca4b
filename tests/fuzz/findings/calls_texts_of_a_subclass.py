"""`sum` refuses to start with a text of a subclass too; and what Python gives back when it puts nothing into a text, or
does not part it, is that very object or a plain text."""

import torch


class Text(str):
    def __len__(self):
        return super().__len__()

    def __add__(self, other):
        return "a"


def make():
    def fn(x, text):
        try:
            total = sum([text], text)
        except TypeError as error:
            total = str(error)
        return x + 1, total, [type(each).__name__ for each in (
            text % (), text.format(), text.partition("x")[0], text.rpartition("x")[2], text.split("x")[0],
            text.strip(), text.replace("x", "y"), text[:])]

    return fn, [((torch.ones(2), Text(text)), {}) for text in ("ab", "")], lambda index: None, dict
