"""A proxy did not show later changes of its mapping, and results of dictionaries had another class or other calls."""

import collections
import types

import torch

LOG = []
KEEP = []


class Silent(collections.OrderedDict):
    def __or__(self, other):
        return NotImplemented


class Noted(dict):
    def __iter__(self):
        LOG.append("__iter__")
        return super().__iter__()


class Counted(dict):
    def __len__(self):
        LOG.append("__len__")
        return super().__len__()

    def __eq__(self, other):
        LOG.append("__eq__")
        return super().__eq__(other)


class Number(int):
    pass


class Text(str):
    pass


def fn(x):
    mapping = {}
    proxy = types.MappingProxyType(mapping)
    view = vars(Number)
    eval("1", {})  # a break
    mapping["other"] = 1
    Number.late = x.shape[0]
    out = ["other" in proxy, len(proxy), view["late"], type(Silent(a=1) | collections.OrderedDict(b=1)).__name__]
    try:
        out.append(dict(**Noted({2: 1})))
    except TypeError as error:
        out.append(str(error))
    counted = types.MappingProxyType(Counted(a=1))
    out += [list(counted), counted == counted, {1.0: 1}.keys() & frozenset([1, None])]  # noqa: PLR0124
    KEEP.append(Number(0))
    return out, x + 1, Number("z", base=36), Text(b"a", encoding="utf8")


def make():
    return fn, [((torch.ones(3),), {}), ((torch.ones(2),), {})], lambda index: None, lambda: {}
