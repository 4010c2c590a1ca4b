"""What annotations consist of is known while capturing, and noticed when another annotation takes their place."""

import typing

import torch

Size = int | None
Table = dict[str, int]


def fn(x):
    return (x + len(typing.get_args(Size)), typing.get_origin(Size), Size.__args__, typing.get_args(Table),
            typing.get_origin(Table), [1].index(1, 0), hasattr(Size, "__origin__"))


def before(index):
    global Size
    Size = (int | None, int | str | None, list[int])[index]


def make():
    return fn, [((torch.ones(2),), {})] * 3, before, lambda: {}
