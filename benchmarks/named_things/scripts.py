"""torch.jit inside."""

import torch
from tests import torchvision_on_cpu
from torch import nn

from .registry import rand, thing

torchvision_on_cpu.prepare()


@torch.jit.script
def scripted(x, scale: float):
    if x.dim() > 1:
        return x * scale
    return x


@torch.jit.script_if_tracing
def scripted_if_tracing(x):
    return x * 2


@torch.jit.ignore
def ignored(x):
    return x + 1


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(rand(6, 6))

    def forward(self, x):
        return x @ self.weight

    @torch.jit.export
    def other(self, x):
        return x + 1


class Overloaded(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(rand(6, 6))

    @torch.jit.script_method
    def forward(self, x):
        return x @ self.weight


@thing()
def a_scripted_function(x):
    return scripted(x, 2.0) + 1


@thing()
def a_function_scripted_if_tracing(x):
    return scripted_if_tracing(x)


@thing()
def an_ignored_function(x):
    return ignored(x)


@thing()
def questions(x):
    return x + 1 if torch.jit.is_scripting() or torch.jit.is_tracing() else x * 2


@thing(lambda: (rand(), torch.jit.script(Module())))
def a_scripted_module(x, module):
    return module(x)


@thing(lambda: (rand(), Overloaded()))
def a_script_module_class(x, module):
    return module(x)


@thing(lambda: (rand(), torch.jit.trace(Module(), rand())))
def a_traced_module(x, module):
    return module(x)


@thing()
def annotated(x):
    items = torch.jit.annotate(list[int], [])
    items.append(2)
    return x * items[0], torch.jit.isinstance(items, list[int])


@thing()
def scripted_inside(x):
    return torch.jit.script(ignored)(x) if False else torch.jit.unused(ignored)(x)


@thing()
def deberta_functions(x):
    from transformers.models.deberta.modeling_deberta import build_relative_position
    q = x[None]
    return build_relative_position(q, q), x + 1


@thing()
def deberta_v2_functions(x):
    from transformers.models.deberta_v2 import modeling_deberta_v2 as m
    return m.make_log_bucket_position(torch.arange(6)[None] - torch.arange(4)[:, None], 4, 16), x + 1
