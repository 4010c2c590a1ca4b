"""The calls of a program's modules: how arguments and results of each are nested."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..torch_compat.pytrees import TreeSpec
from .signature import ArgumentSpec


@dataclass
class ModuleCallSignature:
    """How one module is called: its inputs and outputs as nodes, and the structures that hold them.

    >>> import torch, firesteel as fs
    >>> program = fs.export.export(torch.nn.Sequential(torch.nn.ReLU()), (torch.ones(3),),
    ...                            preserve_module_call_signature=("0",))
    >>> [argument.name for argument in program.module_call_graph[1].signature.outputs]
    ['relu']
    """

    inputs: list[ArgumentSpec]
    outputs: list[ArgumentSpec]
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None


def numbered(name: str, number: int) -> str:
    """The name of one of a module's calls.

    >>> numbered("lin", 0), numbered("lin", 1)
    ('lin', 'lin@1')
    """
    return f"{name}@{number}" if number else name


@dataclass
class ModuleCallEntry:
    """A module of the program; the signature is known for the whole program and for modules that were asked for.

    >>> import torch, firesteel as fs
    >>> program = fs.export.export(torch.nn.Sequential(torch.nn.ReLU()), (torch.ones(3),))
    >>> [entry.fqn for entry in program.module_call_graph]
    ['', '0']
    """

    fqn: str
    signature: ModuleCallSignature | None = field(default=None)
