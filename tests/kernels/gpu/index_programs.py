"""Operators that look up places which data decides on, each with arguments for a number of rows and an index tensor."""

import torch.nn.functional as F


def embedding(table, index):
    return F.embedding(index, table) * 2


def indexing(table, index):
    return table[index] * 2


def index_select(table, index):
    return table.index_select(0, index) * 2


def gather(table, index):
    return table.gather(0, index[:, None].expand(-1, table.shape[1])) * 2


def take(table, index):
    return table.take(index * table.shape[1]) * 2


def index_add(table, index):
    return table.index_add(0, index, table.new_ones(len(index), 8))


def index_copy(table, index):
    return table.index_copy(0, index, table.new_ones(len(index), 8))


def index_fill(table, index):
    return table.index_fill(0, index, 3.0)


def index_put(table, index):
    return table.index_put((index,), table.new_ones(len(index), 8), accumulate=True)


def scatter(table, index):
    return table.scatter(0, index[:, None].expand(-1, table.shape[1]), 5.0)


def scatter_add(table, index):
    return table.scatter_add(0, index[:, None].expand(-1, 8), table.new_ones(len(index), 8))


def nll_loss(table, index):
    return F.nll_loss(table.t()[:1].expand(len(index), -1), index)


PROGRAMS = {program.__name__: program for program in (
    embedding, indexing, index_select, gather, take, index_add, index_copy, index_fill, index_put, scatter,
    scatter_add, nll_loss)}  # fmt: skip
WRAPPING = ("indexing", "take", "index_fill", "index_put")
"""Those in which negative indices count from the back."""


def outside(name: str, rows: int) -> list[int]:
    """Indices that are out of range."""
    far = [rows, rows + 1, 2 * rows, rows + 12345, 1 << 40]
    if name == "nll_loss":
        return [*far, -1, -2]
    return [*far, *([-rows - 1, -rows - 7, -(1 << 40)] if name in WRAPPING else [-1, -rows, -12345])]
